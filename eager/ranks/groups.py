"""Groups of ranks, as MPI's communicators: of all ranks, and of some."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.state import tell
from fusegrad.eager.ranks.channel import Channel, crowded, end_all_at_errors, leave_errors, mpi
from fusegrad.eager.ranks.journal import several
from fusegrad.eager.ranks.last_call import last
from fusegrad.eager.ranks.places import Place, is_crowded, publish, threads_each

# Of groups that have not been given back.
_open: list[Channel] = []
_GROUP_TAG = 7  # of what makes groups of some ranks, by those alone


def join_world(where: Place) -> Channel:
    """The channel of all ranks. Raises RuntimeError where the launcher's MPI is another one than ours."""
    tell("joins other ranks")
    MPI = mpi()
    world = MPI.COMM_WORLD
    if (world.size, world.rank) != (where.size, where.rank):
        library = MPI.Get_library_version().splitlines()[0].strip("\0 ")
        raise failure(
            RuntimeError,
            f"the launcher has started {where.size} ranks, but MPI ({library}) knows of "
            f"{world.size}: the launcher "
            "is of another MPI than the one that mpi4py has loaded. Start with that one's own mpiexec, as "
            "`fusegrad run` does; with Slurm, choose its kind by srun --mpi",
        )
    publish(where)
    os.environ.setdefault("OMP_NUM_THREADS", str(threads_each(where)))  # read when the first threads are made
    crowded[0] = is_crowded(where)
    last.open(where.rank)
    several[0] = True
    end_all_at_errors()
    return _opened(world.Dup())


def _opened(communicator: Any) -> Channel:
    channel = Channel(communicator)
    _open.append(channel)
    return channel


def split(world: Channel, ranks: Sequence[int], alone: bool) -> Channel | None:
    """The channel of some ranks, which all make together, or those alone; None for others."""
    tell("makes a group of ranks")
    inside = world.rank in ranks
    if not alone:
        made = world.first.Split(0 if inside else mpi().UNDEFINED, world.rank)
    elif inside:
        made = world.first.Create_group(world.first.group.Incl([*ranks]), _GROUP_TAG)
    return _opened(made) if inside else None


def leave(channel: Channel) -> None:
    """Give back what a group has."""
    tell("leaves a group of ranks")
    if channel in _open:
        _open.remove(channel)
        channel.close()


def leave_world() -> None:
    """Give back what all groups have."""
    for channel in [*_open]:
        leave(channel)
    several[0] = False
    leave_errors()
