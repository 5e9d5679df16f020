"""Layers by their kinds, as `torch.nn.modules`."""

from fusegrad.eager.distributed.sync_batch_norm import SyncBatchNorm as SyncBatchNorm
from fusegrad.eager.nn import *
from fusegrad.eager.nn import __all__ as _names
from fusegrad.nn.modules import (
    activation as activation,
    batchnorm as batchnorm,
    container as container,
    conv as conv,
    dropout as dropout,
    instancenorm as instancenorm,
    lazy as lazy,
    linear as linear,
    loss as loss,
    module as module,
    normalization as normalization,
    padding as padding,
    pooling as pooling,
    rnn as rnn,
    sparse as sparse,
    transformer as transformer,
    utils as utils,
)

__all__ = [
    *_names,
    "SyncBatchNorm",
    "activation",
    "batchnorm",
    "container",
    "conv",
    "dropout",
    "instancenorm",
    "lazy",
    "linear",
    "loss",
    "module",
    "normalization",
    "padding",
    "pooling",
    "rnn",
    "sparse",
    "transformer",
    "utils",
]
