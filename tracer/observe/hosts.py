"""Hosts: what a replay asks Python for (random numbers, a `.grad`) goes in, an input of the graph comes out.

Each is an input of the graph whose values are found anew at every call, in the order in which the
recorded run asked for them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegrad.eager.core.op import Op, Params
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir.graph import Value
from fusegrad.tracer.observe.conditions import Held, Part
from fusegrad.tracer.observe.reads import Read
from fusegrad.tracer.observe.values import Expected
from fusegrad.tracer.twin.sites import NOWHERE

NOT_AS_IT_WAS = "a gradient, or an optimizer's number, is not what it was"
# Where a tensor is at a replay: the number of a leaf of the call's arguments, or a reference.
Place = int | weakref.ref[Tensor]


def at(place: Place, leaves: Sequence[Any]) -> Tensor | None:
    """The tensor at a place; None if it is gone."""
    return leaves[place] if isinstance(place, int) else place()


class Host:
    """Gives the values of one input of a graph, from Python.

    lent: whether they lie in somebody else's memory. takes: the symbols (`symbols.py`) that it has to know.
    """

    value: Value
    lent = False
    takes: tuple[Any, ...] = ()

    def array(self, leaves: Sequence[Any], *numbers: Any) -> np.ndarray | None:
        """The values now; None where the replay must not go on. leaves: of the call's arguments; numbers:
        what it takes.
        """
        raise NotImplementedError

    def key(self) -> Any:
        """Equal for two that give the same at every time."""
        raise NotImplementedError

    def comes_again(self, leaves: Sequence[Any]) -> bool:
        """Whether a replay could go on by what there is now."""
        return self.array(leaves, *[symbol.find(leaves) for symbol in self.takes]) is not None

    def missed(self) -> Any:
        """Why a replay does not go on by what there is now: in words, or what knows those."""
        return NOT_AS_IT_WAS

    def undo(self) -> Callable[[], None] | None:
        """What takes back what the next `array` changes outside; None if it changes nothing."""
        return None


class Draw(Host):
    """Random numbers from a generator."""

    def __init__(self, value: Value, op: Op, args: tuple[Any, ...], params: Params) -> None:
        self.value, self.op, self.args, self.params = value, op, args, params

    def array(self, leaves: Sequence[Any], *numbers: Any) -> np.ndarray:
        array: np.ndarray = self.op.evaluate(self.args, self.params)
        return array

    def key(self) -> Any:
        params = [(k, id(v) if k == "generator" else repr(v)) for k, v in self.params.items()]
        return ("draw", self.op.name, repr(self.args), tuple(params))

    def undo(self) -> Callable[[], None]:
        generator = self.params["generator"]
        before = generator.seed_value, generator.counter

        def restore() -> None:
            generator.seed_value, generator.counter = before

        return restore


class GradientOf(Host):
    """The `.grad` that a tensor from outside has."""

    lent = True

    def __init__(self, value: Value, place: Place) -> None:
        self.value, self.place = value, place

    def array(self, leaves: Sequence[Any], *numbers: Any) -> np.ndarray | None:
        tensor = at(self.place, leaves)
        gradient = None if tensor is None else tensor.gradient
        if gradient is None or gradient.needs_grad:
            return None
        array = gradient.array
        fits = (array.shape, array.dtype) == (self.value.shape, self.value.dtype)
        return array if fits and array.flags.c_contiguous and array.flags.writeable else None

    def key(self) -> Any:
        return ("gradient", self.place if isinstance(self.place, int) else id(self.place()))


class NoGradient(Read):
    """That a tensor has no `.grad`."""

    __slots__ = ("tensor",)
    kind = "gradient"

    def __init__(self, tensor: Tensor) -> None:
        self.site, self.tensor, self.expected = NOWHERE, weakref.ref(tensor), Expected(None)

    def place(self) -> Part:
        return Part(Held(self.tensor), "gradient")

    def subject(self) -> str:
        return "`.grad` of a tensor"


@dataclass
class Gradient:
    """A tensor whose `.grad` a run has looked at or set.

    before: what it was; assigned: whether it was set.
    """

    tensor: Tensor
    before: Tensor | None
    assigned: bool = False
