"""What ranks do together, on arrays that lie in one piece: each a generator for `channel.Exchange`.

Bytes are all that MPI sees, so that every dtype goes; numbers are reduced here, in the order of the ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.eager.ranks.channel import Channel, Steps, mpi
from fusegrad.eager.ranks.reductions import reduce

# Up to so many bytes all ranks get all of what is reduced; above, each reduces a part of it. So do two
# ranks, of which each would get half from the other twice.
_WHOLE = 1 << 15


def _bytes(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1).view(np.uint8)


def _spec(array: np.ndarray) -> list[Any]:
    return [_bytes(array), mpi().BYTE]


def _cut(array: np.ndarray, counts: Sequence[int]) -> list[Any]:
    """The array in pieces of so many elements, one for each rank."""
    sizes = [count * array.itemsize for count in counts]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return [_bytes(array), sizes, starts, mpi().BYTE]


def goes_whole(channel: Channel, array: np.ndarray) -> bool:
    """Whether each rank gets all of what is reduced."""
    return channel.size <= 2 or array.nbytes <= _WHOLE


def _shares(count: int, ranks: int) -> list[int]:
    """How many of `count` elements each rank reduces."""
    return [count // ranks + (i < count % ranks) for i in range(ranks)]


def barrier(channel: Channel) -> Steps:
    """Nobody goes on before all are here."""
    yield channel.first.Ibarrier()


def broadcast(channel: Channel, array: np.ndarray, root: int) -> Steps:
    """All get the array of `root`."""
    yield channel.first.Ibcast(_spec(array), root)


def all_gather(channel: Channel, mine: np.ndarray, out: np.ndarray, counts: Sequence[int]) -> Steps:
    """All get the arrays of all, one after the other, of so many elements."""
    yield channel.first.Iallgatherv(_spec(mine), _cut(out, counts))


def all_gather_on(communicator: Any, mine: np.ndarray, out: np.ndarray) -> Steps:
    """All get the arrays of all, which are as long as each other, on a communicator."""
    yield communicator.Iallgather(_spec(mine), _spec(out))


def gather(
    channel: Channel, mine: np.ndarray, out: np.ndarray | None, counts: Sequence[int], root: int
) -> Steps:
    """`root` gets the arrays of all."""
    yield channel.first.Igatherv(_spec(mine), None if out is None else _cut(out, counts), root)


def scatter(
    channel: Channel, parts: np.ndarray | None, out: np.ndarray, counts: Sequence[int], root: int
) -> Steps:
    """Each gets its part of what `root` has."""
    yield channel.first.Iscatterv(None if parts is None else _cut(parts, counts), _spec(out), root)


def all_to_all(
    channel: Channel, parts: np.ndarray, out: np.ndarray, sent: Sequence[int], received: Sequence[int]
) -> Steps:
    """Each gets of each the part that is for it."""
    yield channel.first.Ialltoallv(_cut(parts, sent), _cut(out, received))


def reduce_scatter(channel: Channel, parts: np.ndarray, out: np.ndarray, op: str) -> Steps:
    """Each gets the reduction of its part, of the parts that all have."""
    rows = np.empty((channel.size, out.size), out.dtype)
    yield channel.first.Ialltoall(_spec(parts), _spec(rows))
    reduce(op, list(rows), out.reshape(-1))


def all_reduce(channel: Channel, array: np.ndarray, op: str) -> Steps:
    """All have the reduction of the arrays of all in theirs."""
    flat = array.reshape(-1)
    if channel.size == 2 and goes_whole(channel, array):
        # Messages take a third of the time of a gathering.
        other, to = channel.take(flat), 1 - channel.rank
        received = channel.later.Irecv(_spec(other), to)
        yield Both(received, channel.later.Isend(_spec(flat), to))
        reduce(op, [flat, other] if channel.rank == 0 else [other, flat], flat)
        channel.give_back(other)
        return
    if goes_whole(channel, array):
        rows = np.empty((channel.size, flat.size), array.dtype)
        yield channel.first.Iallgather(_spec(array), _spec(rows))
        reduce(op, list(rows), flat)
        return
    counts = _shares(flat.size, channel.size)
    start, count = sum(counts[: channel.rank]), counts[channel.rank]
    rows = np.empty((channel.size, count), array.dtype)
    yield channel.first.Ialltoallv(_cut(flat, counts), _cut(rows, [count] * channel.size))
    mine = np.empty(count, array.dtype)
    reduce(op, list(rows), mine)
    flat[start : start + count] = mine
    yield channel.later.Iallgatherv(_spec(mine), _cut(flat, counts))


def reduce_to(channel: Channel, array: np.ndarray, op: str, root: int) -> Steps:
    """`root` has the reduction of the arrays of all in its own."""
    flat = array.reshape(-1)
    rows = np.empty((channel.size, flat.size), array.dtype) if channel.rank == root else None
    yield channel.first.Igather(_spec(array), None if rows is None else _spec(rows), root)
    if rows is not None:
        reduce(op, list(rows), flat)


def objects_of_all(channel: Channel, mine: bytes, found: list[bytes]) -> Steps:
    """All get the bytes of all, in `found`."""
    sizes = np.empty(channel.size, np.int64)
    yield channel.first.Iallgather(_spec(np.array([len(mine)])), _spec(sizes))
    out = np.empty(int(sizes.sum()), np.uint8)
    yield channel.later.Iallgatherv(_spec(np.frombuffer(mine, np.uint8)), _cut(out, sizes.tolist()))
    found += [part.tobytes() for part in np.split(out, np.cumsum(sizes)[:-1])]


def objects_of_one(channel: Channel, mine: bytes, found: list[bytes], root: int) -> Steps:
    """All get the bytes of `root`, in `found`."""
    size = np.array([len(mine)])
    yield channel.first.Ibcast(_spec(size), root)
    out = np.frombuffer(bytearray(mine) if channel.rank == root else bytearray(int(size[0])), np.uint8)
    yield channel.later.Ibcast(_spec(out), root)
    found.append(out.tobytes())


def send(channel: Channel, array: np.ndarray, to: int, tag: int) -> Steps:
    """Another rank gets the array."""
    yield channel.first.Isend(_spec(array), to, tag)


def receive(channel: Channel, array: np.ndarray, source: int | None, tag: int, said: list[int]) -> Steps:
    """The array is what another rank has sent, whose number is put into `said`."""
    MPI = mpi()
    status = MPI.Status()
    # A message that is longer is an error of its own; one that is shorter would leave a part as it was.
    request = channel.first.Irecv(_spec(array), MPI.ANY_SOURCE if source is None else source, tag)
    yield _WithStatus(request, status)
    if status.Get_count(MPI.BYTE) != array.nbytes:
        raise RuntimeError(f"recv: a tensor of {array.nbytes} bytes, but {status.Get_count(MPI.BYTE)} came")
    said.append(status.Get_source())


class Both:
    """Two requests, as one."""

    def __init__(self, *requests: Any) -> None:
        self._requests = list(requests)

    def Test(self) -> bool:
        """Whether both are done."""
        self._requests = [request for request in self._requests if not request.Test()]
        return not self._requests


class _WithStatus:
    """A request whose test fills a status."""

    def __init__(self, request: Any, status: Any) -> None:
        self._request, self._status = request, status

    def Test(self) -> bool:
        """Whether it is done."""
        return self._request.Test(self._status)
