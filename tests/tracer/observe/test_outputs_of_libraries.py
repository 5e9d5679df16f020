"""What models of libraries give, and ask of Python: outputs that are dicts and dataclasses, configurations.

Each case is a function and changes of what its answer depends on; see `test_python_of_libraries.py`.
"""

from __future__ import annotations

import collections
import collections.abc
import contextvars
import dataclasses
import functools
import inspect
import os
from collections.abc import Callable
from typing import Any

import pytest
from observing import leave_out_reads

import fusegrad as fg

Case = tuple[Callable[[Any], Any], list[Callable[[], Any]]]
CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> None:
    CASES[make.__name__.replace("_", " ")] = make


def renaming() -> Any:
    class Renaming(type):
        """A metaclass that wraps the `__init__` that a decorator sets."""

        def __setattr__(cls, name: str, value: Any) -> None:
            if name == "__init__":
                init = value

                @functools.wraps(init)
                def wrapped(self: Any, *args: Any, **kwargs: Any) -> None:
                    if "old" in kwargs:
                        kwargs["new"] = kwargs.pop("old")
                    init(self, *args, **kwargs)

                value = wrapped
            super().__setattr__(name, value)

    return Renaming


@case
def output_of_a_model() -> Case:
    meta = renaming()

    class Output(collections.OrderedDict, metaclass=meta):
        def __post_init__(self) -> None:
            for field in dataclasses.fields(self):
                value = self.__dict__.get(field.name)
                if value is not None:
                    self[field.name] = value

        def __getitem__(self, key: Any) -> Any:
            return dict(self.items())[key] if isinstance(key, str) else self.to_tuple()[key]

        def __setattr__(self, name: str, value: Any) -> None:
            if name in {field.name for field in dataclasses.fields(self)} and value is not None:
                super().__setitem__(name, value)
            super().__setattr__(name, value)

        def __setitem__(self, key: str, value: Any) -> None:
            super().__setitem__(key, value)
            super().__setattr__(key, value)

        def to_tuple(self) -> tuple[Any, ...]:
            return tuple(self[key] for key in self.keys())

    @dataclasses.dataclass
    class Loss(Output):
        loss: Any = None
        logits: Any = None
        new: Any = None

    kind: Any = Loss

    def function(x: Any) -> Any:
        out = kind(loss=x * 2, old=x * 3)
        out.logits = x * 5
        return out.loss + out[1] + out["logits"] * len(out) + (1 if "new" in out else 2)

    def call(cls: Any, **given: Any) -> Any:
        return type.__call__(cls, loss=fg.ones(1), new=fg.zeros(1))

    return function, [
        lambda: setattr(kind, "to_tuple", lambda self: (0, self.loss * 11)),
        lambda: setattr(meta, "__call__", call),
        lambda: delattr(meta, "__call__"),
    ]


@case
def object_with_a_new_of_its_own() -> Case:
    class Other:
        number = 9

    class Kept:
        made: Any = None

        def __new__(cls, number: int) -> Any:
            return super().__new__(cls) if cls.made is None else cls.made

        def __init__(self, number: int) -> None:
            self.number = number

    return lambda x: x * Kept(3).number, [lambda: setattr(Kept, "made", Other())]


@case
def mapping() -> Case:
    class Registry(collections.abc.Mapping):
        def __init__(self) -> None:
            self.held = {"a": 2}

        def __getitem__(self, key: str) -> int:
            return self.held[key]

        def __iter__(self) -> Any:
            return iter(self.held)

        def __len__(self) -> int:
            return len(self.held)

    held = Registry()
    return lambda x: x * held.get("a", 5) + held.get("b", 7) + (1 if "c" in held else 2), [
        lambda: held.held.update(b=3),
        lambda: held.held.update(c=3),
        lambda: setattr(Registry, "__getitem__", lambda self, key: 4),
    ]


@case
def sequence() -> Case:
    class Layers(collections.abc.Sequence):
        def __init__(self) -> None:
            self.held = [2, 3]

        def __getitem__(self, place: Any) -> Any:
            return self.held[place]

        def __len__(self) -> int:
            return len(self.held)

    held = Layers()

    def function(x: Any) -> Any:
        for layer, place in zip(held, range(9), strict=False):
            x = x * layer + place
        return x + sum([*held])

    return function, [
        lambda: held.held.append(5),
        lambda: setattr(Layers, "__iter__", lambda self: iter([1, 1])),
    ]


@case
def context_variable() -> Case:
    variable: Any = contextvars.ContextVar("scale", default=2)

    def function(x: Any) -> Any:
        before = variable.get()
        token = variable.set(7)
        try:
            x = x * variable.get()
        finally:
            variable.reset(token)
        return x + before + variable.get()

    return function, [lambda: variable.set(3)]


