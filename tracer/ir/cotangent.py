"""Cotangents: gradients, each with whether there is one.

Eager's backward goes nowhere where there is no gradient. Rounds of a loop, and sides of a branch, all do the
same: where only some of them have a gradient, it is zeros for the others, and a truth says so. What follows
from it is zeros then, too, whatever it is multiplied by: zero times infinity has no part in anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from fusegrad.eager.core.dtypes import FROM_NUMPY
from fusegrad.eager.core.op import Op, Params, TensorType
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.create.creation import full, zeros
from fusegrad.tracer.ir.graph import Value

TRUTH = TensorType((), np.dtype(np.bool_))


class Presence(Enum):
    """When there is a gradient."""

    NEVER = 0
    SOMETIMES = 1
    ALWAYS = 2

    def __or__(self, other: Presence) -> Presence:
        """When there is one of two."""
        return self if self.value >= other.value else other

    def joined(self, other: Presence) -> Presence:
        """When there is one, if it is now the one case and now the other."""
        return self if self is other else Presence.SOMETIMES


class Cotangent(NamedTuple):
    """A gradient. present: a truth without dimensions: there is one; if not, it is zeros (None: always)."""

    gradient: Tensor
    present: Tensor | None = None

    def plus(self, other: Cotangent) -> Cotangent:
        """What there is where there is one of two."""
        return Cotangent(self.gradient + other.gradient, present_of((self, other)))

    def times(self, present: Tensor | None) -> Cotangent:
        """The gradient that there is where `present` holds, whatever has been computed where it does not."""
        if present is None:
            return self
        return Cotangent(ops.where(present, self.gradient, zeros_like(self.gradient)), present)


# By the number of what they are of; None where there is never a gradient.
Cotangents = Sequence[Cotangent | None]
Tensors = Sequence[Tensor]


def present_of(cotangents: Iterable[Cotangent]) -> Tensor | None:
    """Whether there is one of them."""
    truths = {id(x.present): x.present for x in cotangents}
    first, *others = truths.values()
    for other in others:
        first = None if first is None or other is None else ops.logical_or(first, other)
    return first


def presence(cotangent: Cotangent | None) -> Presence:
    """When there is a gradient, as far as its kind tells."""
    if cotangent is None:
        return Presence.NEVER
    return Presence.ALWAYS if cotangent.present is None else Presence.SOMETIMES


def cotangents_of(
    when: Iterable[Presence], gradients: Mapping[int, Tensor], truths: Mapping[int, Tensor]
) -> list[Cotangent | None]:
    """Cotangents, by when there are gradients, with these truths of those that there are sometimes."""
    return [
        None
        if each is Presence.NEVER
        else Cotangent(gradients[i], truths[i] if each is Presence.SOMETIMES else None)
        for i, each in enumerate(when)
    ]


def truth_of(cotangent: Cotangent | None) -> Tensor:
    """Whether there is a gradient, as a tensor."""
    if cotangent is not None and cotangent.present is not None:
        return cotangent.present
    found: Tensor = full((), cotangent is not None)
    return found


def zeros_of(value: Value) -> Tensor:
    """Zeros of a value's type."""
    return zeros(*value.shape, dtype=FROM_NUMPY[value.dtype])


def zeros_like(tensor: Tensor) -> Tensor:
    """Zeros of a tensor's type."""
    return zeros(*tensor.array.shape, dtype=FROM_NUMPY[tensor.array.dtype])


def _of_inputs(g: Any, inputs: Any) -> None:
    """Says that backward keeps the inputs of an op; see `Rule`."""


def _of_all(g: Any, inputs: Any, outputs: Any) -> None:
    """Says that it keeps the outputs, too."""


class Structured(Op):
    """An op that evaluates graphs. Where its outputs have gradients at some times, so have its inputs."""

    family = "rolled"
    fills = False

    def __init__(self, name: str, keeps_outputs: bool) -> None:
        super().__init__(name, "*tensors", {"tensors": _of_all if keeps_outputs else _of_inputs})

    def pull_back(self, given: Cotangents, inputs: Tensors, outputs: Tensors, params: Params) -> Cotangents:
        """The cotangents of its inputs from those of its outputs."""
        raise NotImplementedError

    def gradient(
        self, index: int, g: Any, inputs: Tensors, outputs: Tensors, types: Sequence[Any], params: Params
    ) -> Tensor | None:
        """What eager's backward gets: None where there is no gradient."""
        gradients = g if type(g) is list else [g]
        given = [None if known is None else Cotangent(known) for known in gradients]
        found = self.pull_back(given, inputs, outputs, params)[index]
        if found is None or (found.present is not None and not found.present.item()):
            return None
        return found.gradient
