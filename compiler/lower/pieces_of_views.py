"""Pieces of views: the same elements under other shapes; see `pieces.py`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fusegrad.compiler.lower.pieces import (
    Links,
    Pieces,
    Where,
    broadcast,
    is_apart,
    is_eligible,
    piece_shape,
)
from fusegrad.eager.core.sizes import has_symbols
from fusegrad.eager.ops.shape.slicing import Slice
from fusegrad.tracer.ir.graph import Equation, Value


def _getitem_dims(equation: Equation) -> list[tuple[Any, int, int]]:
    """For each entry of an index that is no new dimension, the dimension it is about, and the result's."""
    found, dim, along = [], 0, 0
    shape = equation.inputs[0].shape
    entries = [*equation.params["index"]]
    entries += [Slice(0, n, 1) for n in shape[len([e for e in entries if e is not None]) :]]
    for entry in entries:
        if entry is not None:
            found.append((entry, dim, along))
            dim += 1
        along += entry is None or isinstance(entry, Slice)  # what is neither is a position, which may be open
    return found


def getitem_links(equation: Equation) -> Links | None:
    (x,) = equation.inputs
    made = equation.output
    if any(has_symbols(entry) and type(x.shape[dim]) is int for entry, dim, _ in _getitem_dims(equation)):
        return None  # which piece it is is open
    pairs, consumed, moved = [], [], []
    for entry, dim, along in _getitem_dims(equation):
        is_slice = isinstance(entry, Slice)
        if is_slice and made.shape[along] != 1:
            pairs.append((0, dim, along))
        else:
            consumed.append((0, dim))
        if not (is_slice and entry == Slice(0, x.shape[dim], 1)):
            moved.append((0, False, dim))
    return Links(pairs, consumed, moved)


def getitem(b: Pieces, equation: Equation, where: Where) -> Value:
    (x,) = equation.inputs
    at: list[int | None] = [None] * len(x.shape)
    rest: list[Any] = [*equation.params["index"]]
    places_ = [i for i, e in enumerate(rest) if e is not None]
    for (entry, dim, along), place in zip(_getitem_dims(equation), places_, strict=False):
        if not isinstance(entry, Slice):
            if is_apart(b, x, dim):
                at[dim], rest[place] = int(entry), 0
        elif where[along] is not None or (is_apart(b, x, dim) and entry.length == 1):
            at[dim], rest[place] = entry.start + entry.step * (where[along] or 0), Slice(0, 1, 1)
    piece = b.of(x, tuple(at))
    given = [e for e in rest if e is not None]
    plain = all(
        e == Slice(0, n, 1) if isinstance(e, Slice) else (e == 0 and n == 1)
        for e, n in zip(given, piece.shape, strict=False)
    )
    shape = piece_shape(equation.output.shape, where)
    return b.reshape(piece, shape) if plain else b.op("getitem", piece, index=tuple(rest))


