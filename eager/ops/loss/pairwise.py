"""Distances between vectors, and vectors cut to a length."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Composite
from fusegrad.eager.core.op import bind, describe
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.precision import in_single, rounded_once
from fusegrad.eager.ops.reduce.reduction import _norm_numpy, vector_norm
from fusegrad.eager.ops.shape.shape import normal_dim


@public(method=True)
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of input - other. Source: `torch.dist`."""
    return vector_norm(input - other, p)


@public(method=True, inplace=True)
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Each slice along `dim` scaled down to a p-norm of `maxnorm` where it is longer.

    Source: `torch.renorm`.
    """
    ndim = input.array.ndim
    if ndim < 2:
        raise failure(RuntimeError, f"input needs at least 2 dimensions, got {ndim} dimensions")
    if p <= 0 or maxnorm < 0:
        raise failure(
            RuntimeError, f"expected a positive p and a maxnorm >= 0, got p={p} and maxnorm={maxnorm}"
        )
    dim = normal_dim(dim, ndim)

    def scaled(input: Tensor) -> Tensor:
        length = vector_norm(input, p, tuple(d for d in range(ndim) if d != dim), True)
        return input.contiguous() * ops.where(length > maxnorm, maxnorm / (length + 1e-7), 1.0)

    return rounded_once(scaled, input)


# The distance of each vector of one set to each of another.


def _scipy_distance() -> ModuleType:
    from scipy.spatial import distance  # here, since it is slow to import and few programs ask for it

    return distance


def _distances(a: np.ndarray, b: np.ndarray, p: float) -> np.ndarray:
    """The p-norms of the differences of the rows of two matrices, in float64."""
    if p == 0:
        return np.rint(_scipy_distance().cdist(a, b, "hamming") * a.shape[1])
    if math.isinf(p):
        found = _scipy_distance().cdist(a, b, "chebyshev")
        found[np.isnan(a).any(1)] = np.nan
        found[:, np.isnan(b).any(1)] = np.nan
        return found
    names = {1.0: "cityblock", 2.0: "euclidean"}
    if p in names:
        return _scipy_distance().cdist(a, b, names[p])
    return _scipy_distance().cdist(a, b, "minkowski", p=p)


def _cdist_numpy(x1: np.ndarray, x2: np.ndarray, p: float) -> np.ndarray:
    found = np.zeros((*x1.shape[:-1], x2.shape[-2]), x1.dtype)
    if x1.shape[-1] and found.size:
        for place in np.ndindex(x1.shape[:-2]):
            found[place] = _in_reach(_distances(x1[place], x2[place], p), x1[place], x2[place], p)
    return found


def _in_reach(found: np.ndarray, a: np.ndarray, b: np.ndarray, p: float) -> np.ndarray:
    """Distances in float64, but in the vectors' dtype where that does not hold the powers of the differences.

    PyTorch and compiled calls compute in that dtype, so distances may be infinite there, or 0.
    """
    if p in (0, 1, math.inf):
        return found
    limits = np.finfo(a.dtype)
    powers = found**p
    beyond = (powers > limits.max / 2) | ((powers < limits.tiny / limits.eps) & (found > 0))
    rows, columns = np.nonzero(beyond)
    if rows.size:
        found[rows, columns] = _norm_numpy(a[rows] - b[columns], -1, False, p)
    return found


def _cdist_decomposed(x1: Tensor, x2: Tensor, p: float) -> Tensor:
    return vector_norm(ops.unsqueeze(x1, -2) - ops.unsqueeze(x2, -3), p, -1)


def _cdist_gradient(g: Tensor, x1: Tensor, x2: Tensor, out: Tensor, p: float) -> Tensor:
    """That of `x1`. A distance of 0 has none, and the largest differences do not share it."""
    if p == 0:
        return ops.zeros(x1.array.shape, dtype=x1.dtype)
    if p == 2:  # all differences at once, as products of matrices
        weight = ops.where(ops.eq(out, 0), 0.0, g / out)
        return x1 * ops.sum(weight, -1, True) - ops.matmul(weight, x2)
    away = ops.unsqueeze(x1, -2) - ops.unsqueeze(x2, -3)
    g, length, size = ops.unsqueeze(g, -1), ops.unsqueeze(out, -1), ops.abs(away)
    if p == 1:
        slope = g * ops.sign(away)
    elif math.isinf(p):
        slope = g * ops.sign(away) * ops.eq(size, length)
    else:
        slope = g * ops.sign(away) * ops.pow(size, p - 1) / ops.pow(length, p - 1)
        flat = ops.eq(away, 0) if p < 1 else ops.eq(length, 0)
        slope = ops.where(flat, 0.0, slope)
    return ops.sum(slope, -2)


_cdist = Composite(
    "cdist",
    "x1 x2",
    _cdist_decomposed,
    _cdist_numpy,
    {
        "x1": _cdist_gradient,
        "x2": lambda g, x1, x2, out, p: _cdist_gradient(g.mT, x2, x1, out.mT, p),
    },
)


@public
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """The p-norm distances [..., n, m] of vectors [..., n, d] to vectors [..., m, d].

    compute_mode is PyTorch's choice between ways that differ in rounding; there is one here.
    Source: `torch.cdist`.

    >>> import fusegrad as fg
    >>> fg.cdist(fg.tensor([[0.0, 0.0]]), fg.tensor([[3.0, 4.0], [1.0, 0.0]]))
    tensor([[5., 1.]])
    """
    x1, x2 = in_single(x1, x2)
    first, second = x1.array, x2.array
    if first.dtype.kind != "f" or second.dtype != first.dtype:
        raise failure(
            RuntimeError,
            f"cdist takes floating-point tensors of one dtype, got {describe(x1)} and {describe(x2)}",
        )
    if first.ndim < 2 or second.ndim < 2:
        raise failure(
            RuntimeError,
            f"cdist takes tensors of at least 2 dimensions, got {describe(x1)} and {describe(x2)}",
        )
    if first.shape[-1] != second.shape[-1]:
        raise failure(
            RuntimeError,
            f"X1 and X2 must have the same number of columns, got {describe(x1)} and {describe(x2)}",
        )
    if p < 0:
        raise failure(RuntimeError, f"cdist only supports non-negative p values, got {p}")
    try:
        batch = np.broadcast_shapes(first.shape[:-2], second.shape[:-2])
    except ValueError:
        raise failure(
            RuntimeError, f"the batches of {describe(x1)} and {describe(x2)} do not broadcast"
        ) from None
    sides = [ops.expand(x, batch + x.array.shape[-2:]) for x in (x1, x2)]
    if dtypes.stands_for_float(p):
        return vector_norm(ops.unsqueeze(sides[0], -2) - ops.unsqueeze(sides[1], -3), p, -1)
    return bind(_cdist, tuple(sides), {"p": float(p)})


@public
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm distances between each two rows of a matrix [n, d], as a vector [n (n-1) / 2].

    Source: `torch.nn.functional.pdist`.
    """
    if input.array.ndim != 2:
        raise failure(RuntimeError, f"pdist only supports 2D tensors, got: {list(input.array.shape)}")
    rows, columns = np.triu_indices(input.array.shape[0], 1)
    first, second = ops.from_numpy(rows), ops.from_numpy(columns)
    return cdist(input, input, p)[first, second]
