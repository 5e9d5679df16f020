# ruff: noqa: E501  (one call a line reads as the table that it is)
"""Resizing, irregular pools, columns and grids."""

from __future__ import annotations

from typing import Any

from op_samples.table import add, f


def _resize(*shape: int, **options: Any) -> None:
    add("resample", lambda fg, x: fg.nn.functional.interpolate(x, **options), f(*shape))


for _mode in ("nearest", "nearest-exact", "area"):
    _resize(2, 3, 5, size=8, mode=_mode)
    _resize(2, 3, 5, 4, scale_factor=(0.6, 1.7), mode=_mode)
    _resize(1, 2, 3, 5, 4, size=(4, 2, 4), mode=_mode)
for _align in (False, True):
    _resize(2, 3, 5, size=8, mode="linear", align_corners=_align)
    _resize(2, 3, 5, 4, scale_factor=(0.6, 1.7), mode="bilinear", align_corners=_align)
    _resize(
        2,
        3,
        5,
        4,
        scale_factor=(0.6, 1.7),
        mode="bilinear",
        align_corners=_align,
        recompute_scale_factor=True,
    )
    _resize(2, 3, 5, 4, size=(5, 7), mode="bicubic", align_corners=_align)
    _resize(2, 3, 7, 4, size=(3, 7), mode="bilinear", align_corners=_align, antialias=True)
    _resize(2, 3, 7, 9, size=(3, 4), mode="bicubic", align_corners=_align, antialias=True)
    _resize(1, 2, 3, 5, 4, size=(4, 2, 4), mode="trilinear", align_corners=_align)
_resize(2, 3, 9, 8, size=(3, 5), mode="lanczos", antialias=True)
add("resample", lambda fg, x: fg.nn.functional.upsample_bilinear(x, 6), f(2, 3, 4, 4))
add("resample", lambda fg, x: fg.nn.functional.upsample_nearest(x, scale_factor=2), f(2, 3, 4, 4))
add("resample", lambda fg, x: fg.nn.functional.adaptive_avg_pool1d(x, 3), f(2, 3, 7))
add("resample", lambda fg, x: fg.nn.functional.adaptive_avg_pool2d(x, (3, None)), f(3, 7, 5))
add("resample", lambda fg, x: fg.nn.functional.adaptive_avg_pool3d(x, 1), f(2, 3, 4, 3, 2))

for _rank, _size in ((1, 3), (2, (3, None)), (3, (2, 1, 3))):
    _name = f"adaptive_max_pool{_rank}d"
    add(
        "adaptive_max_place",
        lambda fg, x, n=_name, s=_size: getattr(fg.nn.functional, n)(x, s, return_indices=True),
        f(2, 3, *(7, 5, 4)[:_rank]),
    )
    add(
        "adaptive_max_place",
        lambda fg, x, n=_name, s=_size: getattr(fg.nn.functional, n)(x, s),
        f(3, *(7, 5, 4)[:_rank]),
    )
    if _rank > 1:
        _name = f"fractional_max_pool{_rank}d"
        add("fractional_max_place", lambda fg, x, s, n=_name: getattr(fg.nn.functional, n)(x, 2, output_ratio=(0.5,) * (x.ndim - 2), return_indices=True, _random_samples=s.detach()),
            f(2, 3, *(7, 6, 6)[:_rank]), f(2, 3, _rank, low=0.0, high=1.0))  # fmt: skip

add("im2col", lambda fg, x: fg.nn.functional.unfold(x, (2, 3), padding=1, stride=(2, 1)), f(2, 3, 5, 4))
add("im2col", lambda fg, x: fg.nn.functional.unfold(x, 2, dilation=2), f(3, 5, 4))
add("col2im", lambda fg, x: fg.nn.functional.fold(x, (5, 4), (2, 3), padding=1, stride=(2, 1)), f(2, 18, 12))
add("col2im", lambda fg, x: fg.nn.functional.fold(x, (5, 4), 2, dilation=2), f(12, 6))
add("permute", lambda fg, x: fg.nn.functional.pixel_shuffle(x, 2), f(2, 8, 3, 2))
add("permute", lambda fg, x: fg.nn.functional.pixel_unshuffle(x, 2), f(2, 2, 6, 4))
add("permute", lambda fg, x: fg.nn.functional.channel_shuffle(x, 3), f(2, 6, 3))

for _rank, _modes in ((2, ("bilinear", "nearest", "bicubic")), (3, ("bilinear", "nearest"))):
    for _mode in _modes:
        for _padding in ("zeros", "border", "reflection"):
            for _align in (False, True):
                add("pixel_pick", lambda fg, x, grid, m=_mode, p=_padding, a=_align: fg.nn.functional.grid_sample(x, grid, m, p, a),
                    f(2, 3, *(4, 5, 3)[:_rank], low=-0.1, high=0.1), f(2, *(3, 2, 2)[:_rank], _rank))  # fmt: skip
for _align in (False, True):
    add(
        "linspace",
        lambda fg, theta, a=_align: fg.nn.functional.affine_grid(theta, (2, 1, 3, 4), a),
        f(2, 2, 3),
    )
    add(
        "linspace",
        lambda fg, theta, a=_align: fg.nn.functional.affine_grid(theta, (2, 1, 3, 1, 2), a),
        f(2, 3, 4),
    )


def _image_gradient(fg: Any, x: Any, grid: Any) -> Any:
    x = x if x.requires_grad else x.detach().requires_grad_()
    square = (fg.nn.functional.grid_sample(x, grid, align_corners=False) ** 2).sum()
    (gradient,) = fg.autograd.grad(square, x, create_graph=True)
    return gradient


add("pixel_put", _image_gradient, f(2, 3, 4, 5), f(2, 3, 2, 2))
# Pools to no outputs, which have no gradients.
for _pool in ("adaptive_avg_pool2d", "adaptive_max_pool2d"):
    add(
        "no_windows",
        lambda fg, x, pool=_pool: getattr(fg.nn.functional, pool)(x, (0, 3)),
        f(2, 3, 5, 4),
        gradients=False,
        second=False,
    )
