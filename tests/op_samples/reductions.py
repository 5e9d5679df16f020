"""Reductions, sorting and sums along a dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from op_samples.table import add, b, f, i

for _name in ("sum", "mean", "prod", "amax", "amin", "var", "std", "all", "any"):
    _options: dict[str, Any] = {"gradients": _name not in ("all", "any")}
    _op = {"std": "var"}.get(_name, _name)
    _whole = {"amax": lambda fg, x: fg.amax(x, ()), "amin": lambda fg, x: fg.amin(x, ())}
    add(_op, _whole.get(_name, lambda fg, x, n=_name: getattr(fg, n)(x)), f(3, 4), **_options)
    add(_op, lambda fg, x, n=_name: getattr(fg, n)(x, 1), f(3, 4), **_options)
    add(_op, lambda fg, x, n=_name: getattr(fg, n)(x, dim=0, keepdim=True), f(3, 4, 2), **_options)
for _name in ("sum", "mean", "var"):
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
add("argmin", lambda fg, x: fg.argmin(x, 0, keepdim=True), f(3, 4), gradients=False)
add("logsumexp", lambda fg, x: fg.logsumexp(x, 1), f(3, 4))
add("logsumexp", lambda fg, x: fg.logsumexp(x, (0, 1), keepdim=True), f(3, 4))
add("norm", lambda fg, x: x.norm(), f(3, 4))
add("norm", lambda fg, x: fg.linalg.norm(x, dim=1), f(3, 4))
add("norm", lambda fg, x: fg.norm(x, p=1) + fg.norm(x, p=3), f(3, 4))
for _name in ("max", "min", "median"):
    add(f"{_name}_dim", lambda fg, x, n=_name: getattr(fg, n)(x, 1), f(3, 5))
    add(f"{_name}_dim", lambda fg, x, n=_name: getattr(fg, n)(x, 0, keepdim=True), f(3, 5))
add("median_dim", lambda fg, x: x.median(), f(3, 5))
add("sort", lambda fg, x: fg.sort(x), f(3, 5))
add("sort", lambda fg, x: fg.sort(x, 0, descending=True), f(3, 5))
add("topk", lambda fg, x: fg.topk(x, 2), f(3, 5))
add("topk", lambda fg, x: x.topk(2, 0, largest=False), f(3, 5))
add("cumsum", lambda fg, x: fg.cumsum(x, 1), f(3, 5))
add("cumsum", lambda fg, x: x.cumsum(0), i(3, 5))
