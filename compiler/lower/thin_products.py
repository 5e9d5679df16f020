"""Products with short sides: sums of what is multiplied element by element, in nests like any other.

BLAS, and our own kernel for products, are made for sides of dozens and more. A thousand products of 3×3
matrices, or of a thousand rows with a 3×3 matrix, are nests with short axes, which are unrolled: nothing is
packed, nothing is called, and what comes before and after is computed in the same loop.

    v0: f32[1000, 3, 3] = matmul(x, y)

becomes

    l0: f32[1000, 3, 3, 1] = reshape(x, shape=(1000, 3, 3, 1))
    l1: f32[1000, 1, 3, 3] = reshape(y, shape=(1000, 1, 3, 3))
    l2: f32[1000, 3, 3, 3] = mul(l0, l1)
    l3: f32[1000, 3, 3] = sum(l2, dim=(2,), keepdim=False)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fusegrad.compiler.lower.rewriter import Rewriter
from fusegrad.tracer.ir.graph import Value
from fusegrad.tracer.ir.symbolic_sizes import likely

# Of a batch of at least so many products those with so few multiplications each are nests.
BATCH, WORK_OF_EACH = 64, 64
# Of single products those with one side of at least so many, if the others have so few elements together, and
# those of two vectors with so few multiplications.
LONG_SIDE, SHORT_SIDES, FEW = 128, 16, 64


def _matmul(b: Rewriter, x: Value, y: Value) -> Value | None:
    """A product of matrices, or of batches of them, of which only one side or the batch is long; and of short
    vectors.
    """
    if x.dtype.kind != "f":
        return None
    if len(x.shape) == 1 == len(y.shape):
        return b.op("sum", b.op("mul", x, y), dim=(0,), keepdim=False) if _are_few(x.shape, FEW) else None
    if len(x.shape) < 2 or len(y.shape) < 2:
        return None
    (rows, inner), columns = x.shape[-2:], y.shape[-1]
    if not is_thin(x.shape[:-2] + y.shape[:-2], rows, inner, columns):
        return None
    left = b.reshape(x, (*x.shape, 1))
    right = b.reshape(y, (*y.shape[:-2], 1, *y.shape[-2:]))
    product = b.op("mul", left, right)
    return b.op("sum", product, dim=(len(product.shape) - 2,), keepdim=False)


def is_thin(batch: Sequence[Any], rows: Any, inner: Any, columns: Any) -> bool:
    """Whether a nest does such products sooner than what is made for large ones."""
    if not all(likely(n) for n in (*batch, rows, inner, columns)):
        return False
    if likely(math.prod(batch)) >= BATCH:
        return _are_few((rows, inner, columns), WORK_OF_EACH)
    alone = likely(math.prod(batch)) == 1
    by_rows = likely(rows) >= LONG_SIDE and _are_few((inner, columns), SHORT_SIDES)
    by_inner = likely(inner) >= LONG_SIDE and _are_few((rows, columns), SHORT_SIDES)
    of_vectors = _are_few((rows, inner, columns), FEW) and 1 in (inner, rows * columns)
    return alone and (by_rows or by_inner or of_vectors)


def _are_few(sides: Sequence[Any], most: int) -> bool:
    """Whether sides are numbers, known when the kernel is compiled, that come to no more than `most`."""
    return all(isinstance(n, int) for n in sides) and math.prod(sides) <= most


RULES = {"matmul": _matmul}
