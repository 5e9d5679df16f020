"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from typing import Any as _Any

from fusegrad.eager.distributed.sync_batch_norm import SyncBatchNorm as SyncBatchNorm
from fusegrad.eager.nn.lazy_layers import _LazyNormBase as _LazyNormBase
from fusegrad.eager.nn.normalization import (
    BatchNorm1d as BatchNorm1d,
    BatchNorm2d as BatchNorm2d,
    BatchNorm3d as BatchNorm3d,
)

class LazyBatchNorm1d(_LazyNormBase):
    def __init__(
        self,
        eps: _Any = 1e-05,
        momentum: _Any = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: _Any = None,
        dtype: _Any = None,
        *,
        bias: bool = True,
    ) -> None: ...

class LazyBatchNorm2d(_LazyNormBase):
    def __init__(
        self,
        eps: _Any = 1e-05,
        momentum: _Any = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: _Any = None,
        dtype: _Any = None,
        *,
        bias: bool = True,
    ) -> None: ...

class LazyBatchNorm3d(_LazyNormBase):
    def __init__(
        self,
        eps: _Any = 1e-05,
        momentum: _Any = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: _Any = None,
        dtype: _Any = None,
        *,
        bias: bool = True,
    ) -> None: ...
