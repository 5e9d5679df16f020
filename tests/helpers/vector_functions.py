"""The vector functions beside mpmath: arguments dense and adversarial, and errors in ulp.

Used by tests/compiler/codegen/test_vector_math.py and tools/measure_vector_math.py.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from mpmath import mp

from fusegrad.compiler.codegen import vector_math
from fusegrad.compiler.kernel.dtypes import DTYPES
from fusegrad.compiler.llvm import llvm_jit
from fusegrad.compiler.llvm.ir_writer import Writer, vector_type
from fusegrad.compiler.llvm.target import host
from fusegrad.compiler.llvm.tasks import function, module

SHORT = {"float32": "f32", "float64": "f64"}
OF_TWO = ("pow", "hypot", "atan2")
_BITS = 160  # of the reference
_numbers = itertools.count()


# The functions as native code.


@functools.cache
def compiled(name: str, dtype: str, lanes: int, avx512: bool = True) -> Compiled:
    """The function on vectors of `lanes` (0: scalars); with AVX-512's own instructions, if there are any."""
    return Compiled(name, dtype, lanes, avx512)


def full_lanes(dtype: str) -> int:
    """How many lanes this machine's vectors have."""
    return host().lanes(np.dtype(dtype).itemsize)


class Compiled:
    """A native loop that applies one function.

    symbol: its name; text, assembly: its LLVM IR and machine code, with those of what it calls.
    """

    def __init__(self, name: str, dtype: str, lanes: int, avx512: bool = True) -> None:
        short, self.step = SHORT[dtype], max(lanes, 1)
        element = DTYPES[short].register
        target = dataclasses.replace(host(), avx512=avx512 and host().avx512)
        w = Writer(set(), target)
        arity = 2 if name in OF_TWO else 1
        inputs = [f"%x{i}" for i in range(arity)]
        with w.loop("0", "%n", str(self.step)) as index:
            operands = []
            for pointer in inputs:
                address = w.offset(pointer, index, element)
                text = f"load {vector_type(element, lanes)}, ptr {address}, align 4"
                operands.append(w.emit(text, short, lanes))
            result = vector_math.call(w, name, operands)
            w.line(f"store {result}, ptr {w.offset('%out', index, element)}, align 4")
        self.symbol = symbol = f"{name}_{short}_{lanes}_{next(_numbers)}"
        pointers = ", ".join(f"ptr noalias {pointer}" for pointer in (*inputs, "%out"))
        self.text = module(
            w.declared, [function(f"void @{symbol}({pointers}, i64 %n)", w, target.function_attributes)]
        )
        (address,) = llvm_jit.compile_module(self.text, [symbol])
        self.assembly: str = llvm_jit.assembly(self.text)
        self._run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (arity + 1), ctypes.c_int64)(address)

    def __call__(self, *arrays: np.ndarray) -> np.ndarray:
        size = arrays[0].size
        room = -(-size // self.step) * self.step
        padded = [np.concatenate([a, np.ones(room - size, a.dtype)]) for a in arrays]
        out = np.empty(room, arrays[0].dtype)
        self._run(*(a.ctypes.data for a in (*padded, out)), room)
        return out[:size]


# The truth.

MPMATH: dict[str, Callable[..., Any]] = {
    "exp": mp.exp,
    "exp2": lambda x: mp.power(2, x),
    "expm1": mp.expm1,
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "sinh": mp.sinh,
    "cosh": mp.cosh,
    "tanh": lambda x: mp.sign(x) if abs(x) > 100 else mp.tanh(x),
    "log": mp.log,
    "log2": lambda x: mp.log(x, 2),
    "log10": mp.log10,
    "log1p": mp.log1p,
    "pow": mp.power,
    "hypot": mp.hypot,
    "sin": mp.sin,
    "cos": mp.cos,
    "tan": mp.tan,
    "asin": mp.asin,
    "acos": mp.acos,
    "atan": mp.atan,
    "atan2": mp.atan2,
    "erf": mp.erf,
    # mpmath fails for tiny and for large numbers.
    "erfc": lambda x: mp.erfc(x) if 1e-30 < abs(x) < 40 else 1 - x if abs(x) < 1 else 1 - mp.sign(x),
    "erfinv": mp.erfinv,
    "lgamma": lambda x: mp.re(mp.loggamma(x)),
    "digamma": mp.digamma,
}


def exact(name: str, dtype: str, arrays: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The true values: rounded to the dtype, and what that lost."""
    rounded = np.empty(arrays[0].size, dtype)
    lost = np.empty(arrays[0].size, np.float64)
    reference = MPMATH[name]
    with mp.workprec(_BITS), np.errstate(over="ignore"):
        for i, arguments in enumerate(zip(*(a.tolist() for a in arrays), strict=True)):
            value = reference(*map(mp.mpf, arguments))
            rounded[i] = _nearest(value, dtype)
            finite = np.isfinite(rounded[i])
            lost[i] = float(value - mp.mpf(float(rounded[i]))) if finite else 0.0
    return rounded, lost


def _nearest(value: Any, dtype: str) -> float:
    """The nearest number of the dtype, in one rounding, denormals included."""
    digits, least = (24, -149) if dtype == "float32" else (53, -1074)
    if not value or not mp.isfinite(value):
        return float(value)
    unit = max(mp.frexp(value)[1] - digits, least)
    whole = mp.nint(mp.ldexp(value, -unit))
    return float(mp.ldexp(whole, unit)) if mp.mag(whole) + unit <= 1024 else float(mp.sign(value)) * np.inf


def errors(name: str, dtype: str, arrays: list[np.ndarray], results: np.ndarray) -> np.ndarray:
    """|result - truth| in units in the last place of the truth; infinite where only one is finite."""
    rounded, lost = exact(name, dtype, arrays)
    with np.errstate(all="ignore"):
        unit = np.spacing(np.abs(rounded)).astype(np.float64)
        error = np.abs((results.astype(np.float64) - rounded.astype(np.float64)) - lost) / unit
    same = (results == rounded) | (np.isnan(results) & np.isnan(rounded))
    return np.where(np.isfinite(rounded) & np.isfinite(results), error, np.where(same, 0.0, np.inf))


# Arguments.

# Where a function is looked at most closely, and where its code takes another way.
_INTERVALS = {
    "exp": [(-1, 1), (-110, 92), (-750, 712)],
    "exp2": [(-1, 1), (-152, 130), (-1080, 1026)],
    "expm1": [(-1e-3, 1e-3), (-1, 1), (-45, 92), (-1, 712)],
    "sigmoid": [(-1, 1), (-20, 40), (-110, 90), (-750, 40)],
    "sinh": [(-1e-3, 1e-3), (-1, 1), (-45, 45), (-90, 90), (-711, 711)],
    "cosh": [(-1e-3, 1e-3), (-1, 1), (-45, 45), (-90, 90), (-711, 711)],
    "tanh": [(-1e-3, 1e-3), (-1, 1), (-12, 12), (-25, 25)],
    "log": [(0, 2), (0.7, 1.5), (0.99, 1.01), (0, 1e3)],
    "log2": [(0, 2), (0.7, 1.5), (0.99, 1.01), (0, 1e3)],
    "log10": [(0, 2), (0.7, 1.5), (0.99, 1.01), (0, 1e3)],
    "log1p": [(-1, 1), (-1e-3, 1e-3), (-0.5, 0.5), (0, 1e3)],
    "sin": [(-4, 4), (-100, 100), (-1.1e5, 1.1e5), (-2e9, 2e9)],
    "cos": [(-4, 4), (-100, 100), (-1.1e5, 1.1e5), (-2e9, 2e9)],
    "tan": [(-4, 4), (-100, 100), (-1.1e5, 1.1e5), (-2e9, 2e9)],
    "asin": [(-1, 1), (0.49, 0.51), (-1, -0.99), (0.99, 1)],
    "acos": [(-1, 1), (0.49, 0.51), (-1, -0.99), (0.99, 1)],
    "atan": [(-1, 1), (-10, 10), (0.4, 0.43), (2.3, 2.5), (0.99, 1.01), (0, 1e3)],
    "erf": [(-1, 1), (0.9, 1.1), (-6, 6)],
    "erfc": [(-1, 1), (0.4, 0.6), (-6, 11), (0, 28)],
    "erfinv": [(-1, 1), (-0.1, 0.1), (0.99, 1), (-1, -0.9), (0.9966, 0.9967)],
    "lgamma": [(0, 1), (1e-4, 3), (0.9, 1.1), (1.9, 2.1), (0, 9), (7, 200), (0, 1e6)],
    "digamma": [(0, 1), (1e-4, 3), (1.4, 1.5), (0, 9), (7, 200), (0, 1e6)],
}
# Only numbers of these signs have a value.
_POSITIVE = ("log", "log2", "log10", "lgamma", "digamma")
_WITHIN_ONE = ("asin", "acos", "erfinv")
# Doubles nearest to multiples of pi / 2, and floats likewise: what reduction has most to cancel for.
_HARD_ANGLES = [
    6381956970095103 * 2.0**797, 5.319372648326541e255, 1.5707963267948966, 3.141592653589793,
    11.0, 22.0, 355.0, 103993.0, 710.0, 52174.0, 573204.0, 16367173 * 2.0**72, 1.2e17, 1e22, 1e300,
    -6381956970095103 * 2.0**797, 8.7e37, 3e38,
]  # fmt: skip


def arguments(name: str, dtype: str, count: int, seed: int = 1) -> list[np.ndarray]:
    """About `count` arguments (or pairs) that have a finite value or overflow."""
    generator = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        if name in OF_TWO:
            pairs = _pairs(name, dtype, count, generator)
            return [np.ascontiguousarray(part) for part in pairs]
        values = _singles(name, dtype, count, generator).astype(dtype)
    values = values[np.isfinite(values)]
    if name in _POSITIVE:
        values = np.abs(values)
        values = values[values > 0]
    elif name in _WITHIN_ONE:
        values = values[np.abs(values) <= 1]
        if name == "erfinv":
            values = values[np.abs(values) < 1]
    elif name == "log1p":
        values = values[values > -1]
    return [values]


def _spread(dtype: str, count: int, generator: np.random.Generator) -> np.ndarray:
    """Numbers of all magnitudes, denormals included, and both signs."""
    limits = np.finfo(dtype)
    exponents = generator.uniform(np.log2(limits.smallest_subnormal), np.log2(limits.max), count)
    return np.exp2(exponents) * generator.choice([-1.0, 1.0], count)


def _singles(name: str, dtype: str, count: int, generator: np.random.Generator) -> np.ndarray:
    intervals = _INTERVALS[name]
    share = count // (len(intervals) + 2)
    parts = [_spread(dtype, share, generator)]
    for low, high in intervals:
        parts.append(generator.uniform(low, high, share))
        ends = np.array([low, high], dtype)
        parts += [np.nextafter(ends, np.array(to, dtype)) for to in (-np.inf, np.inf)]
        parts.append(ends)
    if name in ("sin", "cos", "tan"):
        multiples = np.concatenate([np.arange(-60, 61), generator.integers(1, 2**29, share)])
        parts += [multiples * (np.pi / 2), np.array(_HARD_ANGLES)]
    if name in ("asin", "acos", "erfinv"):
        parts.append(1 - np.exp2(generator.uniform(-53, 0, share)))
    if name in ("exp2", "log2"):
        parts.append(np.exp2(np.arange(-140.0, 127.0)) if name == "log2" else np.arange(-149.0, 129.0))
    if name == "digamma":
        root = 1.4616321449683622
        parts.append(root + root * generator.integers(-2000, 2000, share) * np.finfo(dtype).eps)
    if name == "lgamma":
        close = generator.integers(-2000, 2000, share) * np.finfo(dtype).eps
        parts += [1 + close, 2 + close]
    return np.concatenate(parts)


def _pairs(name: str, dtype: str, count: int, generator: np.random.Generator) -> list[np.ndarray]:
    share = count // 5
    limits = np.finfo(dtype)
    if name != "pow":
        size = np.exp2(generator.uniform(np.log2(limits.smallest_subnormal), np.log2(limits.max), share))
        near = size * np.exp2(generator.uniform(-3, 3, share))
        parts = [
            (_spread(dtype, share, generator), _spread(dtype, share, generator)),
            (size * generator.choice([-1, 1], share), near * generator.choice([-1, 1], share)),
            tuple(generator.uniform(-1, 1, (2, share))),
            (generator.uniform(0.41, 0.42, share), np.ones(share)),
            tuple(generator.uniform(-50, 50, (2, share))),
        ]
    else:
        # The exponents that bring the power to a chosen place of the range, ends included.
        top = np.log2(limits.max)
        anything = np.abs(_spread(dtype, share, generator)).astype(dtype).astype(np.float64)
        anything = np.where(np.isfinite(anything) & (anything > 0), anything, 3.0)
        everywhere = generator.uniform(-top - limits.nmant - 1, top + 1, share) / np.log2(anything)
        close = 1 + generator.choice([-1, 1], share) * np.exp2(generator.uniform(-limits.nmant, -2, share))
        close = close.astype(dtype).astype(np.float64)
        parts = [
            (generator.uniform(0, 10, share), generator.uniform(-10, 10, share)),
            (anything, everywhere),
            (close, generator.uniform(-top, top, share) / np.log2(close)),
            (-generator.integers(1, 50, share), generator.integers(-30, 30, share)),
            (anything, (top + generator.uniform(-1e-3, 1e-3, share)) / np.log2(anything)),
        ]
    both = [np.concatenate(side).astype(dtype) for side in zip(*parts, strict=True)]
    usable = np.isfinite(both[0]) & np.isfinite(both[1]) & (both[0] != 0) & (both[1] != 0)
    return [side[usable] for side in both]
