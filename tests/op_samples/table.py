"""What the samples are made of: the table itself, random arrays, and calls that many ops share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Sample:
    """One call of an op.

    gradients: compare first gradients of the floating-point inputs with PyTorch's.
    second: check second derivatives too.
    random: values are random, so only shapes and dtypes are compared.
    single: PyTorch computes it with single-precision constants even in float64.
    """

    call: Callable[..., Any]
    inputs: list[np.ndarray] = field(default_factory=list)
    gradients: bool = True
    second: bool = True
    random: bool = False
    single: bool = False


SAMPLES: dict[str, list[Sample]] = {}
_random = np.random.default_rng(7)


def f(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Random float64 values; tests cast them to the dtype that they are about."""
    return _random.uniform(low, high, shape)


def i(*shape: int, low: int = 0, high: int = 5) -> np.ndarray:
    """Random int64 values."""
    return _random.integers(low, high, shape)


def b(*shape: int) -> np.ndarray:
    """Random bools."""
    return _random.integers(0, 2, shape).astype(bool)


def add(op: str, call: Callable[..., Any], *inputs: np.ndarray, **options: Any) -> None:
    """Put a sample of `op` in the table."""
    SAMPLES.setdefault(op, []).append(Sample(call, list(inputs), **options))


def unary(names: str, low: float = -2.0, high: float = 2.0, **options: Any) -> None:
    for name in names.split():
        call = lambda fg, x, name=name: getattr(fg, name)(x)  # noqa: E731
        add(name, call, f(3, 4, low=low, high=high), **options)
        add(name, call, f(low=low, high=high), **options)
        add(name, call, f(2, 0, 3, low=low, high=high), **options)


def functional(names: str, **options: Any) -> None:
    for name in names.split():
        add(name, lambda fg, x, name=name: getattr(fg.nn.functional, name)(x), f(3, 4), **options)


def binary(names: str, low: float = -2.0, high: float = 2.0, **options: Any) -> None:
    for name in names.split():
        call = lambda fg, x, y, name=name: getattr(fg, name)(x, y)  # noqa: E731
        add(name, call, f(3, 4, low=low, high=high), f(3, 4, low=low, high=high), **options)
        add(name, call, f(3, 1, low=low, high=high), f(4, low=low, high=high), **options)
        add(
            name,
            lambda fg, x, name=name: getattr(fg, name)(x, fg.tensor(1.5, dtype=x.dtype)),
            f(2, 3),
            **options,
        )
