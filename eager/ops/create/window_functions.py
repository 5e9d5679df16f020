"""Windows for short stretches of a signal: Hann's, Hamming's, Blackman's, Bartlett's, Kaiser's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.places.device import on_cpu
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.create import creation
from fusegrad.eager.ops.declare import public


def _window(
    name: str, length: int, periodic: bool, curve: Callable[[np.ndarray], np.ndarray], options: dict[str, Any]
) -> Tensor:
    """A window of a curve over 0 to 1; periodic: the first number comes again after the last one.

    Raises RuntimeError for a negative length, or a dtype that is not floating-point.
    """
    on_cpu(options.pop("device", None))
    dtype = options.pop("dtype", None)
    kind = dtypes.default_float() if dtype is None else dtypes.as_dtype(dtype)
    for known in ("layout", "pin_memory"):
        options.pop(known, None)
    needs_grad = options.pop("requires_grad", False)
    if options:
        raise failure(TypeError, f"{name}() got an unexpected keyword argument {next(iter(options))!r}")
    if not kind.is_floating_point:
        raise failure(RuntimeError, f"{name} expects floating point dtypes, got: {kind.name}")
    if length < 0:
        raise failure(RuntimeError, f"{name} requires non-negative window_length, got window_length={length}")
    steps = length if periodic else length - 1
    values = np.ones(length) if length < 2 else curve(np.arange(length) / steps)
    return creation.tensor(values, dtype=kind, requires_grad=needs_grad)


def _waves(*weights: float) -> Callable[[np.ndarray], np.ndarray]:
    """A sum of cosines of whole frequencies."""
    return lambda x: sum(  # type: ignore[return-value]
        weight * np.cos(2 * np.pi * k * x) for k, weight in enumerate(weights)
    )


@public
def hann_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """Hann's window: one wave of a cosine. Source: `torch.hann_window`.

    >>> import fusegrad as fg
    >>> fg.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window("hann_window", window_length, periodic, _waves(0.5, -0.5), options)


@public
def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, **options: Any
) -> Tensor:
    """Hamming's window: a cosine that does not reach 0. Source: `torch.hamming_window`."""
    return _window("hamming_window", window_length, periodic, _waves(alpha, -beta), options)


@public
def blackman_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """Blackman's window: two waves. Source: `torch.blackman_window`."""
    return _window("blackman_window", window_length, periodic, _waves(0.42, -0.5, 0.08), options)


@public
def bartlett_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """Bartlett's window: a triangle. Source: `torch.bartlett_window`."""
    return _window("bartlett_window", window_length, periodic, lambda x: 1 - np.abs(2 * x - 1), options)


@public
def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, **options: Any) -> Tensor:
    """Kaiser's window: a Bessel function, the higher `beta` the narrower. Source: `torch.kaiser_window`."""
    return _window(
        "kaiser_window",
        window_length,
        periodic,
        lambda x: np.i0(beta * np.sqrt(np.maximum(1 - (2 * x - 1) ** 2, 0))) / np.i0(beta),
        options,
    )
