"""Classes that derive from dict, list, tuple and set: what they take over, and what they have of their own.

Each case is a builtin class, what a class that derives from it has in Python, a use of its objects, and
whether the object is made by the function or found outside. Then the world changes: object and class.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from observing import leave_out_reads

import fusegrad as fg
from fusegrad.tracer.observe import purity

FIRST: dict[Any, Any] = {
    dict: {"a": 2, "b": 3}, collections.OrderedDict: {"a": 2, "b": 3},
    list: [2, 3], tuple: (2, 3), set: {2, 3},
}  # fmt: skip


def init(base: Any) -> Any:
    def __init__(self: Any, *given: Any) -> None:
        self.beside = 5
        base.__init__(self, *(() if base is tuple else given))

    return __init__


def getitem(base: Any) -> Any:
    def __getitem__(self: Any, key: Any) -> Any:
        return base.__getitem__(self, {"a": "b", 0: 1}.get(key, key)) + 1

    return __getitem__


def setitem(base: Any) -> Any:
    def __setitem__(self: Any, key: Any, value: Any) -> None:
        base.__setitem__(self, key, value + 2)

    return __setitem__


def iterates(base: Any) -> Any:
    def __iter__(self: Any) -> Any:
        return iter([*base.__iter__(self)][1:])

    return __iter__


def length(base: Any) -> Any:
    return lambda self: base.__len__(self) + 3


def contains(base: Any) -> Any:
    return lambda self, item: not base.__contains__(self, item)


def missing(base: Any) -> Any:
    return lambda self, key: len(key)


def new(base: Any) -> Any:
    def __new__(cls: Any, *given: Any) -> Any:
        made = base.__new__(cls, *given)
        made.extra = 4
        return made

    return __new__


OWN: dict[str, Callable[[Any], Any]] = {
    "__init__": init, "__getitem__": getitem, "__setitem__": setitem, "__iter__": iterates, "__len__": length,
    "__contains__": contains, "__missing__": missing, "__new__": new,
}  # fmt: skip
LACKS = {
    tuple: {"__setitem__", "__missing__"},
    set: {"__setitem__", "__getitem__", "__missing__"},
    list: {"__missing__"},
}


def key_of(held: Any) -> Any:
    return "a" if isinstance(held, dict) else 0


def subscribe(held: Any) -> Any:
    return 0 if isinstance(held, set) else held[key_of(held)]


def look_for_more(held: Any) -> Any:
    try:
        return held["many"]
    except KeyError:
        return 7


def write(held: Any) -> Any:
    if isinstance(held, set):
        held.add(9)
    elif not isinstance(held, tuple):
        held[key_of(held)] = 9
        return sum(held.values() if isinstance(held, dict) else held)
    return len(held)


def go_over(held: Any) -> Any:
    return sum(held[key] if isinstance(held, dict) else key for key in held)


def give_to_builtins(held: Any) -> Any:
    return len(list(held)) + len(tuple(zip(held, range(9), strict=False))) + len(sorted(held))


def methods(held: Any) -> Any:
    if isinstance(held, dict):
        return sum(held.values()) + len(held.items()) + held.get("b", 3) + len([*held.keys()])
    return held.count(2) + held.index(2) if isinstance(held, (list, tuple)) else len(held.union({3, 4}))


USES: dict[str, Callable[[Any], Any]] = {
    "subscribe": subscribe,
    "look for more": lambda held: look_for_more(held) if isinstance(held, dict) else 1,
    "write": write,
    "go over": go_over,
    "give to builtins": give_to_builtins,
    "ask": lambda held: len(held) + (3 if held else 4) + (5 if (2 in held or "a" in held) else 6),
    "methods": methods,
    "attributes": lambda held: getattr(held, "beside", 8) + getattr(held, "extra", 2),
}


def found(base: Any, name: str, use: Callable[[Any], Any], inside: bool, wrap: Callable[[Any], Any]) -> Any:
    """What calls give in the world as it is, and after each change; the function."""
    own = {name: OWN[name](base)} if name else {}
    kind = type("Derived", (base,), own)
    first = FIRST[base]
    held = kind(first)
    function = wrap((lambda x: x * use(kind(first))) if inside else (lambda x: x * use(held)))
    answers: list[Any] = []
    changes: list[Callable[[], Any]] = [lambda: None]
    if not inside and base in (dict, collections.OrderedDict):
        changes += [lambda: base.__setitem__(held, "a", 11), lambda: base.__setitem__(held, "many", 1)]
    elif not inside and base is list:
        changes += [lambda: list.__setitem__(held, 0, 11), lambda: list.append(held, 2)]
    if not inside:
        changes += [lambda: setattr(held, "beside", 6)]
    others = [
        n for n in OWN if n != name and n not in ("__init__", "__new__") and n not in LACKS.get(base, ())
    ]
    changes += [lambda other=other: setattr(kind, other, OWN[other](base)) for other in others]  # type: ignore[misc]
    for change in changes:
        change()
        for _ in range(3):
            try:
                answers.append(function(fg.ones(1)).item())
            except Exception as error:
                answers.append(type(error))
    return answers, function


CASES = [
    (base, name, use, inside)
    for base, name, use, inside in itertools.product(FIRST, ["", *OWN], USES, [True, False])
    if name not in LACKS.get(base, ())
]
SAMPLE = CASES[::7]


def is_followed(case: Any) -> bool:
    """Whether a replay is expected: nothing is written to what lies outside, and no `__len__` in Python is
    asked by builtin functions, which take it for a hint.
    """
    base, name, use, inside = case
    writes = use == "write" and base is not tuple
    return inside or not (writes or (use == "give to builtins" and name == "__len__"))


def problem(case: Any) -> str:
    """What is wrong with a case; nothing if it is right."""
    base, name, use, inside = case
    answers, function = found(base, name, USES[use], inside, fg.jit)
    wanted = found(base, name, USES[use], inside, lambda f: f)[0]
    if answers != wanted:
        return f"{base.__name__} with {name or 'nothing'}, {use}: {answers} instead of {wanted}"
    if is_followed(case) and function.stats.compiled_calls < len(answers) // 3:
        return f"{base.__name__} with {name or 'nothing'}, {use}: {function.explain()}"
    return ""


def test_it_is_what_eager_has_and_replays() -> None:
    assert [*filter(None, map(problem, SAMPLE))] == []


@pytest.mark.parametrize("kind", ["class", "contents", "item", "length"])
def test_it_is_wrong_without_its_guard(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out_reads(monkeypatch, kind)
    uses = {"class": "go over", "contents": "go over", "item": "look for more", "length": "ask"}
    cases = [case for case in CASES if case[2] == uses[kind] and not case[3]]
    assert any("instead of" in problem(case) for case in cases)


def test_a_method_of_its_own_that_is_taken_for_the_builtin_one_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(purity, "takes_over", lambda kind, base, name: True)
    assert any(map(problem, SAMPLE))


def test_the_order_of_an_ordered_dict_is_seen() -> None:
    held = collections.OrderedDict(a=2, b=3)
    function = fg.jit(lambda x: x * next(iter(held.values())))
    answers = []
    for _ in range(2):
        answers += [function(fg.ones(1)).item() for _ in range(3)]
        held.move_to_end("a")
    assert answers == [2, 2, 2, 3, 3, 3]


class Pair(NamedTuple):
    first: int
    second: int

    def __getitem__(self, key: Any) -> Any:
        return tuple.__getitem__(self, key) * 10

    def total(self) -> int:
        return self.first + self.second


class Named(collections.namedtuple("Named", "first second")):
    pass


def test_named_tuples_with_methods() -> None:
    def body(x: Any) -> Any:
        pair = Pair(2, 3)
        return x * pair[0] + pair.total() + sum([*Named(1, second=2)]) + Named(4, 5)[1]

    function = fg.jit(body)
    assert [function(fg.ones(1)).item() for _ in range(4)] == [body(fg.ones(1)).item()] * 4


@dataclasses.dataclass
class Output(collections.OrderedDict):
    loss: Any = None

    def __post_init__(self) -> None:
        self["loss"] = self.loss


def test_dataclasses_that_are_dicts_are_returned_and_passed() -> None:
    returned = fg.jit(lambda x: Output(loss=x * 2))
    passed = fg.jit(lambda out: out["loss"] * 2 + out.get("more", 0))
    for number in range(6):
        out = returned(fg.ones(1))
        assert type(out) is Output and out["loss"] is out.loss and out.loss.item() == 2
        if number > 2:
            out["more"] = 5
        if number > 4:
            out["loss"] = fg.full((1,), 7.0)
        assert passed(out).item() == out["loss"].item() * 2 + (5 if number > 2 else 0)


if __name__ == "__main__":
    print("\n".join([*filter(None, map(problem, CASES))]) or f"{len(CASES)} cases, no difference")
