"""Sparse tensors, among the arguments and found outside, replay: with other values, and at other places.

Where another one is found outside, the call is recorded anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jit_checks import sealed

import fusegrad as fg
from fusegrad.eager.core import pytree
from fusegrad.tracer.observe.observer import Observer
from fusegrad.utils._pytree import tree_flatten

SPOTS = ([[0, 1, 2], [1, 0, 2]], [[2, 1, 0], [0, 0, 1]], [[1, 1, 2], [0, 1, 2]])


def sparse(number: int, requires_grad: bool = False) -> Any:
    values = fg.arange(3.0) + 1 + number
    return fg.sparse_coo_tensor(SPOTS[number % 3], values, (3, 3), requires_grad=requires_grad)


class Layer(fg.nn.Module):
    def __init__(self, adjacency: Any) -> None:
        super().__init__()
        self.adjacency = adjacency
        self.weight = fg.nn.Parameter(fg.arange(6.0).reshape(3, 2))

    def forward(self, x: Any) -> Any:
        return fg.relu(fg.spmm(self.adjacency, x @ self.weight))


ARGUMENTS: dict[str, Callable[..., Any]] = {
    "a product": lambda a, x: a @ x,
    "a function": lambda a, x: fg.spmm(a, x) * 2,
    "a function of a module": lambda a, x: fg.mm(a, fg.mm(a, x)),
    "its transpose": lambda a, x: a.t().matmul(x),
    "its shape": lambda a, x: x * a.shape[0] + a.ndim,
    "its values": lambda a, x: a._values().sum() * x,
    "made dense": lambda a, x: (-a).to_dense() * x,
    "another": lambda a, x: (a * 2 + a).to_dense() + x,
}


def outcome(function: Callable[..., Any], a: Any) -> list[Any]:
    x = fg.eye(3).mul(3).requires_grad_()
    result = function(a, x)
    result.sum().backward()
    gradient = a.grad.to_dense() if a.requires_grad and a.grad is not None else fg.zeros(1)
    return [t.detach().numpy() for t in (result, x.grad, gradient)]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_replay_whatever_they_hold(name: str, requires_grad: bool):
    function = ARGUMENTS[name]
    jitted = fg.jit(function)
    for number in range(3):
        outcome(jitted, sparse(number, requires_grad))
    sealed(jitted)
    found = [outcome(jitted, sparse(number, requires_grad)) for number in range(3, 7)]
    for number, ours in zip(range(3, 7), found, strict=True):
        for one, other in zip(ours, outcome(function, sparse(number, requires_grad)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)


def test_arguments_of_other_sizes_are_told_apart():
    jitted = fg.jit(lambda a: a.to_dense() * 2)
    for size in (3, 3, 3, 4, 3, 5, 3):
        a = fg.sparse_coo_tensor([[0, 2], [1, 2]], [1.0, 2.0], (size, size))
        assert jitted(a).tolist() == (a.to_dense() * 2).tolist()
    for coalesced in (True, False, True, False):
        a = fg.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 2), is_coalesced=coalesced)
        assert fg.jit(lambda a: a.coalesce()._nnz() * fg.ones(1))(a).item() == a.coalesce()._nnz()


def test_results_are_sparse():
    jitted = fg.jit(lambda a: (a * 2, [a.t()]))
    for number in range(4):
        a = sparse(number)
        double, (turned,) = jitted(a)
        assert double._indices() is a._indices()
        assert double.to_dense().tolist() == (a.to_dense() * 2).tolist()
        assert turned.to_dense().tolist() == a.to_dense().t().tolist()
    assert jitted.stats.compiled_calls == 3


def test_what_a_module_keeps_is_guarded():
    layer, x = Layer(sparse(0)), fg.ones(3, 3)
    jitted = fg.jit(layer)
    for _ in range(3):
        jitted(x)
    assert jitted.stats.compiled_calls == 2
    for number in (1, 2, 3):
        layer.adjacency = sparse(number)
        assert jitted(x).tolist() == layer(x).tolist()
    layer.adjacency.requires_grad_()
    jitted(x).sum().backward()
    found = layer.adjacency.grad.to_dense().tolist()
    layer.adjacency._values().grad = None
    layer(x).sum().backward()
    assert found == layer.adjacency.grad.to_dense().tolist()


def test_to_users_they_are_leaves():
    a = sparse(0)
    leaves, _ = tree_flatten({"a": [a, 1]})
    assert leaves == [a, 1]


@pytest.mark.parametrize("whose", ["arguments", "what is found outside"])
def test_what_they_hold_is_not_known_without_it(whose: str, monkeypatch: pytest.MonkeyPatch):
    if whose == "arguments":
        monkeypatch.setattr(pytree, "_PARTS", {})
    else:
        monkeypatch.setattr("fusegrad.tracer.observe.observer.holds_tensors", lambda value: False)
    assert Observer.reached.__globals__["holds_tensors"](sparse(0)) is False
    a = sparse(0)
    jitted = fg.jit((lambda a, x: a @ x) if whose == "arguments" else (lambda _, x: a @ x))
    for _ in range(3):
        jitted(a if whose == "arguments" else 0, fg.ones(3, 3))
    assert not any(entry.variants for entry in jitted.entries.values())
