"""Tensors put together: side by side, or spread to a common shape."""

from __future__ import annotations

import builtins
import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.autograd.views import owned
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure, type_name, warn
from fusegrad.eager.core.families import Opaque
from fusegrad.eager.core.memory_order import Order, has_channels_last
from fusegrad.eager.core.op import Params, TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.sizes import checked_count, unequal
from fusegrad.eager.core.stand_in import plain
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Size, Tensor
from fusegrad.eager.ops.create import creation
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.shape import padding, shape
from fusegrad.eager.ops.shape.shape import normal_dim


def _cat_type(types: Sequence[TensorType], dim: int) -> TensorType:
    shape = list(types[0].shape)
    for other in types[1:]:
        pairs = enumerate(zip(shape, other.shape, strict=False))
        same = builtins.all(a == b for i, (a, b) in pairs if i != dim)
        if not same or len(shape) != len(other.shape):
            raise RuntimeError(
                f"Sizes of tensors must match except in dimension {dim}. "
                f"Got {list(types[0].shape)} and {list(other.shape)}"
            )
    shape[dim] = builtins.sum(t.shape[dim] for t in types)
    return TensorType(tuple(shape), functools.reduce(dtypes.promote, (t.dtype for t in types)))


# Where the pieces begin of what was derived last: (their types, the dimension, the places).
_last_begins: tuple[Any, int, list[int]] = (None, 0, [])


def _begins(types: Sequence[Any], dim: int) -> list[int]:
    """Where each piece begins: found once for the gradients of all, whose rule is asked piece by piece."""
    global _last_begins
    known, along, begins = _last_begins
    if known is not types or along != dim:
        begins = [0, *itertools.accumulate(t[0][dim] for t in types)]
        if type(types) is tuple:  # a list may be another by then
            _last_begins = types, dim, begins
    return begins


def _cat_gradient(g: Tensor, index: int, types: Sequence[Any], dim: int) -> Tensor:
    return ops.narrow(g, dim, _begins(types, dim)[index], types[index][0][dim])


def _cat_numpy(*arrays: np.ndarray, dim: int) -> np.ndarray:
    first = arrays[0].dtype
    if builtins.all(a.dtype is first for a in arrays):
        with contextlib.suppress(ValueError):  # of shapes that do not fit, of which `_cat_type` tells
            return np.concatenate(arrays, axis=dim)
    kind = _cat_type([TensorType(a.shape, a.dtype) for a in arrays], dim).dtype
    return np.concatenate([a.astype(kind, copy=False) for a in arrays], axis=dim)


def _cat_order(shape: tuple[int, ...], operands: Iterable[np.ndarray], params: Params) -> Order:
    """Images with channels last, all of them, stay so."""
    agree = len(shape) in (4, 5) and builtins.all(has_channels_last(x) for x in operands)
    return (0, *range(2, len(shape)), 1) if agree else None


_cat = Opaque(
    "cat",
    "*tensors",
    _cat_numpy,
    _cat_type,
    {"tensors": _cat_gradient},
    lambda params: getattr(type(params["dim"]), "grad_name", "CatBackward0"),
    refuses="",
    order=_cat_order,
)


class _StackedDim(int):
    """The `dim` of a `cat` that stacks: for the name of its node (see `shape.py`)."""

    grad_name = "StackBackward0"


def _joined(tensors: Sequence[Tensor], dim: int) -> Tensor:
    result: Tensor = bind(_cat, tuple([ops.unsqueeze(x, dim) for x in tensors]), {"dim": _StackedDim(dim)})
    return result


def _grown(arrays: Sequence[np.ndarray], dim: int) -> Iterator[np.ndarray]:
    """Arrays with a dimension put in."""
    index = (*[slice(None)] * dim, None)
    return (plain(x)[index] for x in arrays)


