"""Along which axis the rows lie that a mask chooses: what a run has computed so far goes in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fusegrad.eager.ops.shape.slicing import Slice
from fusegrad.tracer.ir.graph import Equation, Value


class Axis(NamedTuple):
    """An axis along which lies what a mask has chosen, and nothing else."""

    mask: Value
    axis: int


class RowsOf:
    """The rows in the values of a run."""

    def __init__(self, equations: Sequence[Equation]) -> None:
        self._makers = {value: equation for equation in equations for value in equation.outputs}

    def axis(self, value: Value) -> Axis | None:
        """Where rows lie in a value; None where nobody knows."""
        equation = self._makers.get(value)
        if equation is None:
            return None
        name = equation.op.name
        operands = [v for v in equation.inputs if isinstance(v, Value)]
        if name == "nonzero":
            return Axis(operands[0], 0)
        if name == "take":
            found = self.axis(operands[1])
            alone = found is not None and len(operands[1].shape) == 1 and self.axis(operands[0]) is None
            return found._replace(axis=equation.params["dim"]) if found is not None and alone else None
        if name == "flat_index":
            return self.axis(operands[0])
        if name == "getitem":
            found = self.axis(operands[0])
            return None if found is None else self._of_part(equation, found)
        if equation.op.family == "elementwise" or name == "detach":
            for operand in operands:
                found = self.axis(operand)
                if found is not None:
                    return found._replace(axis=len(value.shape) - len(operand.shape) + found.axis)
        return None

    @staticmethod
    def _of_part(equation: Equation, found: Axis) -> Axis | None:
        """The axis in a part, where it is whole."""
        index, dim, axis = equation.params["index"], 0, 0
        size = equation.inputs[0].shape[found.axis]
        for entry in index:
            if entry is not None and dim == found.axis:
                return found._replace(axis=axis) if entry == Slice(0, size, 1) else None
            dim += entry is not None
            axis += not isinstance(entry, int)
        return found._replace(axis=axis + found.axis - dim)
