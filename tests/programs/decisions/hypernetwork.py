"""A net whose weights another net makes."""

import torch
import torch.nn.functional as F
from programs.common import normal, seeded
from torch import nn


class HyperNetwork(nn.Module):
    def __init__(self, code, shapes):
        super().__init__()
        self.shapes = shapes
        self.net = nn.Sequential(nn.Linear(code, 16), nn.ELU(), nn.Linear(16, sum(a * b for a, b in shapes)))

    def forward(self, z):
        flat, weights, start = self.net(z), [], 0
        for rows, columns in self.shapes:
            weights.append(flat[start : start + rows * columns].view(rows, columns))
            start += rows * columns
        return weights


def steps():
    hyper = seeded(HyperNetwork(4, [(8, 3), (1, 8)]))
    codes = nn.Parameter(torch.from_numpy(normal(3, 4)))
    optimizer = torch.optim.Adam([codes, *hyper.parameters()], lr=1e-3)

    def train(x, y, task):
        w1, w2 = hyper(codes[task])
        prediction = F.linear(F.softplus(F.linear(x, w1)), w2)
        loss = F.mse_loss(prediction, y) + 1e-3 * sum(w.norm() for w in (w1, w2))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(6, 3, seed=i)),
        torch.from_numpy(normal(6, 1, seed=i + 1)),
        i % 3,
    )
