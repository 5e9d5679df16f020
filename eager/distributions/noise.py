"""Random numbers of standard distributions, of a shape and a dtype, from the default generator.

Numbers that are made of uniform ones are computed in float64, whatever the dtype: their tails show how fine
the numbers are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.pointwise.gamma_draws import log_gamma_draw


def uniform(shape: Sequence[int], dtype: Any = dtypes.float64) -> Tensor:
    """From 0 up to, not including, 1."""
    return ops.rand(shape, dtype=dtype)


def normal(shape: Sequence[int], like: Tensor) -> Tensor:
    """Of mean 0 and variance 1, in the dtype of `like`."""
    return ops.randn(shape, dtype=like.dtype)


def exponential(shape: Sequence[int], like: Tensor) -> Tensor:
    """Of mean 1, in the dtype of `like`."""
    return (-ops.log1p(-uniform(shape))).to(like.dtype)


def cauchy(shape: Sequence[int], like: Tensor) -> Tensor:
    """Cauchy numbers, in the dtype of `like`."""
    return ops.tan((uniform(shape) - 0.5) * math.pi).to(like.dtype)


def gumbel(shape: Sequence[int], like: Tensor) -> Tensor:
    """Gumbel numbers, in the dtype of `like`."""
    least = dtypes.finfo(dtypes.float64).tiny
    return (-ops.log((-ops.log1p(-uniform(shape))).clamp(min=least))).to(like.dtype)


def logistic(shape: Sequence[int], like: Tensor) -> Tensor:
    """Logistic numbers, in the dtype of `like`: the logit of a uniform one."""
    least = 2.0**-54
    share = uniform(shape).clamp(min=least)
    return (ops.log(share) - ops.log1p(-share)).to(like.dtype)


def log_gamma(concentration: Tensor) -> Tensor:
    """The logarithms of gamma numbers of rate 1, with gradients to the concentration."""
    return log_gamma_draw(concentration, uniform(concentration.shape))


def gamma(concentration: Tensor) -> Tensor:
    """Gamma numbers of rate 1, with gradients to the concentration; at least the smallest normal number."""
    least = dtypes.finfo(concentration.dtype).tiny
    return log_gamma(concentration).exp().clamp(min=least)
