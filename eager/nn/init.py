"""Initialisers: fill a tensor in place, without gradients. Source: `torch.nn.init`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.eager import random
from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.names import renamed
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.create import creation

__all__ = [
    "_calculate_fan_in_and_fan_out",
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]

_GAINS = {"tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4}
_PLAIN = ("linear", "sigmoid", *(f"conv{t}{n}d" for t in ("", "_transpose") for n in (1, 2, 3)))


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By how much weights before a nonlinearity are scaled; ValueError for an unknown one."""
    if nonlinearity == "leaky_relu":
        if isinstance(param, bool) or not isinstance(param, (int, float, type(None))):
            raise failure(ValueError, f"negative_slope {param} not a valid number")
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity in _PLAIN:
        return 1.0
    if nonlinearity not in _GAINS:
        raise failure(ValueError, f"Unsupported nonlinearity {nonlinearity}")
    return _GAINS[nonlinearity]


def _nothing(tensor: Tensor) -> Tensor:
    """A tensor without elements, which there is nothing to draw for."""
    warn("Initializing zero-element tensors is a no-op")
    return tensor


def _fans(tensor: Tensor) -> tuple[int, int]:
    size = tensor.shape
    if len(size) < 2:
        raise failure(
            ValueError,
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions "
            f"(shape {list(size)})",
        )
    field = math.prod(size[2:])
    return size[1] * field, size[0] * field


_calculate_fan_in_and_fan_out = _fans


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform from `a` to `b`."""
    with no_grad():
        return random.uniform_(tensor, a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with a mean and deviation."""
    with no_grad():
        return random.normal_(tensor, mean, std, generator=generator)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One number everywhere."""
    with no_grad():
        return tensor.fill_(val)


def zeros_(tensor: Tensor) -> Tensor:
    """0 everywhere."""
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """1 everywhere."""
    return constant_(tensor, 1.0)


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix."""
    if tensor.ndim != 2:
        raise failure(ValueError, "Only tensors with 2 dimensions are supported")
    with no_grad():
        return tensor.copy_(creation.eye(*tensor.shape))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform with variance 2 / (fan in + fan out), times gain squared."""
    bound = gain * math.sqrt(6.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with variance 2 / (fan in + fan out), times gain squared."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))), generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Uniform with variance gain squared / fan."""
    if 0 in tensor.shape:
        return _nothing(tensor)
    bound = math.sqrt(3.0) * _deviation(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Normal with variance gain squared / fan."""
    if 0 in tensor.shape:
        return _nothing(tensor)
    return normal_(tensor, 0.0, _deviation(tensor, a, mode, nonlinearity), generator)


def _deviation(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise failure(ValueError, f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    fan = _fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan) if fan else 0.0


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Normal with a mean and deviation, but within `a` to `b`: drawn by inverting the distribution."""
    low, high = (0.5 * (1 + math.erf((x - mean) / (std * math.sqrt(2)))) for x in (a, b))
    with no_grad():
        random.uniform_(tensor, 2 * low - 1, 2 * high - 1, generator=generator)
        return tensor.copy_((tensor.erfinv() * (std * math.sqrt(2)) + mean).clamp(a, b))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution's weight that keeps its inputs: 1 in the middle of the kernel for each channel."""
    size = tensor.shape
    if len(size) not in (3, 4, 5):
        raise failure(ValueError, f"Only tensors with 3, 4, or 5 dimensions are supported, got {list(size)}")
    if size[0] % groups:
        raise failure(ValueError, "dim 0 must be divisible by groups")
    outputs = size[0] // groups
    middle = tuple(n // 2 for n in size[2:])
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(outputs, size[1])):
                tensor[(group * outputs + channel, channel, *middle)] = 1
    return tensor


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """A matrix (dimensions behind the first as one) with orthonormal rows or columns, times gain."""
    if tensor.ndim < 2:
        raise failure(ValueError, "Only tensors with 2 or more dimensions are supported")
    if not tensor.array.size:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.array.size // rows
    with no_grad():
        drawn = random.randn(rows, columns, dtype=tensor.dtype, generator=generator)
        q, r = np.linalg.qr(drawn.numpy().T if rows < columns else drawn.numpy())
        q *= np.sign(np.diagonal(r))  # so that all such matrices are equally likely
        values = (q.T if rows < columns else q).reshape(tensor.shape) * gain
        return tensor.copy_(wrap(np.ascontiguousarray(values, tensor.array.dtype)))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Normal, with this share of each column of the matrix set to 0."""
    if tensor.ndim != 2:
        raise failure(ValueError, "Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        random.normal_(tensor, 0, std, generator=generator)
        for column in range(columns):
            tensor[random.randperm(rows, generator=generator)[:zeros], column] = 0
    return tensor


def _older(initialiser: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """An initialiser under its name of before, which warns."""
    name = initialiser.__name__

    @functools.wraps(initialiser)
    def older(*args: Any, **kwargs: Any) -> Tensor:
        warn(f"`nn.init.{name[:-1]}` is now deprecated in favor of `nn.init.{name}`.", FutureWarning)
        return initialiser(*args, **kwargs)

    older.__doc__ = f"Another name of `{name}`, deprecated in PyTorch. Source: `torch.nn.init.{name[:-1]}`."
    return renamed(older, name[:-1])


uniform = _older(uniform_)
normal = _older(normal_)
constant = _older(constant_)
eye = _older(eye_)
dirac = _older(dirac_)
xavier_uniform = _older(xavier_uniform_)
xavier_normal = _older(xavier_normal_)
kaiming_uniform = _older(kaiming_uniform_)
kaiming_normal = _older(kaiming_normal_)
orthogonal = _older(orthogonal_)
sparse = _older(sparse_)

locate("fusegrad.nn.init", globals(), __all__)
