"""The order of dimensions, and of elements along them: transposed, flipped, rolled."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.eager.autograd.views import owned
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Layout, View
from fusegrad.eager.core.memory_order import as_first
from fusegrad.eager.core.names import attach
from fusegrad.eager.core.op import bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.sizes import Ints
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.shape.shape import _sizes, normal_dim, normal_dims

# The type of the parameter says which function the user called (see `shape.py`).


class _Transposed(tuple[int, ...]):
    grad_name = "TransposeBackward0"


class _MatrixTransposed(tuple[int, ...]):
    grad_name = "TBackward0"


# Order of dimensions.


def _permute_layout(layout: Layout, dims: tuple[int, ...]) -> Layout:
    return Layout(tuple(layout.shape[d] for d in dims), tuple(layout.strides[d] for d in dims), layout.offset)


def _inverse(dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(dims.index(i) for i in range(len(dims)))


_permute: View = View(
    "permute",
    lambda x, dims: x.transpose(dims),
    _permute_layout,
    {"x": lambda g, dims: bind(_permute, (g,), {"dims": _inverse(dims)})},
    lambda params: getattr(type(params["dims"]), "grad_name", "PermuteBackward0"),
    lambda x_type, dims: (_permute, False, {"dims": _inverse(dims)}),
)


@public(method=True)
def permute(input: Tensor, *order: Any, dims: Ints | None = None) -> Tensor:
    """The dimensions in the order `dims`. Source: `torch.permute`."""
    ndim = input.array.ndim
    wanted = tuple(normal_dim(d, ndim) for d in _sizes(order, dims))
    if sorted(wanted) != list(range(ndim)):
        raise failure(RuntimeError, f"dims {wanted} are no order of {ndim} dimensions")
    return bind(_permute, (input,), {"dims": wanted})


@public(aliases=("swapdims",), method=True)
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged. Source: `torch.transpose`."""
    order = list(range(input.array.ndim))
    a, b = normal_dim(dim0, len(order)), normal_dim(dim1, len(order))
    if order:
        order[a], order[b] = order[b], order[a]
    return bind(_permute, (input,), {"dims": _Transposed(order)})


@public(method=True)
def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """Two dimensions exchanged. Source: `torch.swapaxes`."""
    return transpose(input, axis0, axis1)


@public(method=True)
def t(input: Tensor) -> Tensor:
    """The transpose of a matrix (vectors and numbers as they are). Source: `torch.t`."""
    ndim = input.array.ndim
    if ndim > 2:
        raise failure(RuntimeError, f"expects a tensor with <= 2 dimensions, but self is {ndim}D")
    return bind(_permute, (input,), {"dims": _MatrixTransposed(range(ndim - 1, -1, -1))})


@public(method=True)
def adjoint(input: Tensor) -> Tensor:
    """The conjugate of a matrix (or batch of them), transposed. Source: `torch.adjoint`."""
    turned = matrix_transpose(input)
    return turned.conj() if input.is_complex() else turned


def matrix_transpose(input: Tensor) -> Tensor:
    """`x.mT`: each matrix of a batch transposed. Raises RuntimeError for a vector."""
    if input.array.ndim == 1:
        raise failure(
            RuntimeError, "tensor.mT is only supported on matrices or batches of matrices. Got 1-D tensor."
        )
    return transpose(input, -2, -1) if input.array.ndim else input


def conjugate_transpose(input: Tensor) -> Tensor:
    """`x.H`: the adjoint of a matrix or a number. Raises RuntimeError for other ranks."""
    if input.array.ndim not in (0, 2):
        raise failure(
            RuntimeError,
            f"tensor.H is only supported on matrices (2-D tensors), got {input.array.ndim}-D; use .mH",
        )
    return adjoint(input)


@public(aliases=("moveaxis",), method=True)
def movedim(input: Tensor, source: Ints, destination: Ints) -> Tensor:
    """Dimensions moved to other places. Source: `torch.movedim`."""
    ndim = input.array.ndim
    for what, dims in (("source", source), ("destination", destination)):
        named = dims if isinstance(dims, (tuple, list)) else (dims,)
        places = [operator.index(d) % max(ndim, 1) for d in named]
        if len(set(places)) < len(places):
            raise failure(RuntimeError, f"repeated dim in `{what}` ({list(named)})")
    sources, targets = normal_dims(source, ndim), normal_dims(destination, ndim)
    if len(sources) != len(targets):
        raise failure(
            RuntimeError,
            f"Invalid source or destination dims: source ({list(sources)} dims) should contain the same "
            f"number of dims as destination ({list(targets)} dims)",
        )
    if not ndim:
        return permute(input, ())
    order = [d for d in range(ndim) if d not in sources]
    for target, moved in sorted(zip(targets, sources, strict=True)):
        order.insert(target, moved)
    return permute(input, order)


