"""The op `assemble`: a tensor goes together from pieces, of which each is one index along some dimensions.

What was computed apart along short dimensions (`lower/short_axes.py`) is stored so where somebody needs the
whole: a kernel stores each piece at its place, and nothing is copied. It exists in the compiler only.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.op import Op, Params, TensorType


class Assemble(Op):
    """Pieces put together along `dims`, in which each has one element; they come in row-major order.

    Params: `shape` of the result, `dims`.
    """

    family = "assemble"

    def __init__(self) -> None:
        # Not in the registry of ops: eager does not know it.
        self.name, self.arguments, self.variadic = "assemble", ("pieces",), True
        self.rules, self.saves, self._grad_name = None, False, "AssembleBackward0"

    def infer(self, types: Sequence[Any], params: Params) -> TensorType:
        return TensorType(params["shape"], types[0].dtype)

    def evaluate(self, args: Sequence[Any], params: Params) -> np.ndarray:
        shape, dims = params["shape"], params["dims"]
        pieces = [np.asarray(getattr(a, "array", a)) for a in args]
        result = np.empty(shape, pieces[0].dtype)
        for piece, index in zip(pieces, places(shape, dims), strict=True):
            at: list[Any] = [slice(None)] * len(shape)
            for dim, number in zip(dims, index, strict=True):
                at[dim] = slice(number, number + 1)
            result[tuple(at)] = piece
        return result


ASSEMBLE = Assemble()


def places(shape: Sequence[int], dims: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The indices along `dims`, in the order in which pieces come."""
    return itertools.product(*(range(shape[d]) for d in dims))
