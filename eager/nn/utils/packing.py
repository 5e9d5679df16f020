"""Where packed sequences keep what: lengths go in, places among the rows of padded or packed data come out.

Functions of their arguments alone, like ops.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.create import creation


def packed_places(
    lengths: Sequence[int], steps: int, enforce_sorted: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """For padded sequences of these lengths, of `steps` rows each: the rows that are packed, how many are of
    each step, and in which order the sequences are, if not in that of the lengths.
    """
    found = np.array(lengths)
    order = None
    if not enforce_sorted:
        order = np.argsort(-found, kind="stable")
        found = found[order]
    elif (np.diff(found) > 0).any():
        raise failure(
            RuntimeError,
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and pack_sequence to sidestep this",
        )
    if found[0] > steps:
        raise failure(RuntimeError, f"a length of {found[0]} is more than the {steps} padded steps")
    step, row = np.nonzero(np.arange(found[0])[:, None] < found)
    places = step * len(found) + (row if order is None else order[row])
    return (
        creation.constant(places),
        creation.constant(np.bincount(step)),
        None if order is None else creation.constant(order),
    )


def padded_places(
    sizes: Sequence[int], steps: int, order: Sequence[int] | None, batch_first: bool
) -> tuple[Tensor, tuple[int, ...], Tensor, Tensor]:
    """For packed sequences, so many of which go on at each step: which packed row stands at each place once
    they are padded to `steps`, the shape of the places, which of them are taken, and the lengths.
    """
    counts = np.array(sizes)
    held = np.zeros((steps, counts[0]), bool)
    held[: len(counts)] = np.arange(counts[0]) < counts[:, None]
    places = np.zeros(held.shape, np.int64)
    places[held] = np.arange(counts.sum())
    lengths = held.sum(0)
    if order is not None:
        chosen = np.array(order)
        held, places, lengths = held[:, chosen], places[:, chosen], lengths[chosen]
    if batch_first:
        held, places = held.T, places.T
    taken = creation.constant(np.ascontiguousarray(held))
    return creation.constant(places.ravel()), places.shape, taken, creation.constant(lengths)
