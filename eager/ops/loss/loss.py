"""Losses of pairs of elements: one NumPy evaluation in eager, elementwise ops and reductions when compiled.

Losses of class numbers stand in `classification.py`, those with margins in `margin_loss.py`, those of
distributions in `distribution_loss.py`; what all share (the reductions) is here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.families import Composite
from fusegrad.eager.core.memory_order import Rule, as_operands
from fusegrad.eager.core.op import bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.state import testable
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.nn.activation import log_sigmoid
from fusegrad.eager.ops.pointwise.declare_pointwise import number
from fusegrad.eager.ops.precision import in_single


def checked_reduction(reduction: str, size_average: Any = None, reduce: Any = None) -> str:
    """How a loss is reduced: "mean", "sum" or "none", also from PyTorch's two older switches.

    Raises ValueError for another word.
    """
    if size_average is not None or reduce is not None:
        averaged = size_average is None or size_average
        reduction = "none" if reduce is not None and not reduce else "mean" if averaged else "sum"
        warn(
            f"size_average and reduce args will be deprecated, please use reduction={reduction!r} instead.",
        )
    if reduction not in ("mean", "sum", "none"):
        raise failure(ValueError, f"{reduction!r} is not a valid value for reduction (mean, sum, none)")
    return reduction


def reduced(loss: Tensor, how: str) -> Tensor:
    """The elements' losses as their mean or sum, or as they are."""
    return loss if how == "none" else ops.mean(loss) if how == "mean" else ops.sum(loss)


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
    order: Rule = as_operands,
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
        order=order,
    )


def _huber_numpy(x: np.ndarray, y: np.ndarray, delta: float) -> Any:
    away = np.abs(x - y)
    return np.where(away <= delta, 0.5 * away * away, delta * (away - 0.5 * delta))


def _smooth_numpy(x: np.ndarray, y: np.ndarray, beta: float) -> Any:
    away = np.abs(x - y)
    return np.where(away < beta, away * away * (0.5 / beta), away - 0.5 * beta)


def _huber(x: Tensor, y: Tensor, delta: float) -> Tensor:
    away = ops.abs(x - y)
    return ops.where(away <= delta, away * away * 0.5, (away - 0.5 * delta) * delta)


def _smooth(x: Tensor, y: Tensor, beta: float) -> Tensor:
    away = ops.abs(x - y)
    return ops.where(away < beta, away * away * (0.5 / beta), away - 0.5 * beta)


def _bce_numpy(x: np.ndarray, y: np.ndarray, _: Any) -> Any:
    if x.size and not ((x >= 0) & (x <= 1)).all():
        raise RuntimeError("all elements of input should be between 0 and 1")
    return (y - 1) * np.maximum(np.log1p(-x), -100) - y * np.maximum(np.log(x), -100)


def _bce(x: Tensor, y: Tensor, _: Any) -> Tensor:
    return (y - 1) * ops.clamp(ops.log1p(-x), -100) - y * ops.clamp(ops.log(x), -100)


def _bce_logits_numpy(x: np.ndarray, y: np.ndarray, _: Any) -> Any:
    return (1 - y) * x - (np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))))


_mse = _pairwise(
    "mse_loss",
    lambda x, y, _: (x - y) * (x - y),
    lambda x, y, _: (x - y) * (x - y),
    lambda x, y, _: (x - y) * 2,
)
_l1 = _pairwise(
    "l1_loss", lambda x, y, _: np.abs(x - y), lambda x, y, _: ops.abs(x - y), lambda x, y, _: ops.sign(x - y)
)
_huber_op = _pairwise("huber_loss", _huber_numpy, _huber, lambda x, y, delta: ops.clamp(x - y, -delta, delta))
_smooth_op = _pairwise(
    "smooth_l1_loss", _smooth_numpy, _smooth, lambda x, y, beta: ops.clamp((x - y) / beta, -1.0, 1.0)
)
_huber_op.numbers_vary = _smooth_op.numbers_vary = True
_bce_op = _pairwise(
    "binary_cross_entropy",
    _bce_numpy,
    _bce,
    lambda x, y, _: (x - y) / ops.clamp((1 - x) * x, 1e-12),
    lambda x, y, _: ops.clamp(ops.log1p(-x), -100) - ops.clamp(ops.log(x), -100),
)
_bce_op.by_values = True  # of what lies between 0 and 1
_bce_logits_op = _pairwise(
    "binary_cross_entropy_with_logits",
    _bce_logits_numpy,
    lambda x, y, _: (1 - y) * x - (ops.clamp(x, max=0.0) - ops.log1p(ops.exp(-ops.abs(x)))),
    lambda x, y, _: ops.sigmoid(x) - y,
    lambda x, y, _: -x,
    lambda shape, operands, params: as_operands(shape, operands[::-1]),
)


