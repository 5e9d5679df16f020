"""Calling in: what CPython calls as it calls the functions of its own modules.

Functions of LLVM IR take Python objects as they are (METH_FASTCALL) and look into them: one runs kernels on
the memory of arrays, in 60 ns where ctypes takes 900; one tells whether tensors are of the types that they
were, in 10 ns each; one whether tensors, of which some are written, lie apart. What small programs need
besides is in `making.py`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.compiler.base.lock import compiling
from fusegrad.compiler.llvm import llvm_jit
from fusegrad.compiler.llvm.tasks import SEQUENCE
from fusegrad.compiler.runtime import thread_pool, threads
from fusegrad.compiler.runtime.allocator import bounds_of, data_address
from fusegrad.eager.core.tensor import Tensor

# Where things are, counted from an object's address. Those of arrays are part of NumPy's ABI:
# its C macros put them into every extension module.
_TYPE = object.__basicsize__ - ctypes.sizeof(ctypes.c_void_p)
_DATA, _NDIM, _SHAPE, _STRIDES, _DTYPE, _FLAGS = (object.__basicsize__ + 8 * n for n in (0, 1, 2, 3, 5, 6))
_OWNDATA, _WRITEABLE = 0x0004, 0x0400  # among the flags

_HEAD = """
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)
@fusegrad_none = external global i8
@fusegrad_true = external global i8
@fusegrad_false = external global i8
@fusegrad_list = external global i8
@fusegrad_ndarray = external global i8
@fusegrad_threads = external global i64
"""

# `self` is an array: how many kernels there are; how many of them a team calls, up to the last that has tasks
# to share, and by which function; then the address and the block of each.
_RUN = """
define ptr @fusegrad_run(ptr %self, ptr %items, i64 %count) nounwind {{
entry:
  {TABLE}
  %kernels = load i64, ptr %table
  %sharing.at = getelementptr i64, ptr %table, i64 1
  %sharing = load i64, ptr %sharing.at
  %team.at = getelementptr ptr, ptr %table, i64 2
  %calls = getelementptr ptr, ptr %table, i64 3
  %places = add i64 %count, 1
  %slots = alloca ptr, i64 %places
  store ptr null, ptr %slots
  br label %fill
fill:
  %i = phi i64 [ 0, %entry ], [ %i1, %copy ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %copy, label %release
copy:
  %item = getelementptr ptr, ptr %items, i64 %i
  %array = load ptr, ptr %item
  %field = getelementptr i8, ptr %array, i64 {DATA}
  %memory = load ptr, ptr %field
  %i1 = add i64 %i, 1
  %slot = getelementptr ptr, ptr %slots, i64 %i1
  store ptr %memory, ptr %slot
  br label %fill
release:
  %thread = call ptr @PyEval_SaveThread()
  %threads = load i64, ptr @fusegrad_threads
  %others = icmp sgt i64 %threads, 1
  %some = icmp sgt i64 %sharing, 0
  %both = and i1 %others, %some
  br i1 %both, label %team, label %calling
team:
  %together = load ptr, ptr %team.at
  call void %together(ptr %calls, i64 %sharing, ptr %slots, i64 %threads)
  br label %calling
calling:
  %first = phi i64 [ 0, %release ], [ %sharing, %team ]
  call void @fusegrad_sequence(ptr %calls, i64 %first, i64 %kernels, ptr %slots)
  call void @PyEval_RestoreThread(ptr %thread)
  call void @Py_IncRef(ptr @fusegrad_none)
  ret ptr @fusegrad_none
}}
"""

# How functions find their table, where texts have `{TABLE}`, and end if they answer a question (`{YES_NO}`).
_TABLE = f"""%table.field = getelementptr i8, ptr %self, i64 {_DATA}
  %table = load ptr, ptr %table.field"""
_YES_NO = """yes:
  call void @Py_IncRef(ptr @fusegrad_true)
  ret ptr @fusegrad_true
no:
  call void @Py_IncRef(ptr @fusegrad_false)
  ret ptr @fusegrad_false"""

# How questions about tensors go on, and how they end.
_ANSWERS = """next:
  %i1 = add i64 %i, 1
  br label %tensors
{YES_NO}
}}
"""

# `self` is an array: whether two of the tensors may be one; flags that their arrays must have, which then are
# no two the same; then for each its class, `needs_grad`, its dtype, how many dimensions, shape and strides.
_MATCH = """
define ptr @fusegrad_match(ptr %self, ptr %items, i64 %count) nounwind {{
entry:
  {TABLE}
  %alike = load i64, ptr %table
  %flags.known.at = getelementptr i64, ptr %table, i64 1
  %flags.known = load i64, ptr %flags.known.at
  %own = icmp ne i64 %flags.known, 0
  %first = getelementptr i64, ptr %table, i64 2
  br label %tensors
tensors:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %known = phi ptr [ %first, %entry ], [ %known1, %next ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %class, label %yes
class:
  %item = getelementptr ptr, ptr %items, i64 %i
  %x = load ptr, ptr %item
  %type.at = getelementptr i8, ptr %x, i64 {TYPE}
  %type = load ptr, ptr %type.at
  %type.known = load ptr, ptr %known
  %type.same = icmp eq ptr %type, %type.known
  br i1 %type.same, label %slots, label %no
slots:
  %array.at = getelementptr i8, ptr %x, i64 {array}
  %array = load ptr, ptr %array.at
  %needs.at = getelementptr i8, ptr %x, i64 {needs_grad}
  %needs = load ptr, ptr %needs.at
  %needs.known.at = getelementptr ptr, ptr %known, i64 1
  %needs.known = load ptr, ptr %needs.known.at
  %needs.same = icmp eq ptr %needs, %needs.known
  %version.at = getelementptr i8, ptr %x, i64 {version}
  %version = load ptr, ptr %version.at
  %array.there = icmp ne ptr %array, null
  %version.there = icmp ne ptr %version, null
  %there = and i1 %array.there, %version.there
  %there.same = and i1 %there, %needs.same
  br i1 %there.same, label %kinds, label %no
kinds:
  %kind.at = getelementptr i8, ptr %array, i64 {TYPE}
  %kind = load ptr, ptr %kind.at
  %kind.same = icmp eq ptr %kind, @fusegrad_ndarray
  %counter.at = getelementptr i8, ptr %version, i64 {TYPE}
  %counter = load ptr, ptr %counter.at
  %counter.same = icmp eq ptr %counter, @fusegrad_list
  %kinds.same = and i1 %kind.same, %counter.same
  br i1 %kinds.same, label %layout, label %no
layout:
  %dtype.at = getelementptr i8, ptr %array, i64 {DTYPE}
  %dtype = load ptr, ptr %dtype.at
  %dtype.known.at = getelementptr ptr, ptr %known, i64 2
  %dtype.known = load ptr, ptr %dtype.known.at
  %dtype.same = icmp eq ptr %dtype, %dtype.known
  %ndim.at = getelementptr i8, ptr %array, i64 {NDIM}
  %ndim.short = load i32, ptr %ndim.at
  %ndim = sext i32 %ndim.short to i64
  %ndim.known.at = getelementptr i64, ptr %known, i64 3
  %ndim.known = load i64, ptr %ndim.known.at
  %ndim.same = icmp eq i64 %ndim, %ndim.known
  %flags.at = getelementptr i8, ptr %array, i64 {FLAGS}
  %flags.short = load i32, ptr %flags.at
  %flags = sext i32 %flags.short to i64
  %flags.both = and i64 %flags, %flags.known
  %flags.same = icmp eq i64 %flags.both, %flags.known
  %kind.of.layout = and i1 %dtype.same, %ndim.same
  %layout.same = and i1 %kind.of.layout, %flags.same
  %shape.at = getelementptr i8, ptr %array, i64 {SHAPE}
  %shape = load ptr, ptr %shape.at
  %strides.at = getelementptr i8, ptr %array, i64 {STRIDES}
  %strides = load ptr, ptr %strides.at
  %shape.known = getelementptr i64, ptr %known, i64 4
  %strides.known = getelementptr i64, ptr %shape.known, i64 %ndim
  %known1 = getelementptr i64, ptr %strides.known, i64 %ndim
  br i1 %layout.same, label %sizes, label %no
sizes:
  %d = phi i64 [ 0, %layout ], [ %d1, %size ]
  %sizes.more = icmp slt i64 %d, %ndim
  %skipped = mul i64 %alike, %i
  br i1 %sizes.more, label %size, label %others
size:
  %size.at = getelementptr i64, ptr %shape, i64 %d
  %size.now = load i64, ptr %size.at
  %size.known.at = getelementptr i64, ptr %shape.known, i64 %d
  %size.known = load i64, ptr %size.known.at
  %size.same = icmp eq i64 %size.now, %size.known
  %stride.at = getelementptr i64, ptr %strides, i64 %d
  %stride.now = load i64, ptr %stride.at
  %stride.known.at = getelementptr i64, ptr %strides.known, i64 %d
  %stride.known = load i64, ptr %stride.known.at
  %stride.same = icmp eq i64 %stride.now, %stride.known
  %dim.same = and i1 %size.same, %stride.same
  %d1 = add i64 %d, 1
  br i1 %dim.same, label %sizes, label %no
others:
  %j = phi i64 [ %skipped, %sizes ], [ %j1, %other ]
  %others.more = icmp slt i64 %j, %i
  br i1 %others.more, label %other, label %next
other:
  %other.at = getelementptr ptr, ptr %items, i64 %j
  %other.x = load ptr, ptr %other.at
  %other.array.at = getelementptr i8, ptr %other.x, i64 {array}
  %other.array = load ptr, ptr %other.array.at
  %other.tensor = icmp ne ptr %other.x, %x
  %other.memory = icmp ne ptr %other.array, %array
  %apart = select i1 %own, i1 %other.memory, i1 %other.tensor
  %j1 = add i64 %j, 1
  br i1 %apart, label %others, label %no
"""

# `self` is an array: how many of the first are only held against others; up to which they have to lie where
# they did; then for each of all the address of its memory, where it begins and ends from there, and the flags
# that its array must have. What is given may be arrays, too.
_APART = """
define private ptr @fusegrad_array_of(ptr %x) nounwind alwaysinline {{
  %type.at = getelementptr i8, ptr %x, i64 {TYPE}
  %type = load ptr, ptr %type.at
  %is.array = icmp eq ptr %type, @fusegrad_ndarray
  br i1 %is.array, label %itself, label %tensor
itself:
  ret ptr %x
tensor:
  %array.at = getelementptr i8, ptr %x, i64 {array}
  %array = load ptr, ptr %array.at
  ret ptr %array
}}

define ptr @fusegrad_apart(ptr %self, ptr %items, i64 %count) nounwind {{
entry:
  {TABLE}
  %read = load i64, ptr %table
  %staying.at = getelementptr i64, ptr %table, i64 1
  %staying = load i64, ptr %staying.at
  %rows = getelementptr i64, ptr %table, i64 2
  br label %tensors
tensors:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %tensor, label %yes
tensor:
  %item = getelementptr ptr, ptr %items, i64 %i
  %x = load ptr, ptr %item
  %array = call ptr @fusegrad_array_of(ptr %x)
  %flags.at = getelementptr i8, ptr %array, i64 {FLAGS}
  %flags.short = load i32, ptr %flags.at
  %flags = sext i32 %flags.short to i64
  %memory.at = getelementptr i8, ptr %array, i64 {DATA}
  %memory = load i64, ptr %memory.at
  %row = getelementptr [4 x i64], ptr %rows, i64 %i
  %flags.known.at = getelementptr i64, ptr %row, i64 3
  %flags.known = load i64, ptr %flags.known.at
  %flags.both = and i64 %flags, %flags.known
  %flags.same = icmp eq i64 %flags.both, %flags.known
  br i1 %flags.same, label %place, label %no
place:
  %only.read = icmp slt i64 %i, %read
  br i1 %only.read, label %next, label %known
known:
  %stays = icmp slt i64 %i, %staying
  %memory.known = load i64, ptr %row
  %memory.same = icmp eq i64 %memory, %memory.known
  br i1 %stays, label %stayed, label %bounds
stayed:
  br i1 %memory.same, label %next, label %no
bounds:
  %begin.at = getelementptr i64, ptr %row, i64 1
  %begin.offset = load i64, ptr %begin.at
  %begin = add i64 %memory, %begin.offset
  %end.at = getelementptr i64, ptr %row, i64 2
  %end.offset = load i64, ptr %end.at
  %end = add i64 %memory, %end.offset
  br label %others
others:
  %j = phi i64 [ 0, %bounds ], [ %j1, %other ]
  %others.more = icmp slt i64 %j, %i
  br i1 %others.more, label %other, label %next
other:
  %other.at = getelementptr ptr, ptr %items, i64 %j
  %other.x = load ptr, ptr %other.at
  %other.array = call ptr @fusegrad_array_of(ptr %other.x)
  %other.memory.at = getelementptr i8, ptr %other.array, i64 {DATA}
  %other.memory = load i64, ptr %other.memory.at
  %other.row = getelementptr [4 x i64], ptr %rows, i64 %j
  %other.begin.at = getelementptr i64, ptr %other.row, i64 1
  %other.begin.offset = load i64, ptr %other.begin.at
  %other.begin = add i64 %other.memory, %other.begin.offset
  %other.end.at = getelementptr i64, ptr %other.row, i64 2
  %other.end.offset = load i64, ptr %other.end.at
  %other.end = add i64 %other.memory, %other.end.offset
  %before = icmp sle i64 %end, %other.begin
  %behind = icmp sle i64 %other.end, %begin
  %apart = or i1 %before, %behind
  %j1 = add i64 %j, 1
  br i1 %apart, label %others, label %no
"""


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("text", ctypes.c_char_p),
    )


_FASTCALL = 0x80


class Text(NamedTuple):
    """LLVM IR of a function.

    besides: more of it, in which no places are to be put in. places: further ones, see `_places`.
    """

    text: str
    besides: str = ""
    places: Callable[[], dict[str, int]] = dict


# The functions, each compiled when it is first needed: the first call of a program runs kernels alone.
TEXTS = {"run": Text(_RUN, SEQUENCE), "match": Text(_MATCH + _ANSWERS), "apart": Text(_APART + _ANSWERS)}
_made: dict[str, Callable[[np.ndarray], Callable[..., Any]]] = {}


def native_function(name: str) -> Callable[[np.ndarray], Callable[..., Any]]:
    """What makes of a table the function NAME that reads it."""
    made = _made.get(name)
    if made is None:
        # Whoever forks waits for what is done under this lock: LLVM has locks of its own.
        with compiling:
            # Another thread may have been faster. What is made must be one, and stay: CPython keeps the
            # addresses of the methods in the functions that are made of them.
            made = _made.get(name)
            if made is None:
                made = _made[name] = _compiled(name)
    return made


def _compiled(name: str) -> Callable[[np.ndarray], Callable[..., Any]]:
    (address,) = _module(name).addresses().values()
    return _maker(name.encode(), address)


@llvm_jit.remembered
def _module(name: str) -> llvm_jit.Module:
    """The module of a function, which is being compiled from the first time that it is asked for."""
    _add_symbols()
    text, besides, places = TEXTS[name]
    whole = besides + (_HEAD + text).format(**_places(), **places(), TABLE=_TABLE, YES_NO=_YES_NO)
    return llvm_jit.Module(whole, [f"fusegrad_{name}"])


def loads(fields: Sequence[tuple[str, str]]) -> str:
    """LLVM IR that reads the first words of the table, which have these names and types."""
    return "\n  ".join(
        f"%{name}.at = getelementptr i64, ptr %table, i64 {number}\n  %{name} = load {kind}, ptr %{name}.at"
        for number, (name, kind) in enumerate(fields)
    )


def prepare() -> None:
    """Begin to compile what all programs need, where there is a core to do so meanwhile."""
    if threads.cores() > 1 and "run" not in _made:
        with contextlib.suppress(Exception):  # which whoever needs it meets again
            _module("run")


@functools.cache
def _add_symbols() -> None:
    functions = ["PyEval_SaveThread", "PyEval_RestoreThread", "Py_IncRef", "Py_DecRef"]
    functions += ["PyTuple_New", "PyTuple_Pack", "PyList_New", "PyList_GetSlice", "PyType_GenericAlloc"]
    functions += ["PyLong_AsLongLong", "PyLong_FromLongLong", "PyDict_GetItemWithError", "PyErr_Occurred"]
    symbols = {n: ctypes.cast(getattr(ctypes.pythonapi, n), ctypes.c_void_p).value or 0 for n in functions}
    known = {"none": None, "true": True, "false": False, "list": list, "ndarray": np.ndarray}
    symbols |= {f"fusegrad_{name}": id(value) for name, value in known.items()}
    symbols["fusegrad_new_array"] = _numpy_function(_NEW_FROM_DESCR)
    llvm_jit.add_symbols({**symbols, "fusegrad_threads": data_address(threads.thread_count)})
    threads.thread_count[0] = threads.threads()


# The number of `PyArray_NewFromDescr` in the table of functions that NumPy has for C programs, as its headers
# have it; `import_array` finds the table in this way.
_NEW_FROM_DESCR = 94


def _numpy_function(number: int) -> int:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = pointer(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined]
    return _word(table + 8 * number)


@functools.cache
def _places() -> dict[str, int]:
    """Where native code finds things in objects, tried out on some."""
    places = {"TYPE": _TYPE, "DATA": _DATA, "NDIM": _NDIM, "SHAPE": _SHAPE, "STRIDES": _STRIDES}
    places |= {"DTYPE": _DTYPE, "FLAGS": _FLAGS}
    places |= {"HEAD": object.__basicsize__, "ITEMS": tuple.__basicsize__}
    places |= {"SIZE": object.__basicsize__, "LIST": object.__basicsize__ + 8}
    places |= slots_of(Tensor, ("array", "needs_grad", "version"))
    array = np.zeros((2, 3, 5), np.float32)[:, ::2]
    items, row = (array,), [None, array, None]
    found = [
        _word(id(row) + places["SIZE"]) == 3,
        _word(_word(id(row) + places["LIST"]) + 8) == id(array),
        _word(id(items) + tuple.__basicsize__) == id(array),
        _word(id(array) + _TYPE) == id(np.ndarray),
        _word(id(array) + _DATA) == data_address(array),
        _word(id(array) + _NDIM) & 0xFFFFFFFF == 3,
        _words(_word(id(array) + _SHAPE), 3) == array.shape,
        _words(_word(id(array) + _STRIDES), 3) == array.strides,
        _word(id(array) + _DTYPE) == id(array.dtype),
        _word(id(array) + _FLAGS) & (_WRITEABLE | _OWNDATA) == _WRITEABLE,
        _word(id(array.base) + _FLAGS) & _OWNDATA == _OWNDATA,
    ]
    array.flags.writeable = False
    found.append(_word(id(array) + _FLAGS) & _WRITEABLE == 0)
    if not all(found):
        raise RuntimeError("compiled code cannot be called: objects lie otherwise in memory than expected")
    return places


def slots_of(kind: type, names: Sequence[str]) -> dict[str, int]:
    """Where in objects of a class the values of these slots are."""
    places = {}
    made: Any = object.__new__(kind)
    begin, end = object.__basicsize__, kind.__basicsize__
    for name in names:
        value = object()
        setattr(made, name, value)
        (places[name],) = [place for place in range(begin, end, 8) if refers(made, place, value)]
    return places


def refers(made: Any, place: int, value: Any) -> bool:
    """Whether an object has a reference to `value` at a place."""
    return _word(id(made) + place) == id(value)


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def _words(address: int, count: int) -> tuple[int, ...]:
    return tuple((ctypes.c_int64 * count).from_address(address))


def _maker(name: bytes, address: int) -> Callable[[np.ndarray], Callable[..., Any]]:
    """Makes Python functions of the native one; each keeps its table."""
    method = _Method(name, address, _FASTCALL, None)
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]

    def made(table: np.ndarray) -> Callable[..., Any]:
        return new(ctypes.addressof(method), table, None)

    return made


_BEFORE_ENTRIES = 3  # words in the table of `fusegrad_run`


class Call(NamedTuple):
    """A native function, its block, and whether it has tasks that several threads can share."""

    address: int
    block: Sequence[int]
    shared: bool


class Calls:
    """Native functions with their blocks, called one after the other in one go.

    run(*arrays): calls all, with the memory of the arrays, which have to be ndarrays, in the slots from 1.
    The GIL is released.
    """

    __slots__ = ("_blocks", "_calls", "_table", "run")

    run: Callable[..., None]

    def __init__(self, calls: Sequence[Call], times: int = 1) -> None:
        """times: how often `run` goes through them."""
        self._calls = calls
        self._blocks = [np.array(call.block, np.int64) for call in calls]
        entries = [(call.address, data_address(b)) for call, b in zip(calls, self._blocks, strict=True)]
        last = max((number for number, call in enumerate(calls, 1) if call.shared), default=0)
        sharing = (times - 1) * len(calls) + last if last and threads.pool_size() > 1 else 0
        table = [
            times * len(calls),
            sharing,
            thread_pool.pool().address if sharing else 0,
            *[*itertools.chain(*entries)] * times,
        ]
        self._table = np.array(table, np.int64)
        self.run = native_function("run")(self._table)

    def table(self) -> tuple[int, int]:
        """How many kernels are called, and the address of the first one's entry in the table of them."""
        return int(self._table[0]), data_address(self._table) + 8 * _BEFORE_ENTRIES

    @property
    def shared(self) -> bool:
        """Whether any of them has tasks that several threads can share."""
        return any(call.shared for call in self._calls)

    def repeated(self, times: int) -> Calls:
        """The same so many times over, in one go."""
        return Calls(self._calls, times)


class Match:
    """Whether tensors are of the types that others had: class, dtype, shape, strides, `needs_grad`.

    matches(*tensors): as many as there were; none made in inference mode, and no two of them the same, unless
    they may be `alike`. Anything else may be given in their places, and does not match. own: each must have a
    writeable array for itself, in memory of its own.
    """

    __slots__ = ("_alive", "matches")

    matches: Callable[..., bool]

    def __init__(self, tensors: Sequence[Tensor], alike: bool = False, own: bool = False) -> None:
        self._alive = [(type(t), t.array.dtype) for t in tensors]
        table = [int(alike), _OWNDATA | _WRITEABLE if own else 0]
        for t in tensors:
            array = t.array
            table += [id(type(t)), id(t.needs_grad), id(array.dtype)]
            table += [array.ndim, *array.shape, *array.strides]
        self.matches = native_function("match")(np.array(table, np.int64))


class Apart:
    """Whether of tensors, of which some are written, no two overlap.

    holds(*read, *staying, *others): tensors, or arrays, of the types of those given here. The staying ones
    have to lie where they did when they were last `seen`; the others may lie elsewhere by now. What is
    written must be writeable. What is only `read` may overlap each other.
    """

    __slots__ = ("_read", "_table", "holds")

    holds: Callable[..., bool]

    def __init__(
        self,
        staying: Sequence[Tensor],
        others: Sequence[Tensor],
        written: Collection[int],
        read: Sequence[np.ndarray] = (),
    ) -> None:
        """written: ids of those of the tensors that are. Whether they are apart now has been looked at."""
        rows = []
        tensors = [(tensor.array, id(tensor) in written) for tensor in (*staying, *others)]
        for array, is_written in (*((array, False) for array in read), *tensors):
            begin, end = bounds_of(array)
            at = data_address(array)
            rows += [at, begin - at, end - at, _WRITEABLE if is_written else 0]
        self._read = len(read)
        self._table = np.array([len(read), len(read) + len(staying), *rows], np.int64)
        self.holds = native_function("apart")(self._table)

    def seen(self, staying: Sequence[Tensor]) -> None:
        """Note where the first tensors lie, of which somebody has found out that they are apart."""
        for number, tensor in enumerate(staying, self._read):
            self._table[2 + 4 * number] = data_address(tensor.array)
