"""The recorder: notes every op of a run, and every value that leaves the tensor world.

While it is in charge of a thread, `bind` still evaluates eagerly, so the run's results are
eager's own; each op is written down as an equation of the graph beside.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.eager.errors import source_line, user_location
from fusegrad.eager.op import Op, Params, evaluate
from fusegrad.eager.tensor import Tensor
from fusegrad.tracer.graph import GUARD, Equation, Source, Value
from fusegrad.tracer.text import array_type, identifier

# Doors that give one number: what was seen can be guarded. Other doors end the captured part.
SCALAR_DOORS = {"bool", "int", "float", "index", "item", "complex"}


class Recorder:
    """An interpreter that evaluates and takes notes.

    equations: what ran, in order, guards included.
    inputs: the argument tensors' values; captured: values of tensors found outside, by value;
    constants: values made from Python data during the run.
    tracked: the values whose tensors needed gradients.
    open_reasons: (sentence, file, line) for each thing that a replay could not repeat.
    name_of: gives a captured tensor its name ("" for one that it does not know).
    """

    def __init__(self) -> None:
        self.equations: list[Equation] = []
        self.inputs: list[Value] = []
        self.captured: dict[Value, Tensor] = {}
        self.constants: dict[Value, np.ndarray] = {}
        self.tracked: set[Value] = set()
        self.open_reasons: list[tuple[str, str, int]] = []
        self.name_of: Callable[[Tensor], str] = lambda tensor: ""
        # Values are found by the identity of their arrays, which `_alive` keeps from being reused.
        self._values: dict[int, Value] = {}
        self._alive: list[np.ndarray] = []
        self._names: set[str] = set()
        self._count = 0

    # Where values come from.

    def argument(self, tensor: Tensor, name: str) -> Value:
        """Declare an argument tensor as an input of the graph."""
        known = self._values.get(id(tensor.array))
        value = known or self._define(tensor, identifier(name, self._names))
        if known is None:
            self.inputs.append(value)
        return value

    def value_of(self, tensor: Tensor) -> Value:
        """The value that stands for `tensor`; one that was never seen is captured from outside."""
        value = self._values.get(id(tensor.array))
        if value is None:
            name = self.name_of(tensor) or f"captured{len(self.captured)}"
            value = self._define(tensor, identifier(name, self._names))
            self.captured[value] = tensor
        return value

    def constant(self, tensor: Tensor) -> None:
        """`tensor` was made from Python data: the data are guarded, so its values are constant."""
        value = self._define(tensor, identifier(f"constant{len(self.constants)}", self._names))
        self.constants[value] = tensor.array.copy()

    def knows(self, tensor: Tensor) -> bool:
        """Whether `tensor` is an argument, or was made or captured by this run."""
        return id(tensor.array) in self._values

    def _define(self, tensor: Tensor, name: str) -> Value:
        value = Value(name, array_type(tensor.array))
        self._names.add(name)
        self._values[id(tensor.array)] = value
        self._alive.append(tensor.array)
        if tensor.needs_grad:
            self.tracked.add(value)
        return value

    # What the engine reports.

    def bind(self, op: Op, args: tuple[Any, ...], params: Params) -> Any:
        inputs = tuple(self.value_of(a) if isinstance(a, Tensor) else a for a in args)
        result = evaluate(op, args, params)
        if op.family == "random":
            self.effect(f"draws random numbers ({op.name})")
        outputs = result if type(result) is tuple else (result,)
        made = []
        for tensor in outputs:
            name = f"v{self._count}"
            self._count += 1
            while name in self._names:
                name += "_"
            made.append(self._define(tensor, name))
        self.equations.append(Equation(op, inputs, dict(params), tuple(made), self._source()))
        return result

    def reach(self, tensor: Tensor) -> None:
        """Every tensor of a recorded run has its values."""

    def in_backward(self) -> Recorder:
        """A backward is recorded like the rest."""
        return self

    def leave(self, tensor: Tensor, door: str, value: Any) -> None:
        if door in SCALAR_DOORS and tensor.array.size == 1:
            self._guard(tensor, "branch")
        else:
            shape = list(tensor.array.shape)
            self.effect(f"the values of a tensor of shape {shape} leave through {door}()")

    def check(self, tensor: Tensor, passed: Callable[[], Tensor]) -> bool:
        """An op's own test of its input: a replay must find it true, or let eager raise its error."""
        outcome = passed()
        if bool(outcome.array.item()):
            self._guard(outcome, "check")
        return True

    def effect(self, reason: str) -> None:
        file, line = user_location()
        self.open_reasons.append((reason, file, line))

    def _guard(self, tensor: Tensor, kind: str) -> None:
        value = self.value_of(tensor)
        params = {"expected": tensor.array.item(), "kind": kind}
        self.equations.append(Equation(GUARD, (value,), params, (), self._source()))

    def _source(self) -> Source:
        file, line = user_location()
        return Source(file, line)


def source_text(source: Source | None) -> str:
    """`train.py:41  if h.mean() > 10:`"""
    if source is None:
        return ""
    return f"{os.path.basename(source.file)}:{source.line}  {source_line(source.file, source.line)}"
