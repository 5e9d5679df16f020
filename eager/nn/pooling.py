"""Pooling layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn import functional as F
from fusegrad.eager.nn.convolution import each
from fusegrad.eager.nn.module import Module


class _Pool(Module):
    """A layer that calls a function with its own attributes.

    passed, shown: the names of those that the function takes, and of those in the text.
    """

    function: Callable[..., Any]
    passed: str
    shown: str

    def forward(self, input: Tensor) -> Any:
        return type(self).function(input, **{name: getattr(self, name) for name in self.passed.split()})

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in self.shown.split())


class _MaxPoolNd(_Pool):
    passed = "kernel_size stride padding dilation ceil_mode return_indices"
    shown = "kernel_size stride padding dilation ceil_mode"

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode


class MaxPool1d(_MaxPoolNd):
    """The largest of each window of [N, C, L]. Source: `torch.nn.MaxPool1d`."""

    function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    """The largest of each window of [N, C, H, W]. Source: `torch.nn.MaxPool2d`."""

    function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    """The largest of each window of [N, C, D, H, W]. Source: `torch.nn.MaxPool3d`."""

    function = staticmethod(F.max_pool3d)


class _MaxUnpoolNd(_Pool):
    rank: int
    shown = "kernel_size stride padding"

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = each(kernel_size, self.rank)
        self.stride = each(kernel_size if stride is None else stride, self.rank)
        self.padding = each(padding, self.rank)

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:  # type: ignore[override]
        return type(self).function(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(_MaxUnpoolNd):
    """Zeros with the maxima of `MaxPool1d` where they were. Source: `torch.nn.MaxUnpool1d`."""

    rank, function = 1, staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpoolNd):
    """Zeros with the maxima of `MaxPool2d` where they were. Source: `torch.nn.MaxUnpool2d`."""

    rank, function = 2, staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpoolNd):
    """Zeros with the maxima of `MaxPool3d` where they were. Source: `torch.nn.MaxUnpool3d`."""

    rank, function = 3, staticmethod(F.max_unpool3d)


class _AvgPoolNd(_Pool):
    shown = "kernel_size stride padding"


class AvgPool1d(_AvgPoolNd):
    """The mean of each window of [N, C, L]. Source: `torch.nn.AvgPool1d`."""

    function = staticmethod(F.avg_pool1d)
    passed = "kernel_size stride padding ceil_mode count_include_pad"

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = each(kernel_size, 1)
        self.stride = each(kernel_size if stride is None else stride, 1)
        self.padding = each(padding, 1)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad


class AvgPool2d(_AvgPoolNd):
    """The mean of each window of [N, C, H, W]. Source: `torch.nn.AvgPool2d`."""

    function = staticmethod(F.avg_pool2d)
    passed = "kernel_size stride padding ceil_mode count_include_pad divisor_override"

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override


class AvgPool3d(AvgPool2d):
    """The mean of each window of [N, C, D, H, W]. Source: `torch.nn.AvgPool3d`."""

    function = staticmethod(F.avg_pool3d)


class _LPPoolNd(_Pool):
    passed = shown = "norm_type kernel_size stride ceil_mode"

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type, self.kernel_size = norm_type, kernel_size
        self.stride, self.ceil_mode = stride, ceil_mode


class LPPool1d(_LPPoolNd):
    """The norm of each window of [N, C, L]. Source: `torch.nn.LPPool1d`."""

    function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """The norm of each window of [N, C, H, W]. Source: `torch.nn.LPPool2d`."""

    function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """The norm of each window of [N, C, D, H, W]. Source: `torch.nn.LPPool3d`."""

    function = staticmethod(F.lp_pool3d)


class _AdaptiveAvgPoolNd(_Pool):
    passed = shown = "output_size"

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Means that make [N, C, L] `output_size` long. Source: `torch.nn.AdaptiveAvgPool1d`."""

    function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Means that make [N, C, H, W] of `output_size`. Source: `torch.nn.AdaptiveAvgPool2d`."""

    function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Means that make [N, C, D, H, W] of `output_size`. Source: `torch.nn.AdaptiveAvgPool3d`."""

    function = staticmethod(F.adaptive_avg_pool3d)


class _AdaptiveMaxPoolNd(_Pool):
    passed = "output_size return_indices"
    shown = "output_size"

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maxima that make [N, C, L] `output_size` long. Source: `torch.nn.AdaptiveMaxPool1d`."""

    function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maxima that make [N, C, H, W] of `output_size`. Source: `torch.nn.AdaptiveMaxPool2d`."""

    function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maxima that make [N, C, D, H, W] of `output_size`. Source: `torch.nn.AdaptiveMaxPool3d`."""

    function = staticmethod(F.adaptive_max_pool3d)


class _FractionalMaxPool(_Pool):
    rank: int
    passed = "kernel_size output_size output_ratio return_indices _random_samples"
    shown = ""

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if (output_size is None) == (output_ratio is None):
            raise failure(ValueError, f"{name} requires either an output_size or an output_ratio")
        self.kernel_size, self.return_indices = each(kernel_size, self.rank), return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else each(output_size, self.rank)
        self.output_ratio = None if output_ratio is None else each(output_ratio, self.rank)
        if not all(0 < r < 1 for r in self.output_ratio or ()):
            raise failure(ValueError, f"{name}: output_ratio must be between 0 and 1 (got {output_ratio})")


class FractionalMaxPool2d(_FractionalMaxPool):
    """The largest of windows of [N, C, H, W] drawn by chance. Source: `torch.nn.FractionalMaxPool2d`."""

    rank, function = 2, staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPool):
    """The largest of windows of [N, C, D, H, W] drawn by chance. Source: `torch.nn.FractionalMaxPool3d`."""

    rank, function = 3, staticmethod(F.fractional_max_pool3d)
