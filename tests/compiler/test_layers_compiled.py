# ruff: noqa: E501  (one layer a line reads as the table that it is)
"""Layers under `jit`: the same outputs, gradients and buffers as eager, from the same weights."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from layer_twins import flat, loss_of, same

import fusegrad as fg

nn = fg.nn
_random = np.random.default_rng(8)


def f(*shape: int) -> fg.Tensor:
    return fg.tensor(_random.uniform(-1, 1, shape))


LAYERS = {
    "LSTM": (lambda: nn.LSTM(3, 4, 2, bidirectional=True), f(5, 2, 3)), "GRU": (lambda: nn.GRU(3, 4, batch_first=True), f(2, 5, 3)), "RNN": (lambda: nn.RNN(3, 4, bias=False), f(5, 3)),
    "LSTMCell": (lambda: nn.LSTMCell(3, 4), f(2, 3)), "GRUCell": (lambda: nn.GRUCell(3, 4), f(2, 3)),
    "attention": (lambda: Attending(nn.MultiheadAttention(4, 2)), f(5, 2, 4)), "encoder": (lambda: nn.TransformerEncoderLayer(4, 2, 6, 0.0), f(5, 2, 4)),
    "LayerNorm": (lambda: nn.LayerNorm(4), f(3, 4)), "GroupNorm": (lambda: nn.GroupNorm(2, 4), f(3, 4, 2)), "RMSNorm": (lambda: nn.RMSNorm(4), f(3, 4)), "LocalResponseNorm": (lambda: nn.LocalResponseNorm(2), f(2, 3, 4)),
    "BatchNorm": (lambda: nn.BatchNorm1d(4), f(5, 4)), "BatchNorm without statistics": (lambda: nn.BatchNorm2d(4, track_running_stats=False), f(3, 4, 2, 2)), "InstanceNorm": (lambda: nn.InstanceNorm1d(4, affine=True), f(3, 4, 5)),
    "bag": (lambda: nn.Sequential(nn.EmbeddingBag(6, 3, mode="max"), nn.Linear(3, 2)), fg.tensor(_random.integers(0, 6, (4, 3)))),
    "PReLU": (lambda: nn.Sequential(nn.Linear(3, 4), nn.PReLU(), nn.GLU(), nn.Softmin(1)), f(2, 3)),
}  # fmt: skip


class Attending(nn.Module):
    def __init__(self, attention: Any) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x: Any) -> Any:
        return self.attention(x, x, x)


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_compiled_layers_equal_eager(name: str, train: bool):
    make, x = LAYERS[name]
    fg.manual_seed(0)
    eager = make().double().train(train)
    compiled = copy.deepcopy(eager)
    run = fg.jit(lambda x: compiled(x))
    for _ in range(3):
        inputs = [x.clone().requires_grad_(x.is_floating_point()) for _ in range(2)]
        results = eager(inputs[0]), run(inputs[1])
        same(*results, "output")
        for layer, result in zip((eager, compiled), results, strict=True):
            layer.zero_grad()
            loss_of(fg, result).backward()
        same([i.grad for i in inputs[:1]], [i.grad for i in inputs[1:]], "gradient of the input")
        same([p.grad for p in eager.parameters()], [p.grad for p in compiled.parameters()], "gradients")
        same(list(eager.buffers()), list(compiled.buffers()), "buffers")
    assert flat(results[0])
    reasons = "; ".join(str(r) for e in run.entries.values() for r in e.reasons)
    writes = name == "BatchNorm" and train  # its statistics are written in place
    assert run.stats.compiled_calls > 0 or writes, reasons
