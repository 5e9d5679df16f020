"""Transforms of vectors, matrices and parts of tensors. As `torch.distributions.transforms`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fusegrad.eager import linalg
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.tensor import Size, Tensor
from fusegrad.eager.distributions import constraints
from fusegrad.eager.distributions.distribution import Distribution, sized, sum_rightmost, tril_matrix_to_vec
from fusegrad.eager.distributions.transforms import Transform
from fusegrad.eager.nn import functional as F

__all__ = [
    "CatTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "ReshapeTransform",
    "SoftmaxTransform",
    "StackTransform",
    "StickBreakingTransform",
]


class _OfEvents(Transform):
    """A transform of vectors or matrices, one like another of its class."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))

    def _sized(self, shape: Sequence[int], more: int) -> Size:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return sized(shape[:-1], (shape[-1] + more,))


class ReshapeTransform(Transform):
    """Events of one shape in another. Source: `torch.distributions.transforms.ReshapeTransform`."""

    bijective = True

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")

    @property
    def domain(self) -> Any:
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self) -> Any:
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return _reshaped(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        return _reshaped(shape, self.out_shape, self.in_shape)


def _reshaped(shape: Sequence[int], before: Size, after: Size) -> Size:
    start = len(shape) - len(before)
    if start < 0:
        raise ValueError("Too few dimensions on input")
    if tuple(shape[start:]) != tuple(before):
        raise ValueError(f"Shape mismatch: expected {Size(shape[start:])} but got {before}")
    return sized(shape[:start], after)


class SoftmaxTransform(_OfEvents):
    """softmax along the last dimension. Source: `torch.distributions.transforms.SoftmaxTransform`."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return self._sized(shape, 0)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        return self._sized(shape, 0)


class StickBreakingTransform(_OfEvents):
    """Shares of a stick that is broken again and again: n numbers to n + 1 that sum to 1.

    Source: `torch.distributions.transforms.StickBreakingTransform`.
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def _left(self, n: int, like: Tensor) -> Tensor:
        """How many parts the rest of the stick will have, at each break."""
        return ops.arange(n, 0, -1, dtype=like.dtype)

    def _call(self, x: Tensor) -> Tensor:
        share = (x - self._left(x.shape[-1], x).log()).sigmoid()
        rest = (1 - share).cumprod(-1)
        return F.pad(share, (0, 1), value=1.0) * F.pad(rest, (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        cropped = y[..., :-1]
        rest = (1 - cropped.cumsum(-1)).clamp(min=dtypes.finfo(y.dtype).tiny)
        return cropped.log() - rest.log() + self._left(cropped.shape[-1], y).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        shifted = x - self._left(x.shape[-1], x).log()
        return (-shifted + F.logsigmoid(shifted) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return self._sized(shape, 1)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        return self._sized(shape, -1)


class LowerCholeskyTransform(_OfEvents):
    """The lower triangle of a matrix, with the exponential of its diagonal.

    Source: `torch.distributions.transforms.LowerCholeskyTransform`.
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_OfEvents):
    """A lower triangle, as `LowerCholeskyTransform` has it, times its transpose.

    Source: `torch.distributions.transforms.PositiveDefiniteTransform`.
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        lower = LowerCholeskyTransform()(x)
        return lower @ lower.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform()._inv_call(linalg.cholesky(y))


class CorrCholeskyTransform(_OfEvents):
    """n (n - 1) / 2 numbers as the Cholesky factor of an n x n correlation matrix.

    Source: `torch.distributions.transforms.CorrCholeskyTransform`.
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        size = self.forward_shape(x.shape)[-1]
        limit = dtypes.finfo(x.dtype).eps
        turns = x.tanh().clamp(-1 + limit, 1 - limit)
        row, column = ops.arange(size).unsqueeze(1), ops.arange(size)
        below = turns[..., (row * (row - 1) // 2 + column).tril(-1)].tril(-1)
        rest = (1 - below.square()).sqrt().cumprod(-1)
        return (below + ops.eye(size, dtype=x.dtype)) * F.pad(rest[..., :-1], (1, 0), value=1.0)

    def _rest(self, y: Tensor) -> Tensor:
        """What the squares in a row leave of 1, before each place."""
        return F.pad(1 - y.square().cumsum(-1)[..., :-1], (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        return (tril_matrix_to_vec(y, -1) / tril_matrix_to_vec(self._rest(y), -1).sqrt()).atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        turning = 2 * (math.log(2.0) - x - F.softplus(-2 * x))
        return 0.5 * tril_matrix_to_vec(self._rest(y), -1).log().sum(-1) + turning.sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        size = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != shape[-1]:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return sized(shape[:-1], (size, size))

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return sized(shape[:-2], (shape[-1] * (shape[-1] - 1) // 2,))


class CumulativeDistributionTransform(Transform):
    """The probability of numbers up to x.

    Source: `torch.distributions.transforms.CumulativeDistributionTransform`.
    """

    bijective = True
    codomain = constraints.unit_interval

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        return self.distribution.support

    @property
    def sign(self) -> Any:
        return 1

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)


class _OfParts(Transform):
    """Transforms of the parts of a tensor along a dimension."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> bool:
        return all(t.bijective for t in self.transforms)

    def _split(self, value: Tensor) -> list[Tensor]:
        raise NotImplementedError

    def _join(self, parts: list[Tensor]) -> Tensor:
        raise NotImplementedError

    def _call(self, x: Tensor) -> Tensor:
        return self._join([t(p) for t, p in zip(self.transforms, self._split(x), strict=True)])

    def _inverse(self, y: Tensor) -> Tensor:
        return self._join([t._inv_call(p) for t, p in zip(self.transforms, self._split(y), strict=True)])


class StackTransform(_OfParts):
    """One transform for each entry along a dimension.

    Source: `torch.distributions.transforms.StackTransform`.
    """

    @property
    def domain(self) -> Any:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @property
    def codomain(self) -> Any:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    def _split(self, value: Tensor) -> list[Tensor]:
        if value.shape[self.dim] != len(self.transforms):
            raise ValueError(f"{len(self.transforms)} transforms, but {value.shape[self.dim]} entries")
        return list(ops.unbind(value, self.dim))

    def _join(self, parts: list[Tensor]) -> Tensor:
        return ops.stack(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        pairs = zip(self.transforms, self._split(x), self._split(y), strict=True)
        return ops.stack([t.log_abs_det_jacobian(a, b) for t, a, b in pairs], self.dim)


class CatTransform(_OfParts):
    """One transform for each stretch along a dimension.

    Source: `torch.distributions.transforms.CatTransform`.
    """

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)

    @property
    def event_dim(self) -> int:
        return max([t.event_dim for t in self.transforms])

    @property
    def length(self) -> int:
        """How many entries the stretches have."""
        return sum(self.lengths)

    @property
    def domain(self) -> Any:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @property
    def codomain(self) -> Any:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _split(self, value: Tensor) -> list[Tensor]:
        return list(ops.split(value, self.lengths, self.dim))

    def _join(self, parts: list[Tensor]) -> Tensor:
        return ops.cat(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        found = []
        for t, a, b in zip(self.transforms, self._split(x), self._split(y), strict=True):
            found.append(sum_rightmost(t.log_abs_det_jacobian(a, b), self.event_dim - t.event_dim))
        dim = self.dim if self.dim < 0 else self.dim - x.dim()
        dim += self.event_dim
        if dim < 0:
            return ops.cat(found, dim)
        total = found[0]
        for more in found[1:]:
            total = total + more
        return total


locate("fusegrad.distributions", globals(), __all__)
