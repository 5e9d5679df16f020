# ruff: noqa: E501  (one call a line reads as the table that it is)
"""Pooling, and what its gradients are made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from op_samples.table import add, f


def _pool(op: str, name: str, *shape: int, **options: Any) -> None:
    add(op, lambda fg, x: getattr(fg.nn.functional, name)(x, **options), f(*shape))


def _gradient(fg: Any, x: Any, name: str, **options: Any) -> Any:
    """The gradient of a square of the pool: its own gradient picks what the pool's put."""
    x = x if x.requires_grad else x.detach().requires_grad_()
    (gradient,) = fg.autograd.grad(
        (getattr(fg.nn.functional, name)(x, **options) ** 2).sum(), x, create_graph=True
    )
    return gradient


_MAX: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
    ("max_pool1d", (2, 3, 9), {"kernel_size": 2}),
    ("max_pool1d", (3, 9), {"kernel_size": 4, "stride": 2, "padding": 2, "ceil_mode": True}),
    ("max_pool2d", (2, 3, 7, 6), {"kernel_size": (3, 2), "stride": (2, 1), "padding": 1}),
    ("max_pool2d", (0, 3, 7, 6), {"kernel_size": 2}),
    ("max_pool2d", (2, 3, 4, 4), {"kernel_size": 1}),
    ("max_pool2d", (3, 9, 8), {"kernel_size": 2, "stride": 3, "dilation": (2, 3), "ceil_mode": True}),
    ("max_pool3d", (2, 2, 5, 4, 6), {"kernel_size": (2, 1, 3), "stride": (2, 2, 1), "padding": (1, 0, 1)}),
]
for _name, _shape, _options in _MAX:
    _pool("max_pool", _name, *_shape, **_options)
    _pool("max_pool_pick", _name, *_shape, return_indices=True, **_options)
    add(
        "max_pool_place",
        lambda fg, x, n=_name, o=_options: getattr(fg.nn.functional, n)(x, return_indices=True, **o)[1],
        f(*_shape),
    )
    add(
        "max_pool_put",
        lambda fg, x, n=_name, o=_options: _gradient(fg, x, n, **o),
        f(*_shape),
    )
_nan = np.array(
    [[[[np.nan, 1, 2, 3], [4, np.nan, 6, 7], [8, 9, 3, 1], [-np.inf, -np.inf, -np.inf, -np.inf]]]]
)
add("max_pool", lambda fg, x: fg.nn.functional.max_pool2d(x, 3, 1, 1), _nan, gradients=False)
add(
    "max_pool_place",
    lambda fg, x: fg.nn.functional.max_pool2d(x, 3, 1, 1, return_indices=True),
    _nan,
    gradients=False,
)
add(
    "max_pool_place",
    lambda fg, x: fg.nn.functional.max_pool2d(x - np.inf, 3, 2, 1, return_indices=True),
    f(1, 2, 5, 5),
    gradients=False,
)
add("max_pool", lambda fg, x: fg.nn.functional.lp_pool2d(x, float("inf"), 2), f(1, 2, 4, 4))

_MEAN: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
    ("avg_pool1d", (2, 3, 9), {"kernel_size": 3}),
    ("avg_pool1d", (3, 9), {"kernel_size": 4, "stride": 3, "padding": 2, "ceil_mode": True}),
    ("avg_pool2d", (2, 3, 7, 6), {"kernel_size": (3, 2), "stride": (2, 1), "padding": 1, "count_include_pad": False}),
    ("avg_pool2d", (2, 3, 4, 4), {"kernel_size": 1}),
    ("avg_pool2d", (2, 3, 7, 6), {"kernel_size": 3, "divisor_override": -2}),
    ("avg_pool3d", (2, 2, 5, 4, 6), {"kernel_size": (2, 1, 3), "stride": 2, "padding": (1, 0, 1), "ceil_mode": True}),
    ("lp_pool1d", (2, 3, 9), {"norm_type": 2, "kernel_size": 3}),
    ("lp_pool2d", (2, 3, 6, 6), {"norm_type": 4, "kernel_size": 2, "stride": 1, "ceil_mode": True}),
]  # fmt: skip
for _name, _shape, _options in _MEAN:
    _pool("avg_pool", _name, *_shape, **_options)
    add(
        "avg_pool_spread",
        lambda fg, x, n=_name, o=_options: _gradient(fg, x, n, **o),
        f(*_shape),
    )


def _unpool(fg: Any, x: Any, name: str, **options: Any) -> Any:
    values, indices = getattr(fg.nn.functional, name.replace("un", ""))(x, **options, return_indices=True)
    return getattr(fg.nn.functional, name)(values, indices, **options, output_size=x.shape)


add("scatter", lambda fg, x: _unpool(fg, x, "max_unpool1d", kernel_size=2), f(2, 3, 7))
add("scatter", lambda fg, x: _unpool(fg, x, "max_unpool2d", kernel_size=3, stride=2), f(2, 3, 7, 8))
add("scatter", lambda fg, x: _unpool(fg, x, "max_unpool3d", kernel_size=2), f(1, 2, 4, 5, 4))
