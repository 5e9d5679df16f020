"""Calling kernels: native functions run one after the other, with the memory of arrays, in 60 ns.

ctypes, which is the plain way, takes some microseconds.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.compiler.llvm.function_writer import FunctionWriter, Word
from fusegrad.compiler.llvm.tasks import sequence
from fusegrad.compiler.native.core import Maker, Native
from fusegrad.compiler.native.object_writer import ObjectWriter
from fusegrad.compiler.runtime import red_zones, thread_pool, threads
from fusegrad.compiler.runtime.allocator import data_address
from fusegrad.eager.core.handlers import handler_raised

BEFORE_ENTRIES = 3  # words in the table


class Call(NamedTuple):
    """A native function, its block, and whether it has tasks that several threads can share.

    of: what it computes, as text.
    """

    address: int
    block: Sequence[int]
    shared: bool
    of: object = "native code"


class Slot(NamedTuple):
    """What the array in a slot must be like.

    of: what it is, as text. strides: None where only the size in bytes matters.
    """

    of: str
    shape: tuple[int, ...]
    dtype: np.dtype
    strides: tuple[int, ...] | None
    written: bool

    def misfit(self, array: np.ndarray) -> str:
        """What is wrong with an array; empty where it is as it must be."""
        size = math.prod(self.shape) * self.dtype.itemsize
        if type(array) is not np.ndarray:
            return f"it is a {type(array).__name__}"
        if array.dtype != self.dtype or array.nbytes != size:
            return f"it is {array.dtype}{list(array.shape)} and not {self.dtype}{list(self.shape)}"
        if self.strides is not None and size:
            steps = [(s, t) for s, t, n in zip(array.strides, self.strides, self.shape, strict=True) if n > 1]
            if array.shape != self.shape or any(s != t for s, t in steps):
                now, then = (array.shape, array.strides), (self.shape, self.strides)
                return f"its shape and strides are {now} and not {then}"
        return "it cannot be written" if self.written and not array.flags.writeable else ""


class Calls:
    """Native functions with their blocks, called one after the other in one go.

    run(*arrays): calls all, with the memory of the arrays, which have to be ndarrays, in the slots from 1.
    The GIL is released.
    """

    __slots__ = ("_blocks", "_calls", "_slots", "_table", "run", "shared")

    run: Callable[..., None]
    shared: bool  # whether any of them has tasks that several threads can share

    def __init__(self, calls: Sequence[Call], slots: Callable[[], Sequence[Slot | None]] = tuple) -> None:
        """slots: gives what arrays must be like, or None for those that are not there yet."""
        self._calls, self._slots = calls, slots
        self.shared = any(call.shared for call in calls)
        self._blocks = [np.array(call.block, np.int64) for call in calls]
        last = max((number for number, call in enumerate(calls, 1) if call.shared), default=0)
        sharing = last if threads.pool_size() > 1 else 0
        team = thread_pool.pool().address if sharing else 0
        self._table = np.array([len(calls), sharing, team, *itertools.chain(*self.entries())], np.int64)
        if red_zones.is_on:
            self.run = self._run_watched
        else:
            self.run = RUN.of(self._table) or functools.partial(run_plainly, self._table, self._blocks)

    def words(self) -> list[int]:
        """The table of the kernels, as it begins that of whoever calls them."""
        found: list[int] = self._table.tolist()
        return found

    def entries(self) -> list[tuple[int, int]]:
        """The address and that of the block of each."""
        return [(c.address, data_address(b)) for c, b in zip(self._calls, self._blocks, strict=True)]

    def table(self) -> tuple[int, int]:
        """How many kernels are called, and the address of the first one's entry in the table of them."""
        return int(self._table[0]), data_address(self._table) + 8 * BEFORE_ENTRIES

    def __str__(self) -> str:
        return "; ".join(str(call.of) for call in self._calls)

    def _run_watched(self, *arrays: np.ndarray) -> None:
        """One kernel after the other, with a look at the red zones after each."""
        red_zones.check(f"whatever ran before {self}", arrays)
        for slot, array in zip(self._slots(), arrays, strict=False):
            misfit = "" if slot is None else slot.misfit(array)
            if slot is not None and misfit:
                red_zones.fail(f"{self} is given another {slot.of} than it was compiled for: {misfit}")
        slots = (ctypes.c_void_p * (len(arrays) + 1))(None, *map(data_address, arrays))
        count = int(threads.thread_count[0])
        for number, (call, entry) in enumerate(zip(self._calls, self.entries(), strict=True)):
            if call.shared and count > 1 and self._table[2]:
                place = data_address(self._table) + 8 * (BEFORE_ENTRIES + 2 * number)
                _Together(int(self._table[2]))(place, 1, slots, count)
            else:
                _Kernel(entry[0])(slots, entry[1])
            red_zones.check(str(call.of), arrays)


