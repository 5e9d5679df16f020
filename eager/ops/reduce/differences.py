"""Differences of neighbours, slopes, and integrals by the trapezoidal rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.sizes import Ints
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.shape.shape import normal_dim, normal_dims


def _part(x: Tensor, dim: int, start: int | None, stop: int | None = None) -> Tensor:
    """The elements from `start` to `stop` (as of a Python slice) along `dim`."""
    return x[(slice(None),) * dim + (slice(start, stop),)]


@public(method=True)
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """The differences of neighbours along `dim`, taken `n` times; of bools, where they change.

    prepend, append: what is joined to the input before. Source: `torch.diff`.

    >>> import fusegrad as fg
    >>> fg.diff(fg.tensor([1, 4, 9]))
    tensor([3, 5])
    """
    if not input.array.ndim:
        raise failure(RuntimeError, "diff expects input to be at least one-dimensional")
    if n < 0:
        raise failure(RuntimeError, f"order must be non-negative but got {n}")
    if n == 0:
        return ops.clone(input)
    dim = normal_dim(dim, input.array.ndim)
    given = [x for x in (prepend, input, append) if x is not None]
    if any(x.array.ndim != input.array.ndim for x in given):
        raise failure(RuntimeError, "diff expects prepend or append to be the same dimension as input")
    for d in range(input.array.ndim):
        if d != dim and any(x.array.shape[d] != input.array.shape[d] for x in given):
            raise failure(
                RuntimeError,
                "diff expects the shape of tensor to prepend or append to match that of input except along "
                f"the differencing dimension; got {[list(x.array.shape) for x in given]}, dim {dim}",
            )
    result = ops.cat(given, dim) if len(given) > 1 else input
    subtract = ops.logical_xor if result.array.dtype.kind == "b" else ops.sub
    for _ in range(min(n, result.array.shape[dim])):
        result = subtract(_part(result, dim, 1), _part(result, dim, 0, -1))
    return result


# Integrals.


@public(aliases=("trapz",))
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The integral along `dim` of `y`, sampled at `x` or at steps of `dx` (1). Source: `torch.trapezoid`."""
    dim = _checked_samples(y, x, dx, dim)
    if not y.array.shape[dim]:
        return ops.zeros(y.array.shape[:dim] + y.array.shape[dim + 1 :], dtype=y.dtype)
    if x is None:
        ends = ops.select(y, dim, 0) + ops.select(y, dim, -1)
        return (ops.sum(y, dim) - ends * 0.5) * (1 if dx is None else dx)
    return ops.sum(_pairs(y, dim) * _steps(y, x, dim), dim) / 2.0


