"""Losses of class scores against class numbers: nll_loss and cross_entropy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fusegrad.eager.autograd.views import owned
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Composite
from fusegrad.eager.core.op import bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.state import testable
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.loss.loss import checked_reduction, reduced
from fusegrad.eager.ops.nn.linear import linear
from fusegrad.eager.ops.precision import in_single

# Losses of rows of class scores: input [N, C] float, target [N] int64.


def _hits(x_shape: tuple[int, ...], target: Tensor, ignore_index: int) -> Tensor:
    """Where each row's target class stands, as a mask [N, C] that fuses into a loop over rows."""
    column = ops.unsqueeze(target, -1)
    return ops.logical_and(ops.eq(ops.arange(x_shape[-1]), column), ops.ne(column, ignore_index))


def _kept(target: Tensor, ignore_index: int, like: np.dtype) -> Tensor:
    """How many rows count, as a float."""
    return ops.cast(ops.sum(ops.ne(target, ignore_index)), like)


def _nll_decomposed(x: Tensor, target: Tensor, ignore_index: int, reduction: str) -> Tensor:
    loss = -ops.where(_hits(x.array.shape, target, ignore_index), x, 0.0).sum(-1)
    if reduction == "none":
        return loss
    total = loss.sum()
    return total / _kept(target, ignore_index, x.array.dtype) if reduction == "mean" else total


def _all_count(target: np.ndarray, classes: int, ignore_index: int) -> bool:
    """Whether there are rows, and each has a class that is there and not ignored."""
    if not target.size or target.dtype != np.int64 or 0 <= ignore_index < classes:
        return False
    return bool(np.maximum.reduce(target.view(np.uint64)) < classes)  # where those below 0 are large


def _nll_rows(x: np.ndarray, target: np.ndarray, ignore_index: int) -> tuple[np.ndarray, np.ndarray]:
    """The picked elements (0 in ignored rows), and which rows count."""
    kept = target != ignore_index
    if target.size and np.minimum.reduce(target) >= 0 and np.maximum.reduce(target) < x.shape[-1]:
        rows = x[np.arange(x.shape[0]), target]
        return rows if kept.all() else np.where(kept, rows, x.dtype.type(0)), kept
    picked = np.where(kept, target, 0)
    outside = (picked < 0) | (picked >= x.shape[-1])
    if outside.any():
        raise IndexError(f"Target {picked[outside][0]} is out of bounds.")
    rows = x[np.arange(x.shape[0]), picked] if x.shape[0] else np.zeros(0, x.dtype)
    return np.where(kept, rows, x.dtype.type(0)), kept


def _nll_numpy(x: np.ndarray, target: np.ndarray, ignore_index: int, reduction: str) -> Any:
    if reduction == "mean" and _all_count(target, x.shape[-1], ignore_index):
        return -np.add.reduce(x[np.arange(target.size), target]) / target.size
    rows, kept = _nll_rows(x, target, ignore_index)
    if reduction == "none":
        return -rows
    return -rows.sum() / x.dtype.type(kept.sum()) if reduction == "mean" else -rows.sum()


def _spread_decomposed(g: Tensor, target: Tensor, classes: int, ignore_index: int, reduction: str) -> Tensor:
    if reduction == "mean":
        g = g / _kept(target, ignore_index, g.array.dtype)
    elif reduction == "none":
        g = ops.unsqueeze(g, -1)
    return ops.where(_hits((*target.array.shape, classes), target, ignore_index), -g, 0.0)


def _spread_numpy(
    g: np.ndarray, target: np.ndarray, classes: int, ignore_index: int, reduction: str
) -> np.ndarray:
    spread = np.zeros((target.size, classes), g.dtype)
    if reduction == "mean" and _all_count(target, classes, ignore_index):
        spread[np.arange(target.size), target] = -(g / target.size)
        return spread
    kept = (target != ignore_index) & (target >= 0) & (target < classes)
    rows = kept.nonzero()[0]
    if reduction == "mean":
        g = g / g.dtype.type(np.count_nonzero(target != ignore_index))
    spread[rows, target[rows]] = -(g[rows] if reduction == "none" else g)
    return spread


# Minus the gradient of each row's loss, or its share, at the row's class: what the backward of `nll_loss` is,
# whose own backward is `nll_loss` again.
_spread = Composite(
    "nll_loss_spread",
    "g target",
    _spread_decomposed,
    _spread_numpy,
    {
        "g": lambda g, target, ignore_index, reduction: bind(
            _nll, (g, target), {"ignore_index": ignore_index, "reduction": reduction}
        ),
        "target": None,
    },
    "NllLossBackwardBackward0",
)


def _nll_gradient(g: Tensor, target: Tensor, x_type: Any, ignore_index: int, reduction: str) -> Tensor:
    params = {"classes": x_type.shape[-1], "ignore_index": ignore_index, "reduction": reduction}
    return bind(_spread, (g, target), params)


