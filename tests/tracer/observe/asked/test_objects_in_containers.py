"""`thing in things`, of objects whose class has no equality of its own: beside eager, in a changing world."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from observing import leave_out_reads

import fusegrad as fg
from fusegrad.tracer.observe.python import identities


class Thing:
    pass


class Other(Thing):
    pass


class Equal:
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class Stack(list):
    pass


KINDS: list[Any] = [list, tuple, deque, Stack]


def made_in_the_run(held: Any, thing: Any) -> Any:
    own = Thing()
    inside = [*held, own]
    return own in held, own in inside, thing in inside, own not in (thing, own)


def found_outside(held: Any, thing: Any) -> Any:
    return thing in held


def of_another_class(held: Any, thing: Any) -> Any:
    return Other() in held, thing in [Other(), thing]


def in_a_test(held: Any, thing: Any) -> Any:
    return 5 if Thing() not in held and thing not in held else 6


BODIES = [made_in_the_run, found_outside, of_another_class, in_a_test]


def contents() -> dict[str, list[Any]]:
    return {
        "none": [],
        "things": [Thing(), Other()],
        "numbers and things": [1, Thing(), "text", None],
        "equal": [Thing(), Equal()],
        "tensors": [Thing(), fg.ones(2)],
        "inner": [[Thing()], (1, 2), Thing()],
    }


def answers(body: Any, kind: Any, name: str, wrap: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    """What calls give in the world as it is, and after each change; the function."""
    thing, world = Thing(), {"held": kind(contents()[name])}
    function = wrap(lambda x: (x, body(world["held"], thing)))
    held = world["held"]
    changes: list[Callable[[], Any]] = [lambda: None]
    if kind is not tuple:
        changes += [lambda: held.append(thing), lambda: held.pop(), lambda: held.extend([Other(), thing])]
    changes += [
        lambda: world.update(held=kind([thing])),
        lambda: setattr(Thing, "__eq__", lambda self, other: True),
        lambda: setattr(Thing, "__eq__", lambda self, other: False),
    ]
    found: list[Any] = []
    try:
        for change in changes:
            change()
            for _ in range(3):
                try:
                    found.append(function(fg.ones(1))[1])
                except (TypeError, RuntimeError) as error:
                    found.append(type(error).__name__)
    finally:
        for name in ("__eq__", "__hash__"):
            if name in vars(Thing):
                delattr(Thing, name)
    return found, function


CASES = list(itertools.product(BODIES, KINDS, contents()))


def wrong() -> tuple[list[str], list[Any]]:
    """The cases that are answered otherwise under `jit`; those that replay."""
    found, replayed = [], []
    for case in CASES:
        wanted, (got, function) = answers(*case, lambda f: f)[0], answers(*case, fg.jit)
        if got != wanted:
            found.append(f"{case[0].__name__} of {case[1].__name__} of {case[2]}: {got} instead of {wanted}")
        if function.stats.compiled_calls:
            replayed.append(case)
    return found, replayed


def test_they_are_found_by_identity_and_replay() -> None:
    found, replayed = wrong()
    assert found == []
    assert {case for case in CASES if case[2] in ("none", "things", "numbers and things")} <= set(replayed)


@pytest.mark.parametrize("kind", ["item", "contents", "class"])
def test_a_guard_that_is_missing_is_found(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    leave_out_reads(monkeypatch, kind)
    assert wrong()[0]


def test_an_identity_that_is_taken_for_another_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identities, "identity", lambda observer, left, right, site: type(left) is type(right))
    assert wrong()[0]
