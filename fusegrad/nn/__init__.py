"""Neural networks, as `torch.nn`."""

from fusegrad.eager.devices.parallel import DataParallel as DataParallel
from fusegrad.eager.nn import *
from fusegrad.eager.nn import __all__ as _names
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
    "attention",
    "functional",
    "grad",
    "init",
    "modules",
    "parallel",
    "parameter",
    "utils",
]
