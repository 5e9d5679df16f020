"""Python numbers that become elements of a tensor: which dtype refuses which, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.eager.core import dtypes

Function = Callable[[Any, Any, Any], Any]
DTYPES = "bool uint8 int8 int16 int32 int64 float16 float32 float64".split()
NUMBERS = [
    *(0, 2, -1, 127, 128, 256, -129, -257, 2**15, 2**16, 2**31 - 1, 2**31, -(2**31) - 1, 2**40, 2**63 - 1),
    *(2**63, 2**64, -(2**63) - 1, 2**70, 2**130, 10**400, True),
    *(1.5, -1.5, 300.7, 65504.0, 1e5, 1e10, 1e20, 3.4e38, 3.5e38, 1e300, -1e300, np.inf, -np.inf, np.nan),
]


def written(write: Callable[[Any, Any, Any], Any]) -> Function:
    def function(library: Any, x: Any, number: Any) -> Any:
        y = x.clone()
        write(library, y, number)
        return y

    return function


def part(index: Callable[[Any, Any], Any]) -> Function:
    return written(lambda library, y, number: y.__setitem__(index(library, y), number))


# Numbers that become elements, or bounds, as they are.
FILLED: dict[str, Function] = {
    "full": lambda library, x, n: library.full((2,), n, dtype=x.dtype),
    "full of the default": lambda library, x, n: library.full((2,), n),
    "full of nothing": lambda library, x, n: library.full((0,), n, dtype=x.dtype),
    "full_like": lambda library, x, n: library.full_like(x, n),
    "new_full": lambda library, x, n: x.new_full((2,), n),
    "fill_": written(lambda library, y, n: y.fill_(n)),
    "fill": lambda library, x, n: library.fill(x, n),
    "constant_": lambda library, x, n: library.nn.init.constant_(x.clone(), n),
    "masked_fill": lambda library, x, n: x.masked_fill(x > 0, n),
    "masked_fill_": written(lambda library, y, n: y.masked_fill_(y > 0, n)),
    "index_fill": lambda library, x, n: x.index_fill(0, library.tensor([0]), n),
    "scatter": lambda library, x, n: x.scatter(0, library.tensor([0]), n),
    "clamp max": lambda library, x, n: x.clamp(max=n),
    "clamp min": lambda library, x, n: x.clamp(min=n),
    "clamp": lambda library, x, n: x.clamp(n, n),
    "clamp_min": lambda library, x, n: library.clamp_min(x, n),
    "where": lambda library, x, n: library.where(x > 0, x, n),
    "where, first": lambda library, x, n: library.where(x > 0, n, x),
    "an element": part(lambda library, y: 0),
    "a slice": part(lambda library, y: slice(2)),
    "a mask": part(lambda library, y: y > 0),
    "places": part(lambda library, y: library.tensor([0, 2])),
    "tensor": lambda library, x, n: library.tensor(n, dtype=x.dtype),
    "tensor of many": lambda library, x, n: library.tensor([1, n], dtype=x.dtype),
    "tensor of the default": lambda library, x, n: library.tensor(n),
    "many of the default": lambda library, x, n: library.tensor([n, 1]),
    "new_tensor": lambda library, x, n: x.new_tensor([n]),
}
# Numbers that the elements are computed with, of which some wrap around.
COMPUTED: dict[str, Function] = {
    "add": lambda library, x, n: x + n,
    "mul": lambda library, x, n: x * n,
    "sub, reflected": lambda library, x, n: n - x,
    "add alpha": lambda library, x, n: library.add(x, x, alpha=n),
    "index_add alpha": lambda library, x, n: x.index_add(0, library.tensor([0]), x[:1], alpha=n),
    "addcmul": lambda library, x, n: library.addcmul(x, x, x, value=n),
    "addmm beta": lambda library, x, n: library.addmm(x[None], x[None, :1], x[None], beta=n),
    "leaky_relu": lambda library, x, n: library.nn.functional.leaky_relu(x, n),
    "threshold": lambda library, x, n: library.nn.functional.threshold(x, n, 0),
    "softplus": lambda library, x, n: library.nn.functional.softplus(x, n),
}
# What differs for other reasons than that a number does not fit.
APART = {
    ("add", "bool", 2**63),  # PyTorch makes a uint64 of it, which mixes with no bools
    ("mul", "bool", 2**63),
    ("where", "bool", 2**63),
    ("where, first", "bool", 2**63),
}


def outcome(function: Callable[[Any, Any], Any], x: Any, number: Any) -> Any:
    """The values, or the kind of error."""
    try:
        result = function(x, number)
    except (RuntimeError, OverflowError, ValueError) as error:
        return type(error)
    return [str(result.dtype), np.nan_to_num(np.array(result.tolist(), float), nan=77.5).tolist()]


def operand(library: Any, dtype: str) -> Any:
    values = [1, 0, 1] if dtype == "bool" else [1, 7, 100] if dtype == "uint8" else [1, -7, 100]
    return library.tensor(values, dtype=getattr(library, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FILLED | COMPUTED)
def test_numbers_are_refused_as_pytorch_refuses_them(name: str, dtype: str):
    function = (FILLED | COMPUTED)[name]
    for number in NUMBERS:
        if (name, dtype, number) in APART:
            continue
        theirs = outcome(lambda x, n: function(torch, x, n), operand(torch, dtype), number)
        ours = outcome(lambda x, n: function(fg, x, n), operand(fg, dtype), number)
        assert isinstance(ours, type) == isinstance(theirs, type), (number, theirs, ours)
        if isinstance(theirs, type):
            # What a number is computed with may be refused for other reasons, and first.
            assert name in COMPUTED or dtype == "bool" or issubclass(ours, theirs), (number, theirs, ours)
        else:
            assert ours[0] == theirs[0], (number, theirs, ours)
            np.testing.assert_allclose(ours[1], theirs[1], rtol=2e-3, err_msg=str(number))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32"])
@pytest.mark.parametrize("name", FILLED)
def test_compiled_code_refuses_them_too(name: str, dtype: str):
    """Whether the number is a constant, or another one in each call."""
    function = FILLED[name]
    varied = fg.jit(lambda x, n: function(fg, x, n))
    for number in (1, 2, 3, 4, 1.5, 2.5, 3.5, 4.5, 5, 6, 7.5, 8.5, *NUMBERS):
        eager = outcome(lambda x, n: function(fg, x, n), operand(fg, dtype), number)
        assert outcome(varied, operand(fg, dtype), number) == eager, number
    for number in (2**40, -1, 1e300, np.nan):
        eager = outcome(lambda x, n: function(fg, x, n), operand(fg, dtype), number)
        fixed = fg.jit(lambda x, n: function(fg, x, number))  # noqa: B023
        for _ in range(3):
            assert outcome(fixed, operand(fg, dtype), None) == eager, number


def test_numbers_that_nobody_checks_are_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dtypes, "holds", lambda dtype, low, high: True)
    for name in ("full", "clamp", "where", "an element", "tensor"):
        with pytest.raises(AssertionError):
            test_numbers_are_refused_as_pytorch_refuses_them(name, "float32" if name != "tensor" else "int8")
