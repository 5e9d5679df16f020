"""Gradients limited in norm or value; parameters as one vector. Source: `torch.nn.utils`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from types import GeneratorType
from typing import Any

import numpy as np

from fusegrad.eager.autograd.accumulation import gradient_of
from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.state import no_grad, testable
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.pointwise import comparison, special
from fusegrad.eager.ops.reduce import reduction
from fusegrad.eager.ops.shape import shape


def _as_list(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [parameters] if isinstance(parameters, Tensor) else list(parameters)


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    gradients = map(gradient_of, _as_list(parameters))
    return [g for g in gradients if g is not None]


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: Any = None,
) -> Tensor:
    """The norm of all tensors taken as one vector. Source: `torch.nn.utils.get_total_norm`.

    Raises RuntimeError for a norm that is not finite, if `error_if_nonfinite`.
    """
    vectors = _as_list(tensors)
    if not vectors:
        return wrap(np.zeros((), np.float32))
    norm_type = float(norm_type)
    with no_grad():
        lengths = [reduction.norm(v, norm_type) for v in vectors]
        total = reduction.norm(ops.stack(lengths), norm_type)
    finite = error_if_nonfinite and testable(total, lambda: comparison.isfinite(total))
    if finite and not math.isfinite(total.array.item()):
        raise failure(
            RuntimeError,
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite "
            f"({total.array.item()}), so it cannot be clipped. To scale the gradients by it anyway, set "
            "`error_if_nonfinite=False`",
        )
    return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: Any = None
) -> None:
    """Scale all gradients, in place, as a `total_norm` over `max_norm` demands.

    Source: `torch.nn.utils.clip_grads_with_norm_`.
    """
    with no_grad():
        factor = special.clamp(max_norm / (total_norm + 1e-6), max=1.0)  # NaN stays NaN
        for gradient in _gradients(parameters):
            gradient.mul_(factor)


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: Any = None,
) -> Tensor:
    """Scale all gradients, in place, so that their norm is at most `max_norm`; gives the norm before.

    Source: `torch.nn.utils.clip_grad_norm_`. Raises RuntimeError, with nothing changed, for a norm that
    is not finite, if `error_if_nonfinite`.

    >>> import fusegrad as fg
    >>> x = fg.zeros(2, requires_grad=True)
    >>> x.grad = fg.tensor([3.0, 4.0])
    >>> fg.nn.utils.clip_grad_norm_([x], 1.0)
    tensor(5.)
    >>> x.grad
    tensor([0.6000, 0.8000])
    """
    tensors = _as_list(parameters)
    if not tensors and isinstance(parameters, GeneratorType):
        warn("`parameters` is an empty generator, no gradient clipping will occur.")
    total = get_total_norm(_gradients(tensors), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(tensors, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: Any = None,
) -> Tensor:
    """`clip_grad_norm_`, with a FutureWarning. Source: `torch.nn.utils.clip_grad_norm`."""
    warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: Any = None) -> None:
    """Limit all gradients, in place, to -clip_value..clip_value.

    Source: `torch.nn.utils.clip_grad_value_`.
    """
    limit = float(clip_value)
    with no_grad():
        for gradient in _gradients(parameters):
            gradient.clamp_(-limit, limit)


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters in one vector. Source: `torch.nn.utils.parameters_to_vector`."""
    return ops.cat([shape.reshape(p, (-1,)) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """A vector's pieces written into the parameters. Source: `torch.nn.utils.vector_to_parameters`.

    Raises RuntimeError, with nothing changed, if the vector is too short.
    """
    if not isinstance(vec, Tensor):
        raise failure(TypeError, f"expected torch.Tensor, but got: {type(vec).__name__}")
    targets = list(parameters)
    needed = sum(p.numel() for p in targets)
    if vec.numel() < needed:
        raise failure(RuntimeError, f"the vector has {vec.numel()} elements, the parameters {needed}")
    at = 0
    with no_grad():
        for parameter in targets:
            count = parameter.numel()
            parameter.copy_(shape.reshape(vec[at : at + count], parameter.shape))
            at += count
