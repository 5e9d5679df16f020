"""Matrix products."""

from __future__ import annotations

from typing import Any

from op_samples.table import add, f

for _a, _b in (
    ((3, 4), (4, 2)),
    ((4,), (4,)),
    ((3, 4), (4,)),
    ((4,), (4, 3)),
    ((2, 3, 4), (4, 2)),
    ((2, 1, 3, 4), (5, 4, 2)),
):
    add("matmul", lambda fg, x, y: x @ y, f(*_a), f(*_b))
add("matmul", lambda fg, x, y: fg.einsum("bij,bjk->bki", x, y), f(2, 3, 4), f(2, 4, 2))
add("matmul", lambda fg, x, y: fg.einsum("ii,...j->j", x, y), f(3, 3), f(2, 4))
add("matmul", lambda fg, x, y: fg.tensordot(x, y, 2), f(2, 3, 4), f(3, 4, 2))
add("matmul", lambda fg, x, y: fg.outer(x, y), f(3), f(4))
add("addmm", lambda fg, c, x, y: fg.nn.functional.linear(x, y, c), f(2), f(3, 4), f(2, 4))
add("addmm", lambda fg, c, x, y: fg.addmm(c, x, y), f(3, 1), f(3, 4), f(4, 2))


def _sparse_product(fg: Any, values: Any, x: Any) -> Any:
    places = fg.tensor([[2, 0, 2, 0, 1], [1, 2, 1, 0, 0]])
    if fg.__name__ == "torch":  # its sparse product has no second derivatives
        matrix = fg.zeros(4, 3, dtype=values.dtype)
        return matrix.index_put(tuple(places), values, accumulate=True) @ x
    return fg.sparse_coo_tensor(places, values, (4, 3)) @ x


add("coo_product", _sparse_product, f(5), f(3, 2))
