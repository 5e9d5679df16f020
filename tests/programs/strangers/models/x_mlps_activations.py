"""Activations with gradients of others: straight through, a soft form where values are negative, signed squares."""

import torch
import torch.nn.functional as F
from programs.common import normal, seeded
from torch import nn
from torch.nn import Module, ReLU


class ReluSquared(Module):
    def __init__(self, signed=False):
        super().__init__()
        self.signed = signed

    def forward(self, x):
        out = x.relu().square()
        if not self.signed:
            return out
        return out * x.sign()


class BSiLU(Module):
    def __init__(self, alpha=1.67):
        super().__init__()
        self.alpha = alpha

    def forward(self, x):
        α = self.alpha
        return (x + α) * x.sigmoid() - α / 2


class NeLU(Module):
    def __init__(self, alpha=0.05):
        super().__init__()
        self.alpha = alpha

    def forward(self, x):
        α = self.alpha
        return -α / (1.0 + x.square())


class StraightThrough(Module):
    def __init__(self, forward_fn, backward_fn):
        super().__init__()
        self.forward_fn = forward_fn
        self.backward_fn = backward_fn

    def forward(self, x):
        hard = self.forward_fn(x)
        if not x.requires_grad:
            return hard
        soft = self.backward_fn(x)
        return soft + (hard - soft).detach()


class Sugar(Module):
    def __init__(self, forward_fn, backward_fn):
        super().__init__()
        self.forward_fn = forward_fn
        self.backward_fn = backward_fn

    def forward(self, x):
        forward_out = self.forward_fn(x)
        if not x.requires_grad:
            return forward_out
        backward_out = self.backward_fn(x)
        soft = torch.where(x > 0, forward_out, backward_out)
        return soft + (forward_out - soft).detach()


def ReluNelu(alpha=0.05):
    return Sugar(ReLU(), NeLU(alpha))


def steps():
    model = seeded(
        nn.Sequential(
            nn.Linear(4, 12),
            ReluSquared(signed=True),
            nn.Linear(12, 12),
            ReluNelu(),
            nn.Linear(12, 12),
            StraightThrough(ReLU(), BSiLU()),
            nn.Linear(12, 2),
        )
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def train(x, y):
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(6, 4, seed=i)),
        torch.from_numpy(normal(6, 2, seed=i + 1)),
    )