def _groups(before: Sequence[Any], after: Sequence[Any]) -> list[tuple[list[int], list[int]]]:
    """The dimensions of two shapes of as many elements, in groups that have the same number of them."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(before) or j < len(after):
        here, there = [i] if i < len(before) else [], [j] if j < len(after) else []
        i, j = i + len(here), j + len(there)
        while True:
            left, right = math.prod(before[d] for d in here), math.prod(after[d] for d in there)
            if left == right:
                break
            if left < right and i < len(before):
                here.append(i)
                i += 1
            elif j < len(after):
                there.append(j)
                j += 1
            else:
                here.append(i)
                i += 1
        groups.append((here, there))
    return groups


def reshape_links(equation: Equation) -> Links | None:
    (x,) = equation.inputs
    made = equation.output
    if has_symbols((*x.shape, *made.shape)):
        kept = [(d, n) for d, n in enumerate(x.shape) if type(n) is not int or n != 1]
        now = [(d, n) for d, n in enumerate(made.shape) if type(n) is not int or n != 1]
        same = len(kept) == len(now) and all(
            type(m) is type(n) and (m == n if type(m) is int else m is n)
            for (_, m), (_, n) in zip(kept, now, strict=True)
        )
        return Links([(0, d, e) for (d, _), (e, _) in zip(kept, now, strict=True)]) if same else None
    if 0 in x.shape:
        return None
    pairs = []
    for here, there in _groups(x.shape, made.shape):
        here, there = [d for d in here if x.shape[d] != 1], [d for d in there if made.shape[d] != 1]
        if len(here) == len(there) == 1:
            pairs.append((0, here[0], there[0]))
        elif all(is_eligible(x, d) for d in here) and all(is_eligible(made, d) for d in there):
            # All of them are apart, or none.
            pairs += [(0, d, e) for d in here for e in there]
    return Links(pairs)


def reshape(b: Pieces, equation: Equation, where: Where) -> Value:
    (x,), shape = equation.inputs, equation.output.shape
    at: list[int | None] = [None] * len(x.shape)
    if has_symbols((*x.shape, *shape)):
        links = reshape_links(equation)
        assert links is not None
        for _, dim, along in links.pairs:
            at[dim] = where[along]
    else:
        for here, there in _groups(x.shape, shape):
            number, is_known = 0, any(where[e] is not None for e in there)
            if is_known and any(where[e] is None and shape[e] != 1 for e in there):
                return b.part(b.op("reshape", b.whole(x), shape=shape), where)
            for e in there:
                number = number * shape[e] + (where[e] or 0)
            for d in reversed(here) if is_known else ():
                number, rest = divmod(number, x.shape[d])
                at[d] = None if x.shape[d] == 1 else rest
    return b.reshape(b.of(x, tuple(at)), piece_shape(shape, where))


def permute_links(equation: Equation) -> Links:
    return Links([(0, d, along) for along, d in enumerate(equation.params["dims"])])


def permute(b: Pieces, equation: Equation, where: Where) -> Value:
    (x,), dims = equation.inputs, equation.params["dims"]
    at: list[int | None] = [None] * len(dims)
    for along, d in enumerate(dims):
        at[d] = where[along]
    return b.op("permute", b.of(x, tuple(at)), dims=dims)


def expand(b: Pieces, equation: Equation, where: Where) -> Value:
    piece, shape = broadcast(b, equation.inputs[0], where), piece_shape(equation.output.shape, where)
    if len(piece.shape) < len(shape) and math.prod(piece.shape) == math.prod(shape):
        return b.reshape(piece, shape)
    return piece if piece.shape == shape else b.op("expand", piece, shape=shape)


def flip(b: Pieces, equation: Equation, where: Where) -> Value:
    (x,), dims = equation.inputs, equation.params["dims"]
    turned = [d for d in dims if where[d] is not None]
    at = tuple(x.shape[d] - 1 - n if n is not None and d in turned else n for d, n in enumerate(where))
    left = tuple(d for d in dims if d not in turned)
    piece = b.of(x, at)
    return b.op("flip", piece, dims=left) if left else piece


def flip_links(equation: Equation) -> Links:
    dims = equation.params["dims"]
    return Links([(0, d, d) for d in range(len(equation.output.shape))], (), [(0, False, d) for d in dims])


def detach(b: Pieces, equation: Equation, where: Where) -> Value:
    return b.op("detach", b.of(equation.inputs[0], where))


def diagonal_links(equation: Equation) -> Links | None:
    (x,) = equation.inputs
    dims = equation.params["dim1"], equation.params["dim2"]
    others = [d for d in range(len(x.shape)) if d not in dims]
    last = len(others)
    pairs = [(0, d, at) for at, d in enumerate(others)]
    if not all(is_eligible(x, d) for d in dims) or equation.output.shape[last] == 0:
        return None
    if equation.output.shape[last] != 1:
        return Links([*pairs, *((0, d, last) for d in dims)], (), [(0, False, d) for d in dims])
    return None


def diagonal(b: Pieces, equation: Equation, where: Where) -> Value:
    (x,), params = equation.inputs, equation.params
    dims = params["dim1"], params["dim2"]
    others = [d for d in range(len(x.shape)) if d not in dims]
    at: list[int | None] = [None] * len(x.shape)
    for d, along in zip(others, where, strict=False):
        at[d] = along
    if where[-1] is None:
        return b.op("diagonal", b.of(x, tuple(at)), **params)
    row, column = of_diagonal(where[-1], params["offset"])
    at[dims[0]], at[dims[1]] = row, column
    return b.reshape(b.of(x, tuple(at)), piece_shape(equation.output.shape, where))


def of_diagonal(number: int, offset: int) -> tuple[int, int]:
    return (number, number + offset) if offset >= 0 else (number - offset, number)
