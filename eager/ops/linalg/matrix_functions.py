"""Functions of matrices: powers, exponentials, pseudo-inverses, least squares, norms, ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Opaque
from fusegrad.eager.core.names import internal
from fusegrad.eager.core.op import bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.sizes import Ints
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.linalg.decomposition import svdvals
from fusegrad.eager.ops.linalg.matrices import (
    check_floating,
    check_matrix,
    check_same_dtype,
    check_square,
    identity,
    scipy_linalg,
)
from fusegrad.eager.ops.linalg.solving import inv, inv_ex, solve
from fusegrad.eager.ops.reduce import reduction
from fusegrad.eager.ops.shape.shape import normal_dim

# Powers and exponentials.


@public(method=True)
def matrix_power(input: Tensor, n: int) -> Tensor:
    """The power `n` of each square matrix; of the inverse for n < 0. Source: `torch.linalg.matrix_power`."""
    name = "linalg.matrix_power"
    if n < 0:
        return matrix_power(inv(input), -n)
    size = input.array.shape
    if len(size) < 2 or size[-1] != size[-2]:
        raise failure(RuntimeError, f"{name}: A must be batches of square matrices, got shape {list(size)}")
    if n == 0:
        # It depends on the input, with gradient zero, as in PyTorch.
        return ops.where(ops.full((), True), ops.expand(identity(size[-1], input), size), input)
    power: Tensor | None = None
    square = input
    while True:
        if n & 1:
            power = square if power is None else ops.matmul(power, square)
        n >>= 1
        if not n:
            assert power is not None
            return power if power is not input else ops.clone(power)
        square = ops.matmul(square, square)


def _matrix_exp_numpy(x: np.ndarray) -> np.ndarray:
    if not x.size:
        return x.copy()
    # Squaring again and again multiplies rounding errors: single precision is worth the detour.
    wide = np.result_type(x.dtype, np.float64)
    power: np.ndarray = scipy_linalg().expm(x.astype(wide, copy=False))
    return power.astype(x.dtype, copy=False)


def _matrix_exp_gradient(g: Tensor, x: Tensor) -> Tensor:
    """The upper right block of exp([[x^T, g], [0, x^T]])."""
    n, transposed = x.array.shape[-1], ops.adjoint(x)
    upper = ops.cat([transposed, g], -1)
    lower = ops.cat([ops.zeros_like(transposed), transposed], -1)
    whole = bind(_matrix_exp, (ops.cat([upper, lower], -2),))
    return ops.narrow(ops.narrow(whole, -2, 0, n), -1, n, n)


_matrix_exp: Opaque = Opaque(
    "matrix_exp",
    "x",
    _matrix_exp_numpy,
    lambda types: types[0],
    {"x": _matrix_exp_gradient},
    "LinalgMatrixExpBackward0",
)


@public(method=True)
def matrix_exp(A: Tensor) -> Tensor:
    """The exponential of each square matrix. Source: `torch.linalg.matrix_exp`.

    >>> import fusegrad as fg
    >>> fg.linalg.matrix_exp(fg.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    return bind(_matrix_exp, (check_square("linalg.matrix_exp", A),))


# Norms.


def norm(
    A: Tensor, ord: Any = None, dim: Ints | None = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """A vector norm, or a matrix norm for two dimensions and an `ord`. Source: `torch.linalg.norm`.

    Without `dim`: of all elements, or for an `ord` given, of the one vector or matrix that A then must be.
    """
    if dim is not None and not isinstance(dim, int) and len(dim) not in (1, 2) and ord is not None:
        raise failure(
            RuntimeError, f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {dim}"
        )
    if dim is None and ord is not None and A.array.ndim not in (1, 2):
        raise failure(
            RuntimeError,
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. "
            f"Got {A.array.ndim}D (shape {list(A.array.shape)})",
        )
    count = 1 if isinstance(dim, int) else A.array.ndim if dim is None else len(dim)
    if ord is not None and (count == 2 or isinstance(ord, str)):
        return matrix_norm(A, ord, (0, 1) if dim is None else dim, keepdim, dtype=dtype)
    return reduction.vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


def _extreme(values: Tensor, dim: int, ord: Any) -> Tensor:
    """The largest along a dimension, 0 if there are none, or the smallest for a negative `ord`."""
    if ord > 0 and not values.array.shape[dim]:
        return ops.sum(values, dim, keepdim=True)
    return (ops.amax if ord > 0 else ops.amin)(values, dim, keepdim=True)


@internal
def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: Ints = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The norm of matrices: "fro", "nuc", inf, -inf, 1, -1, 2 or -2. Source: `torch.linalg.matrix_norm`."""
    name = "linalg.matrix_norm"
    if dtype is not None:
        A = ops.cast(A, dtype)
    check_matrix(name, A, half=ord not in ("nuc", 2, -2))
    if isinstance(ord, complex):
        raise failure(RuntimeError, f"{name}: Expected a non-complex scalar as the order of norm, got {ord}.")
    dims = [normal_dim(d, A.array.ndim) for d in dim] if not isinstance(dim, int) else [dim]
    if len(dims) != 2:
        raise failure(RuntimeError, f"{name}: dim must be a 2-tuple. Got {dim}")
    if dims[0] == dims[1]:
        raise failure(RuntimeError, f"{name}: dims must be different. Got {dim}")
    if ord == "fro":
        return reduction.vector_norm(A, 2, tuple(dims), keepdim)
    if ord in (1, -1, math.inf, -math.inf):
        summed, kept = dims if abs(ord) == 1 else dims[::-1]
        columns = ops.sum(ops.abs(A), summed, keepdim=True)
        found = _extreme(columns, kept, ord)
    elif ord in ("nuc", 2, -2):
        values = svdvals(ops.movedim(A, dims, (-2, -1)))
        if ord == "nuc":
            found = ops.sum(values, -1, keepdim=True)
        else:
            found = _extreme(values, -1, ord)
        found = ops.movedim(ops.unsqueeze(found, -1), (-2, -1), dims)
    else:
        raise failure(RuntimeError, f"{name}: Order {ord} not supported.")
    return found if keepdim else ops.squeeze(found, tuple(dims))


@public
def nuclear_norm(input: Tensor, dim: Ints | None = None, keepdim: bool = False) -> Tensor:
    """The sum of the singular values of a matrix, or of those along `dim`. Source: `torch.nuclear_norm`.

    >>> import fusegrad as fg
    >>> fg.nuclear_norm(fg.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(7.)
    """
    return matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim)


def cond(A: Tensor, p: Any = None) -> Tensor:
    """The condition number of each matrix in the norm `p` (2 by default). Source: `torch.linalg.cond`.

    It is inf for a singular matrix.
    """
    name = "linalg.cond"
    check_matrix(name, A)
    if p is None or p in (2, -2):
        values = svdvals(A)
        if not values.array.shape[-1]:
            return ops.zeros(values.array.shape[:-1], dtype=values.dtype)
        first, last = ops.select(values, -1, 0), ops.select(values, -1, -1)
        return last / first if p == -2 else first / last
    if p not in ("fro", "nuc", 1, -1, math.inf, -math.inf):
        raise failure(RuntimeError, f"{name} got an invalid norm type: {p}")
    check_square(name, A)
    inverse, info = inv_ex(A)
    regular = ops.eq(info, 0)
    inverse = ops.where(regular[..., None, None], inverse, 0.0)
    return ops.where(regular, matrix_norm(A, p) * matrix_norm(inverse, p), math.inf)


# Products and tensors as matrices.


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross product of vectors of three elements along `dim`. Source: `torch.linalg.cross`."""
    name = "linalg.cross"
    sizes = [list(t.array.shape) for t in (input, other)]
    if input.array.ndim != other.array.ndim:
        raise failure(RuntimeError, f"{name}: inputs must have the same number of dimensions, got {sizes}")
    place = normal_dim(dim, input.array.ndim)
    if any(size[place] != 3 for size in sizes):
        raise failure(RuntimeError, f"{name}: inputs dimension {dim} must have length 3, got shapes {sizes}")
    return ops.roll(input, -1, place) * ops.roll(other, -2, place) - ops.roll(input, -2, place) * ops.roll(
        other, -1, place
    )


@public(name="cross", method=True)
def cross_of(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """`linalg.cross` along `dim`, or the first dimension of size 3. Source: `torch.cross`."""
    if dim is None:
        dim = next((i for i, n in enumerate(input.array.shape) if n == 3), None)
        if dim is None:
            raise failure(RuntimeError, f"cross: no dimension of size 3 in input (shape {list(input.shape)})")
    return cross(input, other, dim=dim)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The inner product of vectors along `dim`, with broadcasting. Source: `torch.linalg.vecdot`."""
    name = "linalg.vecdot"
    check_floating(name, x, "x")
    check_same_dtype(name, x, y)
    return ops.sum(ops.conj(x) * y, dim)


def vander(x: Tensor, N: int | None = None) -> Tensor:
    """The powers 0 to N - 1 of each element as rows. Source: `torch.linalg.vander`."""
    if N is None and not x.array.ndim:
        raise failure(RuntimeError, "linalg.vander: Expected dim >= 1, got a tensor without dimensions")
    count = x.array.shape[-1] if N is None else N
    if N is not None and N <= 1:
        raise failure(RuntimeError, f"linalg.vander: N must be greater than 1, got {N}")
    x = x if x.array.ndim else ops.reshape(x, (1,))
    powers = [ops.ones_like(x)]
    for _ in range(count - 1):
        powers.append(powers[-1] * x)
    return ops.stack(powers[:count], -1) if count else ops.zeros((*x.array.shape, 0), dtype=x.dtype)


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of two or more matrices, in the cheapest order; the first and last may be vectors.

    Source: `torch.linalg.multi_dot`.
    """
    name = "linalg.multi_dot"
    if len(tensors) < 2:
        raise failure(RuntimeError, f"{name}: expected at least 2 tensors but got {len(tensors)}")
    last = len(tensors) - 1
    for i, t in enumerate(tensors):
        allowed = (1, 2) if i in (0, last) else (2,)
        if t.array.ndim not in allowed:
            which = {0: "the first tensor", last: "the last tensor"}.get(i, f"tensor {i}")
            raise failure(
                RuntimeError,
                f"{name}: {which} must be {' or '.join(f'{n}D' for n in allowed)} but got {t.array.ndim}D",
            )
    for i, t in enumerate(tensors):
        if t.array.dtype != tensors[0].array.dtype:
            first, other = tensors[0].dtype.scalar.lower(), t.dtype.scalar.lower()
            wrong = f"all tensors must have be the same dtype but tensor 0 is {first} and tensor {i} {other}"
            raise failure(RuntimeError, f"{name}: {wrong}")
    matrices = list(tensors)
    row, column = matrices[0].array.ndim == 1, matrices[-1].array.ndim == 1
    if row:
        matrices[0] = ops.unsqueeze(matrices[0], 0)
    if column:
        matrices[-1] = ops.unsqueeze(matrices[-1], 1)
    product = _chained(matrices, _cheapest([m.array.shape for m in matrices]), 0, last)
    if row:
        product = ops.squeeze(product, 0)
    return ops.squeeze(product, -1) if column else product


def _cheapest(sizes: Sequence[tuple[int, ...]]) -> list[list[int]]:
    """Where to split each run of factors, at place (first, last): the textbook's dynamic programme."""
    edges = [size[0] for size in sizes] + [sizes[-1][1]]
    count = len(sizes)
    cost = [[0] * count for _ in range(count)]
    split = [[0] * count for _ in range(count)]
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            cost[i][j], split[i][j] = min(
                (cost[i][k] + cost[k + 1][j] + edges[i] * edges[k + 1] * edges[j + 1], k) for k in range(i, j)
            )
    return split


def _chained(matrices: Sequence[Tensor], split: list[list[int]], first: int, last: int) -> Tensor:
    if first == last:
        return matrices[first]
    middle = split[first][last]
    return ops.matmul(_chained(matrices, split, first, middle), _chained(matrices, split, middle + 1, last))


@public
def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of matrices in the cheapest order. Source: `torch.chain_matmul`."""
    if not matrices:
        raise failure(RuntimeError, "chain_matmul(): Expected one or more matrices")
    for matrix in matrices:
        if matrix.array.ndim != 2:
            wrong = f"chain_matmul(): Tensor dimension is {matrix.array.ndim}, expected 2 instead."
            raise failure(RuntimeError, wrong)
    return matrices[0] if len(matrices) == 1 else multi_dot(matrices)


def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse for `tensordot` over `ind` dimensions. Source: `torch.linalg.tensorinv`."""
    name = "linalg.tensorinv"
    if ind <= 0:
        raise failure(RuntimeError, f"{name}: Expected a strictly positive integer for 'ind', got {ind}")
    size = A.array.shape
    rows, columns = math.prod(size[:ind]), math.prod(size[ind:])
    if rows != columns:
        raise failure(
            RuntimeError,
            f"{name}: Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {columns} != {rows} (shape {list(size)})",
        )
    return ops.reshape(inv(ops.reshape(A, (rows, columns))), size[ind:] + size[:ind])


def tensorsolve(A: Tensor, other: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """X with tensordot(A, X, X.ndim) = `other`; `dims` of A are moved to its end first.

    Source: `torch.linalg.tensorsolve`.
    """
    if dims is not None:
        A = ops.movedim(A, list(dims), list(range(A.array.ndim - len(dims), A.array.ndim)))
    size = A.array.shape[other.array.ndim :]
    count = math.prod(size)
    if count != other.array.size:
        raise failure(
            RuntimeError,
            "linalg.tensorsolve: Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {count} != {other.array.size}",
        )
    solution = solve(ops.reshape(A, (other.array.size, count)), ops.reshape(other, (-1,)))
    return ops.reshape(solution, size)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonal of each matrix, as a view. Source: `torch.linalg.diagonal`."""
    return ops.diagonal(A, offset, dim1, dim2)
