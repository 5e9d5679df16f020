"""Losses with a margin: for pairs, rankings, triplets and class scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.loss.loss import checked_reduction, reduced
from fusegrad.eager.ops.nn.activation import log_sigmoid
from fusegrad.eager.ops.precision import in_single


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """The input where the target is 1, max(0, margin - input) where it is -1.

    Source: `torch.nn.functional.hinge_embedding_loss`.
    """
    input, target = in_single(input, target)
    how = checked_reduction(reduction, size_average, reduce)
    apart = ops.where(ops.ne(target, 1), ops.clamp(margin - input, 0), 0.0)
    return reduced(apart + ops.where(ops.ne(target, -1), input, 0), how)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0.0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, -target * (input1 - input2) + margin): the target says which should be larger.

    Raises RuntimeError unless all three have as many dimensions.
    Source: `torch.nn.functional.margin_ranking_loss`.
    """
    input1, input2, target = in_single(input1, input2, target)
    how = checked_reduction(reduction, size_average, reduce)
    _same_rank("input1, input2 and target", input1, input2, target)
    return reduced(ops.clamp(-target * (input1 - input2) + margin, 0), how)


def _same_rank(names: str, *tensors: Tensor) -> None:
    if len({t.array.ndim for t in tensors}) > 1:
        sizes = ", ".join(str(list(t.array.shape)) for t in tensors)
        raise failure(RuntimeError, f"{names} should have the same number of dimensions, got {sizes}")


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0.0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cosine where the target is 1, max(0, cosine - margin) where it is -1.

    inputs: [N, D] with a target [N], or [D] with a 0-d target; others raise RuntimeError.
    Source: `torch.nn.functional.cosine_embedding_loss`.
    """
    input1, input2, target = in_single(input1, input2, target)
    how = checked_reduction(reduction, size_average, reduce)
    rank = target.array.ndim
    if rank > 1 or input1.array.ndim != rank + 1 or input2.array.ndim != rank + 1:
        found = f"inputs with sizes {list(input1.array.shape)} and {list(input2.array.shape)}"
        wrong = f"{rank}D target tensor expects {rank + 1}D input tensors, but found {found}"
        if rank > 1:
            wrong = f"0D or 1D target tensor expected, multi-target not supported; got {found}"
        raise failure(RuntimeError, wrong)
    tiny = 1e-12
    squares = [ops.sum(x * x, rank) + tiny for x in (input1, input2)]
    cosine = ops.sum(input1 * input2, rank) / ops.sqrt(squares[0] * squares[1])
    alike = ops.where(ops.eq(target, 1), 1 - cosine, 0.0)
    return reduced(alike + ops.where(ops.eq(target, -1), ops.clamp(cosine - margin, 0), 0), how)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, distance(anchor, positive) - distance(anchor, negative) + margin).

    swap: take the nearer of anchor and positive to the negative. Raises ValueError for a margin that
    is not above 0. Source: `torch.nn.functional.triplet_margin_loss`.
    """
    anchor, positive, negative = in_single(anchor, positive, negative)
    how = checked_reduction(reduction, size_average, reduce)
    return _triplet(
        anchor, positive, negative, lambda x, y: ops.pairwise_distance(x, y, p, eps), margin, swap, how
    )


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` with a distance of one's own.

    Source: `torch.nn.functional.triplet_margin_with_distance_loss`.
    """
    how = checked_reduction(reduction)
    return _triplet(anchor, positive, negative, distance_function or ops.pairwise_distance, margin, swap, how)


def _triplet(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    distance: Callable[[Tensor, Tensor], Tensor],
    margin: float,
    swap: bool,
    how: str,
) -> Tensor:
    if margin <= 0:
        raise failure(ValueError, f"margin must be greater than 0, got {margin}")
    _same_rank("the anchor, positive and negative", anchor, positive, negative)
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = ops.minimum(far, distance(positive, negative))
    return reduced(ops.clamp(margin + near - far, 0), how)


# Of class scores.


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over the other classes j of max(0, margin - input[target] + input[j]) ** p.

    input: [N, C] or [C]; target: [N] or one number. Raises ValueError for `p` other than 1 and 2.
    Source: `torch.nn.functional.multi_margin_loss`.
    """
    input = in_single(input)
    how = checked_reduction(reduction, size_average, reduce)
    if p not in (1, 2):
        raise failure(ValueError, "only p == 1 and p == 2 supported")
    if weight is not None and weight.array.ndim != 1:
        raise failure(ValueError, "weight must be one-dimensional")
    rows, classes = _rows(input), ops.reshape(target, (-1, 1))
    count = rows.array.shape[1]
    if target.array.dtype.kind not in "iu":
        raise failure(RuntimeError, f"expected target of dtype int64, got {target.array.dtype.name}")
    if not count or target.array.ndim > 1 or classes.array.shape[0] != rows.array.shape[0]:
        raise failure(
            RuntimeError,
            f"inconsistent target size: {list(target.array.shape)} for input of size: "
            f"{list(input.array.shape)}",
        )
    if weight is not None and weight.array.shape != (count,):
        raise failure(
            RuntimeError, f"inconsistent weight size: {list(weight.array.shape)} for {count} classes"
        )
    short = margin - ops.gather(rows, 1, classes) + rows
    loss = _lacking(short)
    if p == 2:
        loss = loss * loss
    if weight is not None:
        loss = loss * ops.take_along_dim(ops.unsqueeze(weight, 1), classes, 0)
    others = ops.ne(ops.arange(count), classes)
    loss = ops.sum(ops.where(others, loss, 0.0), 1) / count
    return _unrowed(loss, input.array.ndim, how)


def _lacking(margin: Tensor) -> Tensor:
    """What is missing of a margin: nothing, and no gradient, where it is just kept, and of NaN."""
    return ops.where(margin > 0, margin, 0.0)


def _rows(input: Tensor) -> Tensor:
    """Scores [C] (or one number) as one row [1, C]; raises RuntimeError beyond two dimensions."""
    size = input.array.shape
    if len(size) > 2 or (size and not size[-1]):
        raise failure(
            RuntimeError,
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(size)}",
        )
    return input if len(size) == 2 else ops.reshape(input, (1, -1))


def _unrowed(loss: Tensor, rank: int, how: str) -> Tensor:
    """The losses of rows reduced; the only row of a vector of scores gives a number."""
    return ops.reshape(loss, ()) if how == "none" and rank < 2 else reduced(loss, how)


def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Tensor:
    """The sum of max(0, 1 - input[label] + input[other]) over labels and others, by the number of classes.

    input: [N, C] or [C]; target: of the same shape, class numbers that end with the first negative.
    Source: `torch.nn.functional.multilabel_margin_loss`.
    """
    input = in_single(input)
    how = checked_reduction(reduction, size_average, reduce)
    rows = _rows(input)
    if target.array.shape != input.array.shape:
        raise failure(
            RuntimeError,
            f"inconsistent target size: {list(target.array.shape)} for input of size: "
            f"{list(input.array.shape)}",
        )
    labels = ops.reshape(target, rows.array.shape)
    count = rows.array.shape[1]
    listed = ops.eq(ops.cumsum(labels < 0, 1), 0)
    labels = ops.where(listed, labels, 0)
    hits = ops.eq(ops.unsqueeze(labels, 2), ops.arange(count)) & ops.unsqueeze(listed, 2)
    others = ops.logical_not(ops.any(hits, 1))
    picked = ops.unsqueeze(ops.gather(rows, 1, labels), 2)
    pairs = ops.unsqueeze(listed, 2) & ops.unsqueeze(others, 1)
    loss = ops.where(pairs, _lacking(1 - picked + ops.unsqueeze(rows, 1)), 0.0)
    return _unrowed(ops.sum(loss, (1, 2)) / count, input.array.ndim, how)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over the classes of the binary cross-entropy of logits.

    Source: `torch.nn.functional.multilabel_soft_margin_loss`.
    """
    how = checked_reduction(reduction, size_average, reduce)
    loss = -(target * log_sigmoid(input) + (1 - target) * log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return reduced(ops.mean(loss, -1), how)
