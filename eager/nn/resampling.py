"""Layers that resize, pad and rearrange."""

from __future__ import annotations

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
    value: float | None = None  # of those that pad with a constant

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


class _ConstantPadNd(_Pad):
    value = 0.0

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ReflectionPadNd(_Pad):
    mode = "reflect"


class _ReplicationPadNd(_Pad):
    mode = "replicate"


class _CircularPadNd(_Pad):
    mode = "circular"


def _pads(name: str, doc: str, bases: tuple[type, ...], **members: Any) -> list[type]:
    """The layers `{name}1d` to `{name}3d`, each derived from its base."""
    made = []
    for rank, base in enumerate(bases, 1):
        title = f"{name}{rank}d"
        text = f"{doc} Source: `torch.nn.{title}`."
        own = {"__module__": __name__, "__doc__": text, "rank": rank, **members}
        made.append(type(title, (base,), own))
    return made


def _zero_init(self: Any, padding: Any) -> None:
    _ConstantPadNd.__init__(self, padding, 0.0)


ConstantPad1d, ConstantPad2d, ConstantPad3d = _pads(
    "ConstantPad", "Padded with `value`.", (_ConstantPadNd,) * 3
)
_zero: dict[str, Any] = {"__init__": _zero_init, "extra_repr": _Pad.extra_repr}
ZeroPad1d, ZeroPad2d, ZeroPad3d = _pads(
    "ZeroPad", "Padded with zeros.", (ConstantPad1d, ConstantPad2d, ConstantPad3d), **_zero
)
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = _pads(
    "ReflectionPad", "Padded with its mirror image, the edge not repeated.", (_ReflectionPadNd,) * 3
)
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = _pads(
    "ReplicationPad", "Padded with its edge.", (_ReplicationPadNd,) * 3
)
CircularPad1d, CircularPad2d, CircularPad3d = _pads(
    "CircularPad", "Padded with what is at the other end.", (_CircularPadNd,) * 3
)
