"""Dropout: random zeros in training, of elements or of whole channels; and sampling from a softmax."""

from __future__ import annotations

from collections.abc import Callable

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.nn.activation import applied

MaskSize = Callable[[Tensor], tuple[int, ...]]


def _check_probability(p: float) -> None:
    if not 0 <= p <= 1:
        raise failure(ValueError, f"dropout probability has to be between 0 and 1, but got {p}")


def _kept(size: tuple[int, ...], p: float, like: Tensor) -> Tensor:
    """1 with probability 1 - p, else 0."""
    kind = dtypes.FROM_NUMPY[like.array.dtype]
    return ops.cast(ops.rand(size, dtype=kind) >= p, kind)


def _per_feature(input: Tensor) -> tuple[int, ...]:
    """The shape of a mask that drops whole channels of [N, C, ...]."""
    size = input.array.shape
    if len(size) < 2:
        raise failure(RuntimeError, "Feature dropout requires at least 2 dimensions in the input")
    return size[:2] + (1,) * (len(size) - 2)


def _dropped(
    input: Tensor,
    p: float,
    training: bool,
    inplace: bool,
    name: str,
    size: MaskSize,
) -> Tensor:
    """Zeros with probability `p`, one draw for each element of a mask of shape `size(input)`."""
    _check_probability(p)
    if not training or p == 0 or not input.array.size:
        return input
    if p == 1:
        return applied(lambda x: x * 0.0, input, inplace, name)
    scale = _kept(size(input), p, input) * (1 / (1 - p))
    return applied(lambda x: x * scale, input, inplace, name)


# What SELU tends to for large negative inputs, negated: dropped elements are set to it.
_SATURATION = 1.7580993408473766


def _alpha_dropped(
    input: Tensor,
    p: float,
    training: bool,
    inplace: bool,
    name: str,
    size: MaskSize,
) -> Tensor:
    """SELU's lowest value with probability `p`, then scaled and moved so that mean and variance stay."""
    _check_probability(p)
    if not training or p == 0 or not input.array.size:
        return input
    if p == 1:
        return applied(lambda x: x * 0.0, input, inplace, name)
    factor = 1 / ((_SATURATION**2 * p + 1) * (1 - p)) ** 0.5
    kept = _kept(size(input), p, input)
    moved = (kept - 1) * (_SATURATION * factor) + _SATURATION * factor * p
    return applied(lambda x: x * (kept * factor) + moved, input, inplace, name)


def _whole(input: Tensor) -> tuple[int, ...]:
    return input.array.shape


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Elements set to 0 with probability `p`, the others divided by 1 - p.

    Raises ValueError unless 0 <= p <= 1. Source: `torch.nn.functional.dropout`.
    """
    return _dropped(input, p, training, inplace, "dropout", _whole)


def feature_dropout(input: Tensor, p: float, training: bool) -> Tensor:
    """Whole channels of [N, C, ...] set to 0. Source: `torch.feature_dropout`."""
    return _dropped(input, p, training, False, "feature_dropout", _per_feature)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of [N, C, L] or [C, L] set to 0. Source: `torch.nn.functional.dropout1d`."""
    if input.array.ndim not in (2, 3):
        raise failure(RuntimeError, f"Expected 2D or 3D input, but received a {input.array.ndim}D input")
    return _dropped(input, p, training, inplace, "dropout1d", _batched_features(3))


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of [N, C, H, W] set to 0; [N, C, L] is taken too, as in PyTorch.

    Source: `torch.nn.functional.dropout2d`.
    """
    if input.array.ndim not in (3, 4):
        warn(
            f"dropout2d: Received a {input.array.ndim}-D input to dropout2d, which is deprecated and will "
            "result in an error in a future release. Please use dropout instead."
        )
    elif input.array.ndim == 3:
        warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior "
            "is desired - input is interpreted as shape (N, C, L). Please use dropout1d instead."
        )
    return _dropped(input, p, training, inplace, "dropout2d", _per_feature)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of [N, C, D, H, W] or [C, D, H, W] set to 0. Source: `torch.nn.functional.dropout3d`."""
    if input.array.ndim not in (4, 5):
        warn(
            f"dropout3d: Received a {input.array.ndim}-D input to dropout3d, which is deprecated and will "
            "result in an error in a future release. Please use dropout instead."
        )
    return _dropped(input, p, training, inplace, "dropout3d", _batched_features(5))


def _batched_features(ndim: int) -> MaskSize:
    """The mask's shape of inputs with `ndim` dimensions; fewer or more are one row of channels."""

    def size(input: Tensor) -> tuple[int, ...]:
        if input.array.ndim == ndim:
            return _per_feature(input)
        return input.array.shape[:1] + (1,) * (input.array.ndim - 1)

    return size


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps the mean and variance of SELU's outputs.

    Source: `torch.nn.functional.alpha_dropout`.
    """
    return _alpha_dropped(input, p, training, inplace, "alpha_dropout", _whole)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """`alpha_dropout` of whole channels of [N, C, ...].

    Source: `torch.nn.functional.feature_alpha_dropout`.
    """
    return _alpha_dropped(input, p, training, inplace, "feature_alpha_dropout", _per_feature)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A sample of the classes that `logits` weigh, smoothed by the temperature `tau`.

    hard: one-hot, with the gradient of the smooth sample. Source: `torch.nn.functional.gumbel_softmax`.
    """
    with no_grad():
        kind = dtypes.FROM_NUMPY[logits.array.dtype]
        exponential = -ops.log1p(-ops.rand(logits.array.shape, dtype=kind))
        gumbels = -ops.log(ops.clamp(exponential, dtypes.finfo(logits.dtype).tiny))
    smooth = ops.softmax((logits + gumbels) / tau, dim)
    if not hard:
        return smooth
    with no_grad():
        chosen = ops.argmax(smooth, dim, True)
        sharp = ops.scatter(ops.zeros_like(smooth), dim, chosen, 1.0)
    return sharp - smooth.detach() + smooth
