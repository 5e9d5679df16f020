"""Reading and writing elements by position: index tensors, lists, masks.

Basic indices (integers, slices, None, Ellipsis) give views (`slicing.basic_index`). Everything
with index tensors, lists or masks comes down to two ops along one dimension, `take` and `put`:
several index tensors are first combined into one over the merged dimensions. `lookup.py` has the other
functions that read, `writing.py` and `scatter.py` those that write.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.families import Opaque
from fusegrad.eager.core.memory_order import columns
from fusegrad.eager.core.names import attach, renamed
from fusegrad.eager.core.op import NO_PARAMS, TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.sizes import broadcast_shapes, size_of
from fusegrad.eager.core.state import Interpreter, state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.index.take_and_put import PUT, SELECT_AT, TAKE, checked
from fusegrad.eager.ops.shape.slicing import Slice, _assign, _getitem, basic_index
from fusegrad.eager.ops.sized import bind_sized

_INT64: np.dtype = np.dtype(np.int64)


# Several index tensors as one.


def _flat_numpy(*indices: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    size = np.broadcast_shapes(*(i.shape for i in indices))
    if 0 in size:  # nothing is read, so PyTorch takes any number
        return np.zeros(size, np.int64)
    flat: Any = 0
    for dim, (index, n) in enumerate(zip(indices, sizes, strict=True)):
        flat = flat * n + checked(index, n, dim).astype(np.int64) % max(n, 1)
    return np.asarray(flat)


_flat_index = Opaque(
    "flat_index",
    "*indices",
    _flat_numpy,
    lambda types, sizes: TensorType(broadcast_shapes(*(t.shape for t in types)), _INT64),
    None,
)
_flat_index.positions = lambda operands, params: [(i, -n, n) for i, n in enumerate(params["sizes"])]


def _check_broadcast(indices: Sequence[Tensor | None]) -> None:
    sizes = [i.array.shape for i in indices if i is not None]
    if len(set(sizes)) > 1:
        try:
            np.broadcast_shapes(*sizes)
        except ValueError:
            raise failure(
                IndexError,
                "shape mismatch: indexing tensors could not be broadcast together with shapes "
                f"{', '.join(str(list(s)) for s in sizes)}",
            ) from None


class _Merged:
    """`x[entries]` (one index tensor or None per dimension) as `x` rearranged, one index, one dimension."""

    def __init__(self, x: Tensor, entries: list[Tensor | None]) -> None:
        size = x.array.shape
        taken = [d for d, e in enumerate(entries) if e is not None]
        rest = [d for d in range(len(size)) if d not in taken]
        together = taken[-1] - taken[0] + 1 == len(taken)
        # Index dimensions that are apart move to the front, as in NumPy and PyTorch.
        self.order = list(range(len(size))) if together else taken + rest
        self.dim = taken[0] if together else 0
        sizes = tuple(size[d] for d in taken)
        self.ordered = x if together else ops.permute(x, self.order)
        self.ordered_shape = tuple(size[d] for d in self.order)
        _check_broadcast([entries[d] for d in taken])
        if len(taken) == 1:
            self.merged = self.ordered
            self.index: Any = entries[taken[0]]
        else:
            after = self.ordered_shape[self.dim + len(taken) :]
            merged = (*self.ordered_shape[: self.dim], math.prod(sizes), *after)
            self.merged = ops.reshape(self.ordered, merged)
            self.index = bind(_flat_index, tuple(entries[d] for d in taken), {"sizes": sizes})

    def restore(self, merged: Tensor) -> Tensor:
        """Undo the rearrangement."""
        result = ops.reshape(merged, self.ordered_shape)
        if self.order == sorted(self.order):
            return result
        return ops.permute(result, [self.order.index(d) for d in range(len(self.order))])


# The index that a user writes.


def getitem(self: Tensor, index: Any) -> Tensor:
    """`x[index]` for everything PyTorch takes. Source: `torch.Tensor.__getitem__`."""
    if type(index) is Tensor and index.array.dtype is _INT64 and index.array.ndim and self.array.ndim:
        return bind(TAKE, (self, index), {"dim": 0, "name": "Index"})
    basic = basic_index(index, self.array.shape)
    if basic is not None:
        return bind(_getitem, (self,), {"index": basic})
    if state.interpreter is not None:
        found = _followed(self, index, state.interpreter)
        if found is not None:
            return found
    basic, advanced = _split_advanced(self, index)
    if basic is not None:
        self = bind(_getitem, (self,), {"index": basic})
    if not advanced:
        return self
    merged = _Merged(self, advanced)
    return bind(TAKE, (merged.merged, merged.index), {"dim": merged.dim, "name": "Index"})


def split_index(x: Tensor, index: Any) -> tuple[tuple[Any, ...] | None, list[Tensor | None]]:
    """An index as a basic one, and one index tensor (or None) for each dimension of what that gives.

    The basic part is None where it would change nothing, the list empty where no tensors index.
    Raises IndexError for what cannot be an index, or is out of range.
    """
    basic = basic_index(index, x.array.shape)
    return _split_advanced(x, index) if basic is None else (basic, [])


def _split_advanced(x: Tensor, index: Any) -> tuple[tuple[Any, ...] | None, list[Tensor | None]]:
    """`split_index` for an index that is no basic one."""
    entries = list(map(_entry, _as_tuple(index)))
    simple: list[Any] = []
    tensors: list[Tensor | None] = []
    for entry in _with_ellipsis(entries, x.array.ndim):
        if isinstance(entry, bool):
            # A Python bool adds a dimension that is kept (True) or emptied (False).
            simple.append(None)
            tensors.append(ops.arange(int(entry)))
        elif isinstance(entry, Tensor) and not entry.array.ndim:
            # So does a mask without dimensions.
            simple.append(None)
            tensors.append(nonzero(entry, as_tuple=True)[0])
        elif isinstance(entry, Tensor):
            for part in _as_integers(entry, x, len(simple) - simple.count(None)):
                simple.append(slice(None))
                tensors.append(part)
        else:
            simple.append(entry)
            if not isinstance(entry, (int, np.integer)):
                tensors.append(None)
    frozen = basic_index(tuple(simple), x.array.shape)
    assert frozen is not None
    trivial = all(isinstance(e, Slice) for e in frozen) and frozen == basic_index((), x.array.shape)
    dims = sum(not isinstance(e, int) for e in frozen)
    tensors += [None] * (dims - len(tensors))
    if all(t is None for t in tensors):
        tensors = []
    return (None if trivial and tensors else frozen), tensors


def _as_tuple(index: Any) -> tuple[Any, ...]:
    """The entries of an index. PyTorch still takes a list with anything but numbers in it for a tuple."""
    if isinstance(index, tuple):
        return index
    nested = (list, tuple, range, slice, Tensor, np.ndarray, type(None), type(Ellipsis))
    if isinstance(index, list) and len(index) < 32 and any(isinstance(e, nested) for e in index):
        warn(
            "Using a non-tuple sequence for multidimensional indexing is deprecated; use x[tuple(index)] "
            "instead of x[index], or x[fg.tensor(index)] for an index tensor"
        )
        return tuple(index)
    return (index,)


def _entry(entry: Any) -> Any:
    """One entry of an index: lists and arrays as tensors, 0-d integer tensors as numbers."""
    if isinstance(entry, (list, tuple, range)):
        entry = ops.tensor(list(entry), dtype=None if len(entry) else dtypes.int64)
    elif isinstance(entry, np.ndarray):
        entry = ops.from_numpy(entry if entry.dtype.kind == "b" else entry.astype(np.int64, casting="safe"))
    elif isinstance(entry, np.bool_):
        entry = bool(entry)
    if isinstance(entry, Tensor):
        return _index_tensor(entry)
    if isinstance(entry, slice):
        return slice(*(v if v is None else size_of(v) for v in (entry.start, entry.stop, entry.step)))
    if entry is None or entry is Ellipsis or isinstance(entry, (int, np.integer)):
        return entry
    if hasattr(entry, "__index__"):
        return entry.__index__()
    raise failure(
        IndexError,
        "only integers, slices (`:`), ellipsis (`...`), None and long or bool tensors are valid indices "
        f"(got {type(entry).__name__})",
    )


def _index_tensor(entry: Tensor) -> Any:
    """A tensor in an index: a mask, integers, or (without dimensions) a number."""
    dtype = entry.array.dtype
    if dtype == np.uint8:
        warn("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.")
        return ops.ne(entry, 0)
    if dtype.kind == "i" and not entry.array.ndim:
        return entry.__index__()
    if dtype.kind != "b" and dtype not in (np.int64, np.int32):
        raise failure(
            IndexError,
            f"tensors used as indices must be long, int, byte or bool tensors, got {dtype.name}",
        )
    return entry


def _followed(x: Tensor, index: Any, interpreter: Interpreter) -> Tensor | None:
    """`x[index]` where some entries are numbers in tensors, which the interpreter follows, and the others
    basic ones; None where it does not, or they are not.
    """
    given = index if isinstance(index, tuple) else (index,)
    basic = (int, slice, type(None), type(Ellipsis))
    if not all(type(e) in basic or _is_position(e) for e in given) or not any(map(_is_position, given)):
        return None
    entries = _with_ellipsis([*given], x.array.ndim)
    places = [i for i, e in enumerate(entries) if isinstance(e, Tensor)]
    dims = [i - entries[:i].count(None) for i in places]
    if not all(interpreter.follows(x, entries[i], d) for i, d in zip(places, dims, strict=True)):
        return None
    whole = [slice(None) if isinstance(e, Tensor) else e for e in entries]
    found = x if all(type(e) is slice and e == slice(None) for e in whole) else getitem(x, tuple(whole))
    for i in reversed(places):
        dim = sum(type(e) is not int for e in entries[:i])
        found = bind(SELECT_AT, (found, entries[i]), {"dim": dim})
    return found


def _is_position(entry: Any) -> bool:
    """Whether an entry of an index is a number in a tensor."""
    return type(entry) is Tensor and not entry.array.ndim and entry.array.dtype.name in ("int64", "int32")


def _with_ellipsis(entries: list[Any], ndim: int) -> list[Any]:
    """`entries` with an Ellipsis replaced by the whole dimensions that it stands for."""
    used = sum(
        (e.array.ndim if isinstance(e, Tensor) and e.array.dtype.kind == "b" else 1)
        for e in entries
        if e is not None and e is not Ellipsis and not isinstance(e, bool)
    )
    if used > ndim:
        raise failure(IndexError, f"too many indices for tensor of dimension {ndim}")
    for place, entry in enumerate(entries):
        if entry is Ellipsis:
            rest = [e for e in entries[place + 1 :] if e is not Ellipsis]
            return entries[:place] + [slice(None)] * (ndim - used) + rest
    return entries


def _as_integers(entry: Tensor, x: Tensor, dim: int) -> tuple[Tensor, ...]:
    """An index tensor as integer ones: a mask becomes the positions that it is true at."""
    if entry.array.dtype.kind != "b":
        return (entry,)
    covered = x.array.shape[dim : dim + entry.array.ndim]
    if entry.array.shape != covered:
        raise failure(
            IndexError,
            f"The shape of the mask {list(entry.array.shape)} at index {dim} does not match "
            f"the shape of the indexed tensor {list(x.array.shape)}",
        )
    return nonzero(entry, as_tuple=True)


# Positions of nonzero elements: how many there are depends on the values.


_nonzero = Opaque(
    "nonzero",
    "x",
    lambda x, size=None: np.argwhere(x).astype(np.int64),
    lambda types, size: TensorType((size, len(types[0].shape)), _INT64),
    None,
    order=columns,
)


@public(method=True)
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """The positions of nonzero elements, int64 [count, ndim]. Source: `torch.nonzero`.

    as_tuple: as one tensor [count] per dimension, fit for indexing.
    """
    what = "where a tensor is nonzero"
    found = bind_sized(_nonzero, (input,), NO_PARAMS, what, lambda: ops.count_nonzero(input))
    if not as_tuple:
        return found
    if state.interpreter is not None and input.array.ndim:
        return tuple(ops.unbind(found, 1))
    columns = found.array.T if input.array.ndim else np.zeros((1, found.array.shape[0]), np.int64)
    return tuple(ops.from_numpy(np.ascontiguousarray(column)) for column in columns)


@public(method=True)
def argwhere(input: Tensor) -> Tensor:
    """The positions of nonzero elements, int64 [count, ndim]. Source: `torch.argwhere`."""
    return nonzero(input)


# Writing: out of place; `inplace.py` makes x[index] = value from it.


def replaced(x: Tensor, index: Any, value: Tensor, accumulate: bool = False) -> Tensor:
    """`x` with `value` (of its dtype, broadcast) at `index`, or added there."""
    if index is False:  # nothing is written, so PyTorch does not look at the value
        return x
    return replaced_at(x, *split_index(x, index), value, accumulate)


def replaced_at(
    x: Tensor, basic: tuple[Any, ...] | None, advanced: list[Tensor | None], value: Tensor, accumulate: bool
) -> Tensor:
    """`replaced`, for an index that is split (see `split_index`)."""
    part = x if basic is None else bind(_getitem, (x,), {"index": basic})
    if advanced:
        merged = _Merged(part, advanced)
        size = merged.merged.array.shape
        wanted = size[: merged.dim] + merged.index.array.shape + size[merged.dim + 1 :]
        value = ops.expand(_without_ones(value, len(wanted)), wanted)
        params = {"dim": merged.dim, "accumulate": accumulate}
        value = merged.restore(bind(PUT, (merged.merged, value, merged.index), params))
    elif accumulate:
        value = part + value
    if basic is None:
        return value
    value = ops.expand(_without_ones(value, part.array.ndim), part.array.shape)
    return bind(_assign, (x, value), {"index": basic})


def only_masks(index: Any) -> bool:
    """Whether masks are all that an advanced index has of tensors and lists."""
    entries = index if isinstance(index, tuple) else (index,)
    listed = [e for e in entries if isinstance(e, (Tensor, np.ndarray, list, range))]
    return bool(listed) and all(map(_is_mask, listed))


def _is_mask(entry: Any) -> bool:
    if isinstance(entry, (list, range)):
        return len(entry) > 0 and all(isinstance(e, bool) for e in entry)
    array = entry.array if isinstance(entry, Tensor) else entry
    return array.ndim > 0 and array.dtype in (np.bool_, np.uint8)


def _without_ones(value: Tensor, ndim: int) -> Tensor:
    """`value` without the leading dimensions of size 1 that it has too many."""
    size = value.array.shape
    while len(size) > ndim and size[0] == 1:
        size = size[1:]
    return value if size == value.array.shape else ops.reshape(value, size)


attach(renamed(getitem, "__getitem__"), "__getitem__")
