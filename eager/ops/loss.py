"""Loss functions: one NumPy evaluation in eager, elementwise ops and reductions when compiled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.eager.errors import failure
from fusegrad.eager.families import Composite
from fusegrad.eager.op import bind
from fusegrad.eager.ops import creation, elementwise as ew, reduction, shape
from fusegrad.eager.ops.activation import log_sigmoid, log_softmax
from fusegrad.eager.ops.elementwise import log, sigmoid, sign, where
from fusegrad.eager.ops.special import clamp
from fusegrad.eager.state import state
from fusegrad.eager.tensor import Tensor


def _checked_reduction(reduction: str) -> str:
    if reduction not in ("mean", "sum", "none"):
        raise failure(ValueError, f"{reduction!r} is not a valid value for reduction (mean, sum, none)")
    return reduction


def reduced(loss: Tensor, how: str) -> Tensor:
    """The elements' losses as their mean or sum, or as they are."""
    return loss if how == "none" else reduction.mean(loss) if how == "mean" else reduction.sum(loss)


def _reduced_numpy(loss: np.ndarray, how: str) -> Any:
    if how == "none":
        return loss
    total = np.add.reduce(loss, axis=None)
    return total / loss.dtype.type(loss.size) if how == "mean" else total


def _spread(g: Tensor, size: tuple[int, ...], how: str) -> Tensor:
    """The gradient of each element's loss."""
    if how == "mean":
        g = g / max(1, math.prod(size))
    return g


# Losses of pairs of elements. Each is declared by its value in NumPy and in public ops and by its
# derivative with respect to the input (and the target, where it is not that of the input negated).


def _pairwise(
    name: str,
    numpy: Callable[..., Any],
    value: Callable[..., Tensor],
    by_input: Callable[..., Tensor],
    by_target: Callable[..., Tensor] | None = None,
) -> Composite:
    """Declare a loss over pairs. Params: `reduction`, and what the functions take by name besides."""

    def input_gradient(g: Tensor, x: Tensor, y: Tensor, reduction: str, parameter: Any) -> Tensor:
        return _spread(g, x.array.shape, reduction) * by_input(x, y, parameter)

    def target_gradient(g: Tensor, x: Tensor, y: Tensor, reduction: str, parameter: Any) -> Tensor:
        if by_target is None:
            return -(_spread(g, x.array.shape, reduction) * by_input(x, y, parameter))
        return _spread(g, x.array.shape, reduction) * by_target(x, y, parameter)

    return Composite(
        name,
        "x y",
        lambda x, y, reduction, parameter: reduced(value(x, y, parameter), reduction),
        lambda x, y, reduction, parameter: _reduced_numpy(numpy(x, y, parameter), reduction),
        {"x": input_gradient, "y": target_gradient},
    )


def _huber_numpy(x: np.ndarray, y: np.ndarray, delta: float) -> Any:
    away = np.abs(x - y)
    return np.where(away <= delta, 0.5 * away * away, delta * (away - 0.5 * delta))


def _smooth_numpy(x: np.ndarray, y: np.ndarray, beta: float) -> Any:
    away = np.abs(x - y)
    return np.where(away < beta, away * away * (0.5 / beta), away - 0.5 * beta)


def _huber(x: Tensor, y: Tensor, delta: float) -> Tensor:
    away = ew.abs(x - y)
    return where(away <= delta, away * away * 0.5, (away - 0.5 * delta) * delta)


def _smooth(x: Tensor, y: Tensor, beta: float) -> Tensor:
    away = ew.abs(x - y)
    return where(away < beta, away * away * (0.5 / beta), away - 0.5 * beta)


def _bce_numpy(x: np.ndarray, y: np.ndarray, _: Any) -> Any:
    if x.size and not ((x >= 0) & (x <= 1)).all():
        raise RuntimeError("all elements of input should be between 0 and 1")
    return (y - 1) * np.maximum(np.log1p(-x), -100) - y * np.maximum(np.log(x), -100)


