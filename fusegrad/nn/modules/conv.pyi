"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from typing import Any as _Any

from fusegrad.eager.nn.convolution import (
    Conv1d as Conv1d,
    Conv2d as Conv2d,
    Conv3d as Conv3d,
    ConvTranspose1d as ConvTranspose1d,
    ConvTranspose2d as ConvTranspose2d,
    ConvTranspose3d as ConvTranspose3d,
)
from fusegrad.eager.nn.lazy_layers import _LazyConv as _LazyConv, _LazyConvTranspose as _LazyConvTranspose

class LazyConv1d(_LazyConv):
    def __init__(
        self,
        out_channels: _Any,
        kernel_size: _Any,
        stride: _Any = 1,
        padding: _Any = 0,
        dilation: _Any = 1,
        groups: _Any = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: _Any = None,
        dtype: _Any = None,
    ) -> None: ...

class LazyConv2d(_LazyConv):
    def __init__(
        self,
        out_channels: _Any,
        kernel_size: _Any,
        stride: _Any = 1,
        padding: _Any = 0,
        dilation: _Any = 1,
        groups: _Any = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: _Any = None,
        dtype: _Any = None,
    ) -> None: ...

class LazyConv3d(_LazyConv):
    def __init__(
        self,
        out_channels: _Any,
        kernel_size: _Any,
        stride: _Any = 1,
        padding: _Any = 0,
        dilation: _Any = 1,
        groups: _Any = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: _Any = None,
        dtype: _Any = None,
    ) -> None: ...

class LazyConvTranspose1d(_LazyConvTranspose):
    def __init__(
        self,
        out_channels: _Any,
        kernel_size: _Any,
        stride: _Any = 1,
        padding: _Any = 0,
        output_padding: _Any = 0,
        groups: _Any = 1,
        bias: bool = True,
        dilation: _Any = 1,
        padding_mode: str = "zeros",
        device: _Any = None,
        dtype: _Any = None,
    ) -> None: ...

class LazyConvTranspose2d(_LazyConvTranspose):
    def __init__(
        self,
        out_channels: _Any,
        kernel_size: _Any,
        stride: _Any = 1,
        padding: _Any = 0,
        output_padding: _Any = 0,
        groups: _Any = 1,
        bias: bool = True,
        dilation: _Any = 1,
        padding_mode: str = "zeros",
        device: _Any = None,
        dtype: _Any = None,
    ) -> None: ...

class LazyConvTranspose3d(_LazyConvTranspose):
    def __init__(
        self,
        out_channels: _Any,
        kernel_size: _Any,
        stride: _Any = 1,
        padding: _Any = 0,
        output_padding: _Any = 0,
        groups: _Any = 1,
        bias: bool = True,
        dilation: _Any = 1,
        padding_mode: str = "zeros",
        device: _Any = None,
        dtype: _Any = None,
    ) -> None: ...
