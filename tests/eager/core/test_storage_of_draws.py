"""What is drawn has memory of its own size, as in PyTorch: libraries that save tensors ask for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg

DRAWS: dict[str, Callable[[Any, int], Any]] = {
    "randn": lambda lib, n: lib.randn(n),
    "of float64": lambda lib, n: lib.randn(n, dtype=lib.float64),
    "of float16": lambda lib, n: lib.randn(n, dtype=lib.float16),
    "complex": lambda lib, n: lib.randn(n, dtype=lib.complex64),
    "like": lambda lib, n: lib.randn_like(lib.ones(n)),
    "normal": lambda lib, n: lib.normal(0.0, 1.0, (n,)),
    "rand": lambda lib, n: lib.rand(n),
    "randint": lambda lib, n: lib.randint(0, 9, (n,)),
    "randperm": lambda lib, n: lib.randperm(n),
    "in place": lambda lib, n: lib.empty(n).normal_(),
    "parameter": lambda lib, n: lib.nn.Parameter(lib.randn(n)),
    "dropout": lambda lib, n: lib.nn.functional.dropout(lib.ones(n)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_have_the_memory_that_they_need(name: str) -> None:
    for n in (0, 1, 2, 3, 7):
        ours, theirs = DRAWS[name](fg, n), DRAWS[name](torch, n)
        sizes = [(x.untyped_storage().nbytes(), x.storage_offset()) for x in (ours, theirs)]
        assert sizes[0] == sizes[1]
