"""Automatic differentiation, as `torch.autograd`."""

from fusegrad.autograd import (
    function as function,
    functional as functional,
    grad_mode as grad_mode,
    gradcheck as gradcheck,
    graph as graph,
    profiler as profiler,
)
from fusegrad.eager.autograd.autograd import *
from fusegrad.eager.autograd.autograd import __all__ as _names
from fusegrad.eager.autograd.gradcheck import *
from fusegrad.eager.autograd.gradcheck import __all__ as _checks

__all__ = [*_names, *_checks, "function", "functional", "grad_mode", "graph", "profiler"]
