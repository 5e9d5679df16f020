"""The process groups of a program. Names and messages as in `torch.distributed`.

In: what a launcher puts into the environment, or a program says. Out: the group of all ranks, and groups of
some. Of one rank there is nothing behind it; of more, MPI (`eager/ranks`).
"""

from __future__ import annotations

import enum
import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, urlparse

from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.public import locate
from fusegrad.eager.ranks.channel import Channel
from fusegrad.eager.ranks.groups import join_world, leave, leave_world, split
from fusegrad.eager.ranks.places import Place, is_there, place
from fusegrad.eager.ranks.tensors import Transfer

__all__ = [
    "GroupMember",
    "ProcessGroup",
    "ReduceOp",
    "Work",
    "destroy_process_group",
    "get_backend",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "is_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "new_group",
]


class ReduceOp(enum.Enum):
    """How the numbers of all ranks become one. Source: `torch.distributed.ReduceOp`."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7


ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]  # which members are of in PyTorch


class Work:
    """Something that the ranks do together, and that may go on meanwhile.

    Source: `torch.distributed.Work`.
    """

    def __init__(self, result: Any = None, transfer: Transfer | None = None) -> None:
        self._result, self._transfer = result, transfer

    def wait(self, timeout: Any = None) -> bool:
        """True, when it is done. Raises RuntimeError when it is not in time, and what went wrong."""
        if self._transfer is not None:
            self._transfer.wait(None if timeout is None else _seconds(timeout))
        return True

    def synchronize(self) -> None:
        """The same as `wait()`."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether it is done."""
        return self._transfer is None or self._transfer.is_done()

    def is_success(self) -> bool:
        """Whether it is done and nothing went wrong."""
        return self.is_completed() and self.exception() is None

    def exception(self) -> BaseException | None:
        """What went wrong."""
        return None if self._transfer is None else self._transfer.error()

    def result(self) -> Any:
        """The tensors that it fills."""
        return self._result


class ProcessGroup:
    """The ranks that do something together. Source: `torch.distributed.ProcessGroup`.

    ranks: their numbers among all. channel: what they have together, where they are more than one.
    """

    def __init__(
        self,
        backend: str = "gloo",
        ranks: Sequence[int] = (0,),
        rank: int = 0,
        channel: Channel | None = None,
        timeout: float = 1800.0,
    ) -> None:
        self._backend, self.ranks, self._rank = backend, tuple(ranks), rank
        self.channel: Any = channel  # which there is where there are more ranks than one
        self.timeout = timeout

    def rank(self) -> int:
        """The number of this process in the group."""
        return self._rank

    def size(self) -> int:
        """How many there are."""
        return len(self.ranks)

    def name(self) -> str:
        """What sends the data, by the name that the program gave it."""
        return self._backend

    def number(self, name: str, rank: int | None, own: int | None = None, default: int | None = 0) -> int:
        """The number in the group of a rank of all, or `own`, which is one. Raises ValueError for others."""
        if rank is not None and own is not None:
            raise failure(ValueError, f"{name}: give a global rank, or a rank in the group, not both")
        if own is None and rank is None and default is not None:
            return default
        found = own if rank is None else self.ranks.index(rank) if rank in self.ranks else None
        if found is None or not 0 <= found < self.size():
            asked = rank if own is None else own
            raise failure(
                ValueError, f"{name}: there is no rank {asked} in a group of the ranks {[*self.ranks]}"
            )
        return found


class group:
    """`group.WORLD` is the group of all ranks, or None. Source: `torch.distributed.group`."""

    WORLD: ProcessGroup | None = None


class GroupMember:
    """What stands for a group that this process does not belong to. Source: `torch.distributed`."""

    WORLD: ProcessGroup | None = None
    NON_GROUP_MEMBER = -100


def is_available() -> bool:
    """True: one rank needs nothing. Source: `torch.distributed.is_available`."""
    return True


def is_initialized() -> bool:
    """Whether `init_process_group` was called. Source: `torch.distributed.is_initialized`."""
    return group.WORLD is not None


def is_mpi_available() -> bool:
    """Whether mpi4py is there, for more than one rank. Source: `torch.distributed.is_mpi_available`."""
    return is_there()


def is_nccl_available() -> bool:
    """False: there is no such library. Source: `torch.distributed.is_nccl_available`."""
    return False


is_ucc_available = is_xccl_available = is_nccl_available


def is_gloo_available() -> bool:
    """True: its name stands for MPI, and one rank needs nothing. As `torch.distributed.is_gloo_available`."""
    return True


def is_torchelastic_launched() -> bool:
    """Whether `torchrun` started this process. Source: `torch.distributed.is_torchelastic_launched`."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: Any = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Make the group of all ranks. Source: `torch.distributed.init_process_group`.

    More than one are those that `fusegrad run --nproc-per-node N`, mpiexec or Slurm's srun have started, and
    MPI carries what they exchange, whatever backend is named. One rank needs neither; world_size and rank
    come from the arguments, from `init_method`, or from WORLD_SIZE and RANK then. timeout: how long a rank
    waits for others, half an hour if nothing is said.

    Raises RuntimeError for more ranks than were started, ImportError where mpi4py is missing, ValueError
    where there is a group, or where a number is missing or is not that of the launcher.

    >>> import fusegrad as fg
    >>> fg.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> fg.distributed.get_world_size()
    1
    >>> fg.distributed.destroy_process_group()
    """
    if group.WORLD is not None:
        raise failure(ValueError, "trying to initialize the default process group twice!")
    where = place()
    size, number = (
        _said("world_size", world_size, init_method, where),
        _said("rank", rank, init_method, where),
    )
    seconds = 1800.0 if timeout is None else _seconds(timeout)
    if size < 1 or not 0 <= number < size:
        raise failure(ValueError, f"init_process_group: rank {number} is not in a world of {size}")
    if size == 1:
        _set_world(ProcessGroup(backend or "gloo", timeout=seconds))
        return
    if where is None or where.size == 1:
        raise failure(
            RuntimeError,
            f"init_process_group: a world of {size} ranks, but this process was started alone. Start it as "
            f"`fusegrad run --nproc-per-node {size} script.py`, by mpiexec, or by Slurm's srun",
        )
    if (where.size, where.rank) != (size, number):
        raise failure(
            ValueError,
            f"init_process_group: rank {number} of {size} was asked for, but the launcher has "
            f"made this process "
            f"rank {where.rank} of {where.size}",
        )
    channel = join_world(where)
    if backend not in (None, "mpi") and number == 0:
        warn(f"init_process_group: the backend {backend} is MPI here, as every other")
    _set_world(ProcessGroup(backend or "mpi", range(size), number, channel, seconds))


