"""Transforms of single numbers. As `torch.distributions.transforms`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.sizes import broadcast_shapes
from fusegrad.eager.core.tensor import Size, Tensor
from fusegrad.eager.distributions import constraints
from fusegrad.eager.distributions.distribution import sum_rightmost
from fusegrad.eager.distributions.transforms import Transform
from fusegrad.eager.nn import functional as F

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "ExpTransform",
    "PowerTransform",
    "SigmoidTransform",
    "SoftplusTransform",
    "TanhTransform",
]


class _Plain(Transform):
    """A transform of single numbers, one like another of its class."""

    bijective = True

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))

    @property
    def sign(self) -> Any:
        return 1


class ExpTransform(_Plain):
    """exp(x). Source: `torch.distributions.transforms.ExpTransform`."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class SigmoidTransform(_Plain):
    """1 / (1 + exp(-x)), kept off 0 and 1. Source: `torch.distributions.transforms.SigmoidTransform`."""

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        limits = dtypes.finfo(x.dtype)
        return x.sigmoid().clamp(min=limits.tiny, max=1.0 - limits.eps)

    def _inverse(self, y: Tensor) -> Tensor:
        limits = dtypes.finfo(y.dtype)
        y = y.clamp(min=limits.tiny, max=1.0 - limits.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return F.logsigmoid(x) + F.logsigmoid(-x)


class SoftplusTransform(_Plain):
    """log(1 + exp(x)), x above 20. Source: `torch.distributions.transforms.SoftplusTransform`."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return F.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-(-y).expm1()).log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x)


class TanhTransform(_Plain):
    """tanh(x). Source: `torch.distributions.transforms.TanhTransform`."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # 1 - tanh(x)**2 without cancellation
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class AbsTransform(_Plain):
    """The absolute value, which has no inverse. Source: `torch.distributions.transforms.AbsTransform`."""

    bijective = False
    codomain = constraints.positive

    @property
    def sign(self) -> Any:
        raise NotImplementedError

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class PowerTransform(Transform):
    """x ** exponent, of positive x. Source: `torch.distributions.transforms.PowerTransform`."""

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent if isinstance(exponent, Tensor) else ops.tensor(exponent)

    @property
    def sign(self) -> Any:
        return self.exponent.sign()

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all())

    def __hash__(self) -> int:
        return hash(PowerTransform)

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return _broadcast(shape, self.exponent)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        return _broadcast(shape, self.exponent)


def _broadcast(shape: Sequence[int], *values: Any) -> Size:
    return Size(broadcast_shapes(tuple(shape), *[tuple(getattr(v, "shape", ())) for v in values]))


class AffineTransform(Transform):
    """loc + scale * x. Source: `torch.distributions.transforms.AffineTransform`.

    event_dim: how many of the last dimensions are transformed together.
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @property
    def domain(self) -> Any:
        real = constraints.real
        return constraints.independent(real, self._event_dim) if self._event_dim else real

    @property
    def codomain(self) -> Any:
        return self.domain

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self._event_dim, cache_size)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AffineTransform)
            and _all_equal(self.loc, other.loc)
            and _all_equal(self.scale, other.scale)
        )

    def __hash__(self) -> int:
        return hash(AffineTransform)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, Tensor):
            stretch = self.scale.abs().log()
        else:
            stretch = ops.full_like(x, math.log(abs(self.scale)))
        return sum_rightmost(stretch.expand(_broadcast(x.shape, stretch)), self._event_dim)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return _broadcast(shape, self.loc, self.scale)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        return _broadcast(shape, self.loc, self.scale)


def _all_equal(one: Any, other: Any) -> bool:
    equal = one == other
    return bool(equal.all()) if isinstance(equal, Tensor) else equal


locate("fusegrad.distributions", globals(), __all__)
