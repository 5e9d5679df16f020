"""The pool: threads of our own, which help the one that makes a native call with its kernels' tasks.

OpenMP's threads have all to be awake before a call can end, and wait for the next one as long as an
environment variable said when their library was loaded. These help if they are there, and learn how soon
calls come: a thread waits awake while that pays, offers its core to others meanwhile, and sleeps when one of
them took it.

The thread that makes a call leads: it calls the kernels in turn. Of each job, which is the tasks of one
kernel, every thread has a range, so that it comes back to the same part of the data with each kernel. One
that is done takes tasks from the ends of the others' ranges. Nobody waits for a thread that has taken no
task. There is one team; a call that finds it taken by another Python thread's does its tasks alone.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os

import numpy as np

from fusegrad.compiler.base.lock import compiling
from fusegrad.compiler.llvm import llvm_jit
from fusegrad.compiler.runtime import team_code, threads
from fusegrad.compiler.runtime.allocator import aligned_bytes, data_address
from fusegrad.eager.core.loading import environment

# In how many turns the threads of Numba's own pool wait, on which users' parallel functions run: some 10
# microseconds instead of milliseconds, in which ours would find no core.
_TURNS_OF_NUMBA = 1000


@functools.cache
def _common() -> np.ndarray:
    """What the team has in common."""
    common = aligned_bytes(8 * (team_code.RANGES + team_code.LINE * threads.pool_size())).view(np.int64)
    common[:] = 0
    return common


@llvm_jit.remembered
def code() -> llvm_jit.Module:
    """The functions of a team and its threads, which are being compiled from the first time that they are
    asked for.
    """
    llvm_jit.add_symbols({"fusegrad_common": data_address(_common())})
    symbols = ["fusegrad_team", "fusegrad_start", "fusegrad_stop"]
    return llvm_jit.Module(team_code.team_module, symbols, said=("team", threads.pool_size()))


class _Pool:
    """The team and its threads, as many as there may be.

    common: what they have in common; address: of the function that calls kernels with them.
    """

    def __init__(self) -> None:
        size, self.common = threads.pool_size(), _common()
        self.address, start, stop = code().addresses().values()
        number, place = ctypes.c_int64, ctypes.c_void_p
        self._ids = (number * size)()
        self._started = ctypes.CFUNCTYPE(number, place, number)(start)(self._ids, size - 1)
        self._stop = ctypes.CFUNCTYPE(None, place, number)(stop)
        self._process = os.getpid()
        threads.thread_count[0] = threads.threads()
        atexit.register(self._end)

    def _end(self) -> None:
        # The code that the threads run is freed when the process ends. A forked child has none of them.
        if os.getpid() == self._process:
            threads.thread_count[0] = 1
            self._stop(self._ids, self._started)

    def calls(self) -> int:
        """How many calls had a team."""
        return int(self.common[team_code.CALLS]) // 2

    def asleep(self) -> int:
        """How many threads sleep until a call wakes them."""
        return int(self.common[team_code.ASLEEP])


@functools.cache
def _pool() -> _Pool:
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
        # The library of Numba's pool reads it when it is loaded.
        with environment(GOMP_SPINCOUNT=str(_TURNS_OF_NUMBA)), contextlib.suppress(OSError):
            ctypes.CDLL("libgomp.so.1")
    return _Pool()


def pool() -> _Pool:
    """The pool, whose threads start when it is first asked for."""
    with compiling:
        return _pool()