# Turned round: copies, as in PyTorch, where no negative strides exist.


def _flip_layout(layout: Layout, dims: tuple[int, ...]) -> Layout:
    strides, offset = list(layout.strides), layout.offset
    for d in dims:
        offset += strides[d] * (layout.shape[d] - 1) if layout.shape[d] else 0
        strides[d] = -strides[d]
    return Layout(layout.shape, tuple(strides), offset)


class _Flip(View):
    view = False
    order = staticmethod(as_first)


_flip: View = _Flip(
    "flip",
    lambda x, dims: np.flip(x, dims).copy(),
    _flip_layout,
    {"x": lambda g, dims: bind(_flip, (g,), {"dims": dims})},
)


@public(method=True)
def flip(input: Tensor, *order: Any, dims: Ints | None = None) -> Tensor:
    """Reversed along `dims`. Source: `torch.flip`."""
    if not order and dims is None:
        raise failure(TypeError, 'missing 1 required positional arguments: "dims"')
    wanted = normal_dims(_sizes(order, dims), input.array.ndim)
    return bind(_flip, (input,), {"dims": tuple(wanted) if input.array.ndim else ()})


@public(method=True)
def fliplr(input: Tensor) -> Tensor:
    """Reversed from left to right (along dimension 1). Source: `torch.fliplr`."""
    if input.array.ndim < 2:
        raise failure(RuntimeError, f"Input must be >= 2-d. This one is {input.array.ndim}-d")
    return flip(input, 1)


@public(method=True)
def flipud(input: Tensor) -> Tensor:
    """Upside down (along dimension 0). Source: `torch.flipud`."""
    if input.array.ndim < 1:
        raise failure(RuntimeError, "Input must be >= 1-d. This one is 0-d")
    return flip(input, 0)


@public(method=True)
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Turned by 90 degrees `k` times, from the first of `dims` to the second. Source: `torch.rot90`.

    >>> import fusegrad as fg
    >>> fg.rot90(fg.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    ndim = input.array.ndim
    if len(dims) != 2 or ndim < 2:
        raise failure(
            RuntimeError, f"expected 2 rotation dims and a tensor of 2 or more, got {list(dims)} and {ndim}"
        )
    first, second = normal_dims(tuple(dims), ndim)
    if k % 4 == 0:
        return input.clone()
    if k % 4 == 2:
        return flip(input, first, second)
    return owned(transpose(flip(input, second if k % 4 == 1 else first), first, second))


@public(method=True)
def roll(input: Tensor, shifts: Ints, dims: Ints | None = None) -> Tensor:
    """Moved along dimensions, what leaves at the end comes back in front. Source: `torch.roll`."""
    moves = _sizes((shifts,))
    if not moves:
        raise failure(RuntimeError, "`shifts` required")
    along = () if dims is None else _sizes((dims,))
    if not along and len(moves) == 1:
        line = roll(ops.reshape(input, (input.array.size,)), moves, 0)
        return owned(ops.reshape(line, input.array.shape))
    if len(moves) != len(along):
        raise failure(
            RuntimeError, f"shifts and dimensions must align. shifts: {len(moves)}, dims: {len(along)}"
        )
    if not input.array.ndim:
        raise failure(IndexError, f"Dimension specified as {along[0]} but tensor has no dimensions")
    result = input
    for shift, dim in zip(moves, along, strict=True):
        dim = normal_dim(dim, input.array.ndim)
        n = input.array.shape[dim]
        if n and shift % n:
            first = ops.narrow(result, dim, n - shift % n, shift % n)
            result = ops.cat([first, ops.narrow(result, dim, 0, n - shift % n)], dim)
    return result.clone() if result is input else result


def _turned(self: Tensor) -> Tensor:
    """The dimensions in reverse order. Source: `torch.Tensor.T`."""
    return bind(_permute, (self,), {"dims": tuple(range(self.array.ndim))[::-1]})


attach(property(_turned), "T")
attach(property(conjugate_transpose), "H")
attach(property(matrix_transpose), "mT")
attach(property(adjoint), "mH")
