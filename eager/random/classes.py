"""The number of a class, drawn by the chances of the classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.families import Random
from fusegrad.eager.core.op import TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.random.generator import Generator, default_generator
from fusegrad.eager.random.random import rand
from fusegrad.eager.random.words import uniform_from

# The class is the first one up to which the chances are more than a uniform number. That stays below the sum,
# also where it is rounded, so that a last class without a chance is never drawn.
_BELOW_ONE = 1 - 2.0**-52
_WIDE = np.dtype(np.float64)


def _drawn_numpy(chances: np.ndarray, shape: tuple[int, ...], generator: Generator) -> np.ndarray:
    upto = np.add.accumulate(chances, axis=-1, dtype=_WIDE)
    share = uniform_from(generator.words(math.prod(shape)), _WIDE).reshape((*shape, 1)) * _BELOW_ONE
    return np.add.reduce(upto <= share * upto[..., -1:], axis=-1, dtype=np.int64)


def _drawn_by_ops(chances: Tensor, shape: tuple[int, ...], generator: Generator) -> Tensor:
    """What `_drawn_numpy` does, of the same words."""
    with no_grad():
        upto = ops.cumsum(ops.cast(chances.detach(), dtypes.float64), -1)
        share = ops.unsqueeze(rand(shape, generator=generator, dtype=dtypes.float64), -1) * _BELOW_ONE
        return ops.sum(ops.le(upto, share * upto[..., -1:]), -1)


_drawn = Random(
    "class_draw",
    "chances",
    _drawn_numpy,
    lambda types, shape, generator: TensorType(shape, np.dtype(np.int64)),
    None,
)
_drawn.by_ops = _drawn_by_ops


def drawn_class(chances: Tensor, shape: Any) -> Tensor:
    """Numbers of classes, of `shape`, by chances along the last dimension of what broadcasts to it."""
    return bind(_drawn, (chances,), {"shape": tuple(shape), "generator": default_generator})
