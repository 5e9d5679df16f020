"""Results whose derivative nobody knows: they are on the graph, where asking for it is an error."""

from __future__ import annotations

from typing import Any

from fusegrad.eager.autograd.node import Node, edge_of, place
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor


class Underived(Node):
    """The node of a function without a derivative, which says so by an error of a `kind`."""

    __slots__ = ("error", "kind")
    foreign = "an op without a derivative"

    def __init__(
        self,
        error: str,
        result: Tensor,
        inputs: tuple[Tensor, ...],
        kind: type[Exception] = NotImplementedError,
    ) -> None:
        self.kind = kind
        self.begin([(i, *edge_of(t)) for i, t in enumerate(inputs) if t.needs_grad])
        self.error, self.inputs, self.versions = error, (), []
        self.types = [(t.array.shape, t.array.dtype) for t in inputs]
        self.output_types = [(result.array.shape, result.array.dtype)]

    def name(self) -> str:
        return "NotImplemented"

    def apply(self, gradients: list[Tensor | None], edges: Any = None) -> list[Tensor | None]:
        raise failure(self.kind, self.error)


def underived(error: str, result: Tensor, *inputs: Tensor) -> Tensor:
    """`result`, made of `inputs`; backward raises NotImplementedError, `error`, where these need gradients.

    Without it a loss would lose what it has through `result`, and nobody would know.
    """
    if result.array.dtype.kind in "fcV" and state.grad_enabled and any(t.needs_grad for t in inputs):
        place(result, Underived(error, result, inputs), 0)
    return result
