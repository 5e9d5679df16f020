"""Where this process stands among those that a launcher has started, as its environment tells."""

from __future__ import annotations

import importlib.util
import os
from typing import NamedTuple

from fusegrad.eager.ranks.supervised import LAUNCHERS


class Place(NamedTuple):
    """A process among those of its job, and among those on its machine."""

    rank: int
    size: int
    local_rank: int
    local_size: int


def place() -> Place | None:
    """Where a launcher has put this process; None where nobody has started it with others.

    >>> place() is None
    True
    """
    for names in LAUNCHERS:
        found = [os.environ.get(name, "") for name in names]
        if found[0].isdecimal() and found[1].isdecimal():
            rank, size = int(found[0]), int(found[1])
            local = [int(text.partition("(")[0].partition(",")[0] or -1) for text in found[2:]]
            local_rank, local_size = (rank, size) if min(local) < 0 else local
            return Place(rank, size, local_rank, local_size)
    return None


def is_there() -> bool:
    """Whether MPI can be loaded: looks for mpi4py, without loading it."""
    return importlib.util.find_spec("mpi4py") is not None


def publish(where: Place) -> None:
    """Set what scripts written for `torchrun` read, where it is not set."""
    told = {
        "RANK": where.rank,
        "WORLD_SIZE": where.size,
        "LOCAL_RANK": where.local_rank,
        "LOCAL_WORLD_SIZE": where.local_size,
        "GROUP_RANK": where.rank // max(where.local_size, 1),
        "MASTER_ADDR": "127.0.0.1",  # MPI knows where the others are
        "MASTER_PORT": "29500",
    }
    for name, value in told.items():
        os.environ.setdefault(name, str(value))


def threads_each(where: Place) -> int:
    """How many threads a rank may use so that those of a machine have one for each core."""
    return max(1, cores() // max(where.local_size, 1))


def is_crowded(where: Place) -> bool:
    """Whether the machine has more ranks than this process may use cores."""
    return where.local_size > cores()


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
