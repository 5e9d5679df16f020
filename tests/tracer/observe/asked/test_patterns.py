"""Patterns of match statements that take their subject apart: twins beside Python, replays beside eager.

All patterns meet all subjects, which are found outside; then the subjects, and their classes, change.
"""

from __future__ import annotations

import enum
from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from observing import leave_out_reads
from twin_checks import note, same

import fusegrad as fg
from fusegrad.tracer.capture import patterns


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass
class Point:
    x: Any
    y: Any


class Special(Point):
    pass


class Asked:
    """Notes what is asked of it."""

    def __init__(self, *items: Any):
        self.items = items

    def __len__(self) -> int:
        return len(note(self.items))

    def __getitem__(self, place: int) -> Any:
        return self.items[note(place)]


class Items(Asked, Sequence):
    pass


class Absent:
    @property
    def x(self) -> Any:
        raise AttributeError(note("x"))


class Listed:
    __match_args__ = [*"x"]  # noqa: RUF012


class Twice:
    __match_args__ = ("x",)
    x = 1


class Numbered:
    __match_args__ = (1,)


Pair = namedtuple("Pair", "first second")


def empty(value: Any) -> Any:
    match value:
        case []:
            return 1
        case {}:
            return 2


def two(value: Any) -> Any:
    match value:
        case [1, x]:
            return x
        case [x, int(y)] | [str(x), y]:
            return x, y


def ends(value: Any) -> Any:
    match value:
        case [Color.RED, *_, last]:
            return last
        case [_, *_]:
            return 3


def rest(value: Any) -> Any:
    match value:
        case [first, *more, last] if note(len(more)):
            return first, more, last
        case [*every]:
            return every


def nested(value: Any) -> Any:
    match value:
        case [x, (y, *z), *w]:
            return x, y, z, w
        case (Point(x, y=(1 | 2) as z), *_) | {"k": Point(z, x)}:
            return x, z


def classes(value: Any) -> Any:
    match value:
        case Special(1, y):
            return y
        case Point(x=x, y=0):
            return x
        case Point():
            return 4
        case (int(i) | str(i)) as n if n:
            return i, n
        case None | True:
            return 5


def mappings(value: Any) -> Any:
    match value:
        case {"k": [x, *_], Color.BLUE: y, **others}:
            return x, y, others
        case {"k": {"j": j}}:
            return j
        case {"k": int(k), **others}:
            return k, others


def kept(value: Any) -> Any:
    x = 6
    match value:
        case [x, Point(x=1)]:
            return 7
    return x


def refused(value: Any) -> Any:
    match value:
        case Listed(x) | Numbered(x) | Twice(x, x=_) | float(x, _):
            return x


PATTERNS = [empty, two, ends, rest, nested, classes, mappings, kept, refused]


def subjects() -> list[Any]:
    tensor = fg.full((2,), 3.0)
    return [
        [], [1, 2], [1, tensor], (1, [4]), ["a", 2.5], [Color.RED], [Color.RED, 3], (Color.RED, 2, tensor, 4),
        [Point(1, 2), 5], [Point(tensor, 1)], [3, (4, 5, tensor), 6], Point(1, 0), Special(1, 3), Point(2, 2),
        {}, {"k": [1, 2], Color.BLUE: 3, "z": 4}, {"k": {"j": tensor}}, {"k": 5, 6: 7}, {"k": Point(1, 2)},
        OrderedDict(k=8), Pair(1, 9), Pair(2, "b"), deque([1, 2]), deque([3, 4, 5]), range(3), "text", 2,
        True, b"ab", None, 2.5, Items(1, 2), Items(3, (4,)), Items(Color.RED, 1, 2), Asked(1, 2), Absent(),
        Listed(), Twice(), Numbered(), {1, 2}, tensor,
    ]  # fmt: skip


def test_twins_do_what_python_does() -> None:
    for value in subjects():
        if not isinstance(value, fg.Tensor):
            plain = [item for item in ([*value] if isinstance(value, list) else []) if fg.is_tensor(item)]
            for pattern in () if plain else PATTERNS:
                same(pattern, value)


def changes(value: Any) -> list[Callable[[], Any]]:
    """What happens to a subject, one after the other."""
    if isinstance(value, list):
        return [
            lambda: value.append(2),
            lambda: value.__setitem__(-1, Point(1, 2)),
            lambda: setattr(value[-1], "y", 0),
            lambda: value.insert(0, Color.RED),
        ]
    if isinstance(value, dict):
        set_item = value.__setitem__
        return [
            lambda: set_item("k", [1, 2]),
            lambda: set_item(Color.BLUE, 4),
            lambda: value["k"].insert(0, 5),
            lambda: set_item("k", {"j": 2}),
            lambda: value.pop("k"),
        ]
    if isinstance(value, Point):
        return [
            lambda: setattr(value, "y", 0),
            lambda: setattr(value, "x", 1),
            lambda: setattr(type(value), "__match_args__", ("y", "x")),
            lambda: setattr(value, "__class__", Special),
            lambda: type(value).__dict__.get("__match_args__") and delattr(type(value), "__match_args__"),
            lambda: setattr(Point, "__match_args__", ("x", "y")),
        ]
    if isinstance(value, Asked):
        return [lambda: setattr(value, "items", (1, 5)), lambda: setattr(value, "items", (Color.RED, 6, 7))]
    return []


def found(pattern: Any, value: Any, wrap: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    """What calls give in the world as it is, and after each change; the function."""

    def call(x: Any) -> Any:
        try:
            return x, pattern(value)
        except TypeError:
            return x, "refused"

    function = wrap(call)
    answers = []
    for change in [lambda: None, *changes(value)]:
        change()
        answers += [repr(function(fg.ones(1))) for _ in range(3)]
    return answers, function


PAIRS = [(pattern, place) for pattern in PATTERNS for place in range(len(subjects()))]


def problems(each: int = 1) -> tuple[list[str], int]:
    """The pairs of a pattern and a subject that are answered otherwise under `jit`; how many replay."""
    wrong, replayed = [], 0
    for pattern, place in PAIRS[::each]:
        wanted, _ = found(pattern, subjects()[place], lambda function: function)
        answers, function = found(pattern, subjects()[place], fg.jit)
        replayed += function.stats.compiled_calls > 0
        if answers != wanted:
            wrong.append(f"{pattern.__name__} of {subjects()[place]!r}: {answers} instead of {wanted}")
    return wrong, replayed


def test_they_replay_and_see_what_changes() -> None:
    wrong, replayed = problems()
    assert wrong == []
    # Others are refused, give a list that they found, or ask a class that notes what it is asked.
    assert replayed == len(PAIRS) - 19


@pytest.mark.parametrize("kind", ["item", "attribute", "length", "type"])
def test_a_guard_that_is_missing_is_found(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    leave_out_reads(monkeypatch, kind)
    assert problems(4)[0]


def test_an_order_of_questions_that_differs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_is_sequence", lambda value: len(value) >= 0)
    with pytest.raises(AssertionError):
        same(ends, Asked(1, 2))


def test_a_class_that_is_registered_as_a_sequence_is_one() -> None:
    class Later(Asked):
        pass

    value = Later(Color.RED, 2)
    function = fg.jit(lambda x: x * (ends(value) or 0))
    assert [function(fg.ones(1)).item() for _ in range(3)] == [0, 0, 0]
    assert function.stats.compiled_calls
    Sequence.register(Later)
    assert function(fg.ones(1)).item() == 2
