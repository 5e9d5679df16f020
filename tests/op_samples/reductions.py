"""Reductions, sorting and sums along a dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from op_samples.table import add, b, f, i

for _name in ("sum", "mean", "prod", "amax", "amin", "var", "std", "all", "any"):
    _options: dict[str, Any] = {"gradients": _name not in ("all", "any")}
    _whole = {"amax": lambda fg, x: fg.amax(x, ()), "amin": lambda fg, x: fg.amin(x, ())}
    add(_name, _whole.get(_name, lambda fg, x, n=_name: getattr(fg, n)(x)), f(3, 4), **_options)
    add(_name, lambda fg, x, n=_name: getattr(fg, n)(x, 1), f(3, 4), **_options)
    add(_name, lambda fg, x, n=_name: getattr(fg, n)(x, dim=0, keepdim=True), f(3, 4, 2), **_options)
for _name in ("sum", "mean", "var", "std"):
    add(_name, lambda fg, x, n=_name: getattr(fg, n)(x, dim=(0, 2)), f(3, 4, 2))
add("sum", lambda fg, x: fg.sum(x, 0), f(0, 3))
add("sum", lambda fg, x: fg.sum(x), i(3, 4))
add("sum", lambda fg, x: x.sum(axis=1, keepdims=True), b(3, 4))
add("prod", lambda fg, x: fg.prod(x, 1), np.array([[1.0, 0.0, 3.0], [0.0, 2.0, 0.0], [1.0, 2.0, 3.0]]))
add("amax", lambda fg, x: fg.amax(x, 1), np.array([[1.0, 3.0, 3.0], [2.0, 1.0, 0.0]]), second=False)
add("max", lambda fg, x: fg.max(x), f(3, 4))
add("min", lambda fg, x: x.min(), f(3, 4))
add("argmax", lambda fg, x: fg.argmax(x, 1), f(3, 4), gradients=False)
add("argmax", lambda fg, x: fg.argmax(x), f(3, 4), gradients=False)
# One number is large, so that the answer is another one the other way round.
add(
    "argmin",
    lambda fg, x: fg.argmin(x, 0, keepdim=True),
    f(3, 4) + 9 * (np.arange(12.0).reshape(3, 4) == 0),
    gradients=False,
)
add("logsumexp", lambda fg, x: fg.logsumexp(x, 1), f(3, 4))
add("logsumexp", lambda fg, x: fg.logsumexp(x, (0, 1), keepdim=True), f(3, 4))
add("norm", lambda fg, x: x.norm(), f(3, 4))
add("norm", lambda fg, x: fg.linalg.norm(x, dim=1), f(3, 4))
add("norm", lambda fg, x: fg.norm(x, p=1) + fg.norm(x, p=3), f(3, 4))
add("norm", lambda fg, x: fg.norm(x, p=0.5, dim=0) + fg.norm(x, p=-1.0, dim=0), f(3, 4, low=0.5))
add("norm", lambda fg, x: fg.linalg.vector_norm(x, 0) + fg.linalg.vector_norm(x, float("inf")), f(3, 4))
add("norm", lambda fg, x: fg.linalg.vector_norm(x, 1.5, (0, 2), True), f(3, 4, 2))
add("norm", lambda fg, x: fg.dist(x[:2], x[2:], 3), f(4, 3))
add("norm", lambda fg, x: fg.renorm(x, 2, 0, 1.5), f(3, 4))
add("sum", lambda fg, x: fg.nansum(fg.where(x > 1, float("nan"), x), 1), f(3, 4))
add("sum", lambda fg, x: fg.sum(x, 0, dtype=fg.float64) + fg.count_nonzero(x, 0), i(3, 4))
add("mean", lambda fg, x: fg.nanmean(fg.where(x > 1, float("nan"), x), 0), f(3, 4))
add("var", lambda fg, x: fg.var(x, 1, correction=0.5), f(3, 4))
add("var", lambda fg, x: sum(fg.var_mean(x, 0)), f(3, 4))
add("std", lambda fg, x: sum(fg.std_mean(x, 0, keepdim=True)), f(3, 4))
add("any", lambda fg, x: fg.any(x, ()), b(3, 4), gradients=False)

# Order.
for _name in ("max", "min", "median", "nanmedian"):
    add(f"{_name}_dim", lambda fg, x, n=_name: getattr(fg, n)(x, 1), f(3, 5))
    add(f"{_name}_dim", lambda fg, x, n=_name: getattr(fg, n)(x, 0, keepdim=True), f(3, 5))
_gaps = np.array([[np.nan, 1.0, 3.0, np.nan], [2.0, 1.0, 0.0, 5.0], [np.nan] * 4])
for _name in ("median", "nanmedian"):
    add(_name, lambda fg, x, n=_name: getattr(fg, n)(x), f(3, 5))
    add(_name, lambda fg, x, n=_name: getattr(fg, n)(x), np.array([2.0, 1.0, 2.0, 3.0]))
    add(f"{_name}_dim", lambda fg, x, n=_name: getattr(fg, n)(x, 1), _gaps[:2], second=False)
add("amax", lambda fg, x: sum(fg.aminmax(x, dim=1)), f(3, 4))
add("sort", lambda fg, x: fg.sort(x), f(3, 5))
add("sort", lambda fg, x: fg.sort(x, 0, descending=True), f(3, 5))
add("sort", lambda fg, x: fg.sort(x, -1, descending=True), _gaps, second=False)
add("sort", lambda fg, x: fg.msort(x) + fg.argsort(x, 0), f(3, 5))
add("sort", lambda fg, x: fg.quantile(x, 0.3, 1), f(3, 5))
add("sort", lambda fg, x: fg.nanquantile(x, 0.5, 1, interpolation="midpoint"), _gaps[:2], second=False)
add("topk", lambda fg, x: fg.topk(x, 2), f(3, 5))
add("topk", lambda fg, x: x.topk(2, 0, largest=False), f(3, 5))
add("topk", lambda fg, x: fg.topk(x, 3, 1), f(2, 1500))
add("kthvalue", lambda fg, x: fg.kthvalue(x, 2), f(3, 5))
add("kthvalue", lambda fg, x: x.kthvalue(3, 0, keepdim=True), f(3, 5))
add("mode", lambda fg, x: fg.mode(x), np.array([[2.0, 1.0, 2.0, 1.0, 3.0], [4.0, 0.0, 4.0, 1.0, 1.0]]))
add("mode", lambda fg, x: fg.mode(x, 0, keepdim=True), i(6, 4), gradients=False)

# Running along a dimension.
_zeros = np.array([[1.5, 0.0, -2.0, 0.5], [0.0, 2.0, 0.0, 3.0], [1.0, 2.0, -3.0, 0.5]])
add("cumsum", lambda fg, x: fg.cumsum(x, 1), f(3, 5))
add("cumsum", lambda fg, x: x.cumsum(0), i(3, 5))
add("cumsum", lambda fg, x: fg.cumulative_trapezoid(x, dx=0.5), f(3, 5))
add("cumprod", lambda fg, x: fg.cumprod(x, 1), f(3, 5))
add("cumprod", lambda fg, x: fg.cumprod(x, 0, dtype=fg.int32), i(3, 5))
add("cumprod", lambda fg, x: x.cumprod(1), _zeros)
add("prod", lambda fg, x: fg.prod(x, 1) + fg.prod(x), _zeros)
add("product_of_others", lambda fg, x: _product_slope(fg, x, 1), _zeros)
add("product_of_others", lambda fg, x: _product_slope(fg, x[2], None), _zeros)
add("linear_recurrence", lambda fg, x: _inner_gradient(fg, x, lambda t: fg.cumprod(t, 1)), f(3, 4))
add("logcumsumexp", lambda fg, x: fg.logcumsumexp(x, 1), f(3, 5))
add("logcumsumexp", lambda fg, x: x.logcumsumexp(0), f(6))
for _name in ("cummax", "cummin"):
    add(_name, lambda fg, x, n=_name: getattr(fg, n)(x, 1), f(3, 5))
    add(_name, lambda fg, x, n=_name: getattr(fg, n)(x, 0), _gaps, second=False)
add("sub", lambda fg, x: fg.diff(x, 2), f(3, 5))
add("sub", lambda fg, x: fg.gradient(x, spacing=0.5, edge_order=2)[0] + fg.trapezoid(x, dim=0), f(4, 3))

# What a mask keeps.
_masked: dict[str, dict[str, Any]] = {
    "sum": {"dim": 1},
    "prod": {"dim": 1},
    "amax": {"dim": 1},
    "mean": {"dim": (0, 1)},
    "std": {"dim": 1},
    "norm": {"dim": 1},
    "softmax": {"dim": 1},
    "cumsum": {"dim": 0},
}
for _name, _given in _masked.items():
    add(
        "where",
        lambda fg, x, mask, n=_name, given=_given: getattr(fg.masked, n)(x, mask=mask, **given),
        f(3, 4),
        np.array([True, False, True, True]),
    )

# Counting, and distances.
add("matmul", lambda fg, x: fg.cov(x) + fg.corrcoef(x), f(3, 5))
add("isin", lambda fg, x, y: fg.isin(x, y), i(3, 4), i(2), gradients=False)
add("searchsorted", lambda fg, x, y: fg.searchsorted(x, y, right=True), np.arange(5.0), f(3), gradients=False)
add(
    "searchsorted",
    lambda fg, x, y: fg.searchsorted(fg.sort(x)[0], y, out_int32=True),
    f(2, 5),
    f(2, 3),
    gradients=False,
)
add(
    "searchsorted", lambda fg, x: fg.bucketize(x, fg.tensor([0.0, 1.0], dtype=x.dtype)), f(3), gradients=False
)
add("histc", lambda fg, x: fg.histc(x, 4, -1, 1), f(20), gradients=False)
add("histogram", lambda fg, x: fg.histogram(x, 4), f(20), gradients=False)
add("histogram", lambda fg, x, w: fg.histogram(x, 3, weight=w, density=True), f(20), f(20), gradients=False)
for _p in (0.5, 1, 2, 3, float("inf")):
    add("cdist", lambda fg, x, y, p=_p: fg.cdist(x, y, p), f(2, 3, 4), f(2, 5, 4), second=False)
add("cdist", lambda fg, x: fg.nn.functional.pdist(x), f(4, 3), second=False)


def _inner_gradient(fg: Any, x: Any, function: Any) -> Any:
    """The gradient of the weighted sum of `function(x)`, as a part of the sample's own computation."""
    leaf = x if x.requires_grad else x.detach().requires_grad_()
    y = function(leaf)
    total = (y * fg.arange(1, y.numel() + 1, dtype=y.dtype).reshape(y.shape)).sum()
    return fg.autograd.grad(total, leaf, create_graph=True)[0]


def _product_slope(fg: Any, x: Any, dim: int | None) -> Any:
    return _inner_gradient(fg, x, lambda t: fg.prod(t) if dim is None else fg.prod(t, dim))
