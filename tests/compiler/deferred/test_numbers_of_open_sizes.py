"""Python numbers that are others at each call, in deferred runs of other sizes each: the types of what is
computed with them are those of eager.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import fusegrad as fg

OPS = {
    "add": lambda x, n: x + n,
    "sub": lambda x, n: n - x,
    "mul": lambda x, n: x * n,
    "maximum": lambda x, n: x.clamp(min=n),
    "compared": lambda x, n: (x > n) | (x == n),
    "where": lambda x, n: fg.where(x > 1, x, n),
    "floor": lambda x, n: x // (abs(n) + 1),
    "remainder": lambda x, n: x % (abs(n) + 2),
    "quotient": lambda x, n: x / (abs(n) + 1),
}
DTYPES = (fg.int64, fg.int32, fg.float32, fg.float64)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_types_are_those_of_eager(op: str, dtype: Any) -> None:
    for whole in (True, False):

        def run(x: fg.Tensor, number: Any, seen: list[Any]) -> Any:
            seen.append(None)  # the body runs at each call
            made = OPS[op](x * 2, number)
            return made, made + 1, fg.cumsum(made.to(fg.float64), 0)

        jitted = fg.jit(run)
        for turn, size in enumerate(itertools.chain((3, 5, 4, 6, 7, 5), range(8, 12))):
            number = (turn * 7 - 9) * (1 if whole else 0.5)
            x = (fg.arange(size) * 3 - 4).to(dtype)
            for own, expected in zip(jitted(x, number, []), run(x, number, []), strict=True):
                assert own.dtype is expected.dtype
                assert fg.allclose(own, expected)