def _pair_loss(op: Composite, input: Tensor, target: Tensor, how: str, parameter: Any = None) -> Tensor:
    """Broadcast and promote both sides, then run `op`."""
    sizes = input.array.shape, target.array.shape
    if sizes[0] != sizes[1]:
        warn(
            f"Using a target size ({list(sizes[1])}) that is different to the input size ({list(sizes[0])}). "
            "This will likely lead to incorrect results due to broadcasting. Please ensure they have the "
            "same size.",
        )
        input, target = ops.broadcast_tensors(input, target)
    kind = dtypes.result_type([input.array, target.array])
    if kind.kind not in "fV":
        raise failure(RuntimeError, f"expected floating-point tensors, got {kind.name}")
    input, target = (t if t.array.dtype == kind else ops.cast(t, kind) for t in (input, target))
    return bind(op, (input, target), {"reduction": how, "parameter": parameter})


def _same_weight(input: Tensor, weight: Tensor) -> None:
    if weight.array.shape != input.array.shape:
        raise failure(
            ValueError,
            "Weights and input must have the same size, "
            f"got {list(weight.array.shape)} and {list(input.array.shape)}",
        )


def _weight_averaged(op: Composite, input: Tensor, target: Tensor, how: str, weight: Tensor) -> Tensor:
    """The elements' losses times `weight`; the mean divides by the sum of the weights."""
    _same_weight(input, weight)
    loss = _pair_loss(op, input, target, "none") * weight
    return ops.sum(loss) / ops.sum(weight) if how == "mean" else reduced(loss, how)


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """(input - target) ** 2, averaged (by `weight`, if given). Source: `torch.nn.functional.mse_loss`.

    >>> import fusegrad as fg
    >>> fg.nn.functional.mse_loss(fg.tensor([1.0, 2.0]), fg.tensor([1.0, 4.0]))
    tensor(2.)
    """
    how = checked_reduction(reduction, size_average, reduce)
    if weight is None:
        return _pair_loss(_mse, input, target, how)
    return _weight_averaged(_mse, input, target, how, weight)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """|input - target|, averaged (by `weight`, if given). Source: `torch.nn.functional.l1_loss`."""
    how = checked_reduction(reduction, size_average, reduce)
    if weight is None:
        if input.is_complex() or target.is_complex():
            return reduced(ops.abs(input - target), how)
        return _pair_loss(_l1, input, target, how)
    return _weight_averaged(_l1, input, target, how, weight)


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Squares up to `delta`, straight lines beyond. Source: `torch.nn.functional.huber_loss`."""
    delta = number(delta)
    if delta <= 0:
        raise failure(RuntimeError, f"huber_loss does not support non-positive values for delta, got {delta}")
    how = checked_reduction(reduction)
    if weight is None:
        return _pair_loss(_huber_op, input, target, how, delta)
    _same_weight(input, weight)
    return reduced(_pair_loss(_huber_op, input, target, "none", delta) * weight, how)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Squares up to `beta`, absolute beyond. Source: `torch.nn.functional.smooth_l1_loss`."""
    how = checked_reduction(reduction, size_average, reduce)
    beta = number(beta)
    if beta < 0:
        raise failure(RuntimeError, f"smooth_l1_loss does not support negative values for beta, got {beta}")
    if beta == 0:
        return _pair_loss(_l1, input, target, how)
    return _pair_loss(_smooth_op, input, target, how, beta)


def _same_shape(input: Tensor, target: Tensor) -> None:
    if input.array.shape != target.array.shape:
        raise failure(
            ValueError,
            f"target and input must have the same size, got {list(target.array.shape)} "
            f"and {list(input.array.shape)}",
        )


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """-(y log x + (1 - y) log(1 - x)). Source: `torch.nn.functional.binary_cross_entropy`."""
    how = checked_reduction(reduction, size_average, reduce)
    _same_shape(input, target)
    testable(input, lambda: ((input >= 0) & (input <= 1)).all())  # as the op does when it is evaluated
    if weight is None:
        return _pair_loss(_bce_op, input, target, how)
    return reduced(_pair_loss(_bce_op, input, target, "none") * weight, how)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """binary_cross_entropy(sigmoid(x), y) without overflow.

    Source: `torch.nn.functional.binary_cross_entropy_with_logits`.
    """
    how = checked_reduction(reduction, size_average, reduce)
    _same_shape(input, target)
    if pos_weight is None and weight is None:
        return _pair_loss(_bce_logits_op, input, target, how)
    if pos_weight is None:
        loss = _pair_loss(_bce_logits_op, input, target, "none")
    else:
        loss = (1 - target) * input - ((pos_weight - 1) * target + 1) * log_sigmoid(input)
    return reduced(loss if weight is None else loss * weight, how)


def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
) -> Tensor:
    """log(1 + exp(-target * input)), for targets 1 and -1. Source: `torch.nn.functional.soft_margin_loss`.

    Raises RuntimeError for a target that would give more losses than there are inputs.
    """
    input, target = in_single(input, target)
    how = checked_reduction(reduction, size_average, reduce)
    losses = ops.log1p(ops.exp(-input * target))
    if losses.array.shape != input.array.shape:
        sizes = f"{list(input.array.shape)} doesn't match the broadcast shape {list(losses.array.shape)}"
        raise failure(RuntimeError, f"output with shape {sizes}")
    return reduced(losses, how)
