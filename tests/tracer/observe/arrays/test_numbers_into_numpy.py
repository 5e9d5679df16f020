"""NumPy's functions of numbers that change from call to call: arguments, attributes, items, globals, counts.

    beta = 1 - np.exp(-step / 20)

A replay must call the function again, whatever it is and wherever its number comes from.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.tracer.observe.arrays import calls, known

STATE = SimpleNamespace(step=0.0)
ITEMS = {"step": 0.0}
STEP = 0.0
CALLS = 6


def _one(x: float) -> tuple[Any, ...]:
    return (x,)


def _list(x: float) -> tuple[Any, ...]:
    return ([x, 0.5, 2.0],)


def _with_one(x: float) -> tuple[Any, ...]:
    return x, 1.5


def _bounded(x: float) -> tuple[Any, ...]:
    return x, 0.2, 3.0


def _list_and_number(x: float) -> tuple[Any, ...]:
    return x, [0.0, 10.0], [0.0, 1.0]


WAYS = (_one, _list, _with_one, _bounded, _list_and_number)


def _number(found: Any) -> float:
    """One number of all that a function gives."""
    parts = found if type(found) in (list, tuple) else (found,)
    return sum(float(np.sum(part)) for part in parts)


def _fitting() -> Iterator[Any]:
    """The functions that are followed, with the ways to give them a number by which they give another."""
    for function in calls._POSITIONAL:
        for way in WAYS:
            try:
                with np.errstate(all="raise"), warnings.catch_warnings():
                    warnings.simplefilter("error")
                    found = [_number(function(*way(step / 3 + 0.1))) for step in range(CALLS)]
            except Exception:
                continue  # no function of such arguments
            if len({*found}) > 1 and np.isfinite(found).all():
                yield pytest.param(function, way, id=f"{function.__name__}{way.__name__}")


def _is_followed(function: Callable[..., Any], way: Callable[[float], tuple[Any, ...]]) -> None:
    x = fg.ones(3)

    def by_argument(step: int) -> Any:
        return x * _number(function(*way(step / 3 + 0.1)))

    jitted = fg.jit(by_argument)
    for step in range(CALLS):
        found, expected = jitted(step), by_argument(step)
        assert found.tolist() == expected.tolist(), (step, found, expected)


FITTING = [*_fitting()]


def test_there_are_many():
    assert len(FITTING) > 150


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("function", "way"), FITTING)
def test_functions_of_an_argument(function: Callable[..., Any], way: Callable[[float], tuple[Any, ...]]):
    _is_followed(function, way)


def _set_global(step: float) -> None:
    global STEP
    STEP = step


SOURCES: dict[str, tuple[Callable[[float], None], Callable[[Any], Any]]] = {
    "attribute": (lambda step: setattr(STATE, "step", step), lambda x: x * np.exp(-STATE.step / 20)),
    "item": (lambda step: ITEMS.update(step=step), lambda x: x * np.clip(ITEMS["step"] / 4, 0.0, 1.0)),
    "global": (_set_global, lambda x: x * np.minimum(STEP, 4)),
    "of a list": (_set_global, lambda x: x * np.mean([STEP, 1.0])),
    "twice": (_set_global, lambda x: x * float(np.sqrt(np.float64(STEP)))),
    "with an array": (_set_global, lambda x: x * np.interp(STEP, np.arange(3) * 5.0, [0.0, 1.0, 4.0])),
    "decides": (_set_global, lambda x: x * 2 if np.floor(STEP / 3) == 1 else x + np.floor(STEP / 3)),
}


@pytest.mark.parametrize("name", SOURCES)
def test_wherever_the_number_comes_from(name: str):
    set_to, function = SOURCES[name]
    jitted, x = fg.jit(function), fg.ones(3)
    for step in (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 2.0, 8.0):
        set_to(step)
        assert jitted(x).tolist() == function(x).tolist(), (step, str(jitted.explain()))


def test_a_function_that_is_not_called_again_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(known, "number", lambda observer, symbol, found: found)
    with pytest.raises(AssertionError):
        _is_followed(np.exp, _one)
