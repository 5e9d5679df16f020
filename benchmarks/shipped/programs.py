"""What is exported as a library: a network, an LSTM and a training step, with arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fusegrad as fg
from fusegrad.nn import functional as F


def digits() -> tuple[Callable[..., Any], tuple[fg.Tensor, ...]]:
    """Scores of 32 small images."""
    layers = fg.nn.Sequential(fg.nn.Linear(64, 48), fg.nn.ReLU(), fg.nn.Linear(48, 10), fg.nn.Softmax(1))
    return layers.eval().requires_grad_(False), (fg.randn(32, 64),)


def lstm() -> tuple[Callable[..., Any], tuple[fg.Tensor, ...]]:
    """The last state behind 20 steps of 8 sequences."""
    layer = fg.nn.LSTM(32, 64).eval().requires_grad_(False)
    return lambda x: layer(x)[0][-1], (fg.randn(20, 8, 32),)


def step() -> tuple[Callable[..., Any], tuple[fg.Tensor, ...]]:
    """A step of momentum for a network of two layers, whose state goes through arguments."""

    def trained(
        first: fg.Tensor, second: fg.Tensor, speeds: fg.Tensor, x: fg.Tensor, labels: fg.Tensor
    ) -> tuple[fg.Tensor, ...]:
        weights = [w.detach().requires_grad_() for w in (first, second)]
        loss = F.cross_entropy(fg.tanh(x @ weights[0]) @ weights[1], labels)
        gradients = fg.autograd.grad(loss, weights)
        speeds = 0.9 * speeds + gradients[0]
        return (first - 0.1 * speeds, second - 0.1 * gradients[1], speeds, loss.detach())

    weights = fg.randn(64, 128) / 8, fg.randn(128, 10) / 11, fg.zeros(64, 128)
    return trained, (*weights, fg.randn(64, 64), fg.randint(0, 10, (64,)))


PROGRAMS = {"digits": digits, "lstm": lstm, "step": step}
