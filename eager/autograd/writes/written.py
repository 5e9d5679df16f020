"""The nodes that writes in place leave: of what was written, and of what cannot be followed any more."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegrad.eager.autograd.node import Node, constant, edge_of
from fusegrad.eager.core import families
from fusegrad.eager.core.op import Op, Params, bind, wrap
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor

Steps = tuple[tuple[Op, Params], ...]


class Refusal(Node):
    """The node of a tensor whose gradient cannot be followed any more: using it is an error."""

    __slots__ = ("refused",)

    def __init__(self, refused: str) -> None:
        self.begin()
        self.refused = refused
        self.inputs, self.outputs = (), ()

    def name(self) -> str:
        """Not PyTorch's: there the error comes when the node is asked for."""
        return "Refusal"


class CopySlices(Node):
    """A write of `value` into the part of `base` where view ops lead; into all of it if there are none.

    What was there before gets no gradient, the rest of the base all of it.
    """

    __slots__ = ("_name", "_steps")

    def __init__(self, base: Tensor, steps: Steps, value: Tensor, name: str) -> None:
        self.begin([(i, *edge_of(t)) for i, t in enumerate((base, value)) if t.needs_grad])
        self._steps = steps
        plain = "".join(part.capitalize() for part in name.strip("_").split("_"))
        self._name = "CopySlices" if steps else f"{plain}Backward0"
        self.types = self.output_types = [(base.array.shape, base.array.dtype)]
        self.types = [*self.types, (value.array.shape, value.array.dtype)]
        self.versions = []
        self.inputs = ()

    def name(self) -> str:
        return self._name

    def apply(self, gradients: list[Tensor | None], edges: Any = None) -> list[Tensor | None]:
        (g,) = gradients
        assert g is not None
        return [self._inside(g) if i else self._outside(g) for i, _, _ in edges or self.edges]

    def _inside(self, g: Tensor) -> Tensor:
        """The part of `g` that was written."""
        for op, params in self._steps:
            g = bind(op, (g,), params)
        return families.fit(g, *self.types[1])

    def _outside(self, g: Tensor) -> Tensor:
        """`g` with zeros where it was written."""
        if not self._steps:
            return constant(0, g.array.shape, g.array.dtype)
        if state.grad_enabled or state.interpreter is not None:
            mask = np.zeros(g.array.shape, bool)
            self._fill(mask, True)
            where = wrap(mask)
            if state.interpreter is not None:
                state.interpreter.constant(where)
            return ops.where(where, 0, g)
        result = np.array(g.array, order="C")
        self._fill(result, 0)
        return wrap(result)

    def _fill(self, array: np.ndarray, value: Any) -> None:
        """Write `value` into the part of a row-major `array`."""
        part = self._part(array)
        if part.flags.writeable and np.may_share_memory(part, array):
            part[...] = value
        else:
            # The base lay so that these ops gave a view; on this array they copy. Go by positions.
            array.reshape(-1)[self._part(np.arange(array.size).reshape(array.shape))] = value

    def _part(self, array: np.ndarray) -> np.ndarray:
        for op, params in self._steps:
            array = op.evaluate((wrap(array),), params)
        return array
