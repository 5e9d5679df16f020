"""Learning-rate schedules, under PyTorch's name. Source: `torch.optim.lr_scheduler`."""

from fusegrad.eager.core.public import gather
from fusegrad.eager.optim.schedules.base import EPOCH_DEPRECATION_WARNING, LRScheduler
from fusegrad.eager.optim.schedules.composed import ChainedScheduler, ReduceLROnPlateau, SequentialLR
from fusegrad.eager.optim.schedules.cyclic import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from fusegrad.eager.optim.schedules.formulas import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)

_LRScheduler = LRScheduler  # the name that older programs subclass

__all__ = [*gather("fusegrad.optim.lr_scheduler", globals()), "EPOCH_DEPRECATION_WARNING", "_LRScheduler"]
