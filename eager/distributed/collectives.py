"""What all ranks do together with tensors. Names, arguments and meaning as in `torch.distributed`.

In a group of one it gives what that one has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.distributed.world import ProcessGroup, ReduceOp, Work, is_outside, known, of_all
from fusegrad.eager.ranks import transfers

__all__ = [
    "all_gather",
    "all_gather_into_tensor",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "gather",
    "monitored_barrier",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
]


def _done(async_op: bool, result: Any = None, transfer: transfers.Transfer | None = None) -> Work | None:
    """What a call gives: what can be waited for, or None when it was waited for."""
    if not async_op and transfer is not None:
        transfer.wait()
        return None
    return Work(result, transfer) if async_op else None


def _copied(target: Tensor, source: Tensor) -> None:
    with no_grad():
        target.copy_(source)


def _op(name: str, op: Any, *tensors: Tensor) -> str:
    """The name of a reduction that can be done with these tensors."""
    if not isinstance(op, ReduceOp):
        raise failure(TypeError, f"{name}: op is one of ReduceOp, got {op!r}")
    for tensor in tensors:
        transfers.check(op.name, tensor.dtype.numpy)
    return op.name


def _fitting(name: str, count: int, parts: int, whole: Tensor, part: Tensor) -> None:
    """Raise RuntimeError where `whole` is not as large as `parts` of `part`, or of another dtype."""
    if part.dtype != whole.dtype or count * parts != whole.numel():
        raise failure(
            RuntimeError,
            f"{name}: {parts} parts of {part.dtype}{[*part.shape]} are not as large as {whole.dtype}"
            f"{[*whole.shape]}",
        )


def all_reduce(
    tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Have the sum, or what `op` says, of the tensors of all ranks in that of each.

    It is reduced in the order of the ranks: all have the same, run after run.
    Source: `torch.distributed.all_reduce`.
    """
    chosen = known(group)
    if is_outside(chosen):
        return None
    name = _op("all_reduce", op, tensor)
    if chosen.size() == 1:
        return _done(async_op, [tensor])
    return _done(async_op, [tensor], transfers.all_reduce(chosen.channel, chosen.timeout, tensor, name))


