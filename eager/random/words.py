"""Random words as numbers: uniform ones, and normal ones."""

from __future__ import annotations

import math

import numpy as np


def uniform_from(words: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Numbers in [0, 1): float64 from the 53 high bits of a word, others from the 24 high bits."""
    if dtype == np.float64:
        return (words >> np.uint64(11)) * (1.0 / (1 << 53))
    exact = (words >> np.uint64(40)).astype(np.float32) * np.float32(1.0 / (1 << 24))
    return exact.astype(dtype, copy=False)


def normal_from(words: np.ndarray, dtype: np.dtype, count: int) -> np.ndarray:
    """Box-Muller: uniform numbers k and k + n/2 make numbers k (cosine) and k + n/2 (sine), so many of them.

    Those of float64 are of a word each, and all is float64. Those of other dtypes are of half a word each:
    the radius, which makes the tails, is float64, the angle float32, whose cosine NumPy has in vectors.
    """
    if dtype == np.float64:
        uniform = uniform_from(words, dtype)
    else:
        uniform = words.view(np.uint32) * (1.0 / (1 << 32))
    half = uniform.size // 2
    radius = np.sqrt(-2.0 * np.log1p(-uniform[:half]))
    angle = (2.0 * math.pi) * uniform[half:]
    if dtype != np.float64:
        radius, angle = radius.astype(np.float32), angle.astype(np.float32)
    parts = radius * np.cos(angle), (radius * np.sin(angle))[: count - half]
    return np.concatenate(parts).astype(dtype, copy=False)  # in memory of this size
