"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from typing import Any as _Any

from fusegrad.eager.nn.declare_layer import Declared as _Declared
from fusegrad.eager.nn.losses import (
    AdaptiveLogSoftmaxWithLoss as AdaptiveLogSoftmaxWithLoss,
    LinearCrossEntropyLoss as LinearCrossEntropyLoss,
    TripletMarginWithDistanceLoss as TripletMarginWithDistanceLoss,
)

class BCELoss(_Declared):
    def __init__(
        self, weight: _Any = None, size_average: _Any = None, reduce: _Any = None, reduction: str = "mean"
    ) -> None: ...

class BCEWithLogitsLoss(_Declared):
    def __init__(
        self,
        weight: _Any = None,
        size_average: _Any = None,
        reduce: _Any = None,
        reduction: str = "mean",
        pos_weight: _Any = None,
    ) -> None: ...

class CTCLoss(_Declared):
    def __init__(self, blank: _Any = 0, reduction: str = "mean", zero_infinity: bool = False) -> None: ...

class CosineEmbeddingLoss(_Declared):
    def __init__(
        self, margin: _Any = 0.0, size_average: _Any = None, reduce: _Any = None, reduction: str = "mean"
    ) -> None: ...

class CrossEntropyLoss(_Declared):
    def __init__(
        self,
        weight: _Any = None,
        size_average: _Any = None,
        ignore_index: _Any = -100,
        reduce: _Any = None,
        reduction: str = "mean",
        label_smoothing: _Any = 0.0,
    ) -> None: ...

class GaussianNLLLoss(_Declared):
    def __init__(self, *, full: bool = False, eps: _Any = 1e-06, reduction: str = "mean") -> None: ...

class HingeEmbeddingLoss(_Declared):
    def __init__(
        self, margin: _Any = 1.0, size_average: _Any = None, reduce: _Any = None, reduction: str = "mean"
    ) -> None: ...

class HuberLoss(_Declared):
    def __init__(self, reduction: str = "mean", delta: _Any = 1.0) -> None: ...

class KLDivLoss(_Declared):
    def __init__(
        self,
        size_average: _Any = None,
        reduce: _Any = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None: ...

class L1Loss(_Declared):
    def __init__(self, size_average: _Any = None, reduce: _Any = None, reduction: str = "mean") -> None: ...

class MSELoss(_Declared):
    def __init__(self, size_average: _Any = None, reduce: _Any = None, reduction: str = "mean") -> None: ...

class MarginRankingLoss(_Declared):
    def __init__(
        self, margin: _Any = 0.0, size_average: _Any = None, reduce: _Any = None, reduction: str = "mean"
    ) -> None: ...

class MultiLabelMarginLoss(_Declared):
    def __init__(self, size_average: _Any = None, reduce: _Any = None, reduction: str = "mean") -> None: ...

class MultiLabelSoftMarginLoss(_Declared):
    def __init__(
        self, weight: _Any = None, size_average: _Any = None, reduce: _Any = None, reduction: str = "mean"
    ) -> None: ...

class MultiMarginLoss(_Declared):
    def __init__(
        self,
        p: _Any = 1,
        margin: _Any = 1.0,
        weight: _Any = None,
        size_average: _Any = None,
        reduce: _Any = None,
        reduction: str = "mean",
    ) -> None: ...

class NLLLoss(_Declared):
    def __init__(
        self,
        weight: _Any = None,
        size_average: _Any = None,
        ignore_index: _Any = -100,
        reduce: _Any = None,
        reduction: str = "mean",
    ) -> None: ...

class PoissonNLLLoss(_Declared):
    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: _Any = None,
        eps: _Any = 1e-08,
        reduce: _Any = None,
        reduction: str = "mean",
    ) -> None: ...

class SmoothL1Loss(_Declared):
    def __init__(
        self, size_average: _Any = None, reduce: _Any = None, reduction: str = "mean", beta: _Any = 1.0
    ) -> None: ...

class SoftMarginLoss(_Declared):
    def __init__(self, size_average: _Any = None, reduce: _Any = None, reduction: str = "mean") -> None: ...

class TripletMarginLoss(_Declared):
    def __init__(
        self,
        margin: _Any = 1.0,
        p: _Any = 2.0,
        eps: _Any = 1e-06,
        swap: bool = False,
        size_average: _Any = None,
        reduce: _Any = None,
        reduction: str = "mean",
    ) -> None: ...
