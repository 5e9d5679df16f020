"""Collectives that gradients go through, with new tensors as results. As `torch.distributed.nn.functional`.

The gradient is that of the sum of all ranks' losses; all ranks have to go backward through them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusegrad.eager.autograd.function import Function
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.distributed import collectives
from fusegrad.eager.distributed.world import ReduceOp, get_rank, get_world_size, known

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]


def _like(tensor: Tensor, number: int) -> list[Tensor]:
    return [ops.empty_like(tensor) for _ in range(number)]


def _derivable(name: str, op: Any) -> None:
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise failure(RuntimeError, f"{name}: gradients go through ReduceOp.SUM and AVG, not {op}")


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, op: Any, group: Any) -> Tensor:
        ctx.op, ctx.group = op, group
        made = tensor.clone()
        collectives.all_reduce(made, op, group)
        return made

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        _derivable("all_reduce", ctx.op)
        return _AllReduce.apply(gradient, ctx.op, ctx.group), None, None


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, dst: int, op: Any, group: Any) -> Tensor:
        ctx.dst, ctx.op, ctx.group = dst, op, group
        made = tensor.clone()
        collectives.reduce(made, dst, op, group)
        return made

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        _derivable("reduce", ctx.op)
        whole = _Broadcast.apply(gradient, ctx.dst, ctx.group)
        return whole / (get_world_size(ctx.group) if ctx.op is ReduceOp.AVG else 1), None, None, None


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, src: int, group: Any) -> Tensor:
        ctx.src, ctx.group = src, group
        made = tensor.clone()
        collectives.broadcast(made, src, group)
        return made

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        whole = _Reduce.apply(gradient, ctx.src, ReduceOp.SUM, ctx.group)
        return whole if get_rank() == ctx.src else ops.zeros_like(whole), None, None


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, group: Any) -> tuple[Tensor, ...]:
        ctx.group = group
        made = _like(tensor, get_world_size(group))
        collectives.all_gather(made, tensor.contiguous(), group)
        return tuple(made)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return _ReduceScatter.apply(ReduceOp.SUM, ctx.group, *gradients), None


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, *parts: Tensor) -> Tensor:
        ctx.op, ctx.group = op, group
        made = ops.empty_like(parts[known(group).rank()])
        collectives.reduce_scatter(made, [*parts], op, group)
        return made

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        _derivable("reduce_scatter", ctx.op)
        scale = get_world_size(ctx.group) if ctx.op is ReduceOp.AVG else 1
        return None, None, *(part / scale for part in _AllGather.apply(gradient, ctx.group))


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, dst: int, group: Any) -> tuple[Tensor, ...]:
        ctx.dst, ctx.group = dst, group
        made = [ops.zeros_like(tensor) for _ in range(get_world_size(group))]
        collectives.gather(tensor, made if get_rank() == dst else None, dst, group)
        return tuple(made)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return _Scatter.apply(ctx.dst, ctx.group, *gradients), None, None


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, *parts: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        made = ops.empty_like(parts[0])
        collectives.scatter(made, [*parts] if get_rank() == src else None, src, group)
        return made

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return None, None, *_Gather.apply(gradient, ctx.src, ctx.group)


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, shapes: Sequence[Any], *parts: Tensor) -> tuple[Tensor, ...]:
        ctx.group, ctx.shapes = group, [tuple(part.shape) for part in parts]
        made = [parts[0].new_empty(shape) for shape in shapes]
        collectives.all_to_all(made, [part.contiguous() for part in parts], group)
        return tuple(made)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return None, None, *_AllToAll.apply(ctx.group, ctx.shapes, *gradients)


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The sum, or what `op` says, of the tensors of all ranks.

    Source: `torch.distributed.nn.functional.all_reduce`.
    """
    return _AllReduce.apply(tensor, op, group)


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The same on rank `dst`; elsewhere the tensor. Source: `torch.distributed.nn.functional.reduce`."""
    return _Reduce.apply(tensor, dst, op, group)


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The tensor of rank `src`. Source: `torch.distributed.nn.functional.broadcast`."""
    return _Broadcast.apply(tensor, src, group)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks. Source: `torch.distributed.nn.functional.all_gather`."""
    return _AllGather.apply(tensor, group)


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None
) -> Tensor:
    """The sum of what all have for this rank; a tensor as `output`, which stays.

    Source: `torch.distributed.nn.functional.reduce_scatter`.
    """
    return _ReduceScatter.apply(op, group, *input_list)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks on rank `dst`; elsewhere zeros.

    Source: `torch.distributed.nn.functional.gather`.
    """
    return _Gather.apply(tensor, dst, group)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """One of the tensors that rank `src` has; on others they only say its form.

    Source: `torch.distributed.nn.functional.scatter`.
    """
    return _Scatter.apply(src, group, *tensors)


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """What each rank has for this one, in the forms of the first list, which stays.

    Source: `torch.distributed.nn.functional.all_to_all`.
    """
    shapes = [tuple(one.shape) for one in output_tensor_list]
    return _AllToAll.apply(group, shapes, *input_tensor_list)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Any = None,
) -> Tensor:
    """The same of rows of one tensor. Source: `torch.distributed.nn.functional.all_to_all_single`."""
    size = get_world_size(group)
    received = output_split_sizes or [output.shape[0] // size] * size
    sent = input_split_sizes or [input.shape[0] // size] * size
    shapes = [(rows, *output.shape[1:]) for rows in received]
    return ops.cat(_AllToAll.apply(group, shapes, *input.split(sent)))


locate("fusegrad.distributed.nn", globals(), __all__)
