"""Transforms of numbers, as `torch.distributions.transforms`."""

from fusegrad.eager.distributions.event_transforms import *
from fusegrad.eager.distributions.event_transforms import __all__ as _of_events
from fusegrad.eager.distributions.number_transforms import *
from fusegrad.eager.distributions.number_transforms import __all__ as _of_numbers
from fusegrad.eager.distributions.transforms import *
from fusegrad.eager.distributions.transforms import (
    __all__ as _names,
    _InverseTransform as _InverseTransform,
)

__all__ = [*_names, *_of_events, *_of_numbers]
