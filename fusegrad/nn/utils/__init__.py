"""Helpers for training and for layers, as `torch.nn.utils`."""

from fusegrad.eager.nn.utils import *
from fusegrad.eager.nn.utils import __all__ as _names
from fusegrad.nn.utils import (
    fusion as fusion,
    init as init,
    parametrizations as parametrizations,
    parametrize as parametrize,
    prune as prune,
    rnn as rnn,
    stateless as stateless,
)

__all__ = [*_names, "fusion", "init", "parametrizations", "parametrize", "prune", "rnn", "stateless"]