_nll: Composite = Composite(
    "nll_loss",
    "x target",
    _nll_decomposed,
    _nll_numpy,
    {"x": _nll_gradient, "target": None},
    "NllLossBackward0",
)
_nll.by_values = True  # of targets


def _weighted_decomposed(
    x: Tensor, target: Tensor, weight: Tensor, ignore_index: int, reduction: str
) -> Tensor:
    hits = _hits(x.array.shape, target, ignore_index)
    loss = -ops.where(hits, x * weight, 0.0).sum(-1)
    if reduction == "none":
        return loss
    total = loss.sum()
    return total / ops.where(hits, weight, 0.0).sum() if reduction == "mean" else total


def _weighted_numpy(
    x: np.ndarray, target: np.ndarray, weight: np.ndarray, ignore_index: int, reduction: str
) -> Any:
    rows, kept = _nll_rows(x, target, ignore_index)
    weights = np.where(kept, weight[np.where(kept, target, 0)], weight.dtype.type(0))
    loss = -rows * weights
    if reduction == "none":
        return loss
    return loss.sum() / weights.sum() if reduction == "mean" else loss.sum()


def _weighted_gradient(
    g: Tensor, target: Tensor, weight: Tensor, x_type: Any, ignore_index: int, reduction: str
) -> Tensor:
    hits = _hits(x_type.shape, target, ignore_index)
    if reduction == "mean":
        g = g / ops.where(hits, weight, 0.0).sum()
    elif reduction == "none":
        g = ops.unsqueeze(g, -1)
    return ops.where(hits, -g * weight, 0.0)


_nll_weighted = Composite(
    "nll_loss_weighted",
    "x target weight",
    _weighted_decomposed,
    _weighted_numpy,
    {"x": _weighted_gradient, "target": None, "weight": None},
    "NllLossBackward0",
)
_nll_weighted.by_values = True


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean of minus the log-probability of each row's target class.

    input: [C], [N, C] or [N, C, d1, ...] log-probabilities; target: the same without C, int64.
    Raises IndexError for a target outside 0..C-1 that is not `ignore_index`.
    Source: `torch.nn.functional.nll_loss`.
    """
    how = checked_reduction(reduction, size_average, reduce)
    rows, classes = _as_rows(input, target)
    count = rows.array.shape[-1]
    # The op makes this test itself, when it is evaluated.
    testable(
        classes,
        lambda: (((classes >= 0) & (classes < count)) | ops.eq(classes, ignore_index)).all(),
        (0, count, ignore_index),
    )
    params = {"ignore_index": ignore_index, "reduction": how}
    if weight is None:
        loss = bind(_nll, (rows, classes), params)
    else:
        _check_weight(weight, count)
        _check_dtype(weight, input)
        loss = bind(_nll_weighted, (rows, classes, weight), params)
    return owned(ops.reshape(loss, target.array.shape)) if how == "none" else loss


def _check_weight(weight: Tensor, count: int) -> None:
    """Refuse weights that are not one for each class."""
    if weight.array.shape != (count,):
        raise failure(
            RuntimeError,
            f"weight tensor should be defined either for all {count} classes or no classes but got weight "
            f"tensor of shape: {list(weight.array.shape)}",
        )


def _check_dtype(weight: Tensor, input: Tensor) -> None:
    """Refuse weights of another dtype than the scores'."""
    if weight.array.dtype != input.array.dtype:
        raise failure(
            RuntimeError,
            f"expected scalar type {input.dtype.scalar} but found {weight.dtype.scalar}: the weights have "
            "the dtype of the scores",
        )


