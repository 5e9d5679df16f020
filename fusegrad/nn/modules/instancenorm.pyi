"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from typing import Any as _Any

from fusegrad.eager.nn.lazy_layers import _LazyNormBase as _LazyNormBase
from fusegrad.eager.nn.normalization import (
    InstanceNorm1d as InstanceNorm1d,
    InstanceNorm2d as InstanceNorm2d,
    InstanceNorm3d as InstanceNorm3d,
)

class LazyInstanceNorm1d(_LazyNormBase):
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

class LazyInstanceNorm2d(_LazyNormBase):
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

class LazyInstanceNorm3d(_LazyNormBase):
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
