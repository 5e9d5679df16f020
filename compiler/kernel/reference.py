"""Running printed kernels in Python: slow, and right by reading. For tests and for debugging.

The text of a kernel is a Python function; here are the names that it uses.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fusegrad.compiler.kernel.bound_kernel import BoundKernel
from fusegrad.compiler.kernel.ir import ELEMENTARY
from fusegrad.compiler.kernel.scalar import identity as identity_number
from fusegrad.eager.core.dtypes import FROM_SHORT, DType, converted
from fusegrad.eager.core.families import Pointwise
from fusegrad.eager.core.op import REGISTRY


def _loop(*sizes: int) -> Iterator[Any]:
    """The indices of a loop nest: numbers for one axis, tuples for several."""
    return iter(range(sizes[0])) if len(sizes) == 1 else itertools.product(*map(range, sizes))


class _Cast:
    """A dtype's name as kernels use it: to convert a number, and to say what an accumulator is of."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype

    def __call__(self, number: Any) -> Any:
        return converted(np.asarray(number), self.dtype.numpy)[()]


def _identity(combine: str, cast: _Cast, *sizes: int) -> Any:
    """What an accumulator starts with; an array with `sizes`."""
    number = cast(identity_number(combine, cast.dtype.short))
    return np.full(sizes, number) if sizes else number


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _by_eager(name: str) -> Callable[[Any], Any]:
    """What eager calls, for one number."""
    op = REGISTRY[name]
    assert isinstance(op, Pointwise)
    return lambda x: op.numpy(np.asarray(x))[()]


# Where NumPy's name differs from the kernel's.
_NUMPY = {
    "exp_nonpositive": "exp",
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "atan2": "arctan2",
    "pow": "power",
    "round": "rint",
}
_NUMPY |= {"not_": "invert"}
_OWN: dict[str, Callable[..., Any]] = {
    "sigmoid": _sigmoid,
    **{name: _by_eager(name) for name in ("erf", "erfc", "erfinv", "lgamma", "digamma")},
    "select": lambda condition, x, y: x if condition else y,
}
_FUNCTIONS = (*ELEMENTARY, *"abs sign signbit sqrt floor ceil trunc round not_ maximum minimum".split())
NAMES: dict[str, Any] = {
    **{short: _Cast(dtype) for short, dtype in FROM_SHORT.items()},
    **dict.fromkeys(("parallel", "chunked", "vector", "serial", "unrolled"), _loop),
    **{name: getattr(np, _NUMPY.get(name, name)) for name in _FUNCTIONS if name not in _OWN},
    **_OWN,
    "inf": math.inf,
    "nan": math.nan,
    "identity": _identity,
}


def run_kernel(bound: BoundKernel, memory: Callable[[Any], np.ndarray]) -> None:
    """Run the printed text of a kernel.

    memory: gives for a value the (one-dimensional or row-major) array that holds its base; the
    arrays of outputs are written.
    """
    names = dict(NAMES)
    exec(compile(bound.kernel.text, "<kernel>", "exec"), names)
    numbers = [
        FROM_SHORT[dtype].numpy.type(v)
        for v, (_, dtype) in zip(bound.numbers, bound.kernel.numbers, strict=True)
    ]
    buffers = [
        Seen(memory(a.value).reshape(-1), a.offset, a.strides) for a in (*bound.inputs, *bound.outputs)
    ]
    with np.errstate(all="ignore"):
        names["kernel"](*bound.sizes, *numbers, *buffers)


class Seen:
    """An array as a kernel indexes it; refuses to touch what lies outside of the array.

    memory: one-dimensional; offset, strides: in elements.
    """

    def __init__(self, memory: np.ndarray, offset: int, strides: Sequence[int]) -> None:
        self.memory, self.offset, self.strides = memory, offset, strides

    def _place(self, index: Any) -> int:
        indices = index if isinstance(index, tuple) else (index,)
        place = self.offset + sum(int(i) * s for i, s in zip(indices, self.strides, strict=True))
        if not 0 <= place < self.memory.size:
            raise IndexError(f"a kernel touches element {place} of {self.memory.size}")
        return place

    def __getitem__(self, index: Any) -> Any:
        return self.memory[self._place(index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.memory[self._place(index)] = value
