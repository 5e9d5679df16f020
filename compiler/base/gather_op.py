"""The op `fetch`: a tensor of elements found elsewhere in another, by arithmetic or by index tensors.

Gathers, shifted reads, pads and concatenations all come down to it (`lowering` says how), so that
they are index arithmetic in the kernel of whatever reads them. It exists in the compiler only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.eager.core.op import Op, Params, TensorType
from fusegrad.tracer.ir.graph import Equation


class Along(NamedTuple):
    """Where the elements are along one dimension of what is fetched from.

    size: of that dimension. by: the number of the index tensor that says where; without one it is
    `start + step * i`, i running along the dimension `dim` of the result (None: `start` everywhere).
    """

    size: int
    dim: int | None = None
    start: int = 0
    step: int = 1
    by: int | None = None

    def tests(self, shape: tuple[int, ...]) -> tuple[bool, bool]:
        """Whether a place may lie before the first element, and behind the last."""
        if self.by is not None:
            return True, True
        last = self.start if self.dim is None else self.start + self.step * (shape[self.dim] - 1)
        return self.start < 0, last >= self.size


class Fetch(Op):
    """`x` at the places that `where` says, `other` (a number or tensor) where there is no such place.

    Inputs: x, other, then the index tensors, which broadcast to the result. Params: `shape` of the
    result, `where`: an `Along` for each dimension of x.
    """

    family = "fetch"

    def __init__(self) -> None:
        # Not in the registry of ops: eager does not know it.
        self.name, self.arguments, self.variadic = "fetch", ("operands",), True
        self.rules, self.saves, self._grad_name = None, False, "FetchBackward0"

    def infer(self, types: Sequence[Any], params: Params) -> TensorType:
        return TensorType(params["shape"], types[0].dtype)

    def evaluate(self, args: Sequence[Any], params: Params) -> np.ndarray:
        x, other, *indices = (getattr(a, "array", a) for a in args)
        shape, where = params["shape"], params["where"]
        inside = np.ones(shape, bool)
        places = []
        for along in where:
            place: Any
            if along.by is not None:
                place = np.asarray(indices[along.by], np.int64)
            elif along.dim is None:
                place = np.int64(along.start)
            else:
                trailing = (1,) * (len(shape) - along.dim - 1)
                counted = np.arange(shape[along.dim]).reshape(-1, *trailing)
                place = along.start + along.step * counted
            inside = inside & (place >= 0) & (place < along.size)
            places.append(place)
        result = np.broadcast_to(np.asarray(other, x.dtype), shape).copy()
        chosen = tuple(np.broadcast_to(p, shape)[inside] for p in places)
        result[inside] = x[chosen] if chosen else x
        return result


FETCH = Fetch()


def affine(where: Sequence[Along]) -> list[tuple[int, Along]]:
    """The dimensions (by number) whose places are reached by steps; not those of one element."""
    return [(d, a) for d, a in enumerate(where) if a.by is None and a.size != 1]


def indexed(where: Sequence[Along]) -> list[tuple[int, int]]:
    """The dimensions (by number) whose places index tensors say, and the numbers of these."""
    return [(d, a.by) for d, a in enumerate(where) if a.by is not None]


def tested_dims(equation: Equation) -> set[int]:
    """The dimensions of the result along which the kernel has to see where it is."""
    shape = equation.params["shape"]
    return {a.dim for a in equation.params["where"] if a.dim is not None and any(a.tests(shape))}
