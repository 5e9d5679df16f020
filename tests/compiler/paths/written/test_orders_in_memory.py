"""Tensors that do not lie in row-major order are written by replays: values and layouts are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import torch
from planted import finds

import fusegrad as fg
from fusegrad.compiler.paths import commit, tree

Make = Callable[[Any, np.ndarray], Any]

# Of a tensor of (4, 4, 4, 4): how it lies in memory.
ORDERS: dict[str, Make] = {
    "rows": lambda lib, a: lib.tensor(a),
    "Fortran's": lambda lib, a: lib.from_numpy(np.asfortranarray(a)),
    "transposed": lambda lib, a: lib.tensor(a).transpose(1, 3),
    "permuted": lambda lib, a: lib.tensor(a).permute(2, 0, 3, 1),
    "channels last": lambda lib, a: lib.tensor(a).permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2),
    "a transposed part": lambda lib, a: lib.tensor(np.stack([a, a]))[1].transpose(0, 1),
}


def _trained(optimizer: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def begin(lib: Any, w: Any) -> Callable[[Any], Any]:
        parameter = lib.nn.Parameter(w)
        rule = optimizer(lib, [parameter])

        def step(x: Any) -> Any:
            rule.zero_grad()
            loss = (x * parameter.sin()).square().mean()
            loss.backward()
            rule.step()
            return loss.detach()

        return step

    return begin


def _written(write: Callable[[Any, Any, Any], Any]) -> Callable[..., Any]:
    def begin(lib: Any, w: Any) -> Callable[[Any], Any]:
        def step(x: Any) -> Any:
            before = (x * w).sum()
            with lib.no_grad():
                write(lib, w, x)
            return before + w.cos().sum()

        return step

    return begin


WRITERS: dict[str, Callable[[Any, Any], Any]] = {
    "SGD": _trained(lambda lib, p: lib.optim.SGD(p, lr=0.1)),
    "SGD with momentum": _trained(lambda lib, p: lib.optim.SGD(p, lr=0.1, momentum=0.9)),
    "Adam": _trained(lambda lib, p: lib.optim.Adam(p, lr=0.1)),
    "an average": _written(lambda lib, w, x: w.mul_(0.9).add_(x, alpha=0.1)),
    "a copy": _written(lambda lib, w, x: w.copy_(x.flip(0))),
    "a part": _written(lambda lib, w, x: w[1:, 0].add_(x[1:, 0])),
    "two times": _written(lambda lib, w, x: (w.add_(x), w.transpose(0, 1).mul_(0.5))),
}
CALLS = 8


def run(lib: Any, wrap: Callable[[Any], Any], order: str, writer: str) -> tuple[Any, ...]:
    numbers = np.random.default_rng(0).random((4, 4, 4, 4)).astype(np.float32)
    w = ORDERS[order](lib, numbers)
    step = wrap(WRITERS[writer](lib, w))
    results = [float(step(lib.tensor(numbers * (k + 1) / 3))) for k in range(CALLS)]
    return results, w.detach().numpy(), tuple(w.stride()), step


CASES = [(order, writer) for order in ORDERS for writer in WRITERS]


@pytest.mark.parametrize(("order", "writer"), CASES[::2])
def test_replays_write_in_any_order(order: str, writer: str) -> None:
    right, ours = run(torch, lambda f: f, order, writer), run(fg, fg.jit, order, writer)
    np.testing.assert_allclose(ours[0], right[0], rtol=1e-4)
    np.testing.assert_allclose(ours[1], right[1], rtol=1e-4, atol=1e-5)
    assert ours[2] == right[2]
    assert ours[3].stats.eager_calls <= 2, ours[3].explain()


@pytest.mark.parametrize("order", ORDERS)
def test_arguments_are_written_in_any_order(order: str) -> None:
    found = []
    for lib in (torch, fg):
        numbers = np.random.default_rng(0).random((4, 4, 4, 4)).astype(np.float32)

        def step(w: Any, x: Any) -> Any:
            w.mul_(0.9).add_(x)
            return w.sum()

        call = fg.jit(step) if lib is fg else step
        w = ORDERS[order](lib, numbers)
        found.append([[float(call(w, lib.tensor(numbers))) for _ in range(CALLS)], w.numpy(), w.stride()])
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-4)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-4)
    assert tuple(found[1][2]) == tuple(found[0][2])
    assert call.stats.eager_calls <= 2, call.explain()


def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (commit, tree):
        monkeypatch.setattr(module, "orders_of", lambda path, layouts: {})
    assert finds(test_replays_write_in_any_order, "transposed", "a copy")
