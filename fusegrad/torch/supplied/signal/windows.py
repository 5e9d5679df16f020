"""Windows for stretches of a signal, symmetric or (`sym=False`) periodic. Laid out as `torch.signal.windows`.

Each takes the number of elements, `sym`, and dtype, layout, device and requires_grad by name. They raise
ValueError for a negative number, other dtypes than float32 and float64, and parameters out of range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import fusegrad
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.tensor import Tensor

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]

_NUTTALL = (0.3635819, 0.4891775, 0.1365995, 0.0106411)


def _made(
    name: str,
    count: int,
    curve: Callable[[np.ndarray], np.ndarray],
    *,
    dtype: Any = None,
    layout: Any = fusegrad.strided,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A window whose elements are `curve` of their places, computed in float64."""
    kind = dtypes.default_float() if dtype is None else dtypes.as_dtype(dtype)
    if count < 0:
        raise failure(ValueError, f"{name} requires non-negative window length, got M={count}")
    if layout is not fusegrad.strided:
        raise failure(ValueError, f"{name} is implemented for strided tensors only, got: {layout}")
    if kind not in (dtypes.float32, dtypes.float64):
        raise failure(ValueError, f"{name} expects float32 or float64 dtypes, got: {kind}")
    values = curve(np.arange(count, dtype=np.float64))
    return fusegrad.tensor(values, dtype=kind, device=device, requires_grad=requires_grad)


def _length(count: int, sym: bool) -> int:
    """The places after which a window begins again."""
    return max(count - 1 if sym else count, 1)


def _check_positive(value: float, what: str) -> None:
    if value <= 0:
        raise failure(ValueError, f"{what} must be positive, got: {value} instead.")


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **options: Any
) -> Tensor:
    """exp(-|n - center| / tau). Source: `torch.signal.windows.exponential`."""
    _check_positive(tau, "Tau")
    if sym and center is not None:
        raise failure(ValueError, "Center must be None for symmetric windows")
    middle = _middle(M, sym) if center is None else center
    return _made("exponential", M, lambda n: np.exp(-np.abs(n - middle) / tau), **options)


def _middle(count: int, sym: bool) -> float:
    return (count if not sym and count > 1 else count - 1) / 2


def cosine(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Half a wave of a sine. Source: `torch.signal.windows.cosine`."""
    whole = M + 1 if not sym and M > 1 else M
    return _made("cosine", M, lambda n: np.sin(np.pi * (n + 0.5) / whole), **options)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Any) -> Tensor:
    """A normal density, 1 in the middle. Source: `torch.signal.windows.gaussian`."""
    _check_positive(std, "Standard deviation")
    middle = _middle(M, sym)
    return _made("gaussian", M, lambda n: np.exp(-(((n - middle) / (std * math.sqrt(2))) ** 2)), **options)


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Any) -> Tensor:
    """A Bessel function, the higher `beta` the narrower. Source: `torch.signal.windows.kaiser`."""
    if beta < 0:
        raise failure(ValueError, f"beta must be non-negative, got: {beta} instead.")
    length = _length(M, sym)

    def curve(n: np.ndarray) -> np.ndarray:
        if M == 1:
            return np.ones(1)
        inside = np.maximum(1 - (2 * n / length - 1) ** 2, 0)
        bessel: np.ndarray = np.i0(beta * np.sqrt(inside)) / np.i0(beta)
        return bessel

    return _made("kaiser", M, curve, **options)


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, **options: Any) -> Tensor:
    """A sum of cosines of whole frequencies, with weights of alternating signs.

    Source: `torch.signal.windows.general_cosine`.
    """
    if not isinstance(a, Iterable):
        raise failure(TypeError, "Coefficients must be a list/tuple")
    weights = [*a]
    if not weights and M > 1:
        raise failure(ValueError, "Coefficients cannot be empty")
    length = _length(M, sym)

    def curve(n: np.ndarray) -> np.ndarray:
        if M == 1:
            return np.ones(1)
        waves = [(-1) ** k * weight * np.cos(2 * np.pi * k * n / length) for k, weight in enumerate(weights)]
        total: np.ndarray = np.sum(waves, axis=0)
        return total

    return _made("general_cosine", M, curve, **options)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Any) -> Tensor:
    """A wave of a cosine over a constant. Source: `torch.signal.windows.general_hamming`."""
    return general_cosine(M, a=[alpha, 1 - alpha], sym=sym, **options)


def hamming(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """A wave of a cosine that does not reach 0. Source: `torch.signal.windows.hamming`."""
    return general_hamming(M, sym=sym, **options)


def hann(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """A wave of a cosine from 0. Source: `torch.signal.windows.hann`."""
    return general_hamming(M, alpha=0.5, sym=sym, **options)


def blackman(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Two waves of cosines. Source: `torch.signal.windows.blackman`."""
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **options)


def nuttall(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """Three waves of cosines. Source: `torch.signal.windows.nuttall`."""
    return general_cosine(M, a=_NUTTALL, sym=sym, **options)


def bartlett(M: int, *, sym: bool = True, **options: Any) -> Tensor:
    """A triangle. Source: `torch.signal.windows.bartlett`."""
    length = _length(M, sym)
    return _made("bartlett", M, lambda n: 1 - np.abs(2 * n / length - 1) if M > 1 else n + 1, **options)
