"""Classes as libraries write them: their objects are made, and their attributes found, by code that replays.

Each case is a function and changes of what its answer depends on; see `test_python_of_libraries.py`.
"""

from __future__ import annotations

import abc
import collections.abc
import dataclasses
import enum
import functools
import typing
from collections.abc import Callable
from typing import Any

import pytest
from observing import found_with_changes, leave_out_reads, replays_and_sees_what_changes

import fusegrad as fg

Case = tuple[Callable[[Any], Any], list[Callable[[], Any]]]
CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> None:
    CASES[make.__name__.replace("_", " ")] = make


class Thing:
    """An object of some class."""

    def __init__(self, number: int = 2) -> None:
        self.number = number


@case
def dataclass_with_post_init() -> Case:
    thing = Thing()

    @dataclasses.dataclass
    class Options:
        first: int
        kept: int = dataclasses.field(init=False, default=7)
        made: list[int] = dataclasses.field(default_factory=lambda: [thing.number])
        passed: dataclasses.InitVar[int] = 3
        shared: typing.ClassVar[int] = 5

        def __post_init__(self, passed: int) -> None:
            self.product = passed * self.first + thing.number

    def function(x: Any) -> Any:
        options, other = Options(2), Options(3, passed=9)
        return x * options.product + other.product + options.made[0] + other.kept + Options.shared

    def later(self: Any, passed: int) -> None:
        self.product = 100

    return function, [lambda: setattr(thing, "number", 4), lambda: setattr(Options, "__post_init__", later)]


@case
def dataclass_with_slots() -> Case:
    @dataclasses.dataclass(slots=True)
    class Options:
        first: int
        kept: int = dataclasses.field(init=False, default=7)

    return lambda x: x * Options(2).kept * Options(first=3).first, []


@case
def derived_dataclass() -> Case:
    @dataclasses.dataclass
    class Options:
        first: int

    @dataclasses.dataclass
    class More(Options):
        second: int = 4

    return lambda x: x * More(2).second + More(1, second=3).first, [lambda: setattr(Options, "third", 1)]


@case
def fallback_to_an_inner_object() -> Case:
    class Outer:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

    inner, seven = Thing(), lambda self, name: 7
    outer = Outer(inner)
    return lambda x: x * outer.number, [
        lambda: setattr(inner, "number", 3),
        lambda: setattr(outer, "number", 4),
        lambda: delattr(outer, "number"),
        lambda: setattr(Outer, "number", 5),
        lambda: delattr(Outer, "number"),
        lambda: setattr(Outer, "__getattr__", seven),
    ]


@case
def fallback_that_finds_nothing() -> Case:
    class Outer:
        def __init__(self) -> None:
            self.inner = Thing()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

    outer = Outer()
    return lambda x: x * (2 if hasattr(outer, "more") else 3), [lambda: setattr(outer.inner, "more", 1)]


@case
def fallback_of_a_module() -> Case:
    class Wrapped(fg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = fg.nn.Linear(2, 2)

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.inner, name)

    module = Wrapped()
    return lambda x: module.weight.sum() * module.in_features * x, [
        lambda: setattr(module.inner, "in_features", 4),
        lambda: setattr(module, "in_features", 5),
        lambda: setattr(module, "inner", fg.nn.Linear(2, 3)),
    ]


class Settings:
    """As transformers' configurations are: some names stand for others."""

    names: typing.ClassVar[dict[str, str]] = {"hidden": "width"}

    def __init__(self) -> None:
        self.width, self.more = 2, 5

    def __getattribute__(self, name: str) -> Any:
        if "hidden" in super().__getattribute__("__dict__"):
            return object.__getattribute__(self, "width") + 7
        if name != "names" and name in super().__getattribute__("names"):
            name = super().__getattribute__("names")[name]
        return super().__getattribute__(name)

    def tripled(self) -> int:
        return int(self.hidden) * 3


@case
def look_up_of_ones_own() -> Case:
    settings = Settings()
    return lambda x: x * settings.hidden + settings.tripled() + Settings().hidden, [
        lambda: setattr(settings, "width", 4),
        lambda: settings.__dict__.update(tripled=lambda: 7),
        lambda: object.__setattr__(settings, "__dict__", {"width": 1, "more": 2}),
    ]


@case
def look_up_that_finds_nothing() -> Case:
    class Fallback(Settings):
        def __getattr__(self, name: str) -> Any:
            return 7

    plain, other = Settings(), Fallback()
    return lambda x: x * getattr(plain, "absent", 3) + other.absent, [
        lambda: setattr(plain, "absent", 4),
        lambda: setattr(other, "absent", 5),
    ]


@case
def class_registered_with_an_abstract_one() -> Case:
    class Base(abc.ABC):  # noqa: B024
        pass

    thing = Thing()
    return lambda x: x * (2 if isinstance(thing, Base) else 3), [lambda: Base.register(Thing)]


