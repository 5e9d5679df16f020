"""Helpers for training. Source: `torch.nn.utils`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from fusegrad.eager.errors import failure
from fusegrad.eager.op import wrap
from fusegrad.eager.ops import reduction, shape
from fusegrad.eager.state import no_grad, state
from fusegrad.eager.tensor import Tensor


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    tensors = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [t.grad for t in tensors if t.grad is not None]


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: Any = None,
) -> Tensor:
    """Scale all gradients, in place, so that their norm is at most `max_norm`; gives the norm before.

    Raises RuntimeError for a norm that is not finite, if `error_if_nonfinite`.
    """
    if state.interpreter is not None:
        state.interpreter.effect("scales gradients in place")
    gradients = _gradients(parameters)
    if not gradients:
        return wrap(np.zeros((), np.float32))
    with no_grad():
        lengths = [reduction.norm(g, norm_type) for g in gradients]
        total = reduction.norm(shape.stack(lengths), norm_type)
        if error_if_nonfinite and not math.isfinite(total.array.item()):
            raise failure(
                RuntimeError, f"The total norm of order {norm_type} is non-finite ({total.array.item()})"
            )
        factor = min(1.0, float(np.float32(max_norm) / (total.array + np.float32(1e-6))))
        for gradient in gradients:
            gradient.array *= gradient.array.dtype.type(factor)
            gradient.version[0] += 1
    return total


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: Any = None) -> None:
    """Limit all gradients, in place, to -clip_value..clip_value."""
    if state.interpreter is not None:
        state.interpreter.effect("clips gradients in place")
    for gradient in _gradients(parameters):
        np.clip(gradient.array, -clip_value, clip_value, out=gradient.array)
        gradient.version[0] += 1


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters in one vector."""
    return shape.cat([shape.reshape(p, (-1,)) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """A vector's pieces written into the parameters."""
    at = 0
    with no_grad():
        for parameter in parameters:
            count = parameter.array.size
            parameter.copy_(shape.reshape(vec[at : at + count], parameter.array.shape))
            at += count
