"""The numbers of the programs: NumPy's, so that each library gets the same."""

from __future__ import annotations

from typing import Any

import numpy as np


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal numbers in float32."""
    return np.random.default_rng(seed).normal(size=shape).astype("f4")


def uniform(*shape: int, seed: int = 0) -> np.ndarray:
    """Numbers in [0, 1) in float32."""
    return np.random.default_rng(seed).uniform(size=shape).astype("f4")


def integers(high: int, *shape: int, seed: int = 0) -> np.ndarray:
    """Whole numbers from 0 up to `high`, which is left out."""
    return np.random.default_rng(seed).integers(0, high, shape)


def seeded(model: Any, seed: int = 0) -> Any:
    """The model, with its parameters from NumPy: about as large as layers make them."""
    numbers = np.random.default_rng(seed)
    for name, parameter in model.named_parameters():
        shape = tuple(parameter.shape)
        values = numbers.normal(size=shape)
        if len(shape) > 1:
            values /= np.sqrt(np.prod(shape[1:]))
        else:
            values = 0.1 * values + name.endswith("weight")
        parameter.data.copy_(parameter.new_tensor(values.astype("f4")))
    return model
