"""Activations and attention, as `torch.nn.modules.activation`."""

from fusegrad.eager.core.public import gather
from fusegrad.eager.nn.activations import (
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    RReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softmax2d,
    Softmin,
    Softplus,
    Softshrink,
    Softsign,
    Tanh,
    Tanhshrink,
    Threshold,
)
from fusegrad.eager.nn.transformer import MultiheadAttention

__all__ = gather("fusegrad.nn.modules.activation", globals())
