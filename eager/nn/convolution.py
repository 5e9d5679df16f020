"""Convolutional layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.places.device import on_its_device
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn import functional as F, init
from fusegrad.eager.nn.declare_layer import optional_parameter, parameter
from fusegrad.eager.nn.module import Module

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def each(value: Any, rank: int) -> tuple[Any, ...]:
    """One value for each of `rank` dimensions: the values themselves, or the one repeated."""
    return tuple(value) if isinstance(value, (list, tuple)) else (value,) * rank


class _ConvNd(Module):
    """What all convolutions share. weight: [out, in / groups, *kernel] ([in, out / groups, *kernel] if
    transposed); bias: [out]."""

    rank: int
    function: Callable[..., Tensor]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        transposed: bool,
        output_padding: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        dtype: Any,
    ) -> None:
        super().__init__()
        rank = self.rank
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = each(kernel_size, rank), each(stride, rank)
        self.padding: Any = padding if isinstance(padding, str) else each(padding, rank)
        self.dilation, self.output_padding = each(dilation, rank), each(output_padding, rank)
        self.transposed, self.padding_mode = transposed, padding_mode
        self._check()
        channels = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        self.weight = parameter(channels[0], channels[1] // groups, *self.kernel_size, dtype=dtype)
        optional_parameter(self, "bias", bias, out_channels, dtype=dtype)
        self.reset_parameters()

    def _check(self) -> None:
        """Raise ValueError for arguments that make no convolution."""
        name = type(self).__name__
        if self.groups <= 0:
            raise failure(ValueError, f"{name}: groups must be a positive integer, got {self.groups}")
        for what in ("in_channels", "out_channels"):
            if getattr(self, what) % self.groups:
                raise failure(
                    ValueError,
                    f"{name}: {what}={getattr(self, what)} must be divisible by groups={self.groups}",
                )
        if isinstance(self.padding, str) and self.padding not in ("same", "valid"):
            raise failure(
                ValueError, f"{name}: Invalid padding string {self.padding!r}, should be 'same' or 'valid'"
            )
        if self.padding == "same" and any(s != 1 for s in self.stride):
            raise failure(ValueError, f"{name}: padding='same' is not supported for strided convolutions")
        if self.padding_mode not in PADDING_MODES:
            raise failure(
                ValueError, f"{name}: padding_mode must be one of {PADDING_MODES}, got {self.padding_mode!r}"
            )

    def reset_parameters(self) -> None:
        """Draw initial values: uniform within 1 / sqrt(inputs of an output)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan = math.prod(self.weight.shape[1:])
            bound = 1 / math.sqrt(fan) if fan > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        )
        if self.padding != (0,) * len(self.padding):
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self.rank:
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * self.rank:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        return text if self.padding_mode == "zeros" else f"{text}, padding_mode={self.padding_mode}"


class _Conv(_ConvNd):
    @on_its_device
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, False, 0, groups, bias,
            padding_mode, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._widths(), self.padding_mode), 0
        return type(self).function(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )

    def _widths(self) -> list[int]:
        """The padding as `pad` takes it: before and after, from the last dimension on."""
        widths: list[int] = []
        for axis in reversed(range(self.rank)):
            if self.padding == "same":
                total = self.dilation[axis] * (self.kernel_size[axis] - 1)
                widths += [total // 2, total - total // 2]
            else:
                widths += [0 if self.padding == "valid" else self.padding[axis]] * 2
        return widths


class Conv1d(_Conv):
    """Cross-correlation of [N, C, L] with learned kernels. Source: `torch.nn.Conv1d`."""

    rank, function = 1, staticmethod(F.conv1d)


class Conv2d(_Conv):
    """Cross-correlation of [N, C, H, W] with learned kernels. Source: `torch.nn.Conv2d`."""

    rank, function = 2, staticmethod(F.conv2d)


class Conv3d(_Conv):
    """Cross-correlation of [N, C, D, H, W] with learned kernels. Source: `torch.nn.Conv3d`."""

    rank, function = 3, staticmethod(F.conv3d)


class _ConvTransposeNd(_ConvNd):
    @on_its_device
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise failure(ValueError, f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, True, output_padding, groups,
            bias, padding_mode, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        extra = self.output_padding if output_size is None else self._extra(input, tuple(output_size))
        return type(self).function(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )

    def _extra(self, input: Tensor, wanted: tuple[int, ...]) -> tuple[int, ...]:
        """The output padding that gives the size `wanted`; raises ValueError where none does."""
        rank, lead = self.rank, input.ndim - self.rank
        if len(wanted) not in (rank, lead + rank):
            raise failure(
                ValueError,
                f"{type(self).__name__}: output_size needs {rank} or {lead + rank} elements, got {wanted}",
            )
        extra = []
        for axis, size in enumerate(wanted[-rank:]):
            covered = (input.shape[lead + axis] - 1) * self.stride[axis] - 2 * self.padding[axis]
            least = covered + self.dilation[axis] * (self.kernel_size[axis] - 1) + 1
            if not least <= size < least + self.stride[axis]:
                raise failure(
                    ValueError,
                    f"{type(self).__name__}: requested an output size of {wanted}, but dimension {axis} "
                    f"of it can be from {least} to {least + self.stride[axis] - 1}",
                )
            extra.append(size - least)
        return tuple(extra)


class ConvTranspose1d(_ConvTransposeNd):
    """The transpose of `Conv1d`: makes [N, C, L] longer. Source: `torch.nn.ConvTranspose1d`."""

    rank, function = 1, staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTransposeNd):
    """The transpose of `Conv2d`: makes [N, C, H, W] larger. Source: `torch.nn.ConvTranspose2d`."""

    rank, function = 2, staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTransposeNd):
    """The transpose of `Conv3d`: makes [N, C, D, H, W] larger. Source: `torch.nn.ConvTranspose3d`."""

    rank, function = 3, staticmethod(F.conv_transpose3d)
