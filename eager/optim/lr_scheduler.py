"""Learning-rate schedules, under PyTorch's name. Source: `torch.optim.lr_scheduler`."""

from fusegrad.eager.optim.schedules.base import LRScheduler
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

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
    "_LRScheduler",
]
