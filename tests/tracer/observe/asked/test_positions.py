"""Whole numbers that are others at each call, in indices of tensors: eager and jit agree, replays follow."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from planted import finds

import fusegrad as fg
from fusegrad.tracer.observe.arrays import positions
from fusegrad.tracer.observe.numbers import Numbers

# Most are within 20 rows; some slices of them are not, two are from behind, and one is out of range.
NUMBERS = [2, 3, 4, 5, 7, 11, 2, 9, 18, 19, -1, -3, 25, 6, 12, 8, 3]

READS: dict[str, Callable[[Any, int], Any]] = {
    "a row": lambda x, i: x[i] * 2,
    "a row from behind": lambda x, i: x[-i - 1] * 2,
    "a column": lambda x, i: x[:, i % 6] + 1,
    "the last dimension": lambda x, i: x[..., i % 5] + 1,
    "two numbers": lambda x, i: x[i, :, i % 5] + 1,
    "a slice": lambda x, i: x[i : i + 4] * 2,
    "a slice within": lambda x, i: x[:, i % 4 : i % 4 + 2].sum(1),
    "a slice of the last dimension": lambda x, i: x[..., i % 3 : i % 3 + 2].exp(),
    "two slices": lambda x, i: x[i : i + 3, :, i % 3 : i % 3 + 2] * 3,
    "a slice and a new dimension": lambda x, i: x[None, i : i + 2] * 2,
    "a slice that ends there": lambda x, i: x[i - 2 : i] * 2,
    "to the end": lambda x, i: x[i:].sum(),
    "from the begin": lambda x, i: x[:i].sum(),
    "every other": lambda x, i: x[i : i + 4 : 2] * 2,
    "a batch": lambda x, i: (x[i * 2 : (i + 1) * 2] * 2).sum(),
    "rows after each other": lambda x, i: x[i][i % 6] + x[i + 1].sum(),
    "a part of what was computed": lambda x, i: (x * 2)[i : i + 2] + (x + 1)[i],
    "rows of a loop": lambda x, i: sum(x[i + k] * k for k in range(3)),
    "windows of a loop": lambda x, i: sum((x[i + k : i + k + 2] * k).sum() for k in range(3)),
}


def _row(x: Any, i: int) -> Any:
    x[i] = x[0] * 2
    return x.sum()


def _rows(x: Any, i: int) -> Any:
    x[i : i + 2] = x[0] * 2
    return x * 2


def _number(x: Any, i: int) -> Any:
    x[:, i % 6] = 3
    return x * 2


def _within(x: Any, i: int) -> Any:
    x[:, i % 6, 1:3] = x[:, 0, :2] * 1
    return x * 2


def _last(x: Any, i: int) -> Any:
    x[..., i % 5] = x[0, :, 0] * 1
    return x * 2


def _behind_a_new_dimension(x: Any, i: int) -> Any:
    x[None, i : i + 3, 1:3] = x[:3, 1:3] * 3
    return x * 2


def _of_its_own(x: Any, i: int) -> Any:
    y = x * 1
    y[i] = x[i - 1]
    return (y * y).sum()


def _added(x: Any, i: int) -> Any:
    x[i] += 1.0
    return x * 2


def _row_written_behind(x: Any, i: int) -> Any:
    y = x[i]
    x.add_(1)
    return y * 2


def _part_that_is_written(x: Any, i: int) -> Any:
    x[i : i + 2].mul_(0.5)
    return x.sum()


def _read_and_written(x: Any, i: int) -> Any:
    y = x[i : i + 2]
    z = y * 2
    x[i] = 0.0
    return z + y


def _of_another_shape(x: Any, i: int) -> Any:
    x[i] = x[:, 0, 0] * 1
    return x * 1


WRITES = {
    f.__name__[1:].replace("_", " "): f
    for f in (
        _row, _rows, _number, _within, _last, _behind_a_new_dimension, _of_its_own, _added,
        _row_written_behind, _part_that_is_written, _read_and_written, _of_another_shape,
    )
}  # fmt: skip
PROGRAMS = READS | WRITES
SOURCES = ("an argument", "a draw", "a tensor", "an attribute")


class _Held:
    number = 0


def _from(source: str, function: Callable[[Any, int], Any], held: _Held) -> Callable[[Any, Any], Any]:
    if source == "a draw":
        return lambda x, i: function(x, random.randint(2, 12))
    if source == "a tensor":
        return lambda x, i: function(x, int(i))
    if source == "an attribute":
        return lambda x, i: function(x, held.number)
    return function


def history(name: str, source: str, derived: bool, jitted: bool) -> tuple[list[Any], Any]:
    """What each call gives, and leaves in its argument; and the function."""
    random.seed(3)
    held = _Held()
    function: Any = _from(source, PROGRAMS[name], held)
    if jitted:
        function = fg.jit(function)
    found: list[Any] = []
    for number in NUMBERS:
        x = fg.tensor(np.random.default_rng(1).standard_normal((20, 6, 5)))
        if derived:
            x.requires_grad_()
        held.number = number
        try:
            y = function(x, fg.tensor(number) if source == "a tensor" else number)
            if derived:
                (y * y).sum().backward()
                found.append(x.grad.numpy())
            found += [y.detach().clone().numpy(), x.detach().numpy()]
        except (IndexError, RuntimeError) as error:
            found.append(f"{type(error).__name__}: {str(error).splitlines()[0]}")
    return found, function


def check(name: str, source: str, derived: bool = False) -> Any:
    """Raises where jit does another thing; gives the jitted function."""
    right, _ = history(name, source, derived, False)
    found, function = history(name, source, derived, True)
    assert len(right) == len(found)
    for one, other in zip(found, right, strict=True):
        if isinstance(other, str):
            assert one == other
        else:
            np.testing.assert_allclose(one, other, 1e-11, 1e-12)
    return function


def cases() -> Iterator[tuple[str, str, bool]]:
    for name in PROGRAMS:
        for source in SOURCES:
            yield name, source, False
            if name in READS or name == "of its own":
                yield name, source, True


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("name", "source", "derived"), [*cases()])
def test_numbers_in_indices(name: str, source: str, derived: bool) -> None:
    check(name, source, derived)


FOLLOWED = (
    "a row",
    "a column",
    "two numbers",
    "a slice within",
    "a slice of the last dimension",
    "row",
    "number",
)


@pytest.mark.parametrize("name", FOLLOWED)
@pytest.mark.parametrize("source", ["an argument", "a draw", "a tensor"])
def test_replays_follow_numbers_in_indices(name: str, source: str) -> None:
    function = check(name, source)
    assert function.stats.compiles <= 3 and function.stats.compiled_calls >= 11


def test_slices_whose_begin_is_not_asked_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    compute = Numbers.compute

    def unasked(self: Numbers, function: Any, operands: Any) -> Any:
        is_asked = function is positions.operator.ge
        return True if is_asked else compute(self, function, operands)

    monkeypatch.setattr(Numbers, "compute", unasked)
    assert finds(check, "a slice", "an argument")


def test_lengths_that_are_not_known_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def longer(x: Any, i: int) -> Any:
        return x[i : i + 1 + i % 2] * 2

    monkeypatch.setitem(PROGRAMS, "longer", longer)
    check("longer", "an argument")
    look = Numbers.look
    monkeypatch.setattr(Numbers, "look", lambda self, *x: None if x in ((1,), (2,)) else look(self, *x))
    assert finds(check, "longer", "an argument")
