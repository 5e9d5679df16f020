"""Neural networks, as `torch.nn`."""

from typing import Any as _Any

import fusegrad as _fusegrad
from fusegrad.eager.devices.parallel import DataParallel as DataParallel
from fusegrad.eager.distributed.sync_batch_norm import SyncBatchNorm as SyncBatchNorm
from fusegrad.eager.nn import *
from fusegrad.eager.nn import __all__ as _names
from fusegrad.eager.nn.module import Module as _Module
from fusegrad.nn import (
    attention as attention,
    functional as functional,
    grad as grad,
    init as init,
    modules as modules,
    parallel as parallel,
    parameter as parameter,
    utils as utils,
)

__all__ = [
    *_names,
    "DataParallel",
    "SyncBatchNorm",
    "attention",
    "functional",
    "grad",
    "init",
    "modules",
    "parallel",
    "parameter",
    "utils",
]


def _compile(*args: _Any, **options: _Any) -> _Any:
    return _fusegrad.compile(*args, **options)  # loads the compiler


_Module._compiler = _compile
