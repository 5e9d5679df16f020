"""Results as long as values say. (The last of the modules: arrays are drawn in a row.)"""

from __future__ import annotations

from op_samples.table import add, f, i

add("nonzero", lambda fg, x: fg.nonzero(x > 0, as_tuple=True)[0], f(3, 4), gradients=False)
add("repeated_indices", lambda fg, x, n: fg.repeat_interleave(x, n, dim=1), f(2, 3), i(3, high=3))
for _name in ("distinct", "count_distinct"):
    add(_name, lambda fg, x: fg.unique(x, return_inverse=True, return_counts=True), i(3, 4, high=5))
    add(_name, lambda fg, x: fg.unique(x, dim=1, return_inverse=True, return_counts=True), i(2, 5, high=2))
    add(_name, lambda fg, x: fg.unique_consecutive(x, return_counts=True), i(9, high=2))
add("bincount", lambda fg, x: fg.bincount(x), i(7, high=5))
add("bincount", lambda fg, x, w: fg.bincount(x, w.detach(), minlength=9), i(7, high=5), f(7))
# Beside them for the same reason.
add("channels_last", lambda fg, x: x.clone(memory_format=fg.channels_last), f(2, 3, 2, 2))
