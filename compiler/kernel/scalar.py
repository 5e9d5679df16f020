"""From an op's scalar expression to statements of the kernel IR."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from fusegrad.compiler.kernel.dtypes import DTYPES, is_float
from fusegrad.compiler.kernel.ir import ELEMENTARY, PRIMITIVES, TESTS, Compute, Progression, Statement
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.dtypes import FROM_NUMPY
from fusegrad.eager.core.sizes import Symbol

_FLOAT_ONLY = ELEMENTARY | {"div", "sqrt"}


class NotLowered(Exception):
    """An op (or dtype) that the kernel IR cannot say; the op is then run by NumPy."""


class ScalarBuilder:
    """What `scalar` expressions of op declarations are written against.

    Values are names of scalars; Python numbers may stand beside them. Methods named after the
    primitives append statements; the same statement is written once.
    dtypes: the dtype (short name) of every scalar named so far.
    """

    def __init__(self, names: itertools.count[int] | None = None) -> None:
        self.statements: list[Statement] = []
        self.dtypes: dict[str, str] = {}
        self._names = names or itertools.count()
        self._known: dict[Any, str] = {}

    def fresh(self, dtype: str) -> str:
        """A new scalar name of `dtype`."""
        name = f"t{next(self._names)}"
        self.dtypes[name] = dtype
        return name

    def emit(self, op: str, operands: Sequence[Any], dtype: str) -> str:
        """Append `op(operands)` (or find it) and give its name."""
        key = (op, tuple((type(o), repr(o)) for o in operands), dtype)
        name = self._known.get(key)
        if name is None:
            name = self._known[key] = self.fresh(dtype)
            self.statements.append(Compute(name, op, tuple(operands), dtype))
        return name

    def _dtype(self, operands: Sequence[Any]) -> str:
        for operand in operands:
            if isinstance(operand, str):
                return self.dtypes[operand]
        raise NotLowered("an operation on numbers alone")

    def floor_div(self, *operands: Any) -> str:
        """Of integers, which NumPy divides: by 0 there is an error. Floats have lowering rules."""
        raise NotLowered("a division of integers")

    remainder = floor_div

    def __getattr__(self, op: str) -> Any:
        if op not in PRIMITIVES:
            # A mistake in the op's declaration, and not something that kernels cannot say.
            raise AttributeError(f"kernels have no primitive {op!r}; PRIMITIVES in kernel/ir.py lists them")

        def primitive(*operands: Any) -> str:
            dtype = self._dtype(operands)
            if op in _FLOAT_ONLY and not is_float(dtype):
                raise NotLowered(f"{op} of {dtype}")
            converted = [self._number(o, dtype) for o in operands]
            return self.emit(op, converted, "bool" if op in TESTS else dtype)

        return primitive

    @staticmethod
    def _number(value: Any, dtype: str) -> Any:
        """A Python number as one of `dtype` writes it."""
        if isinstance(value, str):
            return value
        if is_float(dtype):
            return float(value)
        if (isinstance(value, float) and not value.is_integer()) or (dtype == "bool" and value not in (0, 1)):
            raise NotLowered(f"{value} in {dtype}")
        return bool(value) if dtype == "bool" else int(value)

    def select(self, condition: str, x: Any, y: Any) -> str:
        """`x` where `condition`, else `y`."""
        dtype = self._dtype([x, y])
        return self.emit("select", [condition, self._number(x, dtype), self._number(y, dtype)], dtype)

    def truth(self, x: str) -> str:
        """Whether `x` is nonzero (NaN is)."""
        return x if self.dtypes[x] == "bool" else self.ne(x, 0)

    def cast(self, x: str, dtype: Any) -> str:
        """`x` converted to `dtype` (a DType or short name)."""
        target = dtype if isinstance(dtype, str) else dtypes.as_dtype(dtype).short
        if target not in DTYPES:
            raise NotLowered(f"{target} in kernels")
        if self.dtypes[x] == target:
            return x
        return self.truth(x) if target == "bool" else self.emit("cast", [x], target)

    def constant(self, value: Any, dtype: Any) -> str:
        """A number as a scalar of `dtype`."""
        return self.progression(None, value, 0, dtype)

    def progression(self, axis: str | None, start: Any, step: Any, dtype: Any) -> str:
        """`start + step * axis`."""
        short = dtypes.as_dtype(dtype).short
        if short not in DTYPES:
            raise NotLowered(f"{short} in kernels")
        if axis is not None and any(isinstance(v, float) for v in (start, step)):
            raise NotLowered("arange of fractions")
        # They are part of the kernel's text.
        start, step = (v.number() if isinstance(v, Symbol) else v for v in (start, step))
        key = ("progression", axis, repr(start), repr(step), short)
        name = self._known.get(key)
        if name is None:
            name = self._known[key] = self.fresh(short)
            self.statements.append(Progression(name, axis, start, step, short))
        return name


def short_name(dtype: Any) -> str:
    """The IR's name of a NumPy dtype; raises NotLowered where kernels do not have it."""
    short = FROM_NUMPY[dtype].short
    if short not in DTYPES:
        raise NotLowered(f"{short} in kernels")
    return short


def identity(combine: str, dtype: str) -> Any:
    """The number that a reduction starts with."""
    if combine in ("add", "or"):
        return 0.0 if is_float(dtype) else 0
    if combine in ("mul", "and"):
        return 1.0 if is_float(dtype) else 1
    if is_float(dtype):
        return -math.inf if combine == "max" else math.inf
    if dtype == "bool":
        return 0 if combine == "max" else 1
    bits = 8 * DTYPES[dtype].size
    low, high = (0, 2**bits - 1) if DTYPES[dtype].kind == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return low if combine == "max" else high
