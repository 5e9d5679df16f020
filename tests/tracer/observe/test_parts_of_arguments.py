"""Tensors in containers among the arguments, read in all ways: they are inputs of replays."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import Any

import pytest

import fusegrad as fg
from fusegrad.tracer.observe.observer import Observer

Pair = namedtuple("Pair", "x y")


def tensors(i: int) -> tuple[fg.Tensor, fg.Tensor]:
    return fg.full((3,), 1.0 + i), fg.full((3,), 0.5 - i)


# Containers of two tensors, and ways to read them.
MADE: dict[str, Callable[..., Any]] = {
    "a dict": lambda x, y: {"x": x, "y": y},
    "an ordered dict": lambda x, y: OrderedDict(x=x, y=y),
    "a dict in a list": lambda x, y: [{"x": x, "y": y}],
    "lists in a dict": lambda x, y: {"x": [x], "y": [y, 3]},
    "a dict in a dict": lambda x, y: {"inner": {"x": x, "y": y}},
    "a named tuple in a dict": lambda x, y: {"pair": Pair(x, y)},
    "a tuple in a list in a dict": lambda x, y: {"pairs": [(x, y)]},
}


def _sums(value: Any) -> Any:
    total: Any = 0.0
    for part in value.values() if isinstance(value, dict) else value:
        total = total + (part if isinstance(part, (fg.Tensor, int)) else _sums(part)) * 2.0
    return total


def _items(value: Any) -> Any:
    total: Any = 0.0
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        scale = len(key) if isinstance(key, str) else key + 1
        total = total + scale * (part if isinstance(part, (fg.Tensor, int)) else _items(part))
    return total


def _subscripts(value: Any) -> Any:
    total: Any = 0.0
    for key in value if isinstance(value, dict) else range(len(value)):
        part = value[key]
        total = total + (part if isinstance(part, (fg.Tensor, int)) else _subscripts(part))
    return total


def _get(value: Any) -> Any:
    total: Any = 0.0
    for key in value if isinstance(value, dict) else range(len(value)):
        part = value.get(key) if isinstance(value, dict) else value[key]
        total = total + (part if isinstance(part, (fg.Tensor, int)) else _get(part))
    return total


def _moved(value: Any) -> Any:
    if isinstance(value, dict):
        value = {key: part.to("cpu") if isinstance(part, fg.Tensor) else part for key, part in value.items()}
    return _sums(value)


READ = {"values": _sums, "items": _items, "subscripts": _subscripts, "get": _get, "moved": _moved}


def check(read: str, made: str) -> None:
    function = fg.jit(READ[read])
    for i in range(5):
        given = MADE[made](*tensors(i))
        fg.testing.assert_close(function(given), READ[read](given))
    assert function.stats.compiles == 1 and function.stats.compiled_calls == 4, str(function.explain())


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("read", READ)
def test_they_are_inputs(read: str, made: str) -> None:
    check(read, made)


def test_a_dict_that_is_also_outside_is_looked_at_there() -> None:
    """The same dict, found outside: another call may bring another one."""
    held = {"batch": {"x": fg.ones(3)}}
    function = fg.jit(lambda batch: batch["x"] * 2.0 + held["batch"]["x"])
    for i in range(6):
        batch = held["batch"] if i % 3 == 0 else {"x": fg.full((3,), float(i))}
        fg.testing.assert_close(function(batch), batch["x"] * 2.0 + held["batch"]["x"])
        if i == 3:
            held["batch"]["x"] = fg.full((3,), 7.0)


def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of arguments count as found outside."""
    monkeypatch.setattr(Observer, "status", lambda self, value: _outside(self, value))
    with pytest.raises(AssertionError):
        check("subscripts", "a dict")


def _outside(observer: Observer, value: Any) -> str:
    status = observer._status.get(id(value), "unknown")
    return "outer" if status == "argument" else status
