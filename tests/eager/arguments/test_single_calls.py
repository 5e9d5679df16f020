"""Calls that PyTorch takes and few functions share, each beside torch: values, or the kind of error."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.eager.ops.shape import out as taking

Call = Callable[[Any], Any]
CALLS: dict[str, Call] = {
    "integers in buckets of floats": lambda T: T.bucketize(T.arange(3), T.tensor([0.5, 1.5])),
    "floats in buckets of integers": lambda T: T.bucketize(T.tensor([0.5, 1.5]), T.arange(3)),
    "float64 in float32": lambda T: T.searchsorted(T.tensor([0.1, 1.5]), T.tensor([0.1], dtype=T.float64)),
    "a float among integers": lambda T: T.searchsorted(T.tensor([1, 3, 5]), 1.5),
    "beyond the digits of float64": lambda T: T.bucketize(
        T.tensor([2**53 + 1]), T.tensor([2.0**53, 2.0**54], dtype=T.float64)
    ),
    "random_ up to None": lambda T: T.zeros(50, dtype=T.int8).random_(126, None) >= 126,
    "random_ from nothing that fits": lambda T: T.zeros(3, dtype=T.int8).random_(128, None),
    "random_ beyond a dtype": lambda T: T.zeros(3, dtype=T.int8).random_(300),
    "random_ beyond half": lambda T: T.zeros(3, dtype=T.float16).random_(70000),
    "random_ of one number": lambda T: T.zeros(3, dtype=T.float16).random_(4000, 4001),
    "cat of empty vectors": lambda T: T.cat([T.ones(0), T.ones(0)], dim=1),
    "cat beyond its dims": lambda T: T.cat([T.ones(0, 2), T.ones(0)], dim=2),
    "linspace of complex ends": lambda T: T.linspace(0j, 1 + 1j, 4),
    "linspace to a complex end": lambda T: T.linspace(0, 1 + 1j, 3, dtype=T.complex128),
    "linspace of a complex tensor": lambda T: T.linspace(T.tensor(0j), T.tensor(1.0), 3),
    "logspace of complex ends": lambda T: T.logspace(0j, 1 + 1j, 3),
    "linspace of complex ends as floats": lambda T: T.linspace(0j, 1 + 1j, 3, dtype=T.float32),
    "logcumsumexp": lambda T: T.logcumsumexp(T.tensor([[1 + 2j, 3 - 1j], [-1 + 9j, 0.5]]), 0),
    "logcumsumexp of large numbers": lambda T: T.logcumsumexp(T.tensor([800 + 2j, 801 - 1j]), -1),
    "logcumsumexp of integers": lambda T: T.logcumsumexp(T.tensor([1, 2]), 0),
    "places of adaptive_max_pool1d": lambda T: T.adaptive_max_pool1d(T.arange(6.0).reshape(1, 6), 2),
    "losses of each": lambda T: T.binary_cross_entropy_with_logits(T.ones(2), T.zeros(2)),
    "hinges of each": lambda T: T.hinge_embedding_loss(T.ones(2), T.ones(2), 0.5),
    "margins of each": lambda T: T.margin_ranking_loss(T.ones(2), T.zeros(2), T.ones(2), 3.0),
    "triplets of each": lambda T: T.triplet_margin_loss(T.ones(2, 2), T.zeros(2, 2), T.ones(2, 2)),
    "angles of each": lambda T: T.cosine_embedding_loss(T.ones(2, 2), T.ones(2, 2), T.ones(2)),
    "add of a factor by place": lambda T: T.add(T.ones(2), 3, T.ones(2)),
    "addcmul of a factor by place": lambda T: T.ones(2).addcmul(3, T.ones(2), T.ones(2)),
    "addr of a factor by place": lambda T: T.ones(2).addr(3, T.ones(2), T.ones(2)),
    "var of no correction": lambda T: T.var(T.arange(3.0), False),
    "var and mean of no correction": lambda T: T.var_mean(T.arange(3.0), False),
    "dtypes of out that differ": lambda T: T.zeros(4, dtype=T.int64, out=T.empty(4)),
    "asarray of what needs gradients": lambda T: T.asarray(T.ones(2, requires_grad=True)),
}
FILLED: dict[str, Callable[[Any, Any], Any]] = {
    "arange": lambda T, out: T.arange(1.0, 5.0, out=out),
    "linspace": lambda T, out: T.linspace(1, 4, 4, out=out),
    "logspace": lambda T, out: T.logspace(0, 3, 4, out=out),
    "range": lambda T, out: T.range(1, 4, out=out),
}
# Outs of four elements, and of others, each as a part of another tensor.
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "all": lambda x: x.reshape(-1)[:4],
    "columns": lambda x: x[:2, 1:3],
    "turned": lambda x: x.t()[1:3, :2],
    "steps": lambda x: x.reshape(-1)[::3],
    "one row": lambda x: x[:1],
    "three": lambda x: x[0, :3],
}


def outcome(call: Call, T: Any) -> Any:
    """Dtypes, shapes and values, or the type of the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = call(T)
        except (TypeError, ValueError, RuntimeError, IndexError) as error:
            return type(error).__name__.replace("OpError", "RuntimeError")
    parts = made if isinstance(made, tuple) else (made,)
    return [(str(p.dtype), tuple(p.shape), p.requires_grad, np.array(p.detach().tolist())) for p in parts]


def agree(mine: Any, right: Any) -> bool:
    if isinstance(mine, str) or isinstance(right, str):
        return isinstance(mine, str) and mine == right
    return all(
        a[:3] == b[:3] and np.allclose(a[3], b[3], 1e-5, 1e-6) for a, b in zip(mine, right, strict=True)
    )


@pytest.mark.parametrize("name", CALLS)
def test_as_torch_takes_it(name: str):
    mine, right = outcome(CALLS[name], fg), outcome(CALLS[name], torch)
    assert agree(mine, right), (mine, right)


def filled(T: Any, name: str, layout: str) -> list[Any]:
    base = T.zeros(3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        FILLED[name](T, LAYOUTS[layout](base))
    values: list[Any] = base.tolist()
    return values


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FILLED)
def test_outs_are_filled_where_they_lie(name: str, layout: str):
    right = filled(torch, name, layout)
    assert np.allclose(filled(fg, name, layout), right)
    compiled = fg.jit(lambda: FILLED[name](fg, LAYOUTS[layout](fg.zeros(3, 4))) + 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = FILLED[name](torch, LAYOUTS[layout](torch.zeros(3, 4))).tolist()
        assert all(np.allclose(compiled().tolist(), plain) for _ in range(3))


def test_half_precision_is_told_where_it_ends():
    with pytest.warns(UserWarning, match=r"to - 1 is out of bounds \[-2048, 2048\]"):
        assert fg.zeros(9, dtype=fg.float16).random_(5000).max() <= 5000


def test_gradients_of_complex_logcumsumexp():
    found = []
    for T in (fg, torch):
        x = T.tensor([[1 + 2j, 3 - 1j, -1 + 9j], [2j, 1, 0.5]], requires_grad=True)
        (T.logcumsumexp(x, 1) * T.tensor([1 + 1j, 2, 3 - 1j])).abs().sum().backward()
        found.append(x.grad.tolist())
    assert np.allclose(*found, rtol=1e-4, atol=1e-5)


def test_outs_that_are_taken_for_whole_tensors_are_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(taking, "_COUNTED", frozenset())
    differing = [
        (name, layout)
        for name in FILLED
        for layout in ("columns", "turned")
        if not np.allclose(filled(fg, name, layout), filled(torch, name, layout))
    ]
    assert len(differing) == 8
