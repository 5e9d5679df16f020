"""An ensemble trained in one step, each member with an optimizer of its own, and a mean over their weights."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import normal, seeded
from torch.optim.swa_utils import AveragedModel


class GaussianMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 12), nn.Softsign(), nn.Linear(12, 2))

    def forward(self, x):
        mean, variance = torch.split(self.net(x), 1, dim=1)
        return mean, F.softplus(variance) + 1e-6


def nll_criterion(mu, sigma, target, reduction="mean"):
    loss = torch.log(sigma) / 2 + (target - mu) ** 2 / (2 * sigma) + 1
    return getattr(loss, reduction)()


def steps():
    models = [seeded(GaussianMLP(), seed=i) for i in range(3)]
    optimizers = [torch.optim.Adam(m.parameters(), lr=0.01 * (i + 1)) for i, m in enumerate(models)]
    averaged = AveragedModel(models[0])

    def train(x, y):
        losses = []
        for model, optimizer in zip(models, optimizers):
            optimizer.zero_grad()
            loss = nll_criterion(*model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        averaged.update_parameters(models[0])
        with torch.no_grad():
            mean = torch.stack([m(x)[0] for m in models]).mean(0)
        return torch.stack(losses).mean(), F.mse_loss(mean, y), averaged(x)[0].mean().detach()

    return train, lambda i: (
        torch.from_numpy(normal(8, 2, seed=i)),
        torch.from_numpy(normal(8, 1, seed=i + 1)),
    )
