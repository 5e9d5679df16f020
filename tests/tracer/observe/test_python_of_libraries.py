"""What libraries do in Python around the ops: cached functions, imports, context managers, names, identities.

Each is a function of a tensor and a world, and changes of that world that its answer depends on. It replays
until the world changes, and gives what eager gives after that; without the reads that guard it it does not.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import operator
import sys
import types
import typing
from collections.abc import Callable
from typing import Any

import pytest
from observing import leave_out_reads

import fusegrad as fg

Case = tuple[Callable[[Any, Any], Any], list[Callable[[Any], Any]]]


class Recipe:
    def __init__(self, factors: list[int]):
        self.factors = factors


class World:
    """What functions of the cases find, made anew for each run."""

    def __init__(self) -> None:
        self.kind, self.number, self.entered = "linear", 2, 0
        self.dtype = fg.float64
        self.recipe = Recipe([2, 3])
        self.table = {(self.recipe, "a", fg.float32): 2}
        self.layers = [("linear", 3), ("relu", 2)]
        self.base = type("Base", (), {})
        self.derived = [type("Derived", (self.base,), {})]
        self.named = types.FunctionType((lambda: None).__code__, {}, "plain")
        self.cached = functools.lru_cache(8)(self._computed)
        self.typed = functools.lru_cache(8, typed=True)(self._computed)
        self.endless = functools.cache(self._computed)
        self.module = types.ModuleType("fusegrad_test_of_imports")
        self.module.factor = 2  # type: ignore[attr-defined]
        sys.modules["fusegrad_test_of_imports"] = self.module

    def _computed(self, *keys: Any, **options: Any) -> Any:
        return [self.number, len(keys), len(options)]


def other(text: str) -> str:
    """An equal text that is another object."""
    return "".join(list(text))


def forget(world: World) -> None:
    world.number = 5
    for function in (world.cached, world.typed, world.endless):
        function.cache_clear()


def set_to(name: str, value: Any) -> Callable[[World], None]:
    return lambda world: setattr(world, name, value(world))


def replace_module(world: World) -> None:
    sys.modules["fusegrad_test_of_imports"] = replacement = types.ModuleType("fusegrad_test_of_imports")
    replacement.factor = 7  # type: ignore[attr-defined]


def cached_by_keywords(x: Any, world: World) -> Any:
    return x * world.cached("a", ndim=2, names=())[0]


def cached_by_types(x: Any, world: World) -> Any:
    return x * world.typed(1, 1.0, ndim=True)[0]


def cached_by_objects(x: Any, world: World) -> Any:
    return x * world.endless(world.recipe, tuple(x.shape), Recipe, fg.float32)[0]


def imported(x: Any, world: World) -> Any:
    import fusegrad_test_of_imports as found

    return x * found.factor


def imported_from(x: Any, world: World) -> Any:
    from fusegrad_test_of_imports import factor

    return x * factor


def imported_within_package(x: Any, world: World) -> Any:
    import collections.abc

    return x * (2 if isinstance(world.layers, collections.abc.Sequence) else 3)


@contextlib.contextmanager
def entered(world: World) -> Any:
    world.entered = world.number
    yield world.number * 2
    world.entered = 0


def with_generator(x: Any, world: World) -> Any:
    with entered(world) as factor:
        return x * factor


class Entered:
    factor = 2

    def __init__(self, number: int):
        self.number = number

    def __enter__(self) -> int:
        return self.number * self.factor

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        return kind is ValueError


def with_class(x: Any, world: World) -> Any:
    with Entered(world.number) as factor:
        return x * factor


def with_error_ended(x: Any, world: World) -> Any:
    with Entered(world.number):
        if x.ndim == world.number:
            raise ValueError("two dimensions")
        return x * 5
    return x * 2


def without_autocast(x: Any, world: World) -> Any:
    with fg.autocast("cpu", enabled=world.number == 5):
        return (x @ x).float()


def cast(x: Any, world: World) -> Any:
    return typing.cast(fg.Tensor, x) * typing.cast("int", world.number)


@dataclasses.dataclass
class Options:
    factor: int
    offset: int = 1


def replaced_fields(x: Any, world: World) -> Any:
    return x * dataclasses.replace(Options(3), factor=world.number).factor


def subclasses(x: Any, world: World) -> Any:
    return x * len(world.base.__subclasses__())


def name_of_function(x: Any, world: World) -> Any:
    return x * len(world.named.__name__)


def tuple_as_key(x: Any, world: World) -> Any:
    return x * world.table[world.recipe, "a", fg.float32]


def dtype_in_a_tuple(x: Any, world: World) -> Any:
    return x * (2 if x.dtype in (fg.float16, world.dtype) else 3)


def text_is(x: Any, world: World) -> Any:
    wanted = "linear"
    return x * 2 if world.kind is wanted else x * 3


def text_of_layer_is(x: Any, world: World) -> Any:
    for name, factor in world.layers:
        x = x * factor if name is KIND else x + factor
    return x


def another(world: World) -> None:
    world.layers[0] = (other("linear"), 3)


KIND = "linear"

CASES: dict[str, Case] = {
    "cached by keywords": (cached_by_keywords, [forget]),
    "cached by types": (cached_by_types, [forget]),
    "cached by objects": (cached_by_objects, [forget, set_to("recipe", lambda _: Recipe([1]))]),
    "imported": (imported, [lambda world: setattr(world.module, "factor", 3), replace_module]),
    "imported from": (imported_from, [lambda world: setattr(world.module, "factor", 3), replace_module]),
    "imported within a package": (imported_within_package, [set_to("layers", lambda _: {})]),
    "generator as a context": (with_generator, [set_to("number", lambda _: 4)]),
    "class as a context": (with_class, [set_to("number", lambda _: 4)]),
    "error ended by a context": (with_error_ended, [set_to("number", lambda _: 4)]),
    "autocast switched off": (without_autocast, [set_to("number", lambda _: 5)]),
    "cast of typing": (cast, [set_to("number", lambda _: 4)]),
    "fields replaced": (replaced_fields, [set_to("number", lambda _: 4)]),
    "subclasses": (
        subclasses,
        [lambda world: world.derived.append(type("More", (world.base,), {}))],
    ),
    "name of a function": (name_of_function, [lambda world: setattr(world.named, "__name__", "longer name")]),
    "tuple as a key": (
        tuple_as_key,
        [lambda world: world.table.update({(world.recipe, "a", fg.float32): 5})],
    ),
    "dtype in a tuple": (dtype_in_a_tuple, [set_to("dtype", lambda _: fg.float32)]),
    "identity of a text": (text_is, [set_to("kind", lambda _: other("linear"))]),
    "identity of a text in a list": (text_of_layer_is, [another]),
}


def run(name: str, wrap: Callable[[Any], Any]) -> tuple[list[Any], Any, World]:
    """What calls give in the world as it is, and after each change; the function, and the world."""
    body, changes = CASES[name]
    world = World()
    function = wrap(lambda x: body(x, world))
    found = []
    for change in (lambda world: None, *changes):
        change(world)
        found += [function(fg.full((2, 2), 1.5)).tolist() for _ in range(4)]
    return found, function, world


def replays(function: Any) -> int:
    entries = function.explain().as_dict()["entries"]
    return sum(path["calls"] for entry in entries for path in entry["paths"])


@pytest.mark.parametrize("name", CASES)
def test_it_replays_and_sees_what_changes(name: str) -> None:
    expected, _, world = run(name, lambda function: function)
    found, function, same = run(name, fg.jit)
    assert found == expected
    assert same.entered == world.entered
    assert replays(function) >= 2, function.explain()


@pytest.mark.parametrize(
    "name", ["cached by keywords", "subclasses", "name of a function", "identity of a text"]
)
def test_it_is_wrong_without_its_guard(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out_reads(monkeypatch, "cached", "subclasses", "meta", "text")
    # Without its numbers, which a cached function's own cache would not be asked for either.
    assert run(name, fg.jit)[0] != run(name, lambda function: function)[0]


def test_a_context_that_changes_a_class_is_not_replayed() -> None:
    class Counts:
        entered = 0

        def __enter__(self) -> None:
            Counts.entered += 1

        def __exit__(self, *_: Any) -> None:
            pass

    @fg.jit
    def function(x: Any) -> Any:
        with Counts():
            return x * 2

    for _ in range(6):
        function(fg.ones(2))
    assert Counts.entered == 6


def test_an_import_that_is_not_loaded_imports() -> None:
    @fg.jit
    def function(x: Any) -> Any:
        from this_is_no_module import nothing  # type: ignore[import-not-found]

        return x * nothing

    for _ in range(4):
        with pytest.raises(ModuleNotFoundError, match="this_is_no_module"):
            function(fg.ones(2))


def test_a_name_that_a_module_lacks() -> None:
    @fg.jit
    def function(x: Any) -> Any:
        from math import nothing  # type: ignore[attr-defined]

        return x * nothing

    for _ in range(4):
        with pytest.raises(ImportError, match="cannot import name 'nothing' from 'math'"):
            function(fg.ones(2))


def test_arguments_are_compared_by_their_own_identity() -> None:
    function = fg.jit(lambda x, kind: x * 2 if kind is KIND else x * 3)
    for call in range(8):
        kind = KIND if call % 2 else other(KIND)
        assert function(fg.ones(1), kind).item() == (2 if call % 2 else 3)


def test_loggers_that_are_off() -> None:
    logger = logging.getLogger("fusegrad.test_of_libraries")

    @fg.jit
    def function(x: Any) -> Any:
        logger.debug("called with %s", x.shape)
        return x * 2

    for _ in range(6):
        function(fg.ones(2))
    assert replays(function), function.explain()


def test_objects_without_an_equality_are_equal_to_themselves() -> None:
    class Kind:
        pass

    world = types.SimpleNamespace(kind=Kind(), other=Kind())

    def function(x: Any) -> Any:
        if world.kind == world.other:
            return x * 2
        return x * 4 if world.kind != world.kind else x * 3

    jitted = fg.jit(function)
    for call in range(14):
        if call == 6:
            world.kind = world.other
        if call == 11:
            Kind.__eq__ = lambda self, other: False  # type: ignore[assignment, method-assign]
        assert jitted(fg.ones(1)).item() == function(fg.ones(1)).item()
    assert jitted.stats.compiled_calls >= 7, jitted.explain()


def test_views_of_dicts_from_outside_are_asked_again() -> None:
    table = {"scale": 2.0}
    for view in (types.MappingProxyType(table), table.keys()):
        table.pop("shift", None)

        @fg.jit
        def step(x: fg.Tensor, view: Any = view) -> Any:
            return (x * 2 if "scale" in view else x) + (1 if "shift" in view else 0)

        for i in range(9):
            if i == 4:
                table["shift"] = 1.0
            expected = 2.0 + (i >= 4)
            assert step(fg.ones(2)).tolist() == [expected, expected]
        assert step.stats.compiled_calls >= 5, step.explain()


def test_a_function_of_the_run_takes_over_what_a_partial_is_called() -> None:
    scale = types.SimpleNamespace(k=2.0)

    @fg.jit
    def step(x: fg.Tensor) -> Any:
        multiplied = functools.partial(operator.mul, x * scale.k)

        @functools.wraps(multiplied)
        def inner(y: Any) -> Any:
            return multiplied(y) + 1

        return inner(x), inner.__wrapped__ is multiplied

    for i in range(8):
        if i == 5:
            scale.k = 3.0
        found, same = step(fg.full((2,), 1.0 + i))
        assert same and found.tolist() == pytest.approx([scale.k * (1.0 + i) ** 2 + 1] * 2)
    assert step.stats.compiled_calls >= 4, step.explain()
