"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.optim.schedules.base import LRScheduler as LRScheduler, LRScheduler as _LRScheduler
from fusegrad.eager.optim.schedules.composed import (
    ChainedScheduler as ChainedScheduler,
    ReduceLROnPlateau as ReduceLROnPlateau,
    SequentialLR as SequentialLR,
)
from fusegrad.eager.optim.schedules.cyclic import (
    CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts,
    CyclicLR as CyclicLR,
    OneCycleLR as OneCycleLR,
)
from fusegrad.eager.optim.schedules.formulas import (
    ConstantLR as ConstantLR,
    CosineAnnealingLR as CosineAnnealingLR,
    ExponentialLR as ExponentialLR,
    LambdaLR as LambdaLR,
    LinearLR as LinearLR,
    MultiplicativeLR as MultiplicativeLR,
    MultiStepLR as MultiStepLR,
    PolynomialLR as PolynomialLR,
    StepLR as StepLR,
)

EPOCH_DEPRECATION_WARNING: str
_LRScheduler = _LRScheduler