def _said(name: str, given: int, url: str | None, where: Place | None) -> int:
    """A number that makes a group: as an argument, in an address, from the launcher, or the environment."""
    if given != -1:
        return given
    found = parse_qs(urlparse(url or "").query).get(name, [None])[0]
    if found is None and where is not None:
        return where.size if name == "world_size" else where.rank
    found = os.environ.get(name.upper()) if found is None else found
    if found is None:
        text = f"Error initializing torch.distributed: {name.upper()} expected, but not set"
        raise failure(
            ValueError, f"{text}; give {name}, or start it as `fusegrad run --nproc-per-node N script.py`"
        )
    return int(found)


def _seconds(time: Any) -> float:
    return float(time.total_seconds()) if hasattr(time, "total_seconds") else float(time)


def known(chosen: Any = None) -> ProcessGroup:
    """The group that is meant. Raises ValueError where there is none yet."""
    if group.WORLD is None:
        raise failure(
            ValueError,
            "Default process group has not been initialized, please make sure to call init_process_group.",
        )
    return group.WORLD if chosen is None else chosen


def destroy_process_group(group: Any = None) -> None:  # the name is PyTorch's
    """There is no such group any more. Source: `torch.distributed.destroy_process_group`."""
    found = known(group)
    if is_outside(found):
        return
    if found is known():
        _set_world(None)
        leave_world()
    elif found.channel is not None:
        leave(found.channel)


def is_outside(chosen: Any) -> bool:
    """Whether a group is one that this process does not belong to."""
    return isinstance(chosen, int) and chosen == GroupMember.NON_GROUP_MEMBER


def _set_world(world: ProcessGroup | None) -> None:
    group.WORLD = GroupMember.WORLD = world


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: Any = None,
    backend: Any = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
) -> Any:
    """A group of some ranks; all ranks have to make it. As `torch.distributed.new_group`.

    Ranks that are not in it get `GroupMember.NON_GROUP_MEMBER`. use_local_synchronization: only those in it
    make it. Raises ValueError for ranks that are not there.
    """
    world = known()
    chosen = [*range(world.size())] if ranks is None else sorted(ranks)
    if any(not 0 <= rank < world.size() for rank in chosen):
        raise failure(ValueError, "the new group's rank should be within the world_size")
    if len({*chosen}) != len(chosen):
        raise failure(ValueError, f"new_group: a rank stands twice in {chosen}")
    channel = None
    if world.channel is not None:
        channel = split(world.channel, chosen, use_local_synchronization)
    if world.rank() not in chosen:
        return GroupMember.NON_GROUP_MEMBER
    seconds = world.timeout if timeout is None else _seconds(timeout)
    return ProcessGroup(backend or world.name(), chosen, chosen.index(world.rank()), channel, seconds)


def get_rank(group: Any = None) -> int:
    """The number of this process in a group, or -1. Source: `torch.distributed.get_rank`."""
    found = known(group)
    return -1 if is_outside(found) else found.rank()


def get_world_size(group: Any = None) -> int:
    """How many ranks there are in a group, or -1. Source: `torch.distributed.get_world_size`."""
    found = known(group)
    return -1 if is_outside(found) else found.size()


def get_backend(group: Any = None) -> str:
    """What was said to send the data. Source: `torch.distributed.get_backend`."""
    return known(group).name()


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number of this process on its machine. Source: `torch.distributed.get_node_local_rank`."""
    found = os.environ.get("LOCAL_RANK", fallback_rank)
    if found is None:
        raise failure(
            RuntimeError, "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow it"
        )
    return int(found)


def get_group_rank(group: Any, global_rank: int) -> int:
    """The number in a group of a rank. Source: `torch.distributed.get_group_rank`."""
    found = known(group)
    if global_rank not in found.ranks:
        raise failure(ValueError, f"Global rank {global_rank} is not part of group {group}")
    return found.ranks.index(global_rank)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The rank of a number in a group. Source: `torch.distributed.get_global_rank`."""
    found = known(group)
    if not 0 <= group_rank < found.size():
        raise failure(ValueError, f"Group rank {group_rank} is not part of group {group}")
    return found.ranks[group_rank]


def get_process_group_ranks(group: Any) -> list[int]:
    """The ranks of a group. Source: `torch.distributed.get_process_group_ranks`."""
    return [*known(group).ranks]


def of_all(name: str, group: ProcessGroup, places: Any) -> Any:
    """A list that has one for each rank. Raises RuntimeError for another number."""
    found = [] if places is None else places
    if len(found) != group.size():
        raise failure(
            RuntimeError,
            f"{name}: a world of {group.size()} takes a list of {group.size()}, got {len(found)}",
        )
    return found


locate("fusegrad.distributed", globals(), __all__)
