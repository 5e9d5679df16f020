"""Places on the autograd graph without a tensor: `GradientEdge`, which `grad` and `backward` take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from fusegrad.eager.autograd.leaf_node import AccumulateGrad
from fusegrad.eager.autograd.node import Node, edge_of, place
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor


class GradientEdge(NamedTuple):
    """Where a gradient comes to: an output of a node. As `torch.autograd.graph.GradientEdge`."""

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Where backward brings the gradient of `tensor`, also after it was written in place.

    Raises RuntimeError for a tensor that needs no gradient. Source: `torch.autograd.graph.get_gradient_edge`.

    >>> import fusegrad as fg
    >>> x = fg.ones(2, requires_grad=True).clone()
    >>> before = fg.autograd.graph.get_gradient_edge(x)
    >>> y = x.mul_(3).sum()
    >>> fg.autograd.grad(y, before)
    (tensor([3., 3.]),)
    """
    if not tensor.needs_grad:
        raise failure(
            RuntimeError,
            "It is not possible to get the gradient edge for a Tensor that does not require gradients",
        )
    node = AccumulateGrad(tensor) if tensor.grad_fn is None else tensor.grad_fn
    return GradientEdge(node, tensor.output_index)


def at_edges(values: list[Any]) -> list[Any]:
    """`values` with a tensor in the place of each edge: the leaf, or one that stands where the edge does."""
    return [_tensor_at(v) if isinstance(v, GradientEdge) else v for v in values]


def _tensor_at(edge: GradientEdge) -> Tensor:
    if state.interpreter is not None:
        state.interpreter.effect("asks for gradients at an edge of the graph")
    if isinstance(edge.node, AccumulateGrad):
        return edge.node.variable
    shape, dtype = edge.node.output_types[edge.output_nr]
    return place(wrap(np.broadcast_to(np.zeros((), dtype), shape)), edge.node, edge.output_nr)


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Say that something wrote into the memory of a tensor unseen: backward refuses what it kept of it.

    Source: `torch.autograd.graph.increment_version`.
    """
    if state.interpreter is not None:
        state.interpreter.effect("counts a write that the engine did not see")
    for written in (tensor,) if isinstance(tensor, Tensor) else tensor:
        if not written.is_inference():
            written.version[0] += 1


class Passing(Node):
    """Hands the gradient of a tensor with other memory on to `source`."""

    __slots__ = ()

    def __init__(self, source: Tensor) -> None:
        self.begin([(0, *edge_of(source))])
        self.types = self.output_types = [(source.array.shape, source.array.dtype)]
        self.versions = []
        self.inputs = ()

    def name(self) -> str:
        return "AliasBackward0"

    def apply(self, gradients: list[Tensor | None], edges: Any = None) -> list[Tensor | None]:
        return gradients


class Argument(Passing):
    """Makes an argument of a transform of a tensor on a graph outside.

    A write would move it to another place on the graph, and derivatives would be by what was written.
    """

    __slots__ = ()
    argument = True
