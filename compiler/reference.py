"""Running printed kernels in Python: slow, and right by reading. For tests and for debugging.

The text of a kernel is a Python function; here are the names that it uses.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fusegrad.compiler.kernel import ELEMENTARY
from fusegrad.compiler.loops import Argument, BoundKernel
from fusegrad.compiler.scalar import identity as identity_number
from fusegrad.eager.dtypes import FROM_SHORT


def _loop(*sizes: int) -> Iterator[Any]:
    """The indices of a loop nest: numbers for one axis, tuples for several."""
    return iter(range(sizes[0])) if len(sizes) == 1 else itertools.product(*map(range, sizes))


def _identity(combine: str, dtype: type, *sizes: int) -> Any:
    """What an accumulator starts with; an array with `sizes`."""
    short = next(s for s, d in FROM_SHORT.items() if d.numpy.type is dtype)
    number = dtype(identity_number(combine, short))
    return np.full(sizes, number) if sizes else number


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _erf(x: Any) -> Any:
    return type(x)(math.erf(x))


# Where NumPy's name differs from the kernel's.
_NUMPY = {
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
    "erf": _erf,
    "select": lambda condition, x, y: x if condition else y,
}
_FUNCTIONS = (*ELEMENTARY, *"abs sign sqrt floor ceil trunc round not_ maximum minimum".split())
NAMES: dict[str, Callable[..., Any]] = {
    **{short: dtype.numpy.type for short, dtype in FROM_SHORT.items()},
    **dict.fromkeys(("parallel", "chunked", "vector", "serial"), _loop),
    **{name: getattr(np, _NUMPY.get(name, name)) for name in _FUNCTIONS if name not in _OWN},
    **_OWN,
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
    sizes = dict(zip(bound.kernel.axes, bound.sizes, strict=True))
    buffers = [
        _seen(memory(argument.value), argument, [sizes[a] for a in buffer.axes])
        for buffer, argument in zip(
            (*bound.kernel.inputs, *bound.kernel.outputs), (*bound.inputs, *bound.outputs), strict=True
        )
    ]
    with np.errstate(all="ignore"):
        names["kernel"](*bound.sizes, *numbers, *buffers)


def _seen(array: np.ndarray, argument: Argument, sizes: Sequence[int]) -> np.ndarray:
    """The array as the kernel indexes it."""
    flat = array.reshape(-1)[argument.offset :]
    strides = [s * array.itemsize for s in argument.strides]
    return np.lib.stride_tricks.as_strided(flat, sizes, strides)