def _bce(x: Tensor, y: Tensor, _: Any) -> Tensor:
    return (y - 1) * clamp(ew.log1p(-x), -100) - y * clamp(log(x), -100)


def _bce_logits_numpy(x: np.ndarray, y: np.ndarray, _: Any) -> Any:
    return np.maximum(x, 0) - x * y + np.log1p(np.exp(-np.abs(x)))


_mse = _pairwise(
    "mse_loss",
    lambda x, y, _: (x - y) * (x - y),
    lambda x, y, _: (x - y) * (x - y),
    lambda x, y, _: (x - y) * 2,
)
_l1 = _pairwise(
    "l1_loss", lambda x, y, _: np.abs(x - y), lambda x, y, _: ew.abs(x - y), lambda x, y, _: sign(x - y)
)
_huber_op = _pairwise(
    "huber_loss", _huber_numpy, _huber, lambda x, y, delta: clamp(x - y, -float(delta), float(delta))
)
_smooth_op = _pairwise(
    "smooth_l1_loss", _smooth_numpy, _smooth, lambda x, y, beta: clamp((x - y) / beta, -1.0, 1.0)
)
_bce_op = _pairwise(
    "binary_cross_entropy",
    _bce_numpy,
    _bce,
    lambda x, y, _: (x - y) / clamp((1 - x) * x, 1e-12),
    lambda x, y, _: clamp(ew.log1p(-x), -100) - clamp(log(x), -100),
)
_bce_logits_op = _pairwise(
    "binary_cross_entropy_with_logits",
    _bce_logits_numpy,
    lambda x, y, _: clamp(x, 0.0) - x * y + ew.log1p(ew.exp(-ew.abs(x))),
    lambda x, y, _: sigmoid(x) - y,
    lambda x, y, _: -x,
)


def _pair_loss(
    op: Composite,
    input: Tensor,
    target: Tensor,
    how: str,
    parameter: Any = None,
    weight: Tensor | None = None,
) -> Tensor:
    """Broadcast and promote both sides, then run `op`."""
    how = _checked_reduction(how)
    size = np.broadcast_shapes(input.array.shape, target.array.shape)
    kind = np.result_type(input.array.dtype, target.array.dtype)
    if kind.kind != "f":
        raise failure(RuntimeError, f"expected floating-point tensors, got {kind.name}")
    input = ew.cast(shape.expand(input, size), kind)
    target = ew.cast(shape.expand(target, size), kind)
    if weight is None:
        return bind(op, (input, target), {"reduction": how, "parameter": parameter})
    loss = bind(op, (input, target), {"reduction": "none", "parameter": parameter})
    return reduced(loss * weight, how)


def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """(input - target) ** 2, averaged. Source: `torch.nn.functional.mse_loss`.

    >>> import fusegrad as fg
    >>> fg.nn.functional.mse_loss(fg.tensor([1.0, 2.0]), fg.tensor([1.0, 4.0]))
    tensor(2.)
    """
    return _pair_loss(_mse, input, target, reduction, None, weight)