def all_reduce_coalesced(
    tensors: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """The same for several tensors at once. Source: `torch.distributed.all_reduce_coalesced`."""
    chosen = known(group)
    if is_outside(chosen):
        return None
    name = _op("all_reduce_coalesced", op, *tensors)
    if chosen.size() == 1:
        return _done(async_op, tensors)
    transfer = transfers.all_reduce_many(chosen.channel, chosen.timeout, tensors, name)
    return _done(async_op, tensors, transfer)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Have the sum, or what `op` says, in the tensor of one rank. Source: `torch.distributed.reduce`."""
    chosen = known(group)
    if is_outside(chosen):
        return None
    name, root = _op("reduce", op, tensor), chosen.number("reduce", dst, group_dst)
    if chosen.size() == 1:
        return _done(async_op, [tensor])
    return _done(async_op, [tensor], transfers.reduce(chosen.channel, chosen.timeout, tensor, name, root))


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Have what one rank has in the tensors of all. Source: `torch.distributed.broadcast`."""
    chosen = known(group)
    if is_outside(chosen):
        return None
    root = chosen.number("broadcast", src, group_src)
    if chosen.size() == 1:
        return _done(async_op, [tensor])
    return _done(async_op, [tensor], transfers.broadcast(chosen.channel, chosen.timeout, tensor, root))


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Put the tensors of all ranks into the list's. Source: `torch.distributed.all_gather`."""
    chosen = known(group)
    if is_outside(chosen):
        return None
    places = of_all("all_gather", chosen, tensor_list)
    for place in places:
        _fitting("all_gather", tensor.numel(), 1, place, tensor)
    if chosen.size() == 1:
        _copied(places[0], tensor)
        return _done(async_op, tensor_list)
    transfer = transfers.all_gather(chosen.channel, chosen.timeout, places, tensor)
    return _done(async_op, tensor_list, transfer)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Put the tensors of all ranks into one, on end or stacked.

    Source: `torch.distributed.all_gather_into_tensor`.
    """
    chosen = known(group)
    if is_outside(chosen):
        return None
    _fitting("all_gather_into_tensor", input_tensor.numel(), chosen.size(), output_tensor, input_tensor)
    if chosen.size() == 1:
        _copied(output_tensor, input_tensor.reshape(output_tensor.shape))
        return _done(async_op, [output_tensor])
    transfer = transfers.all_gather_into(chosen.channel, chosen.timeout, output_tensor, input_tensor)
    return _done(async_op, [output_tensor], transfer)


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Have in each rank's tensor the sum of those that all have for it.

    Source: `torch.distributed.reduce_scatter`.
    """
    chosen = known(group)
    if is_outside(chosen):
        return None
    name, parts = _op("reduce_scatter", op, output), of_all("reduce_scatter", chosen, input_list)
    for part in parts:
        _fitting("reduce_scatter", part.numel(), 1, output, part)
    if chosen.size() == 1:
        _copied(output, parts[0])
        return _done(async_op, [output])
    transfer = transfers.reduce_scatter(chosen.channel, chosen.timeout, output, parts, name)
    return _done(async_op, [output], transfer)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """The same of the parts of one tensor. Source: `torch.distributed.reduce_scatter_tensor`."""
    chosen = known(group)
    if is_outside(chosen):
        return None
    name = _op("reduce_scatter_tensor", op, output)
    _fitting("reduce_scatter_tensor", output.numel(), chosen.size(), input, output)
    if chosen.size() == 1:
        _copied(output, input.reshape(output.shape))
        return _done(async_op, [output])
    transfer = transfers.reduce_scatter(chosen.channel, chosen.timeout, output, [input], name)
    return _done(async_op, [output], transfer)


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Put the tensors of all ranks into the list of one. Source: `torch.distributed.gather`."""
    chosen = known(group)
    if is_outside(chosen):
        return None
    root = chosen.number("gather", dst, group_dst)
    places = of_all("gather", chosen, gather_list) if chosen.rank() == root else []
    for place in places:
        _fitting("gather", tensor.numel(), 1, place, tensor)
    if chosen.size() == 1:
        _copied(places[0], tensor)
        return _done(async_op, gather_list)
    transfer = transfers.gather(chosen.channel, chosen.timeout, places, tensor, root)
    return _done(async_op, gather_list, transfer)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Have in each rank's tensor one of the list that one rank has. Source: `torch.distributed.scatter`."""
    chosen = known(group)
    if is_outside(chosen):
        return None
    root = chosen.number("scatter", src, group_src)
    parts = of_all("scatter", chosen, scatter_list) if chosen.rank() == root else []
    for part in parts:
        _fitting("scatter", part.numel(), 1, tensor, part)
    if chosen.size() == 1:
        _copied(tensor, parts[0])
        return _done(async_op, [tensor])
    transfer = transfers.scatter(chosen.channel, chosen.timeout, tensor, parts, root)
    return _done(async_op, [tensor], transfer)


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Have in the list's tensors what each rank has for this one. Source: `torch.distributed.all_to_all`."""
    chosen = known(group)
    if is_outside(chosen):
        return None
    places, parts = (of_all("all_to_all", chosen, one) for one in (output_tensor_list, input_tensor_list))
    own = chosen.rank()
    _fitting("all_to_all", parts[own].numel(), 1, places[own], parts[own])
    if chosen.size() == 1:
        _copied(places[0], parts[0])
        return _done(async_op, output_tensor_list)
    transfer = transfers.all_to_all(chosen.channel, chosen.timeout, places, parts)
    return _done(async_op, output_tensor_list, transfer)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """The same of rows of one tensor: equal parts, or so many rows each.

    Source: `torch.distributed.all_to_all_single`.
    """
    chosen = known(group)
    if is_outside(chosen):
        return None
    received = _rows("all_to_all_single", chosen, output, output_split_sizes)
    sent = _rows("all_to_all_single", chosen, input, input_split_sizes)
    if chosen.size() == 1:
        _copied(output, input.reshape(output.shape))
        return _done(async_op, [output])
    transfer = transfers.all_to_all_single(chosen.channel, chosen.timeout, output, input, received, sent)
    return _done(async_op, [output], transfer)


def _rows(name: str, group: ProcessGroup, tensor: Tensor, sizes: Any) -> list[int]:
    """How many elements are for, or from, each rank."""
    rows = tensor.shape[0] if tensor.ndim else 0
    if not sizes:
        if rows % group.size():
            raise failure(
                RuntimeError,
                f"{name}: {rows} rows do not go round among {group.size()} ranks; give their sizes",
            )
        sizes = [rows // group.size()] * group.size()
    if len(sizes) != group.size() or sum(sizes) != rows or min(sizes) < 0:
        raise failure(
            RuntimeError, f"{name}: sizes {[*sizes]} do not cut {rows} rows for {group.size()} ranks"
        )
    each = tensor.numel() // rows if rows else 0
    return [size * each for size in sizes]


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Go on when all ranks are here. Source: `torch.distributed.barrier`."""
    chosen = known(group)
    if is_outside(chosen) or chosen.size() == 1:
        return _done(async_op)
    return _done(async_op, None, transfers.barrier(chosen.channel, chosen.timeout))


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Go on when all ranks are here; an error of rank 0 names who is not.

    wait_all_ranks: name all of them, not the first alone.
    Source: `torch.distributed.monitored_barrier`.
    """
    chosen = known(group)
    if not is_outside(chosen) and chosen.size() > 1:
        seconds = chosen.timeout if timeout is None else timeout
        seconds = seconds.total_seconds() if hasattr(seconds, "total_seconds") else seconds
        transfers.monitored_barrier(chosen.channel, float(seconds), wait_all_ranks)


locate("fusegrad.distributed", globals(), __all__)
