"""Rows of a table by number: one by one, or summed, averaged and maximised in bags."""

from __future__ import annotations

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Opaque
from fusegrad.eager.core.op import TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.state import no_grad, testable
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.index import lookup


def _largest_numpy(rows: np.ndarray, bag: np.ndarray, counted: np.ndarray, bags: int) -> np.ndarray:
    """The number of the first of the largest rows in each bag and column; -1 where there is none."""
    count, width = rows.shape
    values = np.where(counted[:, None], rows, -np.inf)
    highest = np.full((bags, width), -np.inf, rows.dtype)
    np.maximum.at(highest, bag, values)
    first = np.full((bags, width), count)
    reached = (values == highest[bag]) & counted[:, None]
    np.minimum.at(first, bag, np.where(reached, np.arange(count)[:, None], count))
    return np.where(first < count, first, -1)


_largest = Opaque(
    "embedding_bag_max",
    "rows bag counted",
    _largest_numpy,
    lambda types, bags: TensorType((bags, types[0].shape[1]), np.dtype(np.int64)),
    None,
)


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or max of the rows of `weight` in each bag.

    input: [B, L], a bag a row; or [M] with `offsets`, where each bag starts. per_sample_weights scale the
    rows of a sum; rows of `padding_idx` do not count; an empty bag gives 0.
    Raises ValueError for shapes and modes that do not fit. Source: `torch.nn.functional.embedding_bag`.
    """
    _check(input, weight, offsets, mode, per_sample_weights, scale_grad_by_freq, padding_idx)
    if offsets is None:
        count, length = input.array.shape
        bag = ops.reshape(ops.expand(ops.arange(count).unsqueeze(1), (count, length)), (-1,))
    else:
        count = offsets.array.shape[0] - (1 if include_last_offset else 0)
        _check_offsets(offsets, input.array.shape[0], include_last_offset)
        if not count:  # what is in no bag
            input = input[:0]
            per_sample_weights = None if per_sample_weights is None else per_sample_weights[:0]
        bag = _bags(offsets, count, input.array.shape[0])
    numbers = ops.reshape(input, (-1,))
    if max_norm is not None:
        renormalize(weight, numbers, max_norm, norm_type)
    try:
        rows = lookup.embedding(numbers, weight)
    except IndexError:
        raise failure(RuntimeError, _outside(numbers.array, weight.array.shape[0])) from None
    if scale_grad_by_freq:
        share = 1 / ops.cast(_frequencies(numbers, weight), weight.dtype)
        rows = rows * share + (rows * (1 - share)).detach()
    counted = ops.eq(numbers, numbers)
    if padding_idx is not None:
        counted = ops.ne(numbers, padding_idx % weight.array.shape[0])
    elif include_last_offset and offsets is not None and mode != "max":
        # PyTorch has the last bag end there, if nothing is padded; else it goes on to the end.
        counted = ops.arange(numbers.array.shape[0]) < offsets[-1]
    if mode == "max" and numbers.array.size:
        return _maxima(rows, bag, counted, count)
    if per_sample_weights is not None:
        rows = rows * ops.reshape(per_sample_weights, (-1, 1))
    rows = ops.where(ops.unsqueeze(counted, 1), rows, 0.0)
    size = (count, weight.array.shape[1])
    total = ops.index_add(ops.zeros(size, dtype=weight.dtype), 0, bag, rows)
    if mode == "sum":
        return total
    zeros = ops.zeros(count, dtype=weight.dtype)
    counts = ops.index_add(zeros, 0, bag, ops.cast(counted, weight.dtype))
    return total / ops.unsqueeze(ops.clamp(counts, 1), 1)


def _check(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None,
    mode: str,
    samples: Tensor | None,
    by_frequency: bool,
    padding_idx: int | None,
) -> None:
    """Raise ValueError (or NotImplementedError) for arguments that do not fit."""
    problem = ""
    if samples is not None and samples.array.shape != input.array.shape:
        problem = "per_sample_weights must have the same shape as the input"
    elif weight.array.ndim != 2:
        problem = f"weight has to be a 2D Tensor, but got shape {list(weight.array.shape)}"
    elif input.array.ndim not in (1, 2):
        problem = f"input has to be 1D or 2D Tensor, but got shape {list(input.array.shape)}"
    elif input.array.ndim == 2 and offsets is not None:
        problem = "if input is 2D, then offsets has to be None: its rows are the bags"
    elif input.array.ndim == 1 and (offsets is None or offsets.array.ndim != 1):
        problem = "offsets has to be a 1D Tensor"
    elif padding_idx is not None and not -weight.array.shape[0] <= padding_idx < weight.array.shape[0]:
        rows = weight.array.shape[0]
        raise failure(
            RuntimeError,
            f"padding_idx must be within the number of embeddings, {-rows} through {rows - 1}, "
            f"but got {padding_idx}",
        )
    elif mode not in ("sum", "mean", "max"):
        problem = "mode has to be one of sum, mean or max"
    elif mode == "max" and by_frequency:
        problem = "max mode does not support scaling the gradient by the frequency"
    if problem:
        raise failure(ValueError, problem)
    if samples is not None and mode != "sum":
        raise failure(
            NotImplementedError, f"per_sample_weights are only supported for mode='sum', got {mode!r}"
        )
    if samples is not None and samples.array.dtype != weight.array.dtype:
        raise failure(
            RuntimeError,
            f"expected 'weight' to have the same type as 'per_sample_weights'; but {weight.array.dtype.name} "
            f"does not equal {samples.array.dtype.name}",
        )


def _outside(numbers: np.ndarray, rows: int) -> str:
    """Which number is not one of a table of `rows`."""
    place = int(np.flatnonzero((numbers < 0) | (numbers >= rows))[0])
    return (
        f"Expected idx >= 0 && idx < num_embeddings but found idx to be {numbers[place]}: Index {place} of "
        f"input takes value {numbers[place]} which is not in the valid range [0, {rows})"
    )


def _check_offsets(offsets: Tensor, size: int, include_last: bool) -> None:
    """Raise RuntimeError where bags do not begin one after the other within `size` numbers."""
    count = offsets.array.shape[0]
    if include_last and not count:
        raise failure(RuntimeError, "include_last_offset: number of offset should be at least 1")

    def passed() -> Tensor:
        fits = ops.logical_and(offsets[0] == 0, offsets[count - 1] <= size)
        return ops.logical_and(fits, (offsets[1:] >= offsets[:-1]).all())

    if not count or not testable(offsets, passed):
        return
    values, problem = offsets.array, ""
    if values[0] != 0:
        problem = (
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0."
            f" However, got {values[0]}"
        )
    elif values[-1] > size:
        problem = (
            f"offsets[-1] can not be greater than input's length {size} but got offsets[-1] of {values[-1]}"
        )
    elif (values[1:] < values[:-1]).any():
        problem = f"embedding_bag: offsets must not decrease, but got {values.tolist()}"
    if problem:
        raise failure(RuntimeError, problem)


def _bags(offsets: Tensor, count: int, size: int) -> Tensor:
    """The bag of each of `size` numbers, from where the bags start."""
    starts = offsets[:count]
    ones = ops.ones(starts.array.shape, dtype="int64")
    marks = ops.index_add(ops.zeros(size + 1, dtype="int64"), 0, starts, ones)
    return ops.cumsum(marks, 0)[:size] - 1


def _frequencies(numbers: Tensor, weight: Tensor) -> Tensor:
    """How often each number occurs, as a column beside `numbers`."""
    zeros = ops.zeros(weight.array.shape[0], dtype=numbers.dtype)
    counts = ops.index_add(zeros, 0, numbers, ops.ones_like(numbers))
    return ops.unsqueeze(ops.index_select(counts, 0, numbers), 1)


def _maxima(rows: Tensor, bag: Tensor, counted: Tensor, count: int) -> Tensor:
    place = bind(_largest, (rows, bag, counted), {"bags": count})
    found = place >= 0
    return ops.where(found, ops.gather(rows, 0, ops.where(found, place, 0)), 0.0)


def renormalize(weight: Tensor, numbers: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale the rows of `weight` at `numbers` down to `max_norm`, in place and without gradient."""
    with no_grad():
        seen = ops.zeros(weight.array.shape[0], dtype=numbers.dtype)
        seen = ops.index_add(seen, 0, ops.reshape(numbers, (-1,)), ops.ones_like(numbers).flatten())
        length = ops.norm(weight, norm_type, 1)
        scale = ops.where((seen > 0) & (length > max_norm), max_norm / (length + 1e-7), 1.0)
        weight.copy_(weight * ops.unsqueeze(scale, 1))


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of `weight` at `input`, any shape of integers.

    padding_idx: a row without gradient. max_norm: rows that are looked up are first scaled down to this
    norm, in place. scale_grad_by_freq: the gradient is divided by how often a number occurs.
    Raises AssertionError for a padding_idx outside the table. Source: `torch.nn.functional.embedding`.
    """
    if padding_idx is not None and not -weight.array.shape[0] <= padding_idx < weight.array.shape[0]:
        raise failure(AssertionError, "Padding_idx must be within num_embeddings")
    if max_norm is not None:
        renormalize(weight, input, max_norm, norm_type)
    rows = lookup.embedding(input, weight, padding_idx)
    if not scale_grad_by_freq:
        return rows
    flat = ops.reshape(input, (-1,))
    share = 1 / ops.cast(_frequencies(flat, weight), weight.dtype)
    share = ops.reshape(share, (*input.array.shape, 1))
    return rows * share + (rows * (1 - share)).detach()
