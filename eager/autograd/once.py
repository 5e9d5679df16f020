"""Backwards of users' that cannot be derived again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.autograd.node import Node, edge_of, place, share
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import no_grad, state
from fusegrad.eager.core.tensor import Tensor

__all__ = ["once_differentiable"]


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a backward that cannot be derived itself; as `torch.autograd.function.once_differentiable`.

    Deriving its gradients is a RuntimeError.
    """

    @functools.wraps(function)
    def wrapped(ctx: Any, *gradients: Any) -> Any:
        with no_grad():
            made = function(ctx, *gradients)
        return _derived_once(gradients, made)

    return wrapped


def _derived_once(gradients: tuple[Any, ...], made: Any) -> Any:
    """What a backward made of `gradients`, which cannot be derived by them."""
    sources = [g for g in gradients if isinstance(g, Tensor) and g.needs_grad]
    if not state.grad_enabled or not sources:
        return made
    many = isinstance(made, tuple)
    outputs = made if many else (made,)
    error = _Twice(sources)
    placed = tuple(
        place(share(o), error, 0) if isinstance(o, Tensor) and o.array.dtype.kind in "fcV" else o
        for o in outputs
    )
    return placed if many else placed[0]


class _Twice(Node):
    """The node of gradients that cannot be derived again."""

    __slots__ = ()
    foreign = "a backward that is once_differentiable"

    def __init__(self, sources: Sequence[Tensor]) -> None:
        self.begin([(i, *edge_of(t)) for i, t in enumerate(sources)])
        self.types = [(t.array.shape, t.array.dtype) for t in sources]
        self.output_types = [((), np.dtype(np.float32))]
        self.versions = []
        self.inputs = ()

    def name(self) -> str:
        return "DelayedError"

    def apply(self, gradients: list[Tensor | None], edges: Any = None) -> list[Tensor | None]:
        raise failure(
            RuntimeError, "trying to differentiate twice a function that was marked with @once_differentiable"
        )


locate("fusegrad.autograd.function", globals(), __all__)
