"""What a user writes, with the types that it must have. `test_typing.py` has both checkers read it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_type

import fusegrad as fg
from fusegrad import nn, optim
from fusegrad.export import Exported, load
from fusegrad.nn import functional as F
from fusegrad.nn.parameter import Parameter
from fusegrad.nn.utils.rnn import pad_sequence
from fusegrad.optim.lr_scheduler import LRScheduler, StepLR
from fusegrad.utils.checkpoint import checkpoint


class Network(nn.Module):
    """A small classifier."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.last = nn.Sequential(nn.ReLU(inplace=False), nn.Dropout(0.1), nn.Linear(hidden, 10))
        self.scale = Parameter(fg.ones(10))

    def forward(self, x: fg.Tensor) -> fg.Tensor:
        hidden = F.gelu(self.norm(self.first(x)))
        assert_type(hidden, fg.Tensor)
        scores: fg.Tensor = self.last(hidden) * self.scale
        return scores

    @fg.jit
    def loss(self, x: fg.Tensor, labels: fg.Tensor) -> fg.Tensor:
        return F.cross_entropy(self(x), labels)


@fg.jit
def energy(x: fg.Tensor, weight: fg.Tensor, power: int = 2) -> fg.Tensor:
    return ((x @ weight) ** power).sum()


@fg.jit(verify=100)
def doubled(x: fg.Tensor) -> tuple[fg.Tensor, int]:
    return x + x, 2


def train(model: Network, x: fg.Tensor, labels: fg.Tensor) -> float:
    """A loop of training."""
    optimizer: optim.Optimizer = optim.Adam(model.parameters(), lr=1e-3, weight_decay=0.1)
    schedule: LRScheduler = StepLR(optimizer, step_size=10, gamma=0.5)
    fast = fg.jit(model)
    total = 0.0
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(fast(x), labels) + model.loss(x, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        total += loss.item()
    for parameter in model.parameters():
        assert_type(parameter, Parameter)
    return total


def ops(x: fg.Tensor) -> None:
    """Functions, methods and operators give tensors."""
    assert_type(fg.tanh(x), fg.Tensor)
    assert_type(fg.sum(x, dim=0, keepdim=True), fg.Tensor)
    assert_type(fg.sum(x, axis=0, keepdims=True), fg.Tensor)
    assert_type(x.exp().mean(dim=-1).reshape(2, -1), fg.Tensor)
    assert_type(-x * 2 + 1 / x - x**2 @ x.T, fg.Tensor)
    assert_type(x[0, 1:] > 0, fg.Tensor)
    assert_type(x == 1, fg.Tensor)
    assert_type(x.add_(1), fg.Tensor)
    assert_type(x.float(), fg.Tensor)
    assert_type(x.shape, fg.Size)
    assert_type(x.dtype, fg.dtype)
    assert_type(fg.zeros(2, 3, dtype=fg.float64), fg.Tensor)
    assert_type(fg.linalg.inv(x), fg.Tensor)
    assert_type(fg.linalg.norm(x), fg.Tensor)
    assert_type(fg.fft.fft(x), fg.Tensor)
    assert_type(fg.special.expit(x), fg.Tensor)
    assert_type(F.relu(x, inplace=True), fg.Tensor)
    assert_type(pad_sequence([x, x], batch_first=True), fg.Tensor)
    assert_type(nn.init.zeros_(x), fg.Tensor)
    with fg.no_grad():
        checkpoint(fg.tanh, x)
    fg.random.manual_seed(0)


def compiled(x: fg.Tensor, weight: fg.Tensor) -> None:
    """What `jit` gives has the signature of what it was given."""
    assert_type(energy(x, weight, power=3), fg.Tensor)
    assert_type(doubled(x), tuple[fg.Tensor, int])
    assert_type(energy.stats.compiled_calls, int)
    print(energy.explain())
    derive: Callable[..., Any] = fg.jit(fg.value_and_grad(energy, argnums=(0, 1)))
    value, gradients = derive(x, weight)
    print(value, gradients, fg.hessian(energy))


def exported(model: Network, x: fg.Tensor) -> None:
    """`export` is called, and has names."""
    fg.export(model, (x,), "model.html")
    fg.export.save(model, (x,), "model.fgx", dynamic_shapes={"x": {0: fg.export.Dim("batch")}})
    again: nn.Module = load("model.fgx")
    assert_type(fg.export.load("model.fgx"), Exported)
    print(again)


ops(fg.eye(2))
compiled(fg.ones(3, 2), fg.ones(2))
print(train(Network(4, 8), fg.ones(5, 4), fg.zeros(5, dtype=fg.int64)))
