"""Calling kernels: native functions run one after the other, with the memory of arrays, in 60 ns.

ctypes, which is the plain way, takes some microseconds.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.compiler.llvm.function_writer import FunctionWriter
from fusegrad.compiler.llvm.tasks import sequence
from fusegrad.compiler.native.core import Maker, Native
from fusegrad.compiler.native.object_writer import ObjectWriter
from fusegrad.compiler.runtime import thread_pool, threads
from fusegrad.compiler.runtime.allocator import data_address
from fusegrad.eager.core.handlers import handler_raised

_BEFORE_ENTRIES = 3  # words in the table


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

    __slots__ = ("_blocks", "_calls", "_table", "run", "shared")

    run: Callable[..., None]
    shared: bool  # whether any of them has tasks that several threads can share

    def __init__(self, calls: Sequence[Call], times: int = 1) -> None:
        """times: how often `run` goes through them."""
        self._calls = calls
        self.shared = any(call.shared for call in calls)
        self._blocks = [np.array(call.block, np.int64) for call in calls]
        entries = self.entries()
        last = max((number for number, call in enumerate(calls, 1) if call.shared), default=0)
        sharing = (times - 1) * len(calls) + last if last and threads.pool_size() > 1 else 0
        table = [
            times * len(calls),
            sharing,
            thread_pool.pool().address if sharing else 0,
            *[*itertools.chain(*entries)] * times,
        ]
        self._table = np.array(table, np.int64)
        self.run = RUN.of(self._table) or functools.partial(run_plainly, self._table, self._blocks)

    def entries(self) -> list[tuple[int, int]]:
        """The address and that of the block of each."""
        return [(c.address, data_address(b)) for c, b in zip(self._calls, self._blocks, strict=True)]

    def table(self) -> tuple[int, int]:
        """How many kernels are called, and the address of the first one's entry in the table of them."""
        return int(self._table[0]), data_address(self._table) + 8 * _BEFORE_ENTRIES

    def repeated(self, times: int) -> Calls:
        """The same so many times over, in one go."""
        return Calls(self._calls, times)


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
    calls = f.table.at(_BEFORE_ENTRIES, "ptr")
    slots = f.room("ptr", f.count + 1)
    slots.store(f.null)
    with f.loop(f.count) as i:
        slots.store(f.array_data(f.items.load("ptr", i)), i + 1)
    thread = f.call("PyEval_SaveThread", gives="ptr")
    count = f.symbol("fusegrad_threads", "i64").load()
    first = f.variable(0)
    with f.if_((count > 1) & (sharing > 0)):
        f.call_address(together, calls, sharing, slots, count)
        first.set(sharing)
    f.call("fusegrad_sequence", calls, first.value, kernels, slots)
    f.call("PyEval_RestoreThread", thread)
    f.return_(f.object("none"))
    return [sequence(), trial_kernel(), f]


_Kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_Together = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)


def run_plainly(table: np.ndarray, blocks: Sequence[np.ndarray], *arrays: np.ndarray) -> None:
    """The plain way. blocks: held, as the table has their addresses."""
    kernels, sharing, together, *entries = table.tolist()
    slots = (ctypes.c_void_p * (len(arrays) + 1))(None, *map(data_address, arrays))
    first, count = 0, int(threads.thread_count[0])
    if count > 1 and sharing:
        _Together(together)(data_address(table) + 8 * _BEFORE_ENTRIES, sharing, slots, count)
        first = sharing
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
