"""Small programs: what they make is made and computed in one native call, as tensors where it is wanted.

For a program of a few microseconds, Python's part in a call is most of it: to ask NumPy for the arrays, to
find memory for temporaries, to wrap each result. One function of LLVM IR does it all. It keeps the GIL, which
to give back and take again costs as much as a small kernel; so its memory for temporaries is one for all
calls, and larger programs go another way (`Calls.run`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.compiler.llvm.tasks import SEQUENCE
from fusegrad.compiler.runtime import cpython_calls
from fusegrad.compiler.runtime.allocator import aligned_bytes, data_address
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.tensor import Tensor

# So much work is done while other threads of Python wait: elements of kernels, of which one may take a
# nanosecond.
MOST_WORK = 1 << 16

# An object like another of its class: with the same in its slots, of which empty ones stay so.
_LIKE = """
declare ptr @PyType_GenericAlloc(ptr, i64)

define private ptr @fusegrad_like(ptr %like, i64 %end) nounwind {{
entry:
  %type.at = getelementptr i8, ptr %like, i64 {TYPE}
  %type = load ptr, ptr %type.at
  %made = call ptr @PyType_GenericAlloc(ptr %type, i64 0)
  %none = icmp eq ptr %made, null
  br i1 %none, label %done, label %slots
slots:
  %place = phi i64 [ {HEAD}, %entry ], [ %place1, %next ]
  %more = icmp slt i64 %place, %end
  br i1 %more, label %slot, label %done
slot:
  %from = getelementptr i8, ptr %like, i64 %place
  %value = load ptr, ptr %from
  %empty = icmp eq ptr %value, null
  br i1 %empty, label %next, label %copy
copy:
  call void @Py_IncRef(ptr %value)
  %to = getelementptr i8, ptr %made, i64 %place
  store ptr %value, ptr %to
  br label %next
next:
  %place1 = add i64 %place, 8
  br label %slots
done:
  ret ptr %made
}}
"""

# `self` is an array: how many kernels there are and where the table of them begins, as in `fusegrad_run`;
# memory for temporaries; how many arrays are made; how many tensors around some of these, what they are like,
# where their slots end, and what their counters are like; what object is made besides, if any, and where its
# slots end; then for each array its slot, dtype, how many dimensions and where its shape is; for each tensor
# which array.
_MAKE = """
declare ptr @PyTuple_New(i64)
declare ptr @PyList_GetSlice(ptr, i64, i64)
declare void @Py_DecRef(ptr)
declare ptr @fusegrad_new_array(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)

