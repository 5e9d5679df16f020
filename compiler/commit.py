"""What a replayed call does to the world once its last guard has passed: memory written, `.grad` set.

All memory is written by one native call, which nothing interrupts: either everything is as eager would
have left it, or nothing was touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fusegrad.compiler.memory import data_address
from fusegrad.compiler.path import Captured, Path
from fusegrad.compiler.program import Program, clone_op
from fusegrad.eager import views
from fusegrad.eager.errors import user_spot
from fusegrad.eager.op import wrap
from fusegrad.eager.tensor import Tensor
from fusegrad.tracer.graph import Equation, Graph, Value
from fusegrad.tracer.hosts import GradientOf, at


class Commit:
    """Writes what a path leaves.

    targets: where the written tensors are: a leaf of the call, captured, or the `.grad` of one.
    """

    def __init__(self, path: Path) -> None:
        left = path.capture.left
        hosts = {h.value: h for h, _ in path.hosts}
        self.path = path
        self.targets: list[int | Captured | GradientOf] = []
        for value, _ in left.writes:
            if value in path.argument_leaves:
                self.targets.append(path.argument_leaves[value])
            else:
                host = path.captured.get(value) or hosts[value]
                assert isinstance(host, (Captured, GradientOf))
                self.targets.append(host)
        self.program = _copying(path.left[: len(left.writes)]) if left.writes else None
        self._changes: list[int] = []
        self._bounds: list[tuple[int, int]] = []

    def tensors(self, leaves: Sequence[Any]) -> list[Tensor] | None:
        """The tensors that are written; None where they must not be.

        They must be writable, and lie apart from each other and from whatever else the call reads: the
        recorded run saw such tensors, the present ones may overlap.
        """
        if self.program is None:
            return []
        tensors = []
        for target in self.targets:
            tensor = leaves[target] if isinstance(target, int) else _tensor(target, leaves)
            if tensor is None or not tensor.array.flags.writeable:
                return None
            tensors.append(tensor)
        captured = self.path.captured.values()
        arrays = [c.array() for c in captured]
        changes = [c.changes for c in captured]
        if changes != self._changes:
            self._bounds = sorted(_bounds(a) for a in arrays if a is not None and a.size)
            self._changes = changes if _apart(self._bounds) else []
            if not self._changes:
                return None
        others = [leaves[i].array for i in self.path.argument_leaves.values()]
        others += [t.array for t, s in zip(tensors, self.targets, strict=True) if isinstance(s, GradientOf)]
        return tensors if not others or _apart([*self._bounds, *map(_bounds, others)]) else None

    def run(self, finals: Sequence[np.ndarray], tensors: Sequence[Tensor], leaves: Sequence[Any]) -> None:
        """Write `finals` into the memory of `tensors`, and set gradients."""
        if self.program is not None:
            spot = user_spot()
            for tensor in tensors:
                views.tell_readers(tensor.version)
                # Before the write: nobody must find memory changed whose version is not.
                views.count_write(tensor, spot)
            arrays = [a if a.flags.c_contiguous else np.array(a, order="C") for a in finals[: len(tensors)]]
            self.program.run([*arrays, *(t.array for t in tensors)])
        gradients = iter(finals[len(tensors) :])
        left = self.path.capture.left
        for place, value in left.gradients:
            owner = at(place, leaves)
            array = None if value is None else next(gradients)
            if owner is not None:
                owner.grad = None if array is None else wrap(_own(array))
        for method in left.after:
            call = method()
            if call is not None:
                call()


def _own(array: np.ndarray) -> np.ndarray:
    """The array, or a copy where it is a view of another result's memory."""
    return array if array.base is None or array.flags.c_contiguous else np.array(array)


def _tensor(source: Captured | GradientOf, leaves: Sequence[Any]) -> Tensor | None:
    if isinstance(source, Captured):
        return source.reference()
    owner = at(source.place, leaves)
    return None if owner is None else owner.grad


def _copying(values: Sequence[Value]) -> Program:
    """A program that copies its first inputs into the memory of the others."""
    finals = [Value(f"final{i}", v.type) for i, v in enumerate(values)]
    targets = [Value(f"target{i}", v.type) for i, v in enumerate(values)]
    copies = [Value(f"copy{i}", v.type) for i, v in enumerate(values)]
    equations = tuple(Equation(clone_op, (f,), {}, (c,)) for f, c in zip(finals, copies, strict=True))
    graph = Graph((*finals, *targets), equations, tuple(copies))
    return Program(graph, into=dict(zip(copies, targets, strict=True))).finish()


def _bounds(array: np.ndarray) -> tuple[int, int]:
    """The first address of an array's memory, and the one behind its last."""
    start = data_address(array)
    if array.flags.c_contiguous:
        return start, start + array.nbytes
    low = sum(min(0, s * (n - 1)) for n, s in zip(array.shape, array.strides, strict=True))
    high = sum(max(0, s * (n - 1)) for n, s in zip(array.shape, array.strides, strict=True))
    return start + low, start + high + array.itemsize


def _apart(bounds: list[tuple[int, int]]) -> bool:
    """Whether no two of these stretches of memory overlap."""
    ordered: Iterator[tuple[int, int]] = iter(sorted(b for b in bounds if b[1] > b[0]))
    reach = -1
    for start, end in ordered:
        if start < reach:
            return False
        reach = end
    return True
