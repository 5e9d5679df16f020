"""What a replayed call does to the world once its last guard has passed: memory written, `.grad` set.

All memory is written by one native call, which nothing interrupts: either everything is as eager would
have left it, or nothing was touched.
"""

from __future__ import annotations

import weakref
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
        self._apart: list[weakref.ref[np.ndarray]] = []
        self._bounds: list[tuple[int, int]] = []

    def tensors(self, leaves: Sequence[Any]) -> list[Tensor]:
        """The tensors that are written."""
        return [leaves[t] if isinstance(t, int) else _tensor(t, leaves) for t in self.targets]

    def allowed(self, leaves: Sequence[Any]) -> bool:
        """Whether memory may be written: it is nobody else's among what the call reads, and writable.

        The recorded run saw tensors that lie apart; the present ones may overlap.
        """
        if self.program is None:
            return True
        written = [t.array for t in self.tensors(leaves)]
        if not all(array.flags.writeable for array in written):
            return False
        captured = [a for c in self.path.captured.values() if (a := c.array()) is not None]
        if len(captured) != len(self._apart) or any(
            r() is not a for r, a in zip(self._apart, captured, strict=True)
        ):
            self._apart = []
            if not _apart([_bounds(a) for a in captured]):
                return False
            self._apart = [weakref.ref(a) for a in captured]
            self._bounds = sorted(_bounds(a) for a in captured if a.size)
        others = [leaves[i].array for i in self.path.argument_leaves.values()]
        others += [_tensor(s, leaves).array for s in self.targets if isinstance(s, GradientOf)]
        return not others or _apart([*self._bounds, *(_bounds(a) for a in others)])

    def run(self, finals: Sequence[np.ndarray], leaves: Sequence[Any]) -> None:
        """Write `finals` into memory, and set gradients."""
        left = self.path.capture.left
        count = len(left.writes)
        if self.program is not None:
            tensors, spot = self.tensors(leaves), user_spot()
            for tensor in tensors:
                views.tell_readers(tensor.version)
                # Before the write: nobody must find memory changed whose version is not.
                views.count_write(tensor, spot)
            arrays = [np.ascontiguousarray(a).reshape(a.shape) for a in finals[:count]]
            self.program.run([*arrays, *(t.array for t in tensors)])
        gradients = iter(finals[count:])
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


def _tensor(source: Captured | GradientOf, leaves: Sequence[Any]) -> Tensor:
    tensor = source.reference() if isinstance(source, Captured) else at(source.place, leaves)
    assert tensor is not None, "the run has read it"
    if isinstance(source, GradientOf):
        assert tensor.grad is not None
        return tensor.grad
    return tensor


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
