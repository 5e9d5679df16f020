"""What C and LLVM leave undefined, against tables of what it is here: in eager, compiled, printed.

Lengths go from a tensor without dimensions over tails alone to whole vectors with a tail.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from kernel_checks import check, program_of

import fusegrad as fg
from fusegrad.compiler.kernel.dtypes import DTYPES
from fusegrad.compiler.llvm.ir_writer import Val, Writer, vector_type
from fusegrad.eager.core import dtypes

SHAPES = [(), *((n,) for n in range(1, 66))]
FLOATS = ("float32", "float64")
WHOLE = ("uint8", "int8", "int16", "int32", "int64")
SPECIAL = [
    *(np.nan, np.inf, -np.inf, 1e30, -1e30, 0.0, -0.0, 0.5, -0.5, 1.9, -1.9, 127.5, 128.0, -129.0, 255.9),
    *(256.0, 300.0, -1.0, -300.0, 40000.0, -40000.0, 70000.0, 2.0**31, -(2.0**31), 2.0**31 - 128, 3e9, -3e9),
    *(2.0**32, 2.0**32 + 512, 2.0**63, -(2.0**63), 2.0**62, 2.0**40 + 2.0**33, 2147483647.0, 2.0**31 + 5),
    2.0**40 + 77,
]
Function = Callable[..., Any]


def cut(number: float, dtype: str) -> int:
    """The table: whole numbers of 32 bits, or of 64 for int64 and bytes; the smallest is for all others."""
    bits = 64 if dtype in ("int64", "uint8") else 32
    whole = int(number) if abs(number) < 2.0 ** (bits - 1) else -(2 ** (bits - 1))
    return wrapped(whole, dtype)


def wrapped(number: int, dtype: str) -> int:
    info = np.iinfo(dtype)
    return (number - info.min) % 2**info.bits + info.min


def filled(shape: tuple[int, ...], dtype: str, turn: int) -> np.ndarray:
    """The special values one after the other, beginning with that of number `turn`."""
    with np.errstate(over="ignore"):
        return np.resize(np.roll(np.array(SPECIAL, dtype), -turn), shape)


def casts(x: fg.Tensor, kinds: tuple[str, ...] = WHOLE) -> tuple[fg.Tensor, ...]:
    return tuple(x.to(getattr(fg, kind)) for kind in kinds)


# What comes to a cast: read from memory, chosen, or NaN that LLVM can see coming.
ORIGINS: dict[str, Function] = {
    "read": lambda x: x,
    "chosen": lambda x: fg.where(x > 1, x, x - x),
    "power": lambda x: x**1.5,
}


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_as_integers(dtype: str, origin: str):
    for turn, shape in enumerate(SHAPES):
        x = filled(shape, dtype, turn)
        check_casts(ORIGINS[origin], fg.from_numpy(x), WHOLE)
        if shape:
            check_casts(ORIGINS[origin], fg.from_numpy(np.repeat(x, 2))[::2], WHOLE)
        for kind in WHOLE if turn % 16 < 2 else ():  # what nobody else reads LLVM looks through
            check_casts(ORIGINS[origin], fg.from_numpy(x), (kind,))


def check_casts(origin: Function, x: fg.Tensor, kinds: tuple[str, ...]) -> None:
    """Whether eager's and the compiled casts of what `origin` gives are the table's.

    Kernels round powers in other ways: there the casts of neighbours are right too.
    """
    program, inputs, expected = program_of(lambda x: casts(origin(x), kinds), x)
    arrays = program.run(inputs)
    found = [arrays[place] for place, _ in map(program.locate, program.graph.outputs)]
    floats = origin(x).numpy().ravel()
    for dtype, eager, compiled in zip(kinds, expected, found, strict=True):
        assert eager.reshape(-1).tolist() == [cut(v, dtype) for v in floats.tolist()], (dtype, floats)
        for value, ours in zip(floats, compiled.ravel().tolist(), strict=True):
            near = [value, np.nextafter(value, value.dtype.type(0)), np.nextafter(value, value * 2)]
            assert ours in [cut(float(v), dtype) for v in near], (dtype, value)


def test_a_conversion_that_may_give_anything_is_found(monkeypatch: pytest.MonkeyPatch):
    def poisoned(self: Writer, value: Val, dtype: str) -> Val:
        register = vector_type(DTYPES[dtype].register, value.lanes)
        return self.emit(f"fptosi {value} to {register}", dtype, value.lanes)

    monkeypatch.setattr(Writer, "_cut", poisoned)
    x = fg.from_numpy(filled((40,), "float32", 0))
    with pytest.raises(AssertionError):
        check_casts(lambda x: (x + 0) ** 1.5, x, ("int64",))


@pytest.mark.parametrize("dtype", FLOATS)
def test_printed_kernels_cut_alike(dtype: str):
    check(casts, fg.from_numpy(filled((40,), dtype, 0)))


@pytest.mark.parametrize("dtype", (*FLOATS, "float16", "complex64"))
def test_casts_where_numpy_gives_something_else(dtype: str, monkeypatch: pytest.MonkeyPatch):
    with np.errstate(over="ignore"):
        x = np.array(SPECIAL).astype(dtype)
    for kind in WHOLE:
        by_numpy = dtypes.converted(x, np.dtype(kind))
        monkeypatch.setattr(dtypes, "CUT_BY_NUMPY", False)
        assert dtypes.converted(x, np.dtype(kind)).tolist() == by_numpy.tolist()
        assert by_numpy.tolist() == [cut(v, kind) for v in x.real.tolist()]
        monkeypatch.undo()


@pytest.mark.parametrize("dtype", (*FLOATS, "float16"))
def test_pytorch_has_the_same_table(dtype: str):
    from oracle import torch

    for turn, shape in enumerate(SHAPES):
        x = filled(shape, dtype, turn)
        for kind in WHOLE:
            theirs = torch.tensor(x).to(getattr(torch, kind)).reshape(-1).tolist()
            assert theirs == [cut(v, kind) for v in x.ravel().tolist()], (kind, x)
            assert fg.tensor(x).to(getattr(fg, kind)).reshape(-1).tolist() == theirs


def test_numbers_that_no_integer_holds_are_refused():
    for number, dtype in ((float("nan"), fg.int64), (1e30, fg.int32), (300.0, fg.uint8)):
        with pytest.raises(RuntimeError, match=r"cannot be converted to .* without overflow"):
            fg.full((2,), number, dtype=dtype)
        with pytest.raises(RuntimeError, match=r"cannot be converted to .* without overflow"):
            fg.zeros(2, dtype=dtype).fill_(number)


# Whole numbers: what would not fit wraps around; shifts by too much, or by less than nothing, leave no bits.


def truncated(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def left(x: int, y: int, bits: int) -> int:
    return x << y if 0 <= y < bits else 0


def right(x: int, y: int, bits: int) -> int:
    return x >> y if 0 <= y < bits else -(x < 0)


PAIRS: dict[str, tuple[Function, Callable[[int, int, int], int]]] = {
    "add": (operator.add, lambda x, y, bits: x + y),
    "sub": (operator.sub, lambda x, y, bits: x - y),
    "mul": (operator.mul, lambda x, y, bits: x * y),
    "lshift": (operator.lshift, left),
    "rshift": (operator.rshift, right),
    "floor_divide": (operator.floordiv, lambda x, y, bits: x // y),
    "remainder": (operator.mod, lambda x, y, bits: x % y),
    "fmod": (fg.fmod, lambda x, y, bits: x - truncated(x, y) * y),
    "div": (lambda x, y: fg.div(x, y, rounding_mode="trunc"), lambda x, y, bits: truncated(x, y)),
}
SINGLES: dict[str, tuple[Function, Callable[[int], int]]] = {
    "neg": (operator.neg, lambda x: -x),
    "abs": (abs, abs),
    "sign": (fg.sign, lambda x: (x > 0) - (x < 0)),
    "square": (fg.square, lambda x: x * x),
    "cube": (lambda x: x**3, lambda x: x**3),
    "bool": (lambda x: x.bool(), bool),
}


def limits(dtype: str) -> list[int]:
    info = np.iinfo(dtype)
    values = {info.min, info.min + 1, -2, -1, 0, 1, 2, 7, info.bits - 1, info.bits, info.bits + 1, info.max}
    return sorted(v for v in values if info.min <= v <= info.max)


def answers(function: Function, *operands: np.ndarray) -> Iterator[np.ndarray]:
    """What eager gives, and what the jit does from its first call on."""
    inputs = [fg.from_numpy(x) for x in operands]
    yield function(*inputs).numpy()
    compiled = fg.jit(function)
    for _ in range(3):
        yield compiled(*inputs).numpy()


@pytest.mark.parametrize("dtype", WHOLE)
def test_whole_numbers_at_their_limits(dtype: str):
    values = limits(dtype)
    for name, (function, table) in SINGLES.items():
        for shape in ((), (len(values),), (65,)):
            x = np.resize(np.array(values, dtype), shape)
            for ours in answers(function, x):
                expected = [wrapped(table(v), dtype) for v in x.ravel().tolist()]
                assert ours.ravel().astype(dtype).tolist() == expected, name
    x, y = (a.ravel() for a in np.meshgrid(np.array(values, dtype), np.array(values, dtype)))
    for name, (function, table_of_two) in PAIRS.items():
        kept = slice(None) if name in ("add", "sub", "mul", "lshift", "rshift") else y != 0
        a, b = x[kept], y[kept]
        for ours in answers(function, a, b):
            pairs = zip(a.tolist(), b.tolist(), strict=True)
            expected = [wrapped(table_of_two(v, u, np.iinfo(dtype).bits), dtype) for v, u in pairs]
            assert ours.tolist() == expected, name


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod", "div"])
def test_division_of_whole_numbers_by_zero_is_refused(name: str):
    compiled = fg.jit(PAIRS[name][0])
    for _ in range(3):
        compiled(fg.tensor([1, 2]), fg.tensor([1, 2]))
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            compiled(fg.tensor([1, 2]), fg.tensor([1, 0]))
