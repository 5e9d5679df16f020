"""A normalizing flow of affine couplings."""

import math

import torch
import torch.nn as nn
from programs.common import normal, seeded


class Coupling(nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)
        self.s = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(), nn.Linear(16, 2), nn.Tanh())
        self.t = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(), nn.Linear(16, 2))

    def forward(self, x):
        kept = self.mask * x
        s = self.s(kept) * (1 - self.mask)
        t = self.t(kept) * (1 - self.mask)
        return (1 - self.mask) * (x - t) * torch.exp(-s) + kept, -s.sum(dim=1)


class RealNVP(nn.Module):
    def __init__(self):
        super().__init__()
        masks = torch.tensor([[0.0, 1.0], [1.0, 0.0]] * 2)
        self.layers = nn.ModuleList([Coupling(m) for m in masks])

    def log_prob(self, x):
        log_det, z = x.new_zeros(x.shape[0]), x
        for layer in reversed(self.layers):
            z, ld = layer(z)
            log_det += ld
        return (-0.5 * z**2 - 0.5 * math.log(2 * math.pi)).sum(1) + log_det


def steps():
    flow = seeded(RealNVP())
    optimizer = torch.optim.Adam([p for p in flow.parameters() if p.requires_grad], lr=1e-3)

    def train(x):
        loss = -flow.log_prob(x).mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        return loss

    return train, lambda i: (torch.from_numpy(normal(16, 2, seed=i)),)