def prepare() -> None:
    """Begin to compile what all programs need, where there is a core to do so meanwhile."""
    if threads.cores() > 1:
        try:
            RUN.prepare()
        except Exception:  # which whoever needs it meets again
            if handler_raised():
                raise


# The table: how many kernels there are; how many of them a team calls, up to the last that has tasks to
# share, and by which function; then the address and the block of each.


def _written() -> list[FunctionWriter]:
    f = ObjectWriter("fusegrad_run", borrowed=True)
    kernels, sharing, together = f.words("i64", "i64", "ptr")
    calls = f.table.at(BEFORE_ENTRIES, "ptr")
    slots = f.room("ptr", f.count + 1)
    slots.store(f.null)
    with f.loop(f.count) as i:
        slots.store(f.array_data(f.items.load("ptr", i)), i + 1)
    thread = f.call("PyEval_SaveThread", gives="ptr")
    call_all(f, calls, kernels, sharing, together, slots, f.variable(0))
    f.call("PyEval_RestoreThread", thread)
    f.return_(f.object("none"))
    return [sequence(), trial_kernel(), f]


def call_all(
    f: FunctionWriter, calls: Word, kernels: Word, sharing: Word, together: Word, slots: Word, first: Any
) -> None:
    """Write the calls of all kernels: of those up to the last that has tasks to share by a team, if there is
    one. first: a variable, which is 0.
    """
    count = f.symbol("fusegrad_threads", "i64").load()
    with f.if_((count > 1) & (sharing > 0)):
        f.call_address(together, calls, sharing, slots, count)
        first.set(sharing)
    f.call("fusegrad_sequence", calls, first.value, kernels, slots)


_Kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_Together = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)


def run_plainly(table: np.ndarray, blocks: Sequence[np.ndarray], *arrays: np.ndarray) -> None:
    """The plain way. blocks: held, as the table has their addresses."""
    slots = (ctypes.c_void_p * (len(arrays) + 1))(None, *map(data_address, arrays))
    call_all_plainly(table, slots)


def call_all_plainly(table: np.ndarray, slots: Any) -> None:
    """Call the kernels that a table begins with."""
    kernels, sharing, together = table[:BEFORE_ENTRIES].tolist()
    first, count = 0, int(threads.thread_count[0])
    if count > 1 and sharing:
        _Together(together)(data_address(table) + 8 * BEFORE_ENTRIES, sharing, slots, count)
        first = sharing
    entries = table[BEFORE_ENTRIES:].tolist()
    for number in range(first, kernels):
        address, block = entries[2 * number : 2 * number + 2]
        _Kernel(address)(slots, block)


# The trials.


def trial_kernel() -> FunctionWriter:
    """`fusegrad_trial(slots, block)`: adds the numbers in slots 1 and 2, and one of the block, to slot 2."""
    f = FunctionWriter("fusegrad_trial", {"slots": "ptr", "block": "ptr"})
    slots, block = f.given
    result = slots.load("ptr", 2)
    result.store(slots.load("ptr", 1).load() + result.load() + block.load())
    return f


def _trials(made: Maker, kernel: int) -> Iterator[tuple[Any, Any]]:
    blocks = [np.array([number]) for number in (5, 7)]
    table = np.array([2, 0, 0, *itertools.chain(*[(kernel, data_address(block)) for block in blocks])])

    def found(run: Callable[..., Any]) -> tuple[Any, ...]:
        # In the middle of a memory, so that the slots are not where arrays begin.
        given, result = np.arange(9)[3:], np.arange(5)[2:]
        return run(given, result, given), given.tolist(), result.tolist()

    yield found(made(table)), found(functools.partial(run_plainly, table, blocks))


RUN = Native("fusegrad_run", _written, _trials, ["fusegrad_trial"])
