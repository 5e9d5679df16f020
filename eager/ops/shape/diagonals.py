"""Diagonals and triangles of matrices."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Layout, Opaque, View, contiguous_layout
from fusegrad.eager.core.memory_order import as_first
from fusegrad.eager.core.op import bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.places.device import on_cpu
from fusegrad.eager.core.sizes import positions, size_of
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.create import creation
from fusegrad.eager.ops.declare import method, public
from fusegrad.eager.ops.precision import in_single
from fusegrad.eager.ops.shape.shape import normal_dim

# Diagonals: a view, its gradient, and writing one.


def _diagonal_layout(layout: Layout, offset: int, dim1: int, dim2: int) -> Layout:
    rows, columns = layout.shape[dim1], layout.shape[dim2]
    down, right = layout.strides[dim1], layout.strides[dim2]
    count = _diagonal_length(rows, columns, offset)
    rest = [d for d in range(len(layout.shape)) if d not in (dim1, dim2)]
    start = offset * right if offset >= 0 else -offset * down
    return Layout(
        (*(layout.shape[d] for d in rest), count),
        (*(layout.strides[d] for d in rest), down + right),
        layout.offset + (start if count else 0),
    )


def _diagonal_length(rows: int, columns: int, offset: int) -> int:
    cut = builtins.min(rows, columns - offset) if offset >= 0 else builtins.min(rows + offset, columns)
    return builtins.max(0, cut)


def _diagonal_numpy(x: np.ndarray, offset: int, dim1: int, dim2: int) -> np.ndarray:
    view = np.diagonal(x, offset, dim1, dim2)
    if x.flags.writeable:
        view.flags.writeable = True  # NumPy gives it read-only; it is a view like any other
    return view


def _write_diagonal(x: np.ndarray, value: np.ndarray, offset: int, dim1: int, dim2: int) -> np.ndarray:
    result = np.array(x)
    _diagonal_numpy(result, offset, dim1, dim2)[...] = value
    return result


_diagonal = View(
    "diagonal",
    _diagonal_numpy,
    _diagonal_layout,
    {
        "x": lambda g, x_type, offset, dim1, dim2: ops.diagonal_scatter(
            ops.zeros(x_type.shape, dtype=g.dtype), g, offset, dim1, dim2
        )
    },
    put=lambda x_type, **params: (_diagonal_scatter, True, params),
)

_diagonal_scatter: Opaque = Opaque(
    "diagonal_scatter",
    "x value",
    _write_diagonal,
    lambda types, offset, dim1, dim2: types[0],
    {
        "x": lambda g, value_type, offset, dim1, dim2: ops.diagonal_scatter(
            g, ops.zeros(value_type.shape, dtype=g.dtype), offset, dim1, dim2
        ),
        "value": lambda g, offset, dim1, dim2: ops.diagonal(g, offset, dim1, dim2),
    },
    order=as_first,
)


def _two_dims(dim1: int, dim2: int, ndim: int) -> tuple[int, int]:
    first, second = normal_dim(dim1, ndim), normal_dim(dim2, ndim)
    if first == second:
        raise failure(RuntimeError, f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return first, second


@public(method=True)
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The elements whose two indices differ by `offset`, as the last dimension. Source: `torch.diagonal`."""
    first, second = _two_dims(dim1, dim2, input.array.ndim)
    return bind(_diagonal, (input,), {"offset": offset, "dim1": first, "dim2": second})


@public(method=True)
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """`input` with a diagonal replaced by `src`. Source: `torch.diagonal_scatter`."""
    first, second = _two_dims(dim1, dim2, input.array.ndim)
    size = _diagonal_layout(contiguous_layout(input.array.shape), offset, first, second).shape
    if src.array.shape != size:
        raise failure(
            RuntimeError,
            f"expected src to have a size equal to the diagonal. src size = {list(src.array.shape)}, "
            f"diagonal size = {list(size)}",
        )
    return bind(_diagonal_scatter, (input, src), {"offset": offset, "dim1": first, "dim2": second})


@public(method=True)
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices of zeros whose diagonals are the vectors of `input`. Source: `torch.diag_embed`."""
    size = input.array.shape
    if not size:
        raise failure(IndexError, "diag_embed needs a tensor of 1 or more dimensions, got 0")
    first, second = _two_dims(dim1, dim2, len(size) + 1)
    width = size[-1] + builtins.abs(offset)
    whole = list(size[:-1])
    for d in sorted((first, second)):
        whole.insert(d, width)
    return diagonal_scatter(ops.zeros(whole, dtype=input.dtype), input, offset, first, second)


@public(method=True)
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A copy of a matrix's diagonal, or the matrix with a given diagonal. Source: `torch.diag`."""
    if input.array.ndim == 2:
        return _of_matrix(input, diagonal).clone()
    if input.array.ndim != 1:
        raise failure(
            RuntimeError, f"supports 1D or 2D tensors. Got {input.array.ndim}D {list(input.array.shape)}"
        )
    return diag_embed(input, diagonal)


