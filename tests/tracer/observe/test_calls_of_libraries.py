"""What libraries call in Python around the ops: questions, tables, wrappers, sorted pairs, closures of steps.

Each case is a function and changes of what its answer depends on; see `test_python_of_libraries.py`.
"""

from __future__ import annotations

import bisect
import collections.abc
import copy
import functools
import inspect
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from observing import found_with_changes, leave_out_reads, replays_and_sees_what_changes

import fusegrad as fg
from fusegrad.torch.absent import Absent
from fusegrad.tracer.capture.carried import Carried

Case = tuple[Callable[[Any], Any], list[Callable[[], Any]]]
CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> None:
    CASES[make.__name__.replace("_", " ")] = make


class Thing:
    """An object of some class."""

    def __init__(self, number: Any = 2) -> None:
        self.number = number


@case
def class_derived_from_an_abstract_collection() -> Case:
    class Space(collections.abc.Mapping):  # type: ignore[type-arg]
        def __getitem__(self, key: str) -> Any:
            return 2

        def __iter__(self) -> Any:
            return iter(())

        def __len__(self) -> int:
            return 0

    asked = Thing()
    asked.kind = Thing  # type: ignore[attr-defined]
    asked.held = Thing()  # type: ignore[attr-defined]

    def function(x: Any) -> Any:
        return x * (3 if isinstance(asked.held, Space) else 2)  # type: ignore[attr-defined]

    return function, [lambda: setattr(asked, "held", Space()), lambda: Space.register(Thing)]


@case
def classes_of_what_is_given() -> Case:
    layer, thing = fg.nn.Linear(2, 2), Thing()

    def function(x: Any) -> Any:
        found = next(value for value in (layer, thing.number, x) if fg.is_tensor(value))
        return found * (2 if fg.is_tensor(thing.number) else 3)

    return function, [lambda: setattr(thing, "number", fg.ones(2) * 5)]


@case
def modules_sorted_by_name() -> Case:
    world = {"b": fg.nn.Identity(), "a": fg.nn.Tanh(), "c": fg.nn.Identity()}

    def function(x: Any) -> Any:
        for place, (name, layer) in enumerate(sorted(world.items())):
            x = layer(x) * (place + 1) + len(name)
        return x + len(sorted([*world.items()], reverse=True)[0][0])

    return function, [lambda: world.update(aa=fg.nn.ReLU()), lambda: world.update(c=fg.nn.Sigmoid())]


@case
def arguments_as_pickles() -> Case:
    thing, kept = Thing(), {pickle.dumps({"a": 2}): 5, pickle.dumps({}): 7}

    def function(x: Any) -> Any:
        return x * kept.get(pickle.dumps({"a": thing.number}), 3) * kept.get(pickle.dumps({}), 4)

    return function, [lambda: setattr(thing, "number", 3), kept.clear]


@case
def questions_for_autocast() -> Case:
    thing = Thing()

    def function(x: Any) -> Any:
        return x * (2 if fg.is_autocast_enabled("cpu") else thing.number)

    return function, [lambda: setattr(thing, "number", 5)]


@case
def functions_wrapped_within() -> Case:
    def scaled(x: Any) -> Any:
        return x * 2

    scaled.factor = 3  # type: ignore[attr-defined]

    def counted(function: Any) -> Any:
        @functools.wraps(function)
        def inner(*args: Any) -> Any:
            return function(*args) + len(inner.__name__) + inner.factor

        return inner

    def function(x: Any) -> Any:
        return counted(scaled)(x)

    return function, [
        lambda: setattr(scaled, "__name__", "longer_than_that"),
        lambda: setattr(scaled, "factor", 5),
    ]


@case
def a_table_that_is_filled_in() -> Case:
    known: dict[Any, int] = {}
    thing = Thing()

    def function(x: Any) -> Any:
        for key in ("a", Thing):
            if key not in known:
                known[key] = thing.number + 1
        return x * known["a"] * known[Thing]

    return function, [lambda: known.update(a=9), lambda: setattr(thing, "number", 7), known.clear]


@case
def a_name_that_is_lacking() -> Case:
    thing, lacking = Thing(), Absent("torch.quint8")

    def function(x: Any) -> Any:
        return x * (2 if x.dtype in (lacking, thing.number, fg.float64) else 3)

    return function, [lambda: setattr(thing, "number", fg.float32)]