@case
def variable_of_the_environment() -> Case:
    name = "FUSEGRAD_TEST_SCALE"
    os.environ.pop(name, None)
    return lambda x: x * int(os.environ.get(name, 2)), [
        lambda: os.environ.update({name: "5"}),
        lambda: os.environ.pop(name),
    ]


@case
def signature() -> Case:
    def one(a: Any) -> None: ...
    def two(a: Any, b: Any) -> None: ...

    held = {"function": one}
    return lambda x: x * len(inspect.signature(held["function"]).parameters), [
        lambda: setattr(one, "__code__", two.__code__),
        lambda: setattr(one, "__wrapped__", lambda: None),
    ]


@case
def text_of_a_class() -> Case:
    kind = type("Kind", (), {})
    table = {str(kind): 2}
    return lambda x: x * table.get(str(kind), 3), [lambda: setattr(kind, "__qualname__", "Other")]


@case
def what_a_tensor_lacks() -> Case:
    held = fg.ones(1)
    return lambda x: x * (2 if hasattr(x * 1, "more") else 3) + (4 if hasattr(held, "more") else 5), [
        lambda: setattr(held, "more", 1)
    ]


@case
def set_of_classes() -> Case:
    kind = renaming()("Kind", (), {})
    kinds = {kind, int}
    return lambda x: x * (2 if kind in kinds else 3), [lambda: kinds.discard(kind)]


@case
def instances_of_a_class_with_a_metaclass() -> Case:
    meta = renaming()
    kind = meta("Kind", (), {})
    held, other = Thing(), kind()
    return lambda x: x * (2 if isinstance(held, kind) else 3) * (4 if isinstance(other, kind) else 5), [
        lambda: setattr(meta, "__instancecheck__", lambda cls, value: True),
        lambda: delattr(meta, "__instancecheck__"),
    ]


class Thing:
    """An object of some class."""


@case
def configuration() -> Case:
    class Configuration:
        """As transformers' are: looked up, and set, by code of its own."""

        def __init__(self) -> None:
            self.width, self.problem = 2, None

        def __getattribute__(self, name: str) -> Any:
            return super().__getattribute__(name)

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)

        @property
        def double(self) -> int:
            return self.width * 2

    held: Any = Configuration()

    def function(x: Any) -> Any:
        if held.problem is None:
            held.problem = "single"
        return x * held.double + len(held.problem)

    return function, [
        lambda: setattr(held, "width", 5),
        lambda: setattr(held, "problem", "many"),
        lambda: setattr(Configuration, "double", property(lambda self: 1)),
    ]


@case
def code_of_a_function() -> Case:
    def one(a: Any) -> None: ...
    def two(b: Any) -> None: ...

    held = {"function": one}
    return lambda x: x * (2 if "a" in held["function"].__code__.co_varnames else 3), [
        lambda: setattr(one, "__code__", two.__code__)
    ]


def run(name: str, wrap: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    """What calls give in the world as it is, and after each change; the function."""
    body, changes = CASES[name]()
    function = wrap(body)
    found: list[Any] = []

    def follow() -> None:
        for change in (lambda: None, *changes):
            change()
            for _ in range(4):
                found.append(float(function(fg.full((1,), 1.5)).sum()))

    contextvars.copy_context().run(follow)
    return found, function


@pytest.mark.parametrize("name", CASES)
def test_it_replays_and_sees_what_changes(name: str) -> None:
    found, function = run(name, fg.jit)
    assert run(name, lambda function: function)[0] == pytest.approx(found)
    entries = function.explain().as_dict()["entries"]
    assert sum(path["calls"] for entry in entries for path in entry["paths"]) >= 2, function.explain()


@pytest.mark.parametrize(
    "name, kind",
    [
        ("output of a model", "class"),
        ("object with a new of its own", "attribute"),
        ("mapping", "item"),
        ("context variable", "context"),
        ("variable of the environment", "environment"),
        ("signature", "function"),
        ("text of a class", "meta"),
        ("what a tensor lacks", "absent"),
        ("set of classes", "contents"),
        ("instances of a class with a metaclass", "class"),
        ("configuration", "ordinary"),
    ],
)
def test_it_is_wrong_without_its_guard(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out_reads(monkeypatch, kind)
    assert run(name, fg.jit)[0] != run(name, lambda function: function)[0]


def test_a_context_variable_that_is_left_set_is_not_replayed() -> None:
    variable: Any = contextvars.ContextVar("left", default=1)

    def body(x: Any) -> Any:
        variable.set(variable.get() + 1)
        return x * variable.get()

    def follow() -> list[float]:
        function = fg.jit(body)
        return [function(fg.ones(1)).item() for _ in range(5)]

    assert contextvars.copy_context().run(follow) == [2, 3, 4, 5, 6]
