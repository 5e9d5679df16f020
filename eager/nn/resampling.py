"""Layers that resize, pad and rearrange."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn import functional as F
from fusegrad.eager.nn.convolution import each
from fusegrad.eager.nn.declare_layer import REQUIRED, declared
from fusegrad.eager.nn.module import Module


class Upsample(Module):
    """[N, C, *size] resized to `size` or by `scale_factor`. Source: `torch.nn.Upsample`."""

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size, self.mode, self.align_corners = size, mode, align_corners
        several = isinstance(scale_factor, tuple)
        self.scale_factor = (
            tuple(map(float, scale_factor)) if several else scale_factor and float(scale_factor)
        )
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        given = "size" if self.scale_factor is None else "scale_factor"
        return f"{given}={getattr(self, given)!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` with mode "nearest". Source: `torch.nn.UpsamplingNearest2d`."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """`Upsample` with mode "bilinear", corners aligned. Source: `torch.nn.UpsamplingBilinear2d`."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


def _declared(name: str, function: str, arguments: dict[str, Any]) -> Any:
    return declared(__name__, name, function, arguments, shown=" ".join(arguments))


_COLUMNS = {"kernel_size": REQUIRED, "dilation": 1, "padding": 0, "stride": 1}
Unfold = _declared("Unfold", "unfold", _COLUMNS)
Fold = _declared("Fold", "fold", {"output_size": REQUIRED, **_COLUMNS})
PixelShuffle = _declared("PixelShuffle", "pixel_shuffle", {"upscale_factor": REQUIRED})
PixelUnshuffle = _declared("PixelUnshuffle", "pixel_unshuffle", {"downscale_factor": REQUIRED})
ChannelShuffle = _declared("ChannelShuffle", "channel_shuffle", {"groups": REQUIRED})


# Padding.


class _Pad(Module):
    """Pads the last `rank` dimensions; `padding`: before and after each, from the last on, or one number."""

    rank: int
    mode = "constant"
    value: float | None = None

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = each(padding, 2 * self.rank)

    def forward(self, input: Tensor) -> Tensor:
        if self.mode == "circular" and input.ndim not in (self.rank + 1, self.rank + 2):
            raise failure(
                ValueError,
                f"expected {self.rank + 1}D or {self.rank + 2}D input (got {input.ndim}D input)",
            )
        return F.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        return f"{self.padding}"


def _constant_init(self: Any, padding: Any, value: float) -> None:
    _Pad.__init__(self, padding)
    self.value = value


def _constant_text(self: Any) -> str:
    return f"padding={self.padding}, value={self.value}"


def _pads(name: str, doc: str, **members: Any) -> list[type]:
    """The layers `{name}1d` to `{name}3d`."""
    made = []
    for rank in (1, 2, 3):
        title = f"{name}{rank}d"
        text = f"{doc} Source: `torch.nn.{title}`."
        own = {"__module__": __name__, "__doc__": text, "rank": rank, **members}
        made.append(type(title, (_Pad,), own))
    return made


_constant: dict[str, Callable[..., Any]] = {"__init__": _constant_init, "extra_repr": _constant_text}
ConstantPad1d, ConstantPad2d, ConstantPad3d = _pads("ConstantPad", "Padded with `value`.", **_constant)
ZeroPad1d, ZeroPad2d, ZeroPad3d = _pads("ZeroPad", "Padded with zeros.", value=0.0)
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = _pads(
    "ReflectionPad", "Padded with its mirror image, the edge not repeated.", mode="reflect"
)
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = _pads(
    "ReplicationPad", "Padded with its edge.", mode="replicate"
)
CircularPad1d, CircularPad2d, CircularPad3d = _pads(
    "CircularPad", "Padded with what is at the other end.", mode="circular"
)