def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """|input - target|, averaged. Source: `torch.nn.functional.l1_loss`."""
    return _pair_loss(_l1, input, target, reduction, None, weight)


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Squares up to `delta`, straight lines beyond. Source: `torch.nn.functional.huber_loss`."""
    if delta <= 0:
        raise failure(ValueError, f"delta must be above 0, got {delta}")
    return _pair_loss(_huber_op, input, target, reduction, delta, weight)


def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """Squares up to `beta`, absolute beyond. Source: `torch.nn.functional.smooth_l1_loss`."""
    if beta < 0:
        raise failure(RuntimeError, f"beta cannot be negative, got {beta}")
    if beta == 0:
        return l1_loss(input, target, reduction)
    return _pair_loss(_smooth_op, input, target, reduction, beta)


def _same_shape(input: Tensor, target: Tensor) -> None:
    if input.array.shape != target.array.shape:
        raise failure(
            ValueError,
            f"target and input must have the same size, got {list(target.array.shape)} "
            f"and {list(input.array.shape)}",
        )


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """-(y log x + (1 - y) log(1 - x)). Source: `torch.nn.functional.binary_cross_entropy`."""
    _same_shape(input, target)
    if state.interpreter is not None:
        inside = ((input >= 0) & (input <= 1)).all()
        state.interpreter.check(
            inside, "binary_cross_entropy: all elements of input should be between 0 and 1"
        )
    return _pair_loss(_bce_op, input, target, reduction, None, weight)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """binary_cross_entropy(sigmoid(x), y) without overflow.

    Source: `torch.nn.functional.binary_cross_entropy_with_logits`.
    """
    _same_shape(input, target)
    if pos_weight is None:
        return _pair_loss(_bce_logits_op, input, target, reduction, None, weight)
    positive = (pos_weight - 1) * target + 1
    loss = (1 - target) * input - positive * log_sigmoid(input)
    return reduced(loss if weight is None else loss * weight, _checked_reduction(reduction))


# Losses of rows of class scores: input [N, C] float, target [N] int64.


def _hits(x_shape: tuple[int, ...], target: Tensor, ignore_index: int) -> Tensor:
    """Where each row's target class stands, as a mask [N, C] that fuses into a loop over rows."""
    column = shape.unsqueeze(target, -1)
    return ew.logical_and(ew.eq(creation.arange(x_shape[-1]), column), ew.ne(column, ignore_index))


def _kept(target: Tensor, ignore_index: int, like: np.dtype) -> Tensor:
    """How many rows count, as a float."""
    return ew.cast(reduction.sum(ew.ne(target, ignore_index)), like)


def _nll_decomposed(x: Tensor, target: Tensor, ignore_index: int, reduction: str) -> Tensor:
    loss = -where(_hits(x.array.shape, target, ignore_index), x, 0.0).sum(-1)
    if reduction == "none":
        return loss
    total = loss.sum()
    return total / _kept(target, ignore_index, x.array.dtype) if reduction == "mean" else total


def _nll_rows(x: np.ndarray, target: np.ndarray, ignore_index: int) -> tuple[np.ndarray, np.ndarray]:
    """The picked elements (0 in ignored rows), and which rows count."""
    kept = target != ignore_index
    picked = np.where(kept, target, 0)
    outside = (picked < 0) | (picked >= x.shape[-1])
    if outside.any():
        raise IndexError(f"Target {picked[outside][0]} is out of bounds.")
    rows = x[np.arange(x.shape[0]), picked] if x.shape[0] else np.zeros(0, x.dtype)
    return np.where(kept, rows, x.dtype.type(0)), kept


def _nll_numpy(x: np.ndarray, target: np.ndarray, ignore_index: int, reduction: str) -> Any:
    rows, kept = _nll_rows(x, target, ignore_index)
    if reduction == "none":
        return -rows
    return -rows.sum() / x.dtype.type(kept.sum()) if reduction == "mean" else -rows.sum()


def _nll_gradient(g: Tensor, target: Tensor, x_type: Any, ignore_index: int, reduction: str) -> Tensor:
    if reduction == "mean":
        g = g / _kept(target, ignore_index, x_type.dtype)
    elif reduction == "none":
        g = shape.unsqueeze(g, -1)
    return where(_hits(x_type.shape, target, ignore_index), -g, 0.0)


_nll = Composite(
    "nll_loss",
    "x target",
    _nll_decomposed,
    _nll_numpy,
    {"x": _nll_gradient, "target": None},
    "NllLossBackward0",
)


def _weighted_decomposed(
    x: Tensor, target: Tensor, weight: Tensor, ignore_index: int, reduction: str
) -> Tensor:
    hits = _hits(x.array.shape, target, ignore_index)
    loss = -where(hits, x * weight, 0.0).sum(-1)
    if reduction == "none":
        return loss
    total = loss.sum()
    return total / where(hits, weight, 0.0).sum() if reduction == "mean" else total


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
        g = g / where(hits, weight, 0.0).sum()
    elif reduction == "none":
        g = shape.unsqueeze(g, -1)
    return where(hits, -g * weight, 0.0)


