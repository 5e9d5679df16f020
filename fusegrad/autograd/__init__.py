"""Automatic differentiation, as `torch.autograd`."""

from fusegrad.autograd import function as function, functional as functional, graph as graph
from fusegrad.eager.autograd.autograd import *
from fusegrad.eager.autograd.autograd import __all__ as _names

__all__ = [*_names, "function", "functional", "graph"]
