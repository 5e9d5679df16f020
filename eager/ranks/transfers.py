"""The exchanges of tensors, objects and messages by their names: which are read, which written, and how."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.state import tell
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ranks import exchanges
from fusegrad.eager.ranks.channel import Channel, Exchange, Steps
from fusegrad.eager.ranks.checks import compare
from fusegrad.eager.ranks.exchange_op import Call, described
from fusegrad.eager.ranks.reductions import check as check
from fusegrad.eager.ranks.tensors import Transfer, start, start_message

# Beyond what programs take for tags, below MPI's least limit.
_OBJECT_TAG, _BARRIER_TAG = 1 << 14, (1 << 14) + 1
Arrays = Sequence[np.ndarray]


# What ranks do with arrays: `Maker`s (see `exchange_op.py`).


def _all_reduce(channel: Channel, read: Arrays, written: Arrays, op: str) -> Steps:
    return exchanges.all_reduce(channel, written[0], op)


def _all_reduce_many(channel: Channel, read: Arrays, written: Arrays, op: str) -> Steps:
    for dtype in dict.fromkeys(array.dtype for array in written):
        arrays = [array for array in written if array.dtype == dtype]
        flat = np.concatenate([array.reshape(-1) for array in arrays])
        yield from exchanges.all_reduce(channel, flat, op)
        _spread(flat, [array.size for array in arrays], arrays)


def _reduce(channel: Channel, read: Arrays, written: Arrays, op: str, root: int) -> Steps:
    return exchanges.reduce_to(channel, (read or written)[0], op, root)


def _broadcast(channel: Channel, read: Arrays, written: Arrays, root: int) -> Steps:
    return exchanges.broadcast(channel, (read or written)[0], root)


def _all_gather(channel: Channel, read: Arrays, written: Arrays) -> Steps:
    counts = [array.size for array in written]
    flat = np.empty(sum(counts), read[0].dtype)
    yield from exchanges.all_gather(channel, read[0], flat, counts)
    _spread(flat, counts, written)


def _all_gather_into(channel: Channel, read: Arrays, written: Arrays) -> Steps:
    return exchanges.all_gather(channel, read[0], written[0], [read[0].size] * channel.size)


def _reduce_scatter(channel: Channel, read: Arrays, written: Arrays, op: str) -> Steps:
    whole = read[0] if len(read) == 1 else np.concatenate([array.reshape(-1) for array in read])
    return exchanges.reduce_scatter(channel, whole, written[0], op)


def _gather(channel: Channel, read: Arrays, written: Arrays, root: int) -> Steps:
    counts = [read[0].size] * channel.size
    flat = np.empty(sum(counts), read[0].dtype) if written else None
    yield from exchanges.gather(channel, read[0], flat, counts, root)
    if flat is not None:
        _spread(flat, counts, written)


def _scatter(channel: Channel, read: Arrays, written: Arrays, root: int) -> Steps:
    flat = np.concatenate([array.reshape(-1) for array in read]) if read else None
    return exchanges.scatter(channel, flat, written[0], [written[0].size] * channel.size, root)


def _all_to_all(channel: Channel, read: Arrays, written: Arrays) -> Steps:
    sent, received = ([array.size for array in arrays] for arrays in (read, written))
    flat = np.concatenate([array.reshape(-1) for array in read])
    out = np.empty(sum(received), flat.dtype)
    yield from exchanges.all_to_all(channel, flat, out, sent, received)
    _spread(out, received, written)


def _all_to_all_single(
    channel: Channel, read: Arrays, written: Arrays, received: Sequence[int], sent: Sequence[int]
) -> Steps:
    return exchanges.all_to_all(channel, read[0], written[0], sent, received)


def _barrier(channel: Channel, read: Arrays, written: Arrays) -> Steps:
    return exchanges.barrier(channel)


def _spread(flat: np.ndarray, counts: Sequence[int], arrays: Arrays) -> None:
    for array, part in zip(arrays, np.split(flat, np.cumsum(counts)[:-1]), strict=True):
        array[...] = part.reshape(array.shape)


# The same with tensors.


def all_reduce(channel: Channel, seconds: float, tensor: Tensor, op: str) -> Transfer:
    """Each has the reduction."""
    return start(Call("all_reduce", channel, seconds, _all_reduce, (op,), _of(tensor, op)), [], [tensor])


def all_reduce_many(channel: Channel, seconds: float, tensors: Sequence[Tensor], op: str) -> Transfer:
    """Each has the reductions: of what has one dtype, together."""
    alike = f"{[_of(t) for t in tensors]} {op}"
    return start(Call("all_reduce_coalesced", channel, seconds, _all_reduce_many, (op,), alike), [], tensors)


def reduce(channel: Channel, seconds: float, tensor: Tensor, op: str, root: int) -> Transfer:
    """One has the reduction."""
    call = Call("reduce", channel, seconds, _reduce, (op, root), _of(tensor, f"{op} to {root}"))
    return start(call, *(([], [tensor]) if channel.rank == root else ([tensor], [])))


def broadcast(channel: Channel, seconds: float, tensor: Tensor, root: int) -> Transfer:
    """All have what one has."""
    call = Call("broadcast", channel, seconds, _broadcast, (root,), _of(tensor, f"from {root}"))
    return start(call, *(([tensor], []) if channel.rank == root else ([], [tensor])))


def all_gather(channel: Channel, seconds: float, places: Sequence[Tensor], tensor: Tensor) -> Transfer:
    """All have the tensors of all."""
    return start(Call("all_gather", channel, seconds, _all_gather, (), _of(tensor)), [tensor], places)


def all_gather_into(channel: Channel, seconds: float, out: Tensor, tensor: Tensor) -> Transfer:
    """All have the tensors of all, in one."""
    call = Call("all_gather_into_tensor", channel, seconds, _all_gather_into, (), _of(tensor))
    return start(call, [tensor], [out])


def reduce_scatter(
    channel: Channel, seconds: float, out: Tensor, parts: Sequence[Tensor], op: str
) -> Transfer:
    """Each has the reduction of its part; the parts are tensors, or those of one."""
    call = Call("reduce_scatter", channel, seconds, _reduce_scatter, (op,), _of(out, op))
    return start(call, parts, [out])


def gather(channel: Channel, seconds: float, places: Sequence[Tensor], tensor: Tensor, root: int) -> Transfer:
    """One has the tensors of all."""
    call = Call("gather", channel, seconds, _gather, (root,), _of(tensor, f"to {root}"))
    return start(call, [tensor], places)


def scatter(channel: Channel, seconds: float, out: Tensor, parts: Sequence[Tensor], root: int) -> Transfer:
    """Each has its part of what one has."""
    call = Call("scatter", channel, seconds, _scatter, (root,), _of(out, f"from {root}"))
    return start(call, parts, [out])


def all_to_all(
    channel: Channel, seconds: float, places: Sequence[Tensor], parts: Sequence[Tensor]
) -> Transfer:
    """Each has of each what that one has for it."""
    return start(Call("all_to_all", channel, seconds, _all_to_all, (), parts[0].dtype.name), parts, places)


def all_to_all_single(
    channel: Channel,
    seconds: float,
    out: Tensor,
    input: Tensor,
    received: Sequence[int],
    sent: Sequence[int],
) -> Transfer:
    """The same, of rows of one tensor."""
    rows = tuple(received), tuple(sent)
    call = Call("all_to_all_single", channel, seconds, _all_to_all_single, rows, input.dtype.name)
    return start(call, [input], [out])


def barrier(channel: Channel, seconds: float) -> Transfer:
    """All are here."""
    return start(Call("barrier", channel, seconds, _barrier), [], [])


def _of(tensor: Tensor, more: str = "") -> str:
    return f"{described(tensor.array)} {more}"


def monitored_barrier(channel: Channel, seconds: float, all_of_them: bool) -> None:
    """All are here; rank 0 says who is not."""
    tell("waits for other ranks")
    hello = np.zeros(1, np.uint8)

    def to(rank: int) -> Exchange:
        return channel.message(
            "monitored_barrier", exchanges.send(channel, hello, rank, _BARRIER_TAG), seconds
        )

    def of(rank: int) -> Exchange:
        steps = exchanges.receive(channel, hello, rank, _BARRIER_TAG, [])
        return channel.message("monitored_barrier", steps, seconds)

    if channel.rank:
        to(0).wait()
        of(0).wait()
        return
    waited = {rank: of(rank) for rank in range(1, channel.size)}
    start = time.monotonic()
    missing: list[int] = []
    for rank, exchange in waited.items():
        try:
            exchange.wait(max(seconds - (time.monotonic() - start), 0.0))
        except RuntimeError:
            missing.append(rank)
            if not all_of_them:
                break
    if missing:
        raise failure(
            RuntimeError,
            f"monitored_barrier: ranks {', '.join(map(str, missing))} did not come within {seconds:g} s",
        )
    for sent in [to(rank) for rank in range(1, channel.size)]:
        sent.wait()


# Messages.


def _send(channel: Channel, read: Arrays, written: Arrays, to: int, tag: int) -> Steps:
    return exchanges.send(channel, read[0], to, tag)


def _receive(
    channel: Channel, read: Arrays, written: Arrays, source: int | None, tag: int, said: list[int]
) -> Steps:
    return exchanges.receive(channel, written[0], source, tag, said)


def send(channel: Channel, seconds: float, tensor: Tensor, to: int, tag: int) -> Transfer:
    """Another gets the tensor."""
    return start_message(Call("send", channel, seconds, _send, (to, tag)), [tensor], [])


def receive(
    channel: Channel, seconds: float, tensor: Tensor, source: int | None, tag: int
) -> tuple[Transfer, list[int]]:
    """The tensor is what another sends, whose number will be in the list."""
    said: list[int] = []
    call = Call("recv", channel, seconds, _receive, (source, tag, said))
    return start_message(call, [], [tensor]), said


# Objects, as bytes.


def objects_of_all(channel: Channel, seconds: float, name: str, mine: bytes) -> list[bytes]:
    """The bytes of all."""
    tell("exchanges objects with other ranks")
    compare(channel, name, name, seconds)
    found: list[bytes] = []
    channel.exchange(name, exchanges.objects_of_all(channel, mine, found), seconds).wait()
    return found


def objects_of_one(channel: Channel, seconds: float, name: str, mine: bytes, root: int) -> bytes:
    """The bytes of one."""
    tell("exchanges objects with other ranks")
    compare(channel, f"{name} {root}", name, seconds)
    found: list[bytes] = []
    channel.exchange(name, exchanges.objects_of_one(channel, mine, found, root), seconds).wait()
    return found[0]


def send_objects(channel: Channel, seconds: float, mine: bytes, to: int) -> None:
    """Another gets the bytes."""
    tell("sends objects to another rank")
    for array in (np.array([len(mine)]), np.frombuffer(mine, np.uint8)):
        channel.message("send_object_list", exchanges.send(channel, array, to, _OBJECT_TAG), seconds).wait()


def receive_objects(channel: Channel, seconds: float, source: int | None) -> tuple[bytes, int]:
    """The bytes that another sends, and its number."""
    tell("receives objects from another rank")
    size, said = np.zeros(1, np.int64), [] if source is None else [source]
    steps = exchanges.receive(channel, size, source, _OBJECT_TAG, said)
    channel.message("recv_object_list", steps, seconds).wait()
    array = np.empty(int(size[0]), np.uint8)
    steps = exchanges.receive(channel, array, said[0], _OBJECT_TAG, said)
    channel.message("recv_object_list", steps, seconds).wait()
    return array.tobytes(), said[0]