_nll_weighted = Composite(
    "nll_loss_weighted",
    "x target weight",
    _weighted_decomposed,
    _weighted_numpy,
    {"x": _weighted_gradient, "target": None, "weight": None},
    "NllLossBackward0",
)


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
    how = _checked_reduction(reduction)
    rows, classes = _as_rows(input, target)
    if state.interpreter is not None:
        count = rows.array.shape[-1]
        valid = ((classes >= 0) & (classes < count)) | ew.eq(classes, ignore_index)
        state.interpreter.check(valid.all(), f"nll_loss: target is out of bounds for {count} classes")
    params = {"ignore_index": ignore_index, "reduction": how}
    if weight is None:
        loss = bind(_nll, (rows, classes), params)
    else:
        loss = bind(_nll_weighted, (rows, classes, weight), params)
    return shape.reshape(loss, target.array.shape) if how == "none" else loss


def _as_rows(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The scores as [N, C] and the targets as [N], checked."""
    size, wanted = input.array.shape, target.array.shape
    expected = size[:1] + size[2:] if len(size) > 1 else ()
    if not size or wanted != expected:
        raise failure(
            ValueError,
            f"Expected target of shape {list(expected)} for input of shape {list(size)}, got {list(wanted)}",
        )
    if target.array.dtype.kind not in "iu":
        raise failure(RuntimeError, f"expected target of dtype int64, got {target.array.dtype.name}")
    if input.array.dtype.kind != "f":
        raise failure(RuntimeError, f"expected a floating-point input, got {input.array.dtype.name}")
    if len(size) == 2:
        return input, target
    if len(size) == 1:
        return shape.unsqueeze(input, 0), shape.reshape(target, (1,))
    count = target.array.size
    return shape.reshape(shape.movedim(input, 1, -1), (count, size[1])), shape.reshape(target, (count,))


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
    how = _checked_reduction(reduction)
    dim = 0 if input.array.ndim == 1 else 1
    if target.array.dtype.kind == "f" and target.array.shape == input.array.shape:
        return _against_probabilities(log_softmax(input, dim), target, weight, how, label_smoothing)
    logp = log_softmax(input, dim)
    loss = nll_loss(logp, target, weight, None, ignore_index, None, how)
    if not label_smoothing:
        return loss
    smooth = _smoothing(logp, target, weight, ignore_index, how)
    return loss * (1 - label_smoothing) + smooth * (label_smoothing / input.array.shape[dim])


def _smoothing(logp: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, how: str) -> Tensor:
    """The loss against all classes alike, which label smoothing mixes in."""
    rows, classes = _as_rows(logp, target)
    kept = ew.ne(classes, ignore_index)
    loss = where(kept, -(rows if weight is None else rows * weight).sum(-1), 0.0)
    if how == "none":
        return shape.reshape(loss, target.array.shape)
    if how == "sum":
        return loss.sum()
    if weight is None:
        return loss.sum() / _kept(classes, ignore_index, rows.array.dtype)
    return loss.sum() / where(_hits(rows.array.shape, classes, ignore_index), weight, 0.0).sum()


def _against_probabilities(
    logp: Tensor, target: Tensor, weight: Tensor | None, how: str, smoothing: float
) -> Tensor:
    dim = 0 if logp.array.ndim == 1 else 1
    size = logp.array.shape
    if smoothing:
        target = target * (1 - smoothing) + smoothing / size[dim]
    if weight is not None:
        logp = logp * shape.reshape(weight, (-1,) + (1,) * (len(size) - dim - 1))
    loss = -(logp * target).sum(dim)
    if how == "mean":
        return loss.sum() / max(1, math.prod(size) // size[dim])
    return reduced(loss, how)