@case
def a_layout_that_is_lacking() -> Case:
    thing, lacking = Thing(), Absent("torch.sparse_csr")
    thing.number = lacking

    def function(x: Any) -> Any:
        return x * (2 if x.layout == thing.number or x.layout == lacking else 3)

    return function, [lambda: setattr(thing, "number", fg.strided)]


@case
def places_in_sorted_lists() -> Case:
    thing, ends = Thing(), [1, 2, 3]

    def function(x: Any) -> Any:
        place = bisect.bisect(ends, x[0])
        return x * place + bisect.bisect_left(ends, thing.number)

    return function, [lambda: setattr(thing, "number", 3), lambda: ends.insert(0, 0)]


@case
def steps_with_closures() -> Case:
    weight, thing = fg.ones(2, requires_grad=True), Thing()
    optimizer = fg.optim.SGD([weight], lr=0.1)

    def function(x: Any) -> Any:
        def closure() -> Any:
            optimizer.zero_grad()
            loss = (weight * x).square().sum() * thing.number
            loss.backward()
            return loss

        loss = optimizer.step(closure)
        return loss.detach() + weight.detach()

    return function, [lambda: setattr(thing, "number", 3)]


@case
def what_a_thing_matches() -> Case:
    thing, isinstance = Thing(), None  # a name that means something else

    def function(x: Any) -> Any:
        found = 0
        for value in (x, thing, thing.number, "a", None, (1, 2), 2.5):
            match value:
                case _ if fg.is_tensor(value):
                    found += 1
                case Thing() | None as known if known is not None:
                    found += 10
                case 2 | "a":
                    found += 100
                case None:
                    found += 1000
                case tuple():
                    found += 10000
                case float() as number:
                    found += int(number)
                case _:
                    found += 100000
        return x * found + (isinstance is None)

    return function, [lambda: setattr(thing, "number", 3), lambda: setattr(thing, "number", thing)]


class Leaky(fg.nn.Module):
    """Keeps what it has seen in a buffer, as neurons of snntorch."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mem", fg.zeros(0))
        self.register_buffer("count", fg.zeros(1), persistent=False)

    def forward(self, x: Any, begins: bool) -> Any:
        if begins:
            self.mem = fg.zeros_like(self.mem)
        if self.mem.shape != x.shape:
            self.mem = fg.zeros_like(x)
        self.mem = self.mem * 0.5 + x
        self.count = self.count + 1
        return self.mem * self.count + (1 if self.mem.dtype == fg.float64 else 0)


def changes_of(layer: Leaky) -> list[Callable[[], Any]]:
    return [
        lambda: setattr(layer, "mem", fg.full((2,), 7.0)),
        lambda: setattr(layer, "mem", fg.zeros(3)),
        lambda: setattr(layer, "mem", fg.ones(2, dtype=fg.float64)),
        lambda: layer.mem.add_(1),
        lambda: setattr(layer, "count", fg.full((2,), 5.0)),
    ]


@case
def state_in_buffers() -> Case:
    layer = Leaky()
    return (lambda x: layer(x, False)), changes_of(layer)


@case
def state_in_buffers_that_begins_anew() -> Case:
    layer = Leaky()
    return (lambda x: layer(x, True)), changes_of(layer)


class Config:
    """A configuration, as a library's model copies it in each step."""

    def __init__(self) -> None:
        self.size, self.names, self.inner = 2, {"a": [1, 2]}, Thing(3)
        self.kind = Thing


@case
def deep_copies_of_configurations() -> Case:
    config = Config()

    def function(x: Any) -> Any:
        made = copy.deepcopy(config)
        made.size += 1
        made.names["a"].append(5)
        made.inner.number += 1
        same = made.names is config.names or made.inner is config.inner or made.kind is not config.kind
        return x * made.size * sum(made.names["a"]) * made.inner.number + len(config.names["a"]) + same

    return function, [
        lambda: setattr(config, "size", 5),
        lambda: config.names["a"].append(7),
        lambda: setattr(config.inner, "number", 7),
        lambda: setattr(config, "more", 1),
        lambda: setattr(Config, "__deepcopy__", lambda self, memo: Config()),
        lambda: delattr(Config, "__deepcopy__"),
    ]