define ptr @fusegrad_make(ptr %self, ptr %items, i64 %count) nounwind {{
entry:
  {TABLE}
  {fields}
  %first.array = getelementptr i64, ptr %table, i64 10
  %array.words = mul i64 %arrays, 4
  %first.tensor = getelementptr i64, ptr %first.array, i64 %array.words
  %things = add i64 %arrays, %tensors
  %object = icmp ne ptr %object.like, null
  %object.count = zext i1 %object to i64
  %all = add i64 %things, %object.count
  %made = call ptr @PyTuple_New(i64 %all)
  %none.made = icmp eq ptr %made, null
  br i1 %none.made, label %fail, label %room
room:
  %made.items = getelementptr i8, ptr %made, i64 {ITEMS}
  %places = add i64 %count, 2
  %slots = alloca ptr, i64 %places
  store ptr null, ptr %slots
  %last = add i64 %count, 1
  %arena.slot = getelementptr ptr, ptr %slots, i64 %last
  store ptr %arena, ptr %arena.slot
  br label %fill
fill:
  %i = phi i64 [ 0, %room ], [ %i1, %copy ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %copy, label %making
copy:
  %item = getelementptr ptr, ptr %items, i64 %i
  %given = load ptr, ptr %item
  %given.field = getelementptr i8, ptr %given, i64 {DATA}
  %memory = load ptr, ptr %given.field
  %i1 = add i64 %i, 1
  %slot = getelementptr ptr, ptr %slots, i64 %i1
  store ptr %memory, ptr %slot
  br label %fill
making:
  %j = phi i64 [ 0, %fill ], [ %j1, %array.made ]
  %making.more = icmp slt i64 %j, %arrays
  br i1 %making.more, label %array, label %running
array:
  %row = getelementptr [4 x i64], ptr %first.array, i64 %j
  %number = load i64, ptr %row
  %dtype.at = getelementptr ptr, ptr %row, i64 1
  %dtype = load ptr, ptr %dtype.at
  %ndim.at = getelementptr i64, ptr %row, i64 2
  %ndim.long = load i64, ptr %ndim.at
  %ndim = trunc i64 %ndim.long to i32
  %shape.at = getelementptr ptr, ptr %row, i64 3
  %shape = load ptr, ptr %shape.at
  call void @Py_IncRef(ptr %dtype)
  %array.new = call ptr @fusegrad_new_array(
    ptr @fusegrad_ndarray, ptr %dtype, i32 %ndim, ptr %shape, ptr null, ptr null, i32 0, ptr null)
  %no.array = icmp eq ptr %array.new, null
  br i1 %no.array, label %drop, label %array.made
array.made:
  %array.item = getelementptr ptr, ptr %made.items, i64 %j
  store ptr %array.new, ptr %array.item
  %new.field = getelementptr i8, ptr %array.new, i64 {DATA}
  %new.memory = load ptr, ptr %new.field
  %new.slot = getelementptr ptr, ptr %slots, i64 %number
  store ptr %new.memory, ptr %new.slot
  %j1 = add i64 %j, 1
  br label %making
running:
  call void @fusegrad_sequence(ptr %calls, i64 0, i64 %kernels, ptr %slots)
  br label %wrapping
wrapping:
  %k = phi i64 [ 0, %running ], [ %k1, %tensor.made ]
  %wrapping.more = icmp slt i64 %k, %tensors
  br i1 %wrapping.more, label %tensor, label %besides
tensor:
  %tensor.new = call ptr @fusegrad_like(ptr %tensor.like, i64 %tensor.end)
  %no.tensor = icmp eq ptr %tensor.new, null
  br i1 %no.tensor, label %drop, label %counter
counter:
  %tensor.number = add i64 %arrays, %k
  %tensor.item = getelementptr ptr, ptr %made.items, i64 %tensor.number
  store ptr %tensor.new, ptr %tensor.item
  %version = call ptr @PyList_GetSlice(ptr %version.like, i64 0, i64 2)
  %no.version = icmp eq ptr %version, null
  br i1 %no.version, label %drop, label %tensor.made
tensor.made:
  %version.at = getelementptr i8, ptr %tensor.new, i64 {version}
  store ptr %version, ptr %version.at
  %which.at = getelementptr i64, ptr %first.tensor, i64 %k
  %which = load i64, ptr %which.at
  %wrapped.at = getelementptr ptr, ptr %made.items, i64 %which
  %wrapped = load ptr, ptr %wrapped.at
  call void @Py_IncRef(ptr %wrapped)
  %array.field = getelementptr i8, ptr %tensor.new, i64 {array}
  store ptr %wrapped, ptr %array.field
  %k1 = add i64 %k, 1
  br label %wrapping
besides:
  br i1 %object, label %object.make, label %done
object.make:
  %object.new = call ptr @fusegrad_like(ptr %object.like, i64 %object.end)
  %no.object = icmp eq ptr %object.new, null
  br i1 %no.object, label %drop, label %object.made
object.made:
  %object.item = getelementptr ptr, ptr %made.items, i64 %things
  store ptr %object.new, ptr %object.item
  br label %done
drop:
  call void @Py_DecRef(ptr %made)
  br label %fail
fail:
  ret ptr null
done:
  ret ptr %made
}}
"""

# The first words of the table, as `fusegrad_make` calls them.
_FIELDS = [("kernels", "i64"), ("calls", "ptr"), ("arena", "ptr"), ("arrays", "i64"), ("tensors", "i64")]
_FIELDS += [("tensor.like", "ptr"), ("tensor.end", "i64"), ("version.like", "ptr")]
_FIELDS += [("object.like", "ptr"), ("object.end", "i64")]


@functools.cache
def _tensor_like() -> tuple[Tensor, list[Any]]:
    """What new tensors are like, but for their arrays and counters, and what these counters are like."""
    tensor = wrap(np.empty(0))
    version = tensor.version
    del tensor.array, tensor.version
    return tensor, version


class Making:
    """A small program's native functions, if there are any, and what it makes besides.

    run(*arrays): with an array in each slot from 1, of which those are passed over that are made. Gives the
    made arrays, and after them the tensors, in one tuple, of which the last may be another object.
    """

    __slots__ = ("_alive", "run")

    run: Any

    def __init__(
        self,
        calls: cpython_calls.Calls | None,
        arena_bytes: int = 0,
        made: Sequence[tuple[int, tuple[int, ...], np.dtype]] = (),
        tensors: Sequence[int] = (),
        like: Any = None,
    ) -> None:
        """made: the slot, shape and dtype of each array; tensors: which of these are wrapped, each once.
        like: an object with slots alone, of which another one is made.
        """
        arena = aligned_bytes(arena_bytes)
        shapes = [np.array(shape, np.int64) for _, shape, _ in made]
        rows = [
            (slot, id(dtype), len(shape), data_address(place))
            for (slot, shape, dtype), place in zip(made, shapes, strict=True)
        ]
        tensor, version = _tensor_like()
        kernels, first = (0, 0) if calls is None else calls.table()
        head = [kernels, first, data_address(arena), len(made), len(tensors)]
        head += [id(tensor), type(tensor).__basicsize__, id(version)]
        head += [0, 0] if like is None else [id(like), type(like).__basicsize__]
        self._alive = calls, arena, shapes, [dtype for _, _, dtype in made], like
        table = np.array([*head, *(word for row in rows for word in row), *tensors], np.int64)
        self.run = cpython_calls.native_function("make")(table)


cpython_calls.TEXTS["make"] = cpython_calls.Text(
    _LIKE + _MAKE.replace("{fields}", cpython_calls.loads(_FIELDS)), SEQUENCE
)