def _stack_numpy(*arrays: np.ndarray, dim: int) -> np.ndarray:
    shape, kind = arrays[0].shape, arrays[0].dtype
    # Rows after rows, and numbers: hundreds of samples, or losses, need no view each.
    if not shape and builtins.all(a.dtype is kind for a in arrays):
        return np.array(arrays, kind)
    if dim or not shape:
        return _cat_numpy(*_grown(arrays, dim), dim=dim)
    return _cat_numpy(*arrays, dim=0).reshape(len(arrays), *shape)


def _stack_type(types: Sequence[TensorType], dim: int) -> TensorType:
    grown = [TensorType((*t.shape[:dim], 1, *t.shape[dim:]), t.dtype) for t in types]
    return _cat_type(grown, dim)


_stack = Opaque(
    "stack",
    "*tensors",
    _stack_numpy,
    _stack_type,
    {"tensors": lambda g, index, dim: ops.select(g, dim, index)},
    refuses="",
    order=lambda shape, arrays, params: _cat_order(shape, _grown(arrays, params["dim"]), params),
)


_cat.turns = _stack.turns = 4


def _some(tensors: Any, kind: type[Exception] = RuntimeError) -> tuple[Tensor, ...]:
    """One or more tensors as a tuple; raises `kind` for none, TypeError for what is no sequence of them."""
    found = () if isinstance(tensors, Tensor) else tuple(tensors)
    if isinstance(tensors, Tensor) or not builtins.all(isinstance(x, Tensor) for x in found):
        given = type(tensors).__name__
        raise failure(TypeError, f"argument 'tensors' (position 1) must be tuple of Tensors, not {given}")
    if not found:
        raise failure(kind, "expects a non-empty TensorList")
    return found


