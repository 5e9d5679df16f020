"""Pieces of what is put together of parts, or written in part; see `pieces.py`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from fusegrad.compiler.lower.pieces import (
    Links,
    Pieces,
    Where,
    broadcast,
    is_eligible,
    piece_shape,
)
from fusegrad.compiler.lower.pieces_of_views import of_diagonal
from fusegrad.eager.core.dtypes import FROM_NUMPY
from fusegrad.eager.ops.shape.slicing import Slice
from fusegrad.tracer.ir.graph import Equation, Value


def _full_index(index: Sequence[Any], shape: Sequence[Any]) -> list[Any]:
    """An index with an entry for each dimension, and those that are new."""
    given = len([e for e in index if e is not None])
    return [*index, *(Slice(0, n, 1) for n in shape[given:])]


def part_links(equation: Equation, part: int, index: Sequence[Any]) -> Links | None:
    """Of an op whose result is an operand at an index. part: the number of that operand. None where numbers
    that are not known yet are in the index.
    """
    if not all(type(n) is int for e in index if e is not None for n in (e if isinstance(e, Slice) else (e,))):
        return None
    made, value = equation.output, equation.inputs[part]
    entries = _full_index(index, made.shape)
    extra = sum(not isinstance(e, int) for e in entries) - len(value.shape)
    pairs, moved, along = [], [], 0
    dims = iter(range(len(made.shape)))
    for entry in entries:
        if entry is None:
            along += 1
            continue
        dim = next(dims)
        if entry != Slice(0, made.shape[dim], 1):
            moved.append((part, True, dim))
        if isinstance(entry, Slice):
            if along >= extra and value.shape[along - extra] != 1:
                pairs.append((part, along - extra, dim))
            along += 1
    if part:
        pairs += [(0, d, d) for d in range(len(made.shape))]
    return Links(pairs, (), moved)


class _Inside(NamedTuple):
    """Where in a part a piece of the result lies. where: in the part, for each dimension of what the index
    gives; rest: what remains of the index; is_all: whether that is all of it.
    """

    where: list[int | None]
    rest: tuple[Any, ...]
    is_all: bool


def _inside(index: Sequence[Any], shape: Sequence[Any], where: Where) -> _Inside | None:
    """Where in a part a piece of the result lies; None if it lies beside."""
    found: list[int | None] = []
    rest: list[Any] = []
    is_all = True
    dims = iter(range(len(shape)))
    for entry in _full_index(index, shape):
        if entry is None:
            found.append(None)
            rest.append(None)
            continue
        dim = next(dims)
        at = where[dim]
        if at is None:
            is_all = is_all and (entry == Slice(0, shape[dim], 1) or (entry == 0 and shape[dim] == 1))
            found += [] if isinstance(entry, int) else [None]
            rest.append(entry)
        elif isinstance(entry, int):
            if at != entry:
                return None
            rest.append(0)
        else:
            number, beside = divmod(at - entry.start, entry.step)
            if beside or not 0 <= number < entry.length:
                return None
            found.append(number)
            rest.append(Slice(0, 1, 1))
    return _Inside(found, tuple(rest), is_all)


def embed(b: Pieces, equation: Equation, where: Where) -> Value:
    (x,), made, index = equation.inputs, equation.output, equation.params["index"]
    shape = piece_shape(made.shape, where)
    inside = _inside(index, made.shape, where)
    if inside is None:
        return b.op("full", shape=shape, value=0, dtype=FROM_NUMPY[made.dtype])
    piece = b.of(x, tuple(inside.where))
    return b.reshape(piece, shape) if inside.is_all else b.op("embed", piece, shape=shape, index=inside.rest)


def assign(b: Pieces, equation: Equation, where: Where) -> Value:
    (x, value), made, index = equation.inputs, equation.output, equation.params["index"]
    before, inside = b.of(x, where), _inside(index, made.shape, where)
    if inside is None:
        return before
    piece = b.cast(broadcast(b, value, tuple(inside.where)), made.dtype)
    if not inside.is_all:
        return b.op("assign", before, piece, index=inside.rest)
    shape = piece_shape(made.shape, where)
    if math.prod(piece.shape) == math.prod(shape):
        return b.reshape(piece, shape)
    kept = [n for e, n in zip(_sliced(inside.rest), shape, strict=True) if e]
    return b.reshape(b.op("expand", piece, shape=tuple(kept)), shape)


def _sliced(index: Sequence[Any]) -> list[bool]:
    return [not isinstance(e, int) for e in index if e is not None]


def diagonal_scatter_links(equation: Equation) -> Links | None:
    made, params = equation.output, equation.params
    dims = params["dim1"], params["dim2"]
    if not all(is_eligible(made, d) for d in dims):
        return None
    others = [d for d in range(len(made.shape)) if d not in dims]
    value = equation.inputs[1]
    pairs = [(0, d, d) for d in range(len(made.shape))] + [(1, at, d) for at, d in enumerate(others)]
    last = len(others)
    pairs += [(1, last, d) for d in dims]
    return Links(pairs, (), [(1, True, d) for d in dims] if value.shape[last] else ())


def diagonal_scatter(b: Pieces, equation: Equation, where: Where) -> Value:
    (x, value), params = equation.inputs, equation.params
    dims = params["dim1"], params["dim2"]
    row, column = (where[d] for d in dims)
    if row is None or column is None:
        whole = b.op("diagonal_scatter", b.whole(x), b.whole(value), **params)
        return b.part(whole, where)
    offset = params["offset"]
    number = min(row, column)
    if of_diagonal(number, offset) != (row, column) or number >= value.shape[-1]:
        return b.of(x, where)
    others = [where[d] for d in range(len(where)) if d not in dims]
    piece = b.cast(b.of(value, (*others, number)), equation.output.dtype)
    return b.reshape(piece, piece_shape(equation.output.shape, where))


def cat_links(equation: Equation) -> Links | None:
    made, dim = equation.output, equation.params["dim"]
    if not is_eligible(made, dim):
        return None
    pairs, moved = [], []
    for number, part in enumerate(equation.inputs):
        pairs += [(number, d, d) for d, n in enumerate(part.shape) if type(n) is not int or n != 1]
        moved.append((number, True, dim))
    return Links(pairs, (), moved)


def cat(b: Pieces, equation: Equation, where: Where) -> Value:
    dim, dtype = equation.params["dim"], equation.output.dtype
    at = where[dim]
    if at is None:
        pieces = [b.cast(b.of(part, where), dtype) for part in equation.inputs]
        return b.op("cat", *pieces, dim=dim)
    for part in equation.inputs:
        if at < part.shape[dim]:
            own: Where = (*where[:dim], at if part.shape[dim] != 1 else None, *where[dim + 1 :])
            return b.cast(b.of(part, own), dtype)
        at -= part.shape[dim]
    raise AssertionError("a piece behind all parts")
