"""Pieces of what is computed element by element, along dimensions, and of short products; see `pieces.py`."""

from __future__ import annotations

import math

from fusegrad.compiler.base.assemble_op import places
from fusegrad.compiler.lower.pieces import (
    MOST,
    OPS,
    Links,
    Pieces,
    Where,
    broadcast,
    is_apart,
    piece_shape,
)
from fusegrad.compiler.lower.thin_products import is_thin
from fusegrad.eager.core.families import Reduction
from fusegrad.tracer.ir.graph import Equation, Value

# Products of single matrices, of 3 x 3 or less, with so few multiplications are sums of products of elements.
FEW_PRODUCTS = 27

FOLDS = {
    "add": "add",
    "mul": "mul",
    "max": "maximum",
    "min": "minimum",
    "or": "logical_or",
    "and": "logical_and",
}


def elementwise_links(equation: Equation) -> Links:
    shape = equation.output.shape
    pairs = []
    for number, operand in enumerate(equation.inputs):
        if isinstance(operand, Value):
            extra = len(shape) - len(operand.shape)
            pairs += [
                (number, d, d + extra) for d, n in enumerate(operand.shape) if type(n) is not int or n != 1
            ]
    return Links(pairs)


def elementwise(b: Pieces, equation: Equation, where: Where) -> Value:
    operands = [broadcast(b, v, where) if isinstance(v, Value) else v for v in equation.inputs]
    shape = piece_shape(equation.output.shape, where)
    if equation.op is OPS["add"] and (same := b.sum_with_zero(operands, equation.output.dtype)) is not None:
        return b.op("expand", same, shape=shape) if same.shape != shape else same
    return b.equation(equation.op, operands, equation.params)


def _reduced(equation: Equation) -> list[int]:
    dim, rank = equation.params["dim"], len(equation.inputs[0].shape)
    return [*range(rank)] if dim is None else [*dim]


def reduction_links(equation: Equation) -> Links:
    reduced = _reduced(equation)
    kept = [d for d in range(len(equation.inputs[0].shape)) if d not in reduced]
    places_ = kept if equation.params["keepdim"] else range(len(kept))
    return Links([(0, d, at) for d, at in zip(kept, places_, strict=True)], [(0, d) for d in reduced])


def reduction(b: Pieces, equation: Equation, where: Where) -> Value:
    """Over short dimensions one after the other, then along the others."""
    (x,), reduced, keeps = equation.inputs, _reduced(equation), equation.params["keepdim"]
    assert isinstance(equation.op, Reduction) and equation.op.combine is not None
    combine, dtype = equation.op.combine, equation.output.dtype
    apart = [d for d in b.axes.get(x, ()) if d in reduced]
    given = iter(where)
    base: list[int | None] = [None] * len(x.shape)
    for d in range(len(x.shape)):
        if d not in reduced:
            base[d] = next(given)
        elif keeps:
            next(given)
    pieces = []
    for index in places(x.shape, apart):
        at = [*base]
        for d, number in zip(apart, index, strict=True):
            at[d] = number
        pieces.append(b.of(x, tuple(at)))
    if apart:
        pieces = [b.cast(piece, dtype) for piece in pieces]
        if combine == "add" and dtype.kind == "f":
            pieces[0] = b.op("add", pieces[0], 0)  # which -0 does not survive, as in longer sums
    found = b.folded(FOLDS[combine], pieces)
    if not apart or any(found.shape[d] != 1 for d in reduced):
        found = b.equation(equation.op, (found,), {"dim": tuple(reduced), "keepdim": keeps})
    return b.reshape(found, piece_shape(equation.output.shape, where))


def _is_short_product(equation: Equation) -> bool:
    x, y = equation.inputs
    if len(x.shape) < 2 or len(y.shape) < 2 or x.dtype.kind != "f" or x.dtype != y.dtype:
        return False
    (rows, inner), columns = x.shape[-2:], y.shape[-1]
    if is_thin(x.shape[:-2] + y.shape[:-2], rows, inner, columns):
        return True
    sides = rows, inner, columns
    return all(type(n) is int and n for n in sides) and math.prod(sides) <= FEW_PRODUCTS


def matmul_links(equation: Equation) -> Links | None:
    if not _is_short_product(equation):
        return None
    x, y = equation.inputs
    rank, pairs = len(equation.output.shape), []
    for number, operand in enumerate((x, y)):
        extra = rank - len(operand.shape)
        pairs += [(number, d, d + extra) for d in range(len(operand.shape) - 2) if operand.shape[d] != 1]
    left, right = len(x.shape), len(y.shape)
    pairs += [(0, left - 2, rank - 2), (1, right - 1, rank - 1)]
    inner = [(0, left - 1), (1, right - 2)]
    moved = [(number, False, dim) for number, dim in inner]
    # Rows meet columns: each operand is read again along the other's dimension.
    moved += [(0, True, rank - 1), (1, True, rank - 2)]
    return Links(pairs, inner, moved, [(inner[0], inner[1])])


def matmul(b: Pieces, equation: Equation, where: Where) -> Value:
    x, y = equation.inputs
    *batch, row, column = where
    inner = x.shape[-1]
    summed = is_apart(b, x, -1) or is_apart(b, y, -2) or (type(inner) is int and inner <= MOST)

    def side(operand: Value, at: tuple[int | None, ...]) -> Value:
        own = batch[len(batch) - (len(operand.shape) - 2) :]
        sizes = operand.shape[:-2]
        return b.of(operand, (*(None if n == 1 else i for n, i in zip(sizes, own, strict=True)), *at))

    if summed:
        products = [b.op("mul", side(x, (row, k)), side(y, (k, column))) for k in range(inner)]
        return b.folded("add", products)
    left, right = side(x, (row, None)), side(y, (None, column))
    left = b.reshape(left, (*left.shape, 1))
    right = b.reshape(right, (*right.shape[:-2], 1, *right.shape[-2:]))
    product = b.op("mul", left, right)
    return b.op("sum", product, dim=(len(product.shape) - 2,), keepdim=False)