@case
def class_registered_with_one_of_several() -> Case:
    kind = type("Kind", (), {})
    thing = kind()
    return lambda x: x * (2 if isinstance(thing, (int, collections.abc.Sequence)) else 3), [
        lambda: collections.abc.Sequence.register(kind)
    ]


class Color(enum.Enum):
    RED = 2
    BLUE = 3


@case
def enumeration_by_value() -> Case:
    thing = Thing()
    return lambda x: x * (4 if Color(thing.number) is Color.RED else 5), [lambda: setattr(thing, "number", 3)]


@case
def enumeration_by_name_and_as_a_whole() -> Case:
    return lambda x: x * Color["RED"].value + sum(c.value for c in Color) + len(Color), []


@case
def cached_property() -> Case:
    class Kept:
        number = 2

        @functools.cached_property
        def twice(self) -> int:
            return self.number * 2

    kept = Kept()

    def change() -> None:
        del kept.twice
        Kept.number = 5

    return lambda x: x * kept.twice, [change]


@case
def cached_method() -> Case:
    class Kept:
        number = 2

        @functools.lru_cache(8)  # noqa: B019
        def times(self, factor: int) -> int:
            return self.number * factor

    kept = Kept()

    def change() -> None:
        Kept.times.cache_clear()
        Kept.number = 5

    return lambda x: x * kept.times(3), [change]


@case
def descriptor() -> Case:
    class Scaled:
        factor = 2

        def __get__(self, owner: Any, kind: type) -> int:
            return self.factor * (1 if owner is None else owner.number)

    class Owner(Thing):
        scaled = Scaled()

    owner = Owner()
    return lambda x: x * owner.scaled + Owner.scaled, [
        lambda: setattr(owner, "number", 3),
        lambda: setattr(Scaled, "factor", 4),
        lambda: owner.__dict__.update(scaled=9),
    ]


@case
def names_and_bases_of_classes() -> Case:
    kind = type("Kind", (Thing,), {})
    return lambda x: x * len(kind.__mro__) + len(kind.__bases__) + len(kind.__module__), [
        lambda: setattr(kind, "__module__", "another")
    ]


@pytest.mark.parametrize("name", CASES)
def test_it_replays_and_sees_what_changes(name: str) -> None:
    replays_and_sees_what_changes(CASES[name])


@pytest.mark.parametrize(
    "name, kind",
    [
        ("fallback to an inner object", "attribute"),
        ("class registered with an abstract one", "abstract"),
        ("names and bases of classes", "meta"),
        ("look up of ones own", "ordinary"),
        ("cached method", "cached"),
    ],
)
def test_it_is_wrong_without_its_guard(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out_reads(monkeypatch, kind)
    assert found_with_changes(CASES[name], fg.jit)[0] != found_with_changes(CASES[name])[0]


def test_wrong_arguments_are_the_classes_to_refuse() -> None:
    @dataclasses.dataclass
    class Options:
        first: int

    @fg.jit
    def function(x: Any) -> Any:
        return x * Options(1, 2).first  # type: ignore[call-arg]

    for _ in range(4):
        with pytest.raises(TypeError, match="takes 2 positional arguments but 3 were given"):
            function(fg.ones(2))


def test_a_dataclass_without_an_init_of_its_own() -> None:
    @dataclasses.dataclass
    class Options:
        first: int

    @dataclasses.dataclass(init=False)
    class More(Options):
        second: int = 4

    function = fg.jit(lambda x: x * More(2).second if "second" in vars(More(2)) else x * More(2).first)
    assert [function(fg.ones(1)).item() for _ in range(4)] == [2.0] * 4


def test_values_and_names_that_no_member_has() -> None:
    for body, error in (
        (lambda x: x * Color(99).value, ValueError),
        (lambda x: x * Color["NO"].value, KeyError),
    ):
        function = fg.jit(body)
        for _ in range(4):
            with pytest.raises(error):
                function(fg.ones(2))


def test_a_class_that_the_first_call_defines() -> None:
    thing, kinds = Thing(), Thing()

    def function(x: Any) -> Any:
        if not hasattr(kinds, "result"):

            class Result(Thing):
                def total(self) -> Any:
                    return self.number + thing.number

            kinds.result = Result  # type: ignore[attr-defined]
        return x * kinds.result(3).total()  # type: ignore[attr-defined]

    jitted, x = fg.jit(function), fg.ones(1)
    assert jitted(fg.ones(2)).tolist() == [5, 5]  # defines the class: the run is not replayed
    assert "defines a class" in str(jitted.explain())
    replayed = jitted.stats.compiled_calls
    for number in (2, 2, 2, 4, 4, 4):
        thing.number = number
        assert jitted(x).item() == 3 + number
    assert jitted.stats.compiled_calls >= replayed + 3
    before = kinds.__dict__.pop("result")
    assert jitted(x).item() == 7 and kinds.result is not before  # type: ignore[attr-defined]
