"""Small programs: what they make is made and computed in one native call, as tensors where it is wanted.

For a program of a few microseconds, Python's part in a call is most of it: to ask NumPy for the arrays, to
find memory for temporaries, to wrap each result. One native function does it all. It keeps the GIL, which
to give back and take again costs as much as a small kernel; so its memory for temporaries is one for all
calls, and larger programs go another way (`Calls.run`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from types import MemberDescriptorType
from typing import Any, NamedTuple

import numpy as np

from fusegrad.compiler.llvm.function_writer import FunctionWriter, Repeat, Word
from fusegrad.compiler.llvm.tasks import sequence
from fusegrad.compiler.native.calls import Calls, trial_kernel
from fusegrad.compiler.native.core import Maker, Native
from fusegrad.compiler.native.layouts import layouts
from fusegrad.compiler.native.object_writer import Objects, ObjectWriter
from fusegrad.compiler.runtime import red_zones
from fusegrad.compiler.runtime.allocator import aligned_bytes, data_address
from fusegrad.eager.core.interpreter import counts as reference_counts
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.tensor import Tensor

# So much work is done while other threads of Python wait: elements of kernels, of which one may take a
# nanosecond.
MOST_WORK = 1 << 16


class Made(NamedTuple):
    """What a program makes: of each array its slot, shape and dtype; which arrays are wrapped; an object with
    slots alone, of which another one is made, or None; how much memory is needed meanwhile.
    """

    arrays: Sequence[tuple[int, tuple[int, ...], np.dtype]]
    tensors: Sequence[int]
    like: Any
    arena_bytes: int


class Making:
    """A small program's native functions, if there are any, and what it makes besides.

    run(*arrays): with an array in each slot from 1, of which those are passed over that are made. Gives the
    made arrays, and after them the tensors, in one tuple, of which the last may be another object.
    """

    __slots__ = ("_alive", "run")

    run: Any

    def __init__(
        self,
        calls: Calls | None,
        arena_bytes: int = 0,
        made: Sequence[tuple[int, tuple[int, ...], np.dtype]] = (),
        tensors: Sequence[int] = (),
        like: Any = None,
    ) -> None:
        """made: the slot, shape and dtype of each array; tensors: which of these are wrapped, each once.
        like: an object with slots alone, of which another one is made.
        """
        whole = Made(made, tensors, like, arena_bytes)
        kernels = (0, 0) if calls is None else calls.table()
        table, *held = _table(whole, kernels)
        self._alive = calls, whole, held
        native = None if red_zones.is_on else MAKE.of(table)  # it calls kernels by itself
        self.run = native or functools.partial(make_plainly, whole, calls)


@functools.cache
def tensor_like() -> tuple[Tensor, list[Any]]:
    """What new tensors are like, but for their arrays and counters, and what these counters are like."""
    tensor = wrap(np.empty(0))
    version = tensor.version
    del tensor.array, tensor.version
    return tensor, version


# The table: how many kernels there are and where the table of them begins, as in `Calls`; memory for
# temporaries; how many arrays are made; how many tensors around some of these, what they are like, where
# their slots end, and what their counters are like; what object is made besides, if any, and where its slots
# end; then for each array its slot, dtype, how many dimensions and where its shape is; for each tensor which
# array.
_HEAD = ("i64", "ptr", "ptr", "i64", "i64", "ptr", "i64", "ptr", "ptr", "i64")
_ROW = 4


def _table(made: Made, kernels: tuple[int, int]) -> tuple[np.ndarray, ...]:
    """The table, and the memory that it has addresses of."""
    arena = aligned_bytes(made.arena_bytes)
    shapes = [np.array(shape, np.int64) for _, shape, _ in made.arrays]
    tensor, version = tensor_like()
    words = [*kernels, data_address(arena), len(made.arrays), len(made.tensors)]
    words += [id(tensor), type(tensor).__basicsize__, id(version)]
    words += [0, 0] if made.like is None else [id(made.like), type(made.like).__basicsize__]
    for (slot, shape, dtype), place in zip(made.arrays, shapes, strict=True):
        words += [slot, id(dtype), len(shape), data_address(place)]
    return np.array([*words, *made.tensors], np.int64), arena, *shapes


def like_function() -> FunctionWriter:
    """`fusegrad_like(like, end)`: an object like another of its class, with the same in its slots, of which
    empty ones stay so; null where there is no memory.
    """
    f = Objects("fusegrad_like", {"like": "ptr", "end": "i64"}, "ptr", private=True)
    like, end = f.given
    made = f.call("PyType_GenericAlloc", f.type_of(like), 0, gives="ptr")
    with f.if_(made.is_null):
        f.return_(f.null)
    head = layouts().head
    with f.loop((end - head) // 8) as i:
        place = i * 8 + head
        value = like.at(place, "i8").load("ptr")
        with f.if_(~value.is_null):
            f.hold(value)
            made.at(place, "i8").store(value)
    f.return_(made)
    return f


def _written() -> list[FunctionWriter]:
    f = ObjectWriter("fusegrad_make", borrowed=False)
    kernels, calls, arena, arrays, tensors, like, end, version_like, other_like, other_end = f.words(*_HEAD)
    rows = f.table.at(len(_HEAD))
    wrapped = rows.at(arrays * _ROW)
    things = arrays + tensors
    made = f.call("PyTuple_New", things + (~other_like.is_null).to("i64"), gives="ptr")
    with f.if_(made.is_null):
        f.return_(f.null)
    with f.repeat() as failing:  # is left only where something cannot be had
        items = f.tuple_items(made)
        slots = f.room("ptr", f.count + 2)
        slots.store(f.null)
        slots.store(arena, f.count + 1)
        with f.loop(f.count) as i:
            slots.store(f.array_data(f.items.load("ptr", i)), i + 1)
        _make_arrays(f, rows, arrays, items, slots, failing)
        f.call("fusegrad_sequence", calls, 0, kernels, slots)
        with f.loop(tensors) as i:
            tensor = f.call("fusegrad_like", like, end, gives="ptr")
            _leave_if_null(f, tensor, failing)
            items.store(tensor, arrays + i)
            version = f.call("PyList_GetSlice", version_like, 0, 2, gives="ptr")
            _leave_if_null(f, version, failing)
            f.slot(tensor, "version").store(version)
            array = items.load("ptr", wrapped.load("i64", i))
            f.hold(array)
            f.slot(tensor, "array").store(array)
        with f.if_(~other_like.is_null):
            other = f.call("fusegrad_like", other_like, other_end, gives="ptr")
            _leave_if_null(f, other, failing)
            items.store(other, things)
        f.return_(made)
    f.let_go(made)
    f.return_(f.null)
    return [sequence(), trial_kernel(), like_function(), f]


def _make_arrays(
    f: ObjectWriter, rows: Word, arrays: Word, items: Word, slots: Word, failing: Repeat
) -> None:
    """Make the arrays, and put their memory into their slots."""
    with f.loop(arrays) as i:
        row = rows.at(i * _ROW)
        slot, dtype, ndim = row.load(), row.load("ptr", 1), row.load("i64", 2).to("i32")
        f.hold(dtype)  # which NumPy takes over
        shape, none = row.load("ptr", 3), f.number(0, "i32")
        given = (f.object("ndarray"), dtype, ndim, shape, f.null, f.null, none, f.null)
        array = f.call("fusegrad_new_array", *given, gives="ptr")
        _leave_if_null(f, array, failing)
        items.store(array, i)
        slots.store(f.array_data(array), slot)


def _leave_if_null(f: ObjectWriter, made: Word, failing: Repeat) -> None:
    with f.if_(made.is_null):
        failing.leave()


def make_plainly(made: Made, calls: Calls | None, *given: np.ndarray) -> tuple[Any, ...]:
    """The plain way. Memory for temporaries is there for each call: without the GIL several run at once."""
    slots = [*given]
    arrays = []
    for slot, shape, dtype in made.arrays:
        array = slots[slot - 1] = np.empty(shape, dtype)
        arrays.append(array)
    if calls is not None:
        calls.run(*slots, aligned_bytes(made.arena_bytes))
    tensors = [wrap(arrays[number]) for number in made.tensors]
    others = [] if made.like is None else [_another(made.like)]
    return *arrays, *tensors, *others


def _another(like: Any) -> Any:
    """An object like another of its class."""
    kind = type(like)
    made = object.__new__(kind)
    for member in (member for base in kind.__mro__ for member in vars(base).values()):
        if type(member) is MemberDescriptorType:
            try:
                member.__set__(made, member.__get__(like))
            except AttributeError:  # an empty slot
                continue
    return made


# The trials.


class _Slots:
    """Of these another one is made."""

    __slots__ = ("empty", "full", "other")

    empty: Any
    full: Any
    other: Any


def _trials(made: Maker, kernel: int) -> Iterator[tuple[Any, Any]]:
    long = np.dtype(np.int64)
    like = _Slots()
    like.full, like.other = object(), [1]
    whole = Made([(2, (2, 3), long), (3, (), long), (4, (0, 1, 2, 3), long)], [2, 0], like, 64)
    block = np.zeros(1, np.int64)
    entries = np.array([kernel, data_address(block)])
    table, *_held = _table(whole, (1, data_address(entries)))
    native = made(table)
    given = [np.full(3, 5), *([np.empty(0, np.int64)] * 3)]

    def seen(run: Callable[..., tuple[Any, ...]]) -> list[Any]:
        first, number, empty, of_empty, of_first, other = run(*given)
        arrays = [(a.shape, a.strides, a.dtype, a.flags.num, type(a)) for a in (first, number, empty)]
        tensors = [
            (type(t), t.array is a, t.version, t.needs_grad, t.gradient, t.grad_fn, t.output_index, t.alias)
            for t, a in ((of_empty, empty), (of_first, first))
        ]
        same = of_empty.version is of_first.version
        slots = other is like, other.full is like.full, other.other is like.other, hasattr(other, "empty")
        counts = reference_counts((first, number, empty, of_empty, of_first, other))
        return [arrays, tensors, same, vars(of_first), type(other), slots, counts]

    def counted() -> list[int]:
        return reference_counts((long, like.full, like.other, *given, _Slots, Tensor))

    yield seen(native), seen(functools.partial(make_plainly, whole, None))
    before = counted()
    yield seen(native), seen(native)
    yield counted(), before
    # What the kernel computes is seen in memory that is given.
    result = Made([], [], None, 0)
    table, *_held = _table(result, (1, data_address(entries)))
    rows = [np.array([3, 1]), np.array([4, 1])]
    yield made(table)(*rows), ()
    yield rows[1].tolist(), [7, 1]


MAKE = Native("fusegrad_make", _written, _trials, ["fusegrad_trial"])