_of_matrix = diagonal


@public(method=True)
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """The matrix with all elements of `input` on a diagonal. Source: `torch.diagflat`."""
    return diag_embed(ops.flatten(input), offset)


@method
def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Write a number on the main diagonal; `wrap` goes on below it in a tall matrix.

    Source: `torch.Tensor.fill_diagonal_`.
    """
    size = self.array.shape
    if len(size) < 2:
        raise failure(RuntimeError, "dimensions must larger than 1")
    if len(size) > 2 and len(set(size)) > 1:
        raise failure(RuntimeError, f"all dimensions of input must be of equal length, got {list(size)}")
    if len(size) == 2:
        rows, columns = size
        for start in range(0, rows if wrap else 1, columns + 1):
            diagonal(self[start:]).fill_(fill_value)
    else:
        step = ops.arange(size[0])
        self[(step,) * len(size)] = fill_value
    return self


@public(method=True)
def trace(input: Tensor) -> Tensor:
    """The sum of a matrix's diagonal. Source: `torch.trace`."""
    input = in_single(input)
    if input.array.ndim != 2:
        raise failure(RuntimeError, f"expected a matrix, but got tensor with dim {input.array.ndim}")
    if input.array.dtype.kind == "b":
        raise failure(NotImplementedError, "not implemented for bool; convert with .to(int)")
    return diagonal(input).sum()


# Triangles.


def _triangle(input: Tensor, diagonal: int, lower: bool) -> Tensor:
    """Zero beyond a diagonal; as a comparison of positions, so that it fuses."""
    if input.array.ndim < 2:
        raise failure(RuntimeError, f"input tensor must have at least 2 dimensions, got {input.array.ndim}")
    diagonal = size_of(diagonal)
    rows = ops.unsqueeze(ops.arange(input.array.shape[-2]), 1)
    columns = ops.arange(input.array.shape[-1])
    kept = columns - rows <= diagonal if lower else columns - rows >= diagonal
    return ops.where(kept, input.contiguous(), False if input.array.dtype.kind == "b" else 0)


@public(method=True)
def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle, the rest 0. Source: `torch.tril`."""
    return _triangle(input, diagonal, True)


@public(method=True)
def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle, the rest 0. Source: `torch.triu`."""
    return _triangle(input, diagonal, False)


def _triangle_indices(name: str, row: int, col: int, offset: int, dtype: Any, lower: bool) -> Tensor:
    if row < 0 or col < 0:
        raise failure(RuntimeError, f"row and col must be non-negative, got {row} and {col}")
    kind = dtypes.as_dtype(dtype)
    if kind.numpy not in (np.int64, np.int32):
        raise failure(RuntimeError, f'"{name}" not implemented for {kind.name}, only for int64 and int32')
    ahead = positions(col) - positions(row)[:, None]
    offset = builtins.min(builtins.max(offset, -row), col)
    places = np.nonzero(ahead <= offset if lower else ahead >= offset)
    return creation.constant(np.stack(places).astype(kind.numpy))


@public
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = dtypes.int64, device: Any = None, layout: Any = None
) -> Tensor:
    """The rows and columns of a matrix's lower triangle, [2, count]. Source: `torch.tril_indices`."""
    on_cpu(device)
    return _triangle_indices("tril_indices", row, col, offset, dtype, True)


@public
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = dtypes.int64, device: Any = None, layout: Any = None
) -> Tensor:
    """The rows and columns of a matrix's upper triangle, [2, count]. Source: `torch.triu_indices`."""
    on_cpu(device)
    return _triangle_indices("triu_indices", row, col, offset, dtype, False)


@public
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of a vector's elements as columns, falling unless `increasing`. Source: `torch.vander`.

    >>> import fusegrad as fg
    >>> fg.vander(fg.tensor([2, 3]), N=3)
    tensor([[4, 2, 1],
            [9, 3, 1]])
    """
    if x.array.ndim != 1:
        raise failure(RuntimeError, f"x must be a one-dimensional tensor, got shape {list(x.array.shape)}")
    if N is not None and N < 0:
        raise failure(RuntimeError, f"N must be non-negative, got {N}")
    count = x.array.size if N is None else N
    powers = ops.arange(count) if increasing else ops.arange(count - 1, -1, -1)
    return ops.unsqueeze(x, 1) ** powers