class Renamed:
    """A configuration that knows some of its attributes by other names."""

    names = {"hidden": "size"}  # noqa: RUF012 - a class's dict is what is tried

    def __init__(self) -> None:
        self.size, self.more = 2, [1]

    def __getattribute__(self, key: str) -> Any:
        if key != "names" and key in super().__getattribute__("names"):
            key = super().__getattribute__("names")[key]
        return super().__getattribute__(key)

    def __setattr__(self, key: str, value: Any) -> None:
        super().__setattr__(super().__getattribute__("names").get(key, key), value)

    def to_dict(self) -> dict[str, Any]:
        return copy.deepcopy(self.__dict__)


@case
def deep_copies_of_objects_that_look_up_by_themselves() -> Case:
    config = Renamed()

    def function(x: Any) -> Any:
        made = copy.deepcopy(config)
        for name in made.to_dict():
            if name.startswith("si"):
                value = getattr(made, name)
                delattr(made, name)
                made.hidden = value + 1
        return x * made.hidden * len(made.more) + config.hidden

    return function, [
        lambda: setattr(config, "hidden", 5),
        lambda: config.more.append(7),
        lambda: setattr(Renamed, "__deepcopy__", lambda self, memo: Renamed()),
        lambda: delattr(Renamed, "__deepcopy__"),
    ]


class Called:
    def __call__(self, a: Any, b: Any = 2) -> Any:
        return a


@case
def signatures_of_objects() -> Case:
    called, inspected = Called(), inspect.signature(lambda a, b, c: a)

    def function(x: Any) -> Any:
        return x * len(inspect.signature(called).parameters)

    return function, [
        lambda: setattr(called, "__signature__", inspected),
        lambda: delattr(called, "__signature__"),
        lambda: setattr(Called, "__signature__", inspected),
        lambda: delattr(Called, "__signature__"),
    ]


@pytest.mark.parametrize("name", CASES)
def test_it_replays_and_sees_what_changes(name: str) -> None:
    replays_and_sees_what_changes(CASES[name])


@pytest.mark.parametrize(
    "name, kind",
    [
        ("modules sorted by name", "contents"),
        ("functions wrapped within", "meta"),
        ("functions wrapped within", "contents"),
        ("arguments as pickles", "item"),
        ("a table that is filled in", "item"),
        ("places in sorted lists", "contents"),
        ("deep copies of configurations", "contents"),
        ("signatures of objects", "signature"),
    ],
)
def test_it_is_wrong_without_its_guard(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out_reads(monkeypatch, kind)
    assert found_with_changes(CASES[name], fg.jit)[0] != found_with_changes(CASES[name])[0]


def test_a_buffer_of_another_shape_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def unasked(host: Carried, leaves: Any, *numbers: Any) -> Any:
        return np.zeros(host.value.shape, host.value.dtype)

    monkeypatch.setattr(Carried, "array", unasked)
    name = "state in buffers that begins anew"
    assert found_with_changes(CASES[name], fg.jit)[0] != found_with_changes(CASES[name])[0]


def warned() -> list[int]:
    """How many warnings each of some calls shows, with filters that change between them."""

    def warns() -> None:
        warnings.warn("something", stacklevel=2)

    @fg.jit
    def function(x: Any) -> Any:
        warns()
        return x * 2

    counts = []
    for ways in ("default", "always", "ignore", "default"):
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter(ways)  # type: ignore[arg-type]
            # The interpreter begins with filters whose patterns are names.
            warnings.filters.insert(0, ("ignore", None, Warning, "no_such_module", 0))  # type: ignore[attr-defined]
            for _ in range(5):
                function(fg.ones(2))
                counts.append(len(shown))
    entries = function.explain().as_dict()["entries"]
    assert sum(path["calls"] for entry in entries for path in entry["paths"]) >= 2, function.explain()
    return counts


def test_warnings_are_shown_as_often_as_in_eager() -> None:
    assert warned() == [1, 1, 1, 1, 1, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1]


def test_warnings_whose_filters_nobody_reads_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out_reads(monkeypatch, "filters")
    assert warned() != [1, 1, 1, 1, 1, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
