"""Functions of neural networks. Source: `torch.nn.functional`."""

from __future__ import annotations

from typing import Any

from fusegrad.eager import dtypes, random
from fusegrad.eager.errors import failure
from fusegrad.eager.ops import elementwise as ew, indexing
from fusegrad.eager.ops.activation import (
    applied,
    celu,
    elu,
    gelu,
    glu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    log_sigmoid,
    log_softmax,
    mish,
    relu as _relu,
    relu6,
    selu,
    silu as _silu,
    softmax,
    softmin,
    softplus,
    softshrink,
    softsign,
    tanhshrink,
    threshold,
)
from fusegrad.eager.ops.contraction import linear
from fusegrad.eager.ops.elementwise import sigmoid, tanh
from fusegrad.eager.ops.indexing import embedding, one_hot
from fusegrad.eager.ops.loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
)
from fusegrad.eager.ops.normalization import cosine_similarity, layer_norm, normalize, rms_norm
from fusegrad.eager.tensor import Tensor

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "cosine_similarity",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "gelu",
    "glu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "huber_loss",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "logsigmoid",
    "mish",
    "mse_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "relu",
    "relu6",
    "rms_norm",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
]

logsigmoid = log_sigmoid


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0); written into `input` if `inplace`. Source: `torch.nn.functional.relu`."""
    return input.relu_() if inplace else _relu(input)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x). Source: `torch.nn.functional.silu`."""
    return applied(_silu, input, inplace, "silu")


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Elements set to 0 with probability `p`, the others divided by 1 - p.

    Raises ValueError unless 0 <= p <= 1. Source: `torch.nn.functional.dropout`.
    """
    if not 0 <= p <= 1:
        raise failure(ValueError, f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    if p == 1:
        return applied(lambda x: x * 0.0, input, inplace, "dropout")
    kind = dtypes.FROM_NUMPY[input.array.dtype]
    kept = random.rand(input.array.shape, dtype=kind) >= p
    scale = ew.cast(kept, kind) * (1 / (1 - p))
    return applied(lambda x: x * scale, input, inplace, "dropout")


def pad(input: Tensor, pad: Any, mode: str = "constant", value: float | None = None) -> Tensor:
    """Padded with a number; `pad` lists (before, after) from the last dimension on.

    Raises NotImplementedError for other modes. Source: `torch.nn.functional.pad`.
    """
    if mode != "constant":
        raise failure(NotImplementedError, f"mode {mode!r} is not supported yet, only 'constant'")
    widths = [(0, 0)] * input.array.ndim
    if len(pad) % 2 or len(pad) // 2 > len(widths):
        raise failure(RuntimeError, f"padding {list(pad)} does not fit shape {list(input.array.shape)}")
    for i in range(len(pad) // 2):
        widths[-1 - i] = (pad[2 * i], pad[2 * i + 1])
    return indexing.padded(input, widths, value or 0)
