"""Generators that have something to do when they end: at the latest as somebody lets go of them.

Each function uses one in another way; what a call gives, and leaves, is eager's from the first call on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fusegrad as fg
from fusegrad.tracer.observe import attributes, values


class World:
    number = 0
    kept: Any = None


def generated(world: World) -> Iterator[int]:
    try:
        yield 1
        yield 2
    finally:
        world.number += 10


@contextlib.contextmanager
def managed(world: World) -> Iterator[int]:
    world.number += 1
    try:
        yield 3
    except ValueError:
        world.number += 100
    finally:
        world.number *= 2


FOLLOWED: dict[str, Callable[[Any, World], Any]] = {}
OTHERS: dict[str, Callable[[Any, World], Any]] = {}


def followed(function: Callable[[Any, World], Any]) -> None:
    FOLLOWED[function.__name__] = function


def other(function: Callable[[Any, World], Any]) -> None:
    OTHERS[function.__name__] = function


@followed
def with_statement(x: Any, world: World) -> Any:
    with managed(world) as number:
        x = x * number
    return x + world.number


@followed
def two_in_one_statement(x: Any, world: World) -> Any:
    with managed(world) as a, managed(world) as b:
        x = x * a * b
    return x + world.number


@followed
def entered_and_left_by_hand(x: Any, world: World) -> Any:
    manager = managed(world)
    number = manager.__enter__()
    manager.__exit__(None, None, None)
    return x * number + world.number


@followed
def decorator(x: Any, world: World) -> Any:
    @managed(world)
    def double(y: Any) -> Any:
        return y * 2

    return double(x) + world.number


@followed
def within_a_loop(x: Any, world: World) -> Any:
    for _ in range(3):
        with managed(world) as number:
            x = x * number
    return x + world.number


@other
def error_within(x: Any, world: World) -> Any:
    with managed(world):
        raise ValueError
    return x + world.number


@other
def abandoned(x: Any, world: World) -> Any:
    manager = managed(world)
    number = manager.__enter__()
    del manager
    return x * number + world.number


@other
def stack(x: Any, world: World) -> Any:
    with contextlib.ExitStack() as managers:
        x = x * managers.enter_context(managed(world))
    return x + world.number


@other
def exhausted(x: Any, world: World) -> Any:
    for value in generated(world):
        x = x * value
    return x + world.number


@other
def left(x: Any, world: World) -> Any:
    for _ in generated(world):
        break
    return x + world.number


@other
def asked_once(x: Any, world: World) -> Any:
    return x * next(generated(world)) + world.number


@other
def let_go(x: Any, world: World) -> Any:
    generator = generated(world)
    value, before = next(generator), world.number
    del generator
    return x * value + world.number + before


@other
def closed(x: Any, world: World) -> Any:
    generator = generated(world)
    value = next(generator)
    generator.close()
    return x * value + world.number


@other
def in_a_zip(x: Any, world: World) -> Any:
    for value, _ in zip(generated(world), [1]):  # noqa: B905
        x = x * value
    return x + world.number


@other
def in_an_expression(x: Any, world: World) -> Any:
    return x * next(value * 2 for value in generated(world)) + world.number


@other
def in_a_question(x: Any, world: World) -> Any:
    return x * any(value == 1 for value in generated(world)) + world.number


@other
def in_a_list(x: Any, world: World) -> Any:
    held = [generated(world)]
    value = next(held[0])
    held.clear()
    return x * value + world.number


@other
def handed_on(x: Any, world: World) -> Any:
    def others() -> Iterator[int]:
        yield from generated(world)

    for _ in others():
        break
    return x + world.number


@other
def own(x: Any, world: World) -> Any:
    def managing() -> Iterator[Any]:
        with managed(world):
            yield x

    return next(iter(managing())) + world.number


@other
def own_in_a_zip(x: Any, world: World) -> Any:
    def counting() -> Iterator[int]:
        try:
            yield 4
        finally:
            world.number += 1

    for value, _ in zip(counting(), [1]):  # noqa: B905
        x = x * value
    return x + world.number


@other
def kept_outside(x: Any, world: World) -> Any:
    world.kept = generated(world)
    next(world.kept)
    return x + world.number


def found(function: Callable[[Any, World], Any]) -> list[Any]:
    """What five calls give and leave."""
    world, told = World(), []
    for _ in range(5):
        told.append((function(fg.tensor([1.5, 2.0]), world).tolist(), world.number))
    return told


@pytest.mark.parametrize("name", FOLLOWED)
def test_managers_replay(name: str):
    jitted = fg.jit(FOLLOWED[name])
    assert found(jitted) == found(FOLLOWED[name])
    entries = jitted.explain().as_dict()["entries"]
    assert sum(path["calls"] for entry in entries for path in entry["paths"]) >= 2, jitted.explain()


@pytest.mark.parametrize("name", OTHERS)
def test_generators_end_when_they_do(name: str):
    assert found(fg.jit(OTHERS[name])) == found(OTHERS[name])


def test_a_manager_that_is_kept_is_found(monkeypatch: pytest.MonkeyPatch):
    for module in (values, attributes):
        monkeypatch.setattr(module, "ends_late", lambda value: False)
    assert found(fg.jit(OTHERS["abandoned"])) != found(OTHERS["abandoned"])
