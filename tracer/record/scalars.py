"""Python numbers next to tensors, as inputs of compiled code: in which dtype an op computes with them.

A number of Python does not tell an op's result type where it stands next to floats: a float32 tensor times a
float is float32. So compiled code takes it as a value of their dtype without dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad.eager.core.families import Elementwise
from fusegrad.eager.core.op import Op, wrap
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.observe.symbols import NUMBERS, Scalar, Symbol

if TYPE_CHECKING:
    from fusegrad.tracer.record.recorder import Recorder

# Up to where floats take an integer as it is, by their bytes.
_EXACT = {2: 2**11, 4: 2**24, 8: 2**53}


def dtype_of_numbers(op: Op, args: Sequence[Any]) -> np.dtype | None:
    """The dtype in which the op computes with Python numbers among its arguments; None where they may decide
    more than values.
    """
    if not isinstance(op, Elementwise) or op.family != "elementwise":
        return None
    floats = {a.array.dtype for a in args if isinstance(a, Tensor) and a.array.dtype.kind == "f"}
    return floats.pop() if len(floats) == 1 else None


def bound_of(dtype: np.dtype) -> int:
    """Below which magnitude a number is the same in Python and in the dtype, but for rounding."""
    return _EXACT[dtype.itemsize]


def is_scalar(number: Any, dtype: np.dtype) -> bool:
    """Whether a Python number may be an input of that dtype."""
    return type(number) in NUMBERS and abs(number) < bound_of(dtype)


class Scalars:
    """The numbers that a recorded run has computed with, each as a tensor that stands for it in the graph."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._tensors: dict[tuple[Symbol, np.dtype], Tensor] = {}

    def operands(self, op: Op, args: Sequence[Any]) -> Sequence[Any]:
        """The arguments of an op, with tensors for the numbers that a replay comes by anew. Where it cannot
        be an input, a number must be what it is.
        """
        numbers = self._recorder.numbers
        dtype = dtype_of_numbers(op, args)
        found = [*args]
        for place, value in enumerate(args):
            if isinstance(value, Tensor):
                continue
            symbol = numbers.symbol_of(value)
            if symbol is None or dtype is None or not is_scalar(value, dtype):
                numbers.look(value)
            else:
                found[place] = self._tensor(symbol, value, dtype)
                numbers.arrived.add(id(value))
        return found

    def _tensor(self, symbol: Symbol, number: Any, dtype: np.dtype) -> Tensor:
        known = self._tensors.get((symbol, dtype))
        if known is None:
            known = self._tensors[symbol, dtype] = wrap(np.array(number, dtype))
            self._recorder.host(known, "number", lambda value: Scalar(value, symbol))
        return known
