"""Ranks and pseudo-inverses of batches, with a tolerance for each example, or for each matrix of it."""

from __future__ import annotations

from typing import Any

import pytest

import fusegrad as fg

COUNT = 2  # as many examples as matrices in one, so that one must not be taken for the other


@pytest.mark.parametrize("inner", [(), (COUNT,), (3, COUNT)], ids=str)
@pytest.mark.parametrize("tolerances", [(), (COUNT,)], ids=str)
@pytest.mark.parametrize("in_dims", [(0, 0), (0, None), (None, 0)], ids=str)
@pytest.mark.parametrize("name", ["matrix_rank", "pinv"])
def test_tolerances_meet_their_examples(name: str, in_dims: Any, tolerances: Any, inner: Any) -> None:
    fg.manual_seed(0)
    several = [() if dim is None else (COUNT,) for dim in in_dims]
    scales = fg.logspace(0, -3, 4).diag_embed()
    A = fg.randn(*several[0], *inner, 4, 4) @ scales @ fg.randn(4, 4)
    t = 10 ** -(fg.rand(*several[1], *tolerances) * 3)

    def function(a: fg.Tensor, t: fg.Tensor) -> Any:
        return getattr(fg.linalg, name)(a, atol=t)

    made = fg.vmap(function, in_dims)(A, t)
    rows = [
        function(*[x if dim is None else x[i] for x, dim in zip((A, t), in_dims, strict=True)])
        for i in range(COUNT)
    ]
    expected = fg.stack(rows)
    assert made.shape == expected.shape
    assert fg.allclose(made, expected, rtol=1e-3)
