"""Operands without elements: what comes out, whether it is on the graph, and where its elements would lie."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg

# Calls on `x` [m, 4] that needs a gradient, and `i` [m, 4] of int64 zeros, where m may be 0.
CALLS: dict[str, Callable[..., Any]] = {
    "scatter": lambda t, m, x, i: t.scatter(t.zeros(m, 9), 1, i, x),
    "scatter_add": lambda t, m, x, i: t.scatter_add(t.zeros(m, 9), 1, i, x),
    "scatter_reduce": lambda t, m, x, i: t.scatter_reduce(t.zeros(m, 9), 1, i, x, "sum"),
    "scatter of a negative zero": lambda t, m, x, i: t.scatter(-t.zeros(2, 9), 1, i[:0], x[:0]),
    "gather": lambda t, m, x, i: t.gather(x, 1, i),
    "index_add": lambda t, m, x, i: t.index_add(t.zeros(m, 9), 1, t.arange(4), x),
    "index_copy": lambda t, m, x, i: t.index_copy(t.zeros(m, 9), 1, t.arange(4), x),
    "index_put": lambda t, m, x, i: t.index_put(t.zeros(m, 9), (t.arange(m), t.arange(m)), x[:, 0]),
    "masked_scatter": lambda t, m, x, i: t.masked_scatter(t.zeros(m, 4), t.ones(m, 4) > 0, x),
    "where": lambda t, m, x, i: t.where(t.ones(m, 4) > 0, x, 0.0),
    "cat": lambda t, m, x, i: t.cat([x, t.zeros(m, 2)], 1),
    "slice_scatter": lambda t, m, x, i: t.slice_scatter(t.zeros(m, 9), x, 1, 0, 4),
    "max_unpool1d": lambda t, m, x, i: t.nn.functional.max_unpool1d(x[:, None], i[:, None], 2),
    "take": lambda t, m, x, i: t.take(x, i[:0]),
    "neg": lambda t, m, x, i: -x,
    "sum": lambda t, m, x, i: x.sum(0, keepdim=True),
    "embedding": lambda t, m, x, i: t.nn.functional.embedding(i, t.ones(3, 2, requires_grad=True)),
}


@pytest.mark.parametrize(("name", "rows"), itertools.product(CALLS, (0, 3)))
def test_results_and_gradients_are_torchs(name: str, rows: int):
    found = []
    for t in (fg, torch):
        x = t.ones(rows, 4).requires_grad_()
        made = CALLS[name](t, rows, x, t.zeros(rows, 4, dtype=t.int64))
        made.sum().backward()
        signs = [str(value) for value in made.detach().reshape(-1).tolist()]  # which tell -0.0 from 0.0
        gradient = None if x.grad is None else x.grad.tolist()
        found.append((tuple(made.shape), tuple(made.stride()), made.requires_grad, signs, gradient))
    assert found[0] == found[1]


def outcome(pool: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """The shape of what a pool gives, or that it refuses."""
    try:
        return tuple(pool(*args, **options).shape)
    except RuntimeError:
        return "refused"


SIZES = [(2, 3), (0, 3), (2, 0), (3,), (0,)]


@pytest.mark.parametrize("name", ["adaptive_avg_pool", "adaptive_max_pool", "fractional_max_pool"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_pools_of_nothing_and_to_nothing(name: str, rank: int):
    if name == "fractional_max_pool" and rank == 1:
        return  # there is none
    for lead, plane, output in itertools.product(SIZES, (4, 0), (2, 0, (0, *[1] * (rank - 1)))):
        if name == "fractional_max_pool" and lead == (0,):
            continue  # PyTorch takes such channels for a batch here, and refuses them in other pools
        found = []
        for t in (fg, torch):
            pool = getattr(t.nn.functional, f"{name}{rank}d")
            x = t.ones(*lead, *[plane] * rank, requires_grad=True)
            fractional = name == "fractional_max_pool"
            found.append(outcome(pool, x, 2, output_size=output) if fractional else outcome(pool, x, output))
        assert found[0] == found[1], (lead, plane, output)


@pytest.mark.parametrize("dim", [0, 1])
def test_places_in_falling_order_lie_in_rows(dim: int):
    for t in (fg, torch):
        values, places = t.sort(t.tensor([[1.0, 3.0], [2.0, 0.0]]), dim, descending=True)
        assert values.is_contiguous() and places.is_contiguous()
        assert places.view(-1).shape == (4,)
