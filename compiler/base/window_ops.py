"""The products of convolutions that native code computes without columns in memory.

A convolution is a product of the weights with the columns, of which each row is the image, moved. So a row of
columns need not be anywhere: it is found at an offset of its own. For strides, elements that are a step apart
lie side by side, in planes (`lower/convolutions.py` lays them out).

These ops exist in the compiler only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from fusegrad.compiler.base.solver_ops import Solver
from fusegrad.eager.core.op import Params, TensorType


class WindowProduct(Solver):
    """A product with the windows of images [N, C, planes, rows, columns].

    Params: `count`, the rows and columns of windows; `taps`, for each place of the kernel where the first
    window's element is in the planes of a channel, in elements.
    """

    def infer(self, types: Sequence[Any], params: Params) -> Any:
        return self.types(*types, **params)

    def evaluate(self, args: Sequence[Any], params: Params) -> Any:
        first, images, *bias = (np.ascontiguousarray(a.array) for a in args)
        made = self.one(first, windows_of(images, **params))
        return made.reshape(self.types(first, images, **params).shape) + sum(b[:, None, None] for b in bias)


def windows_of(images: np.ndarray, count: tuple[int, int], taps: tuple[int, ...]) -> np.ndarray:
    """The columns [N, channels * places, windows]."""
    entries, channels = images.shape[:2]
    steps = (*images.strides[:2], *images.strides[-2:])
    flat = images.reshape(entries, channels, -1)
    parts = [as_strided(flat[:, :, tap:], (entries, channels, *count), steps) for tap in taps]
    return np.stack(parts, 2).reshape(entries, channels * len(taps), -1)


def _correlated_type(weight: Any, images: Any, *bias: Any, count: Any, taps: Any) -> TensorType:
    return TensorType((images.shape[0], weight.shape[0], *count), images.dtype)


def _kernel_type(y: Any, images: Any, *, count: Any, taps: Any) -> TensorType:
    return TensorType((y.shape[1], images.shape[1] * len(taps)), images.dtype)


def _correlated(weight: np.ndarray, columns: np.ndarray) -> np.ndarray:
    found: np.ndarray = weight @ columns
    return found


# Weights [O, C * places] with windows: [N, O, rows, columns]; and with a bias for each row of weights.
CORRELATED = WindowProduct("correlated_windows", _correlated, _correlated_type, (2, 5))
CORRELATED_BIAS = WindowProduct("correlated_windows_bias", _correlated, _correlated_type, (2, 5, 1))
# What came back to such a result, with windows, added up over all of them: the weights' gradient.
KERNEL_GRADIENT = WindowProduct(
    "kernel_gradient",
    lambda y, columns: np.matmul(y.reshape(*y.shape[:2], -1), columns.transpose(0, 2, 1)).sum(0),
    _kernel_type,
    (4, 5),
)
