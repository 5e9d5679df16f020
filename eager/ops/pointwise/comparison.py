"""Comparisons, logic, bits, and choosing one operand or the other, element by element."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import ANY, BITS, ORDER, REAL, TEST, WEAK, Elementwise
from fusegrad.eager.core.large import LARGE
from fusegrad.eager.core.names import renamed
from fusegrad.eager.core.op import Params, bind, describe
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import method, public
from fusegrad.eager.ops.pointwise.declare_pointwise import binary, operand, unary

_BOOL = np.dtype(bool)

# Comparisons and logic.

eq = binary("eq", np.equal, TEST, "eq", None, "x == y.", operator="eq", reflected=False, numbers="y")
ne = binary(
    "ne",
    np.not_equal,
    TEST,
    "ne",
    None,
    "x != y.",
    operator="ne",
    reflected=False,
    numbers="y",
    aliases=("not_equal",),
)
lt = binary(
    "lt", np.less, ORDER, "lt", None, "x < y.", operator="lt", reflected=False, numbers="y", aliases=("less",)
)
le = binary(
    "le",
    np.less_equal,
    ORDER,
    "le",
    None,
    "x <= y.",
    operator="le",
    reflected=False,
    numbers="y",
    aliases=("less_equal",),
)
gt = binary(
    "gt",
    np.greater,
    ORDER,
    "gt",
    None,
    "x > y.",
    operator="gt",
    reflected=False,
    numbers="y",
    aliases=("greater",),
)
ge = binary(
    "ge",
    np.greater_equal,
    ORDER,
    "ge",
    None,
    "x >= y.",
    operator="ge",
    reflected=False,
    numbers="y",
    aliases=("greater_equal",),
)
logical_and = binary(
    "logical_and",
    np.logical_and,
    TEST,
    lambda b, x, y: b.and_(b.truth(x), b.truth(y)),
    None,
    "Both nonzero.",
    numbers="",
)
logical_or = binary(
    "logical_or",
    np.logical_or,
    TEST,
    lambda b, x, y: b.or_(b.truth(x), b.truth(y)),
    None,
    "Either nonzero.",
    numbers="",
)
logical_xor = binary(
    "logical_xor",
    np.logical_xor,
    TEST,
    lambda b, x, y: b.xor(b.truth(x), b.truth(y)),
    None,
    "One nonzero.",
    numbers="",
)
logical_not = unary("logical_not", np.logical_not, TEST, lambda b, x: b.not_(b.truth(x)), None, "Zero.")
bitwise_and = binary("bitwise_and", np.bitwise_and, BITS, "and_", None, "x & y.", operator="and")
bitwise_or = binary("bitwise_or", np.bitwise_or, BITS, "or_", None, "x | y.", operator="or")
bitwise_xor = binary("bitwise_xor", np.bitwise_xor, BITS, "xor", None, "x ^ y.", operator="xor")
bitwise_not = unary("bitwise_not", np.invert, BITS, "not_", None, "~x.", operator="invert")
isnan = unary("isnan", np.isnan, TEST, lambda b, x: b.ne(x, x), None, "Whether NaN.", inplace=False)
isinf = unary(
    "isinf", np.isinf, TEST, lambda b, x: b.eq(b.abs(x), math.inf), None, "Whether ±infinity.", inplace=False
)
isfinite = unary(
    "isfinite",
    np.isfinite,
    TEST,
    lambda b, x: b.lt(b.abs(x), math.inf),
    None,
    "Whether finite.",
    inplace=False,
)

# Choosing. Of two zeros NumPy and kernels take the second, whatever the signs; in half precision the first.


def at_least(x: Any, low: Any, out: Any = None) -> Any:
    """`x`, or `low` where it is below that; a zero keeps its own sign beside a zero. out: where to put it."""
    if type(low) in WEAK and not low and x.dtype.char in "fd" and math.copysign(1, low) > 0:
        if x.size <= FEW:
            low = ZEROS[x.dtype.char]  # to make that of a number takes as long as all else
        elif x.size <= LARGE and x.flags.c_contiguous:
            low = _zeros(x.dtype)[: x.size].reshape(x.shape)  # NumPy has vectors for two arrays alone
    return np.maximum(x, low, out=out) if x.dtype.char == "e" else np.maximum(low, x, out=out)


# Up to so many elements NumPy's calls take longer than what they do.
FEW = 128


@functools.cache
def _zeros(dtype: np.dtype) -> np.ndarray:
    """As many zeros as arrays have that are not large."""
    zeros = np.zeros(LARGE, dtype)
    zeros.flags.writeable = False
    return zeros


ZEROS = {char: np.zeros((), char) for char in "fd"}  # which nobody writes into


def at_most(x: Any, high: Any) -> Any:
    """`x`, or `high` where it is above that; a zero keeps its own sign beside a zero."""
    return np.minimum(x, high) if x.dtype.char == "e" else np.minimum(high, x)


maximum = binary(
    "maximum",
    np.maximum,
    REAL,
    "maximum",
    (lambda g, x, y: _share(g, x, y, lt), lambda g, x, y: _share(g, y, x, lt)),
    "The larger; NaN if either is.",
    numbers="",
    inplace=False,
)
minimum = binary(
    "minimum",
    np.minimum,
    REAL,
    "minimum",
    (lambda g, x, y: _share(g, x, y, gt), lambda g, x, y: _share(g, y, x, gt)),
    "The smaller; NaN if either is.",
    numbers="",
    inplace=False,
)


def _share(g: Tensor, x: Any, y: Any, loses: Callable[..., Tensor]) -> Tensor:
    """The part of the gradient that goes to `x`: none where it loses, half where both are equal."""
    return where(loses(x, y), 0.0, where(eq(x, y), g * 0.5, g))


class _Where(Elementwise):
    """Most gradient rules choose between floats and 0. For that there is a short way, if all lies in rows."""

    def evaluate(self, args: Sequence[Any], params: Params) -> Any:
        condition, x, y = args
        is_first = isinstance(x, Tensor)
        chosen, other = (x, y) if is_first else (y, x)
        if isinstance(condition, Tensor) and isinstance(chosen, Tensor):
            test, array = condition.array, chosen.array
            dtype = array.dtype
            if (
                test.dtype is _BOOL
                and dtype.kind == "f"
                and type(other) is float
                and not other
                and test.flags.c_contiguous
                and array.flags.c_contiguous
            ):
                if array.size > FEW and math.copysign(1, other) > 0:
                    return _kept_bits(test, array, is_first)
                zero = dtype.type(other)
                return np.where(test, array, zero) if is_first else np.where(test, zero, array)
        return self._evaluate_mixed(args, params)


def _kept_bits(test: np.ndarray, array: np.ndarray, kept: bool) -> np.ndarray:
    """Floats where a test comes out as `kept`, elsewhere 0: `np.where` takes a jump for each element, which
    costs most where these are guessed wrong.
    """
    bits = _BITS[array.itemsize]
    mask = test.astype(bits)
    mask = np.negative(mask, mask) if kept else np.subtract(mask, 1, mask)
    found: np.ndarray = np.bitwise_and(array.view(bits), mask)
    return found.view(array.dtype)


_BITS = {2: np.int16, 4: np.int32, 8: np.int64}


_where = _Where(
    "where",
    "condition x y",
    np.where,
    ANY,
    "select",
    {
        "condition": None,
        "x": lambda g, condition: ops.where(condition, g, 0.0),
        "y": lambda g, condition: ops.where(condition, 0.0, g),
    },
    data=1,
)


@public
def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """`input` where `condition` is true, else `other`; without both, the places where it is true.

    Source: `torch.where`.

    >>> import fusegrad as fg
    >>> x = fg.tensor([-1.0, 2.0])
    >>> fg.where(x > 0, x, 0.0)
    tensor([0., 2.])
    """
    if input is None and other is None:
        return ops.nonzero(condition, as_tuple=True)
    if isinstance(condition, Tensor) and condition.array.dtype.char not in "?B":
        raise failure(
            RuntimeError,
            f"where expected condition to be a boolean tensor, but got {describe(condition)}; compare it, or "
            "write condition.bool()",
        )
    x, y = operand(input), operand(other)
    for value in (x, y):
        if not isinstance(value, Tensor) and not (type(value) is not complex and -127 <= value <= 127):
            kind = dtypes.result_type([v.array if isinstance(v, Tensor) else v for v in (x, y)])
            # Half precision takes what is too large for infinity, as it does in PyTorch.
            dtypes.held(value, kind if dtypes.opmath(kind) is kind else dtypes.float64.numpy)
    return bind(_where, (operand(condition), x, y))


def _where_of(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """The tensor where `condition` is true, else `other`. Source: `torch.Tensor.where`."""
    made: Tensor = where(condition, self, other)
    return made


method(name="where")(renamed(_where_of, "where"))
