"""Neural networks, as `torch.nn`."""

from fusegrad.eager.nn import *
from fusegrad.eager.nn import __all__ as _names
from fusegrad.nn import (
    attention as attention,
    functional as functional,
    grad as grad,
    init as init,
    modules as modules,
    parameter as parameter,
    utils as utils,
)

__all__ = [*_names, "attention", "functional", "grad", "init", "modules", "parameter", "utils"]
