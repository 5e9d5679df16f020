"""What memory holds that nobody has written, beside torch, where deterministic algorithms are asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from oracle import torch

import fusegrad as fg

DTYPES = "float32 float16 bfloat16 complex64 int8 int64 uint8 uint64 bool".split()
MAKERS = {
    "empty": lambda T, d: T.empty(2, 3, dtype=d),
    "empty_like": lambda T, d: T.empty_like(T.zeros(2, 3, dtype=d)),
    "new_empty": lambda T, d: T.zeros(2, dtype=d).new_empty(2, 3),
    "empty_strided": lambda T, d: T.empty_strided((2, 3), (1, 2), dtype=d),
    "empty_permuted": lambda T, d: T.empty_permuted((2, 3), (1, 0), dtype=d),
    "out": lambda T, d: T.empty(2, 3, out=T.zeros(1, dtype=d)),
    "jitted": lambda T, d: (fg.jit if T is fg else lambda f: f)(lambda x: T.empty_like(x))(
        T.zeros(2, dtype=d)
    ),
}


@pytest.fixture
def deterministic() -> Iterator[None]:
    for library in (fg, torch):
        library.use_deterministic_algorithms(True)
    yield
    for library in (fg, torch):
        library.use_deterministic_algorithms(False)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.usefixtures("deterministic")
def test_empty_shows_that_nobody_has_written_it(name: str) -> None:
    for dtype in DTYPES:
        found, right = (MAKERS[name](T, getattr(T, dtype)) for T in (fg, torch))
        assert tuple(found.shape) == tuple(right.shape)
        if right.is_complex() or right.is_floating_point():
            assert found.isnan().all() and right.isnan().all(), dtype
        else:
            assert found.tolist() == right.tolist(), dtype


def test_empty_is_zeros_otherwise() -> None:
    assert fg.empty(2, 3).tolist() == [[0.0] * 3] * 2
