"""Where numbers may lie, as `torch.distributions.constraints`."""

from fusegrad.eager.distributions.constraints import *
from fusegrad.eager.distributions.constraints import (
    __all__ as __all__,
    _Boolean as _Boolean,
    _Dependent as _Dependent,
    _GreaterThan as _GreaterThan,
    _IndependentConstraint as _IndependentConstraint,
    _Interval as _Interval,
    _LessThan as _LessThan,
    _OneHot as _OneHot,
    _Real as _Real,
    _Simplex as _Simplex,
)
