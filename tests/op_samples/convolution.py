"""Convolutions and their gradients, which are the other convolutions."""

from __future__ import annotations

from typing import Any

from op_samples.table import add, f


def _conv(name: str, *shapes: tuple[int, ...], transposed: bool = False, **options: Any) -> None:
    """Samples of a convolution without and with bias."""
    out = shapes[1][1] * options.get("groups", 1) if transposed else shapes[1][0]
    op = "conv_transpose" if transposed else "convolution"
    add(op, lambda fg, x, w: getattr(fg.nn.functional, name)(x, w, **options), *(f(*s) for s in shapes))
    add(
        f"{op}_bias",
        lambda fg, x, w, c: getattr(fg.nn.functional, name)(x, w, c, **options),
        *(f(*s) for s in shapes),
        f(out),
    )


_conv("conv1d", (2, 3, 7), (4, 3, 3))
_conv("conv1d", (3, 7), (4, 3, 2), stride=2, padding=1)
_conv("conv1d", (2, 4, 9), (6, 2, 3), padding="same", dilation=2, groups=2)
_conv("conv1d", (2, 3, 6), (4, 3, 4), padding="same")
_conv("conv2d", (2, 3, 6, 5), (4, 3, 3, 2), padding=(1, 2))
_conv("conv2d", (2, 3, 9, 9), (2, 3, 1, 1))
_conv("conv2d", (2, 3, 7, 7), (2, 3, 1, 1), stride=2)
_conv("conv2d", (2, 4, 7, 8), (8, 1, 3, 3), stride=(2, 3), padding=1, dilation=(2, 1), groups=4)
_conv("conv3d", (2, 2, 4, 5, 4), (3, 2, 2, 3, 2), stride=(1, 2, 1), padding=(0, 1, 1))
add("convolution", lambda fg, x, w: fg.nn.functional.conv2d(x, w), f(0, 3, 6, 5), f(4, 3, 3, 2))
_conv("conv_transpose1d", (2, 3, 5), (3, 2, 3), transposed=True, stride=2, output_padding=1)
_conv("conv_transpose1d", (3, 5), (3, 2, 3), transposed=True, padding=2)
_conv("conv_transpose1d", (2, 3, 5), (3, 2, 3), transposed=True, output_padding=2, dilation=3)
_conv(
    "conv_transpose2d",
    (2, 4, 4, 3),
    (4, 3, 2, 3),
    transposed=True,
    stride=(2, 1),
    padding=1,
    groups=2,
    dilation=(1, 2),
)
_conv(
    "conv_transpose3d",
    (1, 2, 3, 2, 3),
    (2, 2, 2, 2, 3),
    transposed=True,
    stride=(1, 2, 2),
    output_padding=(0, 1, 1),
)


def _weight_gradient(fg: Any, x: Any, w: Any, name: str, **options: Any) -> Any:
    w = w if w.requires_grad else w.detach().requires_grad_()
    square = (getattr(fg.nn.functional, name)(x, w, **options) ** 2).sum()
    (gradient,) = fg.autograd.grad(square, w, create_graph=True)
    return gradient


for _name, _input, _kernel, _options in (
    ("conv1d", (2, 3, 9), (4, 3, 2), {"stride": 3}),
    ("conv2d", (2, 3, 6, 5), (4, 3, 3, 2), {"stride": 2, "padding": 1}),
    ("conv2d", (2, 4, 6, 5), (4, 2, 2, 2), {"groups": 2, "dilation": 2}),
):
    add(
        "conv_weight",
        lambda fg, x, w, n=_name, o=_options: _weight_gradient(fg, x, w, n, **o),
        f(*_input, low=0.1, high=0.5),
        f(*_kernel, low=0.1, high=0.5),
    )
