"""Rows that a mask chooses, in a graph for any number of them: among all rows (see `open_counts.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fusegrad.eager.core.op import bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir.graph import Equation

FEWEST = 2  # of none, and of one, ops may do something else


class Refused(Exception):
    """The graph cannot be one for all counts: why."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """What a mask chooses. flat: the mask, in one dimension; shape: its own; count: how many places it is
    true at, a tensor; counts: how many that were in the two runs. of: what is chosen there several `times` on
    end.
    """

    flat: Tensor
    shape: tuple[int, ...]
    count: Tensor
    counts: tuple[int, int]
    of: Chosen | None = None
    times: int = 1


class Rows(NamedTuple):
    """Chosen rows, among all: along `axis` lie as many as the mask has places."""

    tensor: Tensor
    axis: int
    chosen: Chosen


class Places(NamedTuple):
    """Where a mask is true: all coordinates, a `column` of these, or (-1) the places in the flat mask."""

    chosen: Chosen
    column: int | None = None


def times(count: Tensor, factor: int, dtype: np.dtype) -> Tensor:
    """So many times a count, as a float."""
    return ops.cast(count if factor == 1 else ops.mul(count, factor), dtype)


def same_params(params: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return repr([*params.items()]) == repr([*other.items()])


class Call:
    """An equation that a rule is asked about, with the same one of the other run."""

    def __init__(self, opening: Any, equation: Equation, other: Equation) -> None:
        self.opening, self.equation, self.other = opening, equation, other
        self.op, self.params = equation.op, dict(equation.params)
        self.operands = [opening.operand(v) for v in equation.inputs]
        self.shape = equation.outputs[0].shape

    @property
    def same_params(self) -> bool:
        return same_params(self.params, self.other.params)

    def rows(self) -> list[Rows]:
        """The operands that are rows."""
        if any(isinstance(x, Places) for x in self.operands):
            raise Refused(f"{self.op.name} of the places of a mask")
        return [x for x in self.operands if isinstance(x, Rows)]

    def is_tracked(self, place: int) -> bool:
        """Whether the gradient of an operand is wanted."""
        value = self.equation.inputs[place]
        known = self.opening.tracked
        return value in known and any(v in known for v in self.equation.outputs)

    def axis(self, number: int = 0) -> int:
        """Along which axis the results of the two runs differ."""
        one, other = self.equation.outputs[number].shape, self.other.outputs[number].shape
        found = [i for i, (n, m) in enumerate(zip(one, other, strict=True)) if n != m]
        if len(found) != 1:
            raise Refused(f"{self.op.name} gives rows of rows")
        return found[0]

    def bind(self, *args: Any, **params: Any) -> Any:
        return bind(self.op, args, self.params | params)

    def each(self, chosen: Chosen, *args: Any, **params: Any) -> Any:
        """What the op does to each row by itself; the axes are those along which the runs differ."""
        made = self.bind(*args, **params)
        results = made if isinstance(made, tuple) else (made,)
        found = [Rows(t, self.axis(i), chosen) for i, t in enumerate(results)]
        return found if len(found) > 1 else found[0]


def column(chosen: Chosen, ndim: int, axis: int) -> Tensor:
    """The mask along an axis."""
    shape = [1] * ndim
    shape[axis] = chosen.flat.array.shape[0]
    return ops.reshape(chosen.flat, tuple(shape))


def masked(tensor: Tensor, axis: int, chosen: Chosen, fill: Any = 0) -> Tensor:
    """A tensor of all rows with `fill` in those that were not chosen."""
    kind = tensor.array.dtype.kind
    number = fill if kind in "iub" else float(fill)
    return ops.where(column(chosen, tensor.array.ndim, axis), tensor, bool(fill) if kind == "b" else number)
