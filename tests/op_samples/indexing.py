# ruff: noqa: E501  (one call a line reads as the table that it is)
"""Reading and writing by position."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegrad.eager.core.op import REGISTRY, bind
from op_samples.table import add, b, f, i

for _index in ([0, 2], ([0, 1], [1, 3]), (slice(None), [3, 0, 0]), (1, [0, 2]), ([[0, 1], [2, 3]],), (0, slice(None), [1, 0]),
               ([0, 1], slice(None), [1, 0]), (None, [1], ..., None)):  # fmt: skip
    add("take", lambda fg, x, index=_index: x[index], f(4, 5, 3))
add("take", lambda fg, x, index: x[index], f(4, 5), i(2, 3, high=4))
add("take", lambda fg, x: x[x > 0], f(4, 5))
add("take", lambda fg, x, index: x[:, index, None], f(4, 5), b(5))
add("take", lambda fg, x, index: fg.index_select(x, 1, index), f(4, 5), i(3))
add("take", lambda fg, w, index: fg.nn.functional.embedding(index, w), f(5, 3), i(2, 4))
add("take", lambda fg, x, index: fg.take(x, index) + x[[0], [1]], f(3, 4), i(2, 2, low=-3, high=4))
add("take", lambda fg, x, mask: fg.masked_select(x, mask), f(3, 4), b(4))
add(
    "gradient_stopped",
    lambda fg, w, index: fg.nn.functional.embedding(index, w, padding_idx=1),
    f(5, 3),
    i(2, 4),
)
add("put", lambda fg, x, index, s: fg.put(x, index, s), f(3, 4), np.array([[7, -1], [0, 4]]), f(2, 2))
add("put", lambda fg, x, index, s: fg.put(x, index, s, accumulate=True), f(3, 4), i(2, 4, high=9), f(2, 4))
add(
    "put",
    lambda fg, x, p, q, s: fg.index_put(x, (p, q), s, accumulate=True),
    f(3, 4),
    i(5, high=3),
    i(5, high=4),
    f(5),
)
add("put", lambda fg, x, index: fg.index_fill(x, 1, index, 0.5), f(3, 4), np.array([0, 2]))
add(
    "put", lambda fg, x, index, s: fg.index_add(x, 1, index, s, alpha=2), f(2, 3, 2), i(4, high=3), f(2, 4, 2)
)
add("flat_index", lambda fg, x, p, q: x[p, q], f(4, 5), i(3, 1, high=4), i(2))
add("put", lambda fg, x, index, s: fg.index_add(x, 0, index, s), f(4, 3), i(5, high=4), f(5, 3))
add("put", lambda fg, x, index, s: fg.index_copy(x, 0, index, s), f(4, 3), np.array([2, 0]), f(2, 3))
add("nonzero", lambda fg, x: fg.nonzero(x > 0), f(3, 4), gradients=False)
add("gather", lambda fg, x, index: fg.gather(x, 1, index), f(3, 4), i(3, 2, high=4))
add("gather", lambda fg, x, index: fg.take_along_dim(x, index, 0), f(3, 4), i(1, 4, high=3))
add("scatter", lambda fg, x, index, s: fg.scatter_add(x, 0, index, s), f(3, 4), i(2, 4, high=3), f(2, 4))
add(
    "scatter",
    lambda fg, x, index, s: fg.scatter(x, 1, index, s),
    f(3, 4),
    np.array([[0, 2], [1, 3], [3, 0]]),
    f(3, 2),
)
add("scatter", lambda fg, x, index: x.scatter(1, index, 1.5), f(3, 4), i(3, 2, high=4))
for _reduce in ("sum", "prod", "mean", "amax", "amin"):
    for _include in (True, False):
        _call = lambda fg, x, index, s, how=_reduce, include=_include: fg.scatter_reduce(  # noqa: E731
            x, 1, index, s, how, include_self=include
        )
        add("scatter_reduce", _call, f(3, 4, low=0.5), i(3, 5, high=4), f(3, 5, low=0.5))
add(
    "scatter_reduce",
    lambda fg, x, index, s: fg.index_reduce(x, 0, index, s, "prod"),
    f(4, 3, low=0.5),
    i(5, high=4),
    f(5, 3, low=0.5),
)
add(
    "scatter",
    lambda fg, x, index: fg.scatter(x, 0, index, 2.0, reduce="add"),
    f(3, 4),
    i(2, 4, high=3),
    gradients=False,
)
add("nonzero_static", lambda fg, x: fg.nonzero_static(x > 0, size=7, fill_value=-2), f(2, 3), gradients=False)
add("floor_divide", lambda fg, x: fg.unravel_index(x, (3, 4)), i(5, high=12), gradients=False)
add("where", lambda fg, x, mask, s: fg.masked_scatter(x, mask, s), f(3, 4), b(3, 4), f(13))
add("where", lambda fg, x: fg.fill(x, 3.0), f(3, 4))
add(
    "assign",
    lambda fg, x, s: fg.select_scatter(x, s, 1, 2) + fg.slice_scatter(x, s.unsqueeze(1), 1, 1, 2),
    f(3, 4),
    f(3),
)
add("assign", lambda fg, x, y: _written(fg, x, y), f(3, 4), f(4))
add("assign", lambda fg, x: fg.nn.functional.pad(x, (1, 2, 0, 1), value=0.5), f(3, 4))
# What graphs say of writes; PyTorch has no such ops.
add(
    "rewritten",
    lambda fg, x, y: _write(fg, "rewritten", x, y, y.detach() + (x - x.detach())),
    f(3, 4),
    f(3, 4),
)
add("overwritten", lambda fg, x, y: _write(fg, "overwritten", x, y, y + x * 0), f(3, 4), f(3, 4))
add("eq", lambda fg, x: fg.nn.functional.one_hot(x, 5), i(3, 2), gradients=False)


def _write(fg: Any, name: str, x: Any, y: Any, meant: Any) -> Any:
    """What the op gives, and in PyTorch what has the same value and gradients; with y, so that it is reached."""
    return (meant if fg.__name__ == "torch" else bind(REGISTRY[name], (x, y))) * 3 + y


def _written(fg: Any, x: Any, y: Any) -> Any:
    """x with a row replaced by an in-place write."""
    z = x * 1
    z[1] = y
    z[:, 2] = 0.5
    return z