@public
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The integrals of `trapezoid` up to each sample but the first. Source: `torch.cumulative_trapezoid`."""
    dim = _checked_samples(y, x, dx, dim)
    if x is None:
        return ops.cumsum(_pairs(y, dim) * ((1 if dx is None else dx) / 2.0), dim)
    return ops.cumsum(_pairs(y, dim) * _steps(y, x, dim), dim) / 2.0


def _pairs(y: Tensor, dim: int) -> Tensor:
    """The sums of neighbours along `dim`."""
    return _part(y, dim, 0, -1) + _part(y, dim, 1)


def _checked_samples(y: Tensor, x: Tensor | None, dx: Any, dim: int) -> int:
    """`dim` counted from 0. Raises RuntimeError for bools, and where both `x` and `dx` are given."""
    if x is not None and dx is not None:
        raise failure(RuntimeError, "give the samples' places x or the step dx, not both")
    for tensor in (y, x):
        if tensor is not None and tensor.array.dtype.kind == "b":
            raise failure(RuntimeError, "received a bool input; convert it with .to(float32)")
    dim = normal_dim(dim, y.array.ndim)
    if x is not None and x.array.ndim == 1 and x.array.size != y.array.shape[dim]:
        raise failure(
            RuntimeError,
            f"There must be one `x` value for each sample point: {x.array.size} for {y.array.shape[dim]}",
        )
    return dim


def _steps(y: Tensor, x: Tensor, dim: int) -> Tensor:
    """The steps between the places `x`, shaped to stand along `dim` of `y`."""
    ndim = y.array.ndim
    if x.array.ndim == 1:
        x = ops.reshape(x, tuple(-1 if d == dim else 1 for d in range(ndim)))
    elif x.array.ndim < ndim:
        x = ops.reshape(x, (1,) * (ndim - x.array.ndim) + x.array.shape)
    return _part(x, dim, 1) - _part(x, dim, 0, -1)


# Slopes.


@public
def gradient(
    input: Tensor, *, spacing: Any = None, dim: Ints | None = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """The slopes along each of `dim`, by central differences, one-sided at the edges.

    spacing: a step, or one step (or vector of places) for each dimension. Source: `torch.gradient`.

    >>> import fusegrad as fg
    >>> fg.gradient(fg.tensor([1.0, 4.0, 9.0]))
    (tensor([3., 4., 5.]),)
    """
    ndim = input.array.ndim
    dims = normal_dims(dim if dim is not None else tuple(range(ndim)), ndim)
    if edge_order not in (1, 2):
        raise failure(RuntimeError, f"only edge_order=1 and edge_order=2 are supported, got {edge_order}")
    for d in dims:
        if input.array.shape[d] <= edge_order:
            raise failure(
                RuntimeError,
                f"expected each dimension size to be at least edge_order+1 = {edge_order + 1}, "
                f"got shape {list(input.array.shape)}",
            )
    slopes = []
    for d, step in zip(dims, _spacings(input, spacing, dim, dims), strict=True):
        if isinstance(step, Tensor):
            slopes.append(_uneven_slope(input, d, step, edge_order))
        else:
            slopes.append(_even_slope(input, d, step, edge_order))
    return tuple(slopes)


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (tuple, list)) else (value,)


def _spacings(input: Tensor, spacing: Any, dim: Any, dims: list[int]) -> list[Any]:
    """One step or vector of places for each of `dims`."""
    if spacing is None or isinstance(spacing, (int, float, complex)):
        return [1 if spacing is None else spacing] * len(dims)
    if isinstance(spacing, Tensor):
        raise failure(TypeError, "spacing must be a number, or a list of numbers or tensors, not a Tensor")
    if len(spacing) != len(dims):
        raise failure(
            RuntimeError,
            f"expected spacing to be unspecified, a scalar, or a list of length {len(dims)} (one for each "
            f"dimension), but got one of length {len(spacing)}",
        )
    for d, places in zip(dims, spacing, strict=True):
        if isinstance(places, Tensor) and places.array.shape != (input.array.shape[d],):
            raise failure(
                RuntimeError,
                f"expected one place for each of the {input.array.shape[d]} elements along dimension {d}, "
                f"but got shape {list(places.array.shape)}",
            )
    return list(spacing)


def _even_slope(x: Tensor, dim: int, step: Any, edge_order: int) -> Tensor:
    inner = (_part(x, dim, 2) - _part(x, dim, 0, -2)) / (2 * step)
    if edge_order == 1:
        first = (_part(x, dim, 1, 2) - _part(x, dim, 0, 1)) / step
        last = (_part(x, dim, -1) - _part(x, dim, -2, -1)) / step
    else:
        first = (_part(x, dim, 0, 1) * -1.5 + _part(x, dim, 1, 2) * 2.0 - _part(x, dim, 2, 3) * 0.5) / step
        last = (_part(x, dim, -3, -2) * 0.5 - _part(x, dim, -2, -1) * 2.0 + _part(x, dim, -1) * 1.5) / step
    return ops.cat([first, inner, last], dim)


def _uneven_slope(x: Tensor, dim: int, places: Tensor, edge_order: int) -> Tensor:
    """Through the parabola of each three neighbours."""
    places = ops.reshape(places, tuple(-1 if d == dim else 1 for d in range(x.array.ndim)))
    steps = _part(places, dim, 1) - _part(places, dim, 0, -1)
    before, after = _part(steps, dim, 0, -1), _part(steps, dim, 1)
    three = _part(x, dim, 0, -2), _part(x, dim, 1, -1), _part(x, dim, 2)

    def weighted(start: int | None, stop: int | None, weigh: Callable[[Any, Any], Sequence[Any]]) -> Any:
        """Values times weights: of float32 values at float64 places differences would lose digits."""
        b, a = _part(before, dim, start, stop), _part(after, dim, start, stop)
        near, middle, far = weigh(b, a)
        parts = [_part(values, dim, start, stop) for values in three]
        return near * parts[0] + middle * parts[1] + far * parts[2]

    inner = weighted(None, None, lambda b, a: (-a / (b * (b + a)), (a - b) / (b * a), b / (a * (b + a))))
    if edge_order == 1:
        first = (_part(x, dim, 1, 2) - _part(x, dim, 0, 1)) / _part(steps, dim, 0, 1)
        last = (_part(x, dim, -1) - _part(x, dim, -2, -1)) / _part(steps, dim, -1)
    else:
        first = weighted(
            0, 1, lambda b, a: (-(2 * b + a) / (b * (b + a)), (b + a) / (b * a), -b / (a * (b + a)))
        )
        last = weighted(
            -1, None, lambda b, a: (a / (b * (b + a)), -(b + a) / (b * a), (2 * a + b) / (a * (b + a)))
        )
    return ops.cat([first, inner, last], dim)