@public(aliases=("concat", "concatenate"))
def cat(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Tensors joined along `dim`, empty vectors left out. Source: `torch.cat`."""
    given = _some(tensors, ValueError)
    kept = tuple([x for x in given if x.array.shape != (0,)]) or given[:1]
    if not kept[0].array.ndim:
        raise failure(
            RuntimeError, "zero-dimensional tensor (at position 0) cannot be concatenated; use stack"
        )
    if len(kept) < len(given):  # empty vectors have no elements, but a dtype
        kind = functools.reduce(dtypes.promote_types, [x.dtype for x in given])
        kept = (ops.cast(kept[0], kind), *kept[1:])
    place = 0 if kept[0].array.shape == (0,) else normal_dim(dim, kept[0].array.ndim)
    result = bind(_cat, kept, {"dim": place})
    if len(kept) < len(given):  # their dtypes count all the same
        result = ops.cast(result, dtypes.result_type([x.array for x in given]))
    return result if out is None else written_out(result, out, given, exact=False)


def written_out(
    result: Tensor, out: Tensor, operands: Sequence[Tensor], exact: bool = True, telling: bool = True
) -> Tensor:
    """`result` in the memory of `out` (for the functions that take `out=`); gives `out`.

    exact: its dtype must be that of the result. telling: of an `out` that gets another size.
    Raises RuntimeError where its dtype cannot take the result, where it shares memory with an operand,
    and where the autograd graph would not see the write.
    """
    if not isinstance(out, Tensor):
        raise failure(TypeError, f"argument 'out' must be Tensor, not {type_name(out)}")
    if state.grad_enabled and (out.needs_grad or result.needs_grad):
        raise failure(
            RuntimeError,
            "functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad.",
        )
    if out.array.shape != result.array.shape:
        if out.array.size and telling:
            warn(
                "An output with one or more elements was resized since it had shape "
                f"{list(out.array.shape)}, which does not match the required output shape "
                f"{list(result.array.shape)}.",
            )
        _check_apart(out, operands, resized=not operands)
        ops.resize_(out, result.array.shape)
    _check_apart(out, operands)
    fits = result.dtype is out.dtype if exact else dtypes.can_cast(result.dtype, out.dtype)
    if not fits:
        raise failure(
            RuntimeError,
            f"result type {result.dtype.scalar} can't be cast to the desired output type {out.dtype.scalar}",
        )
    return out.copy_(result)


def check_once(out: Tensor) -> None:
    """Refuse to write several elements in one place."""
    sizes = zip(out.array.shape, out.array.strides, strict=True)
    if out.array.size and builtins.any(n > 1 and not step for n, step in sizes):
        raise failure(
            RuntimeError,
            "unsupported operation: more than one element of the written-to tensor refers to a single memory "
            "location. Please clone() the tensor before performing the operation.",
        )


def _check_apart(out: Tensor, operands: Sequence[Tensor], resized: bool = False) -> None:
    """Refuse to write where an operand lies, or several elements in one place, unless it is resized first."""
    if not resized:
        check_once(out)
    if builtins.any(out is x or np.may_share_memory(out.array, x.array) for x in operands):
        raise failure(
            RuntimeError,
            "unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
            "single memory location. Please clone() the tensor before performing the operation.",
        )


@public
def stack(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Tensors of one shape joined along a new dimension. Source: `torch.stack`."""
    given = tuple(tensors)
    if not given:
        raise failure(RuntimeError, "stack expects a non-empty TensorList")
    shape = given[0].array.shape
    for entry, other in enumerate(given):
        if other.array.shape != shape:
            raise failure(
                RuntimeError,
                f"stack expects each tensor to be equal size, but got {list(shape)} "
                f"at entry 0 and {list(other.array.shape)} at entry {entry}",
            )
    place = normal_dim(dim, len(shape) + 1)
    # One op where nobody looks on: each of hundreds of samples, or losses, would have a view, and its node.
    result = bind(_stack, given, {"dim": place}) if state.interpreter is None else _joined(given, place)
    return result if out is None else written_out(result, out, given, exact=False)


# Of at least some rank, and joined so.


def _at_least(name: str, grow: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    def function(*tensors: Any) -> Any:
        if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
            return tuple(function(x) for x in tensors[0])
        return grow(tensors[0]) if len(tensors) == 1 else tuple(grow(x) for x in tensors)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Each tensor with dimensions of size 1 put in where it has fewer. Source: `torch.{name}`."
    )
    return public(function)


def _grown_to_3d(x: Tensor) -> Tensor:
    shape = x.array.shape
    grown = {0: (1, 1, 1), 1: (1, *shape, 1), 2: (*shape, 1)}
    return ops.reshape(x, grown[len(shape)]) if len(shape) < 3 else x


atleast_1d = _at_least("atleast_1d", lambda x: x if x.array.ndim else ops.reshape(x, (1,)))
atleast_2d = _at_least(
    "atleast_2d",
    lambda x: x if x.array.ndim > 1 else ops.reshape(x, (1, x.array.size if x.array.ndim else 1)),
)
atleast_3d = _at_least("atleast_3d", _grown_to_3d)


@public
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined from left to right: along dimension 1, vectors along 0. Source: `torch.hstack`."""
    grown = atleast_1d(_some(tensors))
    return cat(grown, 0 if grown[0].array.ndim == 1 else 1)


@public(aliases=("row_stack",))
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined as rows, one below the other. Source: `torch.vstack`."""
    return cat(atleast_2d(_some(tensors)), 0)


@public
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along dimension 2. Source: `torch.dstack`."""
    return cat(atleast_3d(_some(tensors)), 2)


@public
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined from left to right, vectors as columns. Source: `torch.column_stack`."""
    return hstack([x if x.array.ndim > 1 else ops.reshape(x, (x.array.size, 1)) for x in _some(tensors)])


@public
def block_diag(*tensors: Any) -> Tensor:
    """Matrices along the diagonal of one, 0 elsewhere; vectors as rows. Source: `torch.block_diag`.

    >>> import fusegrad as fg
    >>> fg.block_diag(fg.tensor([1, 2]), fg.tensor(3))
    tensor([[1, 2, 0],
            [0, 0, 3]])
    """
    blocks = [atleast_2d(x if isinstance(x, Tensor) else ops.as_tensor(x)) for x in tensors]
    for i, x in enumerate(blocks):
        if x.array.ndim > 2:
            raise failure(
                RuntimeError,
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has "
                f"{x.array.ndim} dimensions",
            )
    width = builtins.sum(x.array.shape[1] for x in blocks)
    rows, start = [], 0
    for x in blocks:
        n = x.array.shape[1]
        rows.append(padding.padded(x, [(0, 0), (start, width - start - n)], 0))
        start += n
    return cat(rows) if rows else ops.zeros(1, 0)


# Grids and combinations.


@public
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Vectors expanded to a grid. Source: `torch.meshgrid`."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    vectors = list(_some(given))
    if indexing not in ("ij", "xy"):
        raise failure(RuntimeError, f'indexing must be one of "xy" or "ij", but received: {indexing}')
    for v in vectors:
        if v.array.dtype != vectors[0].array.dtype:
            raise failure(RuntimeError, "meshgrid expects all tensors to have the same dtype")
        if v.array.ndim > 1:
            raise failure(
                RuntimeError, f"Expected 0D or 1D tensor in the tensor list but got {list(v.array.shape)}"
            )
    swap = indexing == "xy" and len(vectors) > 1
    if swap:
        vectors[:2] = vectors[1::-1]
    size = tuple(v.array.size for v in vectors)
    grids = [
        ops.expand(ops.reshape(v, (1,) * i + (size[i],) + (1,) * (len(size) - i - 1)), size)
        for i, v in enumerate(vectors)
    ]
    if swap:
        grids[:2] = grids[1::-1]
    return tuple(grids)


@public
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All tuples of elements of the given vectors, as rows. Source: `torch.cartesian_prod`."""
    for v in tensors:
        if v.array.ndim != 1:
            raise failure(RuntimeError, f"expect a 1D vector, but got shape {list(v.array.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return stack([ops.flatten(g) for g in meshgrid(*tensors)], 1)


@public
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of `r` elements of a vector, as rows. Source: `torch.combinations`."""
    if input.array.ndim != 1:
        raise failure(RuntimeError, f"expect a 1D vector, but got shape {list(input.array.shape)}")
    if r < 0:
        raise failure(RuntimeError, f"expect a non-negative number, but got {r}")
    if r == 0:
        return ops.empty(0, dtype=input.dtype)
    n = input.array.size
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    count = math.comb(n + r - 1 if with_replacement and n else n, r) * r
    places = np.fromiter(itertools.chain.from_iterable(choose(range(n), r)), np.int64, checked_count(count))
    return ops.take(input, creation.constant(places.reshape(-1, r)))


# A common shape.


@public
def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that shapes (or sizes) broadcast to; raises RuntimeError where they do not fit.

    Source: `torch.broadcast_shapes`.
    """
    if builtins.any(isinstance(s, float) for s in shapes):
        raise failure(
            RuntimeError, f"Input shapes should be of type ints, a tuple of ints, or a list of ints: {shapes}"
        )
    sizes = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    if builtins.any(n < 0 for size in sizes for n in size):
        raise failure(RuntimeError, f"Trying to create tensor with negative dimension: {sizes}")
    try:
        return Size(np.broadcast_shapes(*sizes))
    except ValueError:
        raise failure(
            RuntimeError,
            f"Shape mismatch: objects cannot be broadcast to a single shape: {[list(s) for s in sizes]}",
        ) from None


@public
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """All expanded to their common shape. Source: `torch.broadcast_tensors`."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    shapes = [x.array.shape for x in given]
    if wrong := unequal(shapes):
        raise failure(RuntimeError, wrong)
    size = broadcast_shapes(*shapes)
    return tuple(shape.expanded(x, size) for x in given)


@public(method=True)
def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: each element of `input` times all of `other`. Source: `torch.kron`."""
    rank = builtins.max(input.array.ndim, other.array.ndim)
    first = (1,) * (rank - input.array.ndim) + input.array.shape
    second = (1,) * (rank - other.array.ndim) + other.array.shape
    outer = ops.reshape(input, tuple(n for size in first for n in (size, 1)))
    inner = ops.reshape(other, tuple(n for size in second for n in (1, size)))
    return owned(ops.reshape(outer * inner, tuple(a * b for a, b in zip(first, second, strict=True))))
