"""What one rank sends to another. Names, arguments and meaning as in `torch.distributed`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.distributed.world import ProcessGroup, Work, is_outside, known
from fusegrad.eager.ranks import transfers

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


class _Received(Work):
    """A message on its way here, which says in the end whose it is."""

    def source_rank(self) -> int:
        """The number among all ranks of the one that has sent it."""
        self.wait()
        group, said = self._result
        return group.ranks[said[0]]


def _another(name: str, kind: str, group: ProcessGroup, rank: int | None, own: int | None) -> int:
    """The number in the group of another rank. Raises ValueError for this one."""
    found = group.number(name, rank, own, default=None)
    if found == group.rank():
        raise failure(ValueError, f"{name}: Invalid {kind} rank: {kind} rank should not be the same as own")
    return found


def isend(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:
    """Begin to send the tensor to a rank; it may not be written before that is done.

    Source: `torch.distributed.isend`.
    """
    chosen = known(group)
    if is_outside(chosen):
        return None
    to = _another("send", "destination", chosen, dst, group_dst)
    return Work([tensor], transfers.send(chosen.channel, chosen.timeout, tensor, to, tag))


def irecv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> Work | None:
    """Begin to receive the tensor that a rank, or any, sends. Source: `torch.distributed.irecv`."""
    chosen = known(group)
    if is_outside(chosen):
        return None
    given = src is not None or group_src is not None
    source = _another("recv", "source", chosen, src, group_src) if given else None
    transfer, said = transfers.receive(chosen.channel, chosen.timeout, tensor, source, tag)
    return _Received((chosen, said), transfer)


def send(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> None:
    """Send the tensor to a rank. Raises ValueError for this one. Source: `torch.distributed.send`."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> int:
    """Have the tensor that a rank, or any, sends; gives that one's number.

    Source: `torch.distributed.recv`.
    """
    work = irecv(tensor, src, group, tag, group_src)
    return -1 if not isinstance(work, _Received) else work.source_rank()


class P2POp:
    """One message of several that begin together. Source: `torch.distributed.P2POp`.

    op: `isend` or `irecv`.
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise failure(ValueError, "P2POp: op has to be fusegrad.distributed.isend or irecv")
        self.op, self.tensor, self.peer, self.group, self.tag = op, tensor, peer, group, tag
        self.group_peer = group_peer


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Begin to send and to receive; gives what can be waited for.

    Source: `torch.distributed.batch_isend_irecv`.
    """
    if not all(isinstance(one, P2POp) for one in p2p_op_list):
        raise failure(ValueError, "batch_isend_irecv: a list of P2POp is expected")
    return [one.op(one.tensor, one.peer, one.group, one.tag, one.group_peer) for one in p2p_op_list]


locate("fusegrad.distributed", globals(), __all__)
