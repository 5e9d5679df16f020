"""Transforms to constraints, as `torch.distributions.constraint_registry`."""

from fusegrad.eager.distributions.constraint_registry import *
from fusegrad.eager.distributions.constraint_registry import __all__ as __all__
