"""Having the same parameters and buffers on all ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ranks import exchanges, transfers
from fusegrad.eager.ranks.channel import Channel, Steps
from fusegrad.eager.ranks.exchange_op import Call, described
from fusegrad.eager.ranks.tensors import start


def _give(channel: Channel, read: Sequence[np.ndarray], written: Sequence[np.ndarray], root: int) -> Steps:
    """All have the arrays that `root` has, which go as one message."""
    flat = np.concatenate([array.reshape(-1).view(np.uint8) for array in read or written])
    yield from exchanges.broadcast(channel, flat, root)
    start = 0
    for array in written:
        array.reshape(-1).view(np.uint8)[:] = flat[start : start + array.nbytes]
        start += array.nbytes


def give_all(channel: Channel, seconds: float, tensors: Sequence[Tensor], root: int) -> None:
    """All have the values of the tensors that `root` has."""
    alike = f"{[described(t.array) for t in tensors]} from {root}"
    call = Call("broadcast", channel, seconds, _give, (root,), alike)
    start(call, *((tensors, []) if channel.rank == root else ([], tensors))).wait()


def check_alike(channel: Channel, seconds: float, named: Iterable[tuple[str, Tensor]]) -> None:
    """Raise RuntimeError on all ranks where some have other parameters than the first."""
    mine = "\n".join(f"{name} {described(tensor.array)}" for name, tensor in named)
    found = transfers.objects_of_all(channel, seconds, "DistributedDataParallel", mine.encode())
    for rank, other in enumerate(found):
        if other != found[0]:
            pairs = zip((*found[0].decode().split("\n"), "nothing"), other.decode().split("\n"), strict=False)
            first, there = next((pair for pair in pairs if pair[0] != pair[1]), ("more", "fewer parameters"))
            raise failure(
                RuntimeError,
                f"DistributedDataParallel: rank {rank} has other parameters than rank 0: {there}, "
                f"not {first}",
            )
