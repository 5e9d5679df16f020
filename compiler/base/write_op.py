"""The op `write`: a part of a tensor is written where it lies, and the tensor is what comes out.

Its result lies in the memory of what it is written into, which nobody reads any more: a program has it only
where that is seen to (`program/donation.py`). It exists in the compiler only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.compiler.base.gather_op import Along
from fusegrad.eager.core.op import Op, Params, TensorType


class Write(Op):
    """`x` with `value` at the places that `where` says.

    Inputs: x, value, then an index tensor or none. Params: `where`, an `Along` for each dimension of x, whose
    `dim` is one of `value`'s, each of which stands in one of them. Where an index says how far to go
    (`by`), it has one dimension, `dim`, and numbers from -size to size - 1.
    """

    family = "write"
    refuses = "biufc"

    def __init__(self) -> None:
        # Not in the registry of ops: eager does not know it.
        self.name, self.arguments, self.variadic = "write", ("operands",), True
        self.rules, self.saves, self._grad_name = None, False, "WriteBackward0"

    def infer(self, types: Sequence[Any], params: Params) -> TensorType:
        found: TensorType = types[0]
        return found

    def evaluate(self, args: Sequence[Any], params: Params) -> np.ndarray:
        x, value, *indices = (np.asarray(getattr(a, "array", a)) for a in args)
        result, places = np.array(x), []
        for along in params["where"]:
            place: Any = np.int64(0)
            if along.dim is not None:
                place = np.arange(value.shape[along.dim]) if along.by is None else indices[along.by]
                if along.by is not None and not ((-along.size <= place) & (place < along.size)).all():
                    raise IndexError(f"an index is out of bounds for size {along.size}")
                place = np.where(place < 0, place + along.size, place)
                place = place.reshape(-1, *(1,) * (value.ndim - along.dim - 1))
            places.append(along.start + along.step * place)
        result[tuple(places)] = value
        return result


WRITE = Write()


def inside(outer: Sequence[Along], inner: Sequence[Along]) -> list[Along]:
    """Where something lies in the whole that lies so (`inner`) in a part that lies so in it (`outer`)."""
    found = []
    for along in outer:
        if along.dim is not None:
            part = inner[along.dim]
            start, step = along.start + along.step * part.start, along.step * part.step
            along = Along(part.size, part.dim, start, step, part.by)
        found.append(along)
    return found