def _as_rows(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The scores as [N, C] and the targets as [N], checked."""
    size, wanted = input.array.shape, target.array.shape
    expected = size[:1] + size[2:] if len(size) > 1 else ()
    if len(size) == 2 and len(wanted) > 1:
        raise failure(
            RuntimeError,
            f"0D or 1D target tensor expected, multi-target not supported: input {list(size)}, target "
            f"{list(wanted)}",
        )
    if not size or wanted != expected:
        raise failure(
            ValueError,
            f"Expected target of shape {list(expected)} for input of shape {list(size)}, got {list(wanted)}",
        )
    if target.array.dtype.kind not in "iu":
        raise failure(RuntimeError, f"expected target of dtype int64, got {target.array.dtype.name}")
    if input.array.dtype.kind not in "fV":
        raise failure(RuntimeError, f"expected a floating-point input, got {input.array.dtype.name}")
    if len(size) == 2:
        return input, target
    if len(size) == 1:
        return ops.unsqueeze(input, 0), ops.reshape(target, (1,))
    count = target.array.size
    return ops.reshape(ops.movedim(input, 1, -1), (count, size[1])), ops.reshape(target, (count,))


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """nll_loss of log_softmax: class scores against class numbers (or probabilities).

    input: [C], [N, C] or [N, C, d1, ...]; target: the same without C (int64), or of the same shape
    (float probabilities). Raises IndexError for a class out of range, ValueError for shapes that
    do not fit. Source: `torch.nn.functional.cross_entropy`.

    >>> import fusegrad as fg
    >>> fg.nn.functional.cross_entropy(fg.tensor([[0.0, 0.0]]), fg.tensor([1]))
    tensor(0.6931)
    """
    input, target = in_single(input, target)
    how = checked_reduction(reduction, size_average, reduce)
    if not 0 <= label_smoothing <= 1:
        raise failure(RuntimeError, f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    dim = 0 if input.array.ndim <= 1 else 1
    if target.array.shape == input.array.shape:
        _check_probabilities(target, ignore_index)
        return _against_probabilities(ops.log_softmax(input, dim), target, weight, how, label_smoothing)
    logp = ops.log_softmax(input, dim)
    loss = nll_loss(logp, target, weight, None, ignore_index, None, how)
    if not label_smoothing:
        return loss
    smooth = _smoothing(logp, target, weight, ignore_index, how)
    return loss * (1 - label_smoothing) + smooth * (label_smoothing / input.array.shape[dim])


def _check_probabilities(target: Tensor, ignore_index: int) -> None:
    if target.array.dtype.kind not in "fV":
        raise failure(
            RuntimeError,
            "Expected floating point type for target with class probabilities, "
            f"got {target.array.dtype.name}",
        )
    if ignore_index >= 0:
        raise failure(RuntimeError, "ignore_index is not supported for floating point target")


def _smoothing(logp: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, how: str) -> Tensor:
    """The loss against all classes alike, which label smoothing mixes in."""
    rows, classes = _as_rows(logp, target)
    kept = ops.ne(classes, ignore_index)
    loss = ops.where(kept, -(rows if weight is None else rows * weight).sum(-1), 0.0)
    if how == "none":
        return ops.reshape(loss, target.array.shape)
    if how == "sum":
        return loss.sum()
    if weight is None:
        return loss.sum() / _kept(classes, ignore_index, rows.array.dtype)
    return loss.sum() / ops.where(_hits(rows.array.shape, classes, ignore_index), weight, 0.0).sum()


def _against_probabilities(
    logp: Tensor, target: Tensor, weight: Tensor | None, how: str, smoothing: float
) -> Tensor:
    dim = 0 if logp.array.ndim == 1 else 1
    size = logp.array.shape
    if smoothing:
        target = target * (1 - smoothing) + smoothing / size[dim]
    if weight is not None:
        _check_weight(weight, size[dim])
        logp = logp * ops.reshape(weight, (-1,) + (1,) * (len(size) - dim - 1))
    loss = -(logp * target).sum(dim)
    if how == "mean":
        count = loss.array.size
        return loss.sum() / count if count else loss.sum() * math.nan
    return reduced(loss, how)


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """cross_entropy of the scores linear(input, linear_weight, linear_bias).

    input: [in] or [N, in]; linear_weight: [C, ..., in]; target as cross_entropy takes it for scores
    [N, C, ...]. `options` (how PyTorch cuts the work into chunks) changes no result here.
    Raises RuntimeError for shapes that do not fit. Source: `torch.nn.functional.linear_cross_entropy`.
    """
    batch, features = input.array.shape[:-1], input.array.shape[-1:]
    classes, *inner, wanted = linear_weight.array.shape if linear_weight.array.ndim > 1 else (0, 0)
    if input.array.ndim not in (1, 2) or linear_weight.array.ndim < 2 or features != (wanted,):
        raise failure(
            RuntimeError,
            f"expected an input [in] or [N, in] and a weight [C, ..., in] with the same last size, "
            f"got {list(input.array.shape)} and {list(linear_weight.array.shape)}",
        )
    if linear_bias is not None and linear_bias.array.shape != (classes, *inner):
        raise failure(
            RuntimeError,
            f"expected linear_bias shape {[classes, *inner]}, got {list(linear_bias.array.shape)}",
        )
    if inner and not batch:
        raise failure(RuntimeError, "a weight of more than two dimensions requires a batched input [N, in]")
    size = (*batch, classes, *inner)
    if target.array.shape == size and ignore_index is not None:
        raise failure(RuntimeError, "ignore_index cannot be specified when target contains probabilities")
    if inner:
        linear_weight = ops.reshape(linear_weight, (-1, wanted))
        linear_bias = None if linear_bias is None else ops.reshape(linear_bias, (-1,))
    scores = ops.reshape(linear(input, linear_weight, linear_bias), size)
    ignored = -100 if ignore_index is None else ignore_index
    return cross_entropy(
        scores, target, weight, None, ignored, None, reduction, label_smoothing=label_smoothing
    )
