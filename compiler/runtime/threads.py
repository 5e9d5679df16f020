"""How many threads compiled code may use."""

from __future__ import annotations

import functools
import operator
import os

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.state import tell


@functools.cache
def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def pool_size() -> int:
    """How many threads parallel loops use: 1 where the system has no POSIX threads."""
    if os.name != "posix":
        return 1
    # OpenMP takes a number for each level of nesting; what is none is ignored, as it does.
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return min(cores(), int(asked)) if asked.isdecimal() and int(asked) else cores()


_alone = False
_wanted: int | None = None  # what `set_num_threads` was told
thread_count = np.ones(1, np.int64)  # what native code reads; 1 until there is a pool


def _alone_in_child() -> None:
    """A forked child has no pool: its threads stay with the parent."""
    global _alone
    _alone = True
    thread_count[0] = 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_alone_in_child)


def threads() -> int:
    """The threads that a call made now may use."""
    return 1 if _alone else min(pool_size(), _wanted or pool_size())


def set_num_threads(count: int) -> None:
    """Let compiled code use at most `count` threads, from the next call on; as `torch.set_num_threads`.

    Results do not depend on it. More than the machine's cores, or than OMP_NUM_THREADS, count as so many.
    Raises TypeError for what is no int, RuntimeError for less than 1.

    >>> import fusegrad as fg
    >>> before = fg.get_num_threads()
    >>> fg.set_num_threads(1)
    >>> fg.get_num_threads()
    1
    >>> fg.set_num_threads(before)
    """
    global _wanted
    count = operator.index(count)
    if count < 1:
        raise failure(RuntimeError, f"set_num_threads expects a positive number, not {count}")
    if count >= 2**63:
        raise failure(ValueError, f"Overflow when unpacking long long: {count} threads")
    tell("sets the number of threads")
    _wanted = count
    thread_count[0] = threads()


def get_num_threads() -> int:
    """How many threads compiled code may use; as `torch.get_num_threads`."""
    return threads()
