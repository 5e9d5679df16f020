"""Stretches compiled once for any positions: rows, columns and elements that are read and written where
numbers say that are others at each call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.deferred.op_trie import Plan
from fusegrad.compiler.lower import lowering
from fusegrad.eager.ops.shape.slicing import Slice

INDICES: dict[str, Callable[[int, int, int], tuple[Any, ...]]] = {
    "one dimension left": lambda i, j, k: (i, slice(None), j, k),
    "two left": lambda i, j, k: (slice(None), i % 2, slice(None), j),
    "the last two left": lambda i, j, k: (i, i % 2),
    "from the end": lambda i, j, k: (..., j),
    "a new dimension": lambda i, j, k: (i, None, slice(None), j, k),
    "a part": lambda i, j, k: (i, slice(None), slice(j, j + 2), k),
    "an element": lambda i, j, k: (i, i % 2, j, k),
    "rows of a tensor": lambda i, j, k: (i, fg.tensor([1, 1]), j, k),
    "rows, and a dimension left": lambda i, j, k: (i, fg.tensor([1, 0]), j),
    "rows of all": lambda i, j, k: (slice(None), fg.tensor([1, 1]), j, k),
}


def written(x, place, value):
    x = x.clone()
    x[place] = value
    return x


def added_to(x, place, value):
    x = x.clone()
    x[place] += value
    return x


def read(x, place, value):
    return x[place] * value


def derived(x, place, value):
    x = x.clone().requires_grad_()
    (x[place] * value).sum().backward()
    return x.grad


USES = [written, added_to, read, derived]


def differs(use: Callable[..., Any], index: Callable[..., Any], calls: int = 40) -> bool:
    """Whether a deferred run gives something else than eager does."""

    def step(numbers, value):
        print("", end="")  # the body runs
        i, j, k = numbers
        return use(base, index(i, j, k), value)

    base = fg.arange(3 * 2 * 7 * 6).reshape(3, 2, 7, 6) * 1.0
    jitted, draws = fg.jit(step), np.random.default_rng(0)
    for _ in range(calls):
        place = [int(draws.integers(0, n)) for n in (3, 5, 6)]
        value = fg.tensor(-1 - draws.random(base[index(*place)].shape).astype("f4"))
        if not np.array_equal(jitted(place, value).numpy(), step(place, value).numpy()):
            return True
    assert jitted.stats.compiled_calls > calls // 2, jitted.explain()
    return False


@pytest.fixture(autouse=True)
def always_deferred(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plan, "defers", lambda plan: True)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_positions_are_open(use: Callable[..., Any], name: str) -> None:
    assert not differs(use, INDICES[name])


def test_a_position_that_is_taken_for_a_dimension_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def assign(b, x, value, index):
        part = lowering._spread(x.shape, index)
        value = b.cast(value, x.dtype)
        given = [e.length if isinstance(e, Slice) else 1 for e in index if not isinstance(e, int)]
        given += x.shape[len([e for e in index if e is not None]) :]
        return lowering._in_slice(b, b.reshape(b.expand(value, given), part), x, x.shape, index)

    monkeypatch.setitem(lowering.LOWERED, "assign", assign)
    assert any(differs(written, index) for index in INDICES.values())
