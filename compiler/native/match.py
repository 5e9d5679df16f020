"""Comparing types: whether tensors are of the class, dtype, shape and strides that others had."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.compiler.llvm.function_writer import FunctionWriter
from fusegrad.compiler.native.core import Maker, Native
from fusegrad.compiler.native.layouts import OWNDATA, WRITEABLE
from fusegrad.compiler.native.object_writer import ObjectWriter
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.tensor import Tensor


class Known(NamedTuple):
    """What a tensor has to have."""

    kind: type
    needs_grad: bool
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @staticmethod
    def of(tensor: Tensor) -> Known:
        array = tensor.array
        return Known(type(tensor), tensor.needs_grad, array.dtype, array.shape, array.strides)

    def words(self) -> list[int]:
        """The same in a table."""
        objects = [id(self.kind), id(self.needs_grad), id(self.dtype)]
        return [*objects, len(self.shape), *self.shape, *self.strides]


class Match:
    """Whether tensors are of the types that others had: class, dtype, shape, strides, `needs_grad`.

    matches(*tensors): as many as there were; none made in inference mode, and no two of them the same, unless
    they may be `alike`. Anything else may be given in their places, and does not match. own: each must have a
    writeable array for itself, in memory of its own.
    """

    __slots__ = ("_known", "matches")

    matches: Callable[..., bool]

    def __init__(self, tensors: Sequence[Tensor], alike: bool = False, own: bool = False) -> None:
        self._known = [*map(Known.of, tensors)]
        native = MATCH.of(_table(self._known, alike, own))
        self.matches = native or functools.partial(matches_plainly, self._known, alike, own)


# The table: whether two of the tensors may be one; flags that their arrays must have, which then are no two
# the same; then what is known of each.


def _table(known: Sequence[Known], alike: bool, own: bool) -> np.ndarray:
    words = [int(alike), OWNDATA | WRITEABLE if own else 0]
    for row in known:
        words += row.words()
    return np.array(words, np.int64)


def _written() -> list[FunctionWriter]:
    f = ObjectWriter("fusegrad_match", borrowed=True)
    alike, flags = f.words("i64", "i64")
    row = f.variable(f.table.at(2))
    with f.loop(f.count) as i:
        x, known = f.items.load("ptr", i), row.value
        f.require(f.type_of(x) == known.load("ptr"))
        array, version = f.tensor_array(x), f.slot(x, "version").load("ptr")
        needs_grad = f.slot(x, "needs_grad").load("ptr")
        f.require(~array.is_null & ~version.is_null & (needs_grad == known.load("ptr", 1)))
        f.require(f.is_a(array, "ndarray") & f.is_a(version, "list"))
        ndim = f.array_ndim(array)
        dtypes = f.array_dtype(array) == known.load("ptr", 2)
        f.require(dtypes & (ndim == known.load("i64", 3)) & (f.array_flags(array) & flags == flags))
        shape, strides = known.at(4), known.at(4).at(ndim)
        now_shape, now_strides = f.array_shape(array), f.array_strides(array)
        with f.loop(ndim) as d:
            sizes = now_shape.load("i64", d) == shape.load("i64", d)
            f.require(sizes & (now_strides.load("i64", d) == strides.load("i64", d)))
        others = f.items.at(alike * i, "ptr")
        with f.loop(i - alike * i) as j:
            other = others.load("ptr", j)
            arrays = f.tensor_array(other) != array
            f.require(f.select(flags != 0, arrays, other != x))
        row.set(strides.at(ndim))
    f.return_(f.object("true"))
    return [f]


def matches_plainly(known: Sequence[Known], alike: bool, own: bool, *tensors: Any) -> bool:
    """The plain way."""
    seen: list[Any] = []
    for x, row in zip(tensors, known, strict=False):
        kind: Any = type(x)
        if kind is not row.kind or not _is_like(x, row):
            return False
        flags = x.array.flags
        if own and not (flags.owndata and flags.writeable):
            return False
        one = x.array if own else x
        if not alike and any(other is one for other in seen):
            return False
        seen.append(one)
    return True


def _is_like(x: Tensor, known: Known) -> bool:
    try:
        array, version = x.array, x.version
    except AttributeError:  # a tensor of inference mode has no counter
        return False
    return (
        type(array) is np.ndarray
        and type(version) is list
        and x.needs_grad is known.needs_grad
        and array.dtype is known.dtype
        and array.shape == known.shape
        and array.strides == known.strides
    )


# The trials.


def _trials(made: Maker) -> Iterator[tuple[Any, Any]]:
    whole = np.zeros((4, 6), np.float32)
    tensors = [wrap(whole), wrap(whole[:, ::2]), wrap(np.zeros((), np.int64)), wrap(whole.copy())]
    frozen, empty, differentiable = wrap(whole.copy()), wrap(whole), wrap(whole.copy())
    frozen.array.flags.writeable = False
    del empty.version
    differentiable.needs_grad = True
    others: list[Any] = [
        frozen,
        empty,
        differentiable,
        wrap(whole.astype(np.float64)),
        wrap(whole.T),
        1.5,
        whole,
    ]
    for alike, own in ((False, False), (True, False), (False, True)):
        for row in (tensors, [tensors[3]], [differentiable, tensors[2]]):
            known = [*map(Known.of, row)]
            native = made(_table(known, alike, own))
            for given in (row, row[::-1], row[:1] * len(row), *([other, *row[1:]] for other in others)):
                yield native(*given), matches_plainly(known, alike, own, *given)


MATCH = Native("fusegrad_match", _written, _trials)
