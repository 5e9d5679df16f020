"""A discriminator with spectral norm and a temporal net with weight norm, both by parametrizations."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import normal, seeded
from torch.nn.utils.parametrizations import spectral_norm, weight_norm


class Chomp1d(nn.Module):
    def __init__(self, chomp_size):
        super().__init__()
        self.chomp_size = chomp_size

    def forward(self, x):
        return x[:, :, : -self.chomp_size].contiguous()


def temporal(channels, dilation):
    conv = nn.Conv1d(channels, channels, 3, padding=2 * dilation, dilation=dilation)
    return nn.Sequential(weight_norm(conv), Chomp1d(2 * dilation), nn.ReLU())


def steps():
    tcn = nn.Sequential(temporal(3, 1), temporal(3, 2), nn.Flatten(), spectral_norm(nn.Linear(24, 1)))
    seeded(tcn)
    for part, seed in (("_u", 1), ("_v", 2)):
        buffer = dict(tcn.named_buffers())[f"3.parametrizations.weight.0.{part}"]
        buffer.copy_(F.normalize(torch.from_numpy(normal(*buffer.shape, seed=seed)), dim=0))
    optimizer = torch.optim.Adam(tcn.parameters(), lr=2e-3)

    def train(real, fake):
        optimizer.zero_grad()
        loss = F.relu(1.0 - tcn(real)).mean() + F.relu(1.0 + tcn(fake)).mean()
        loss.backward()
        optimizer.step()
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(5, 3, 8, seed=i)),
        torch.from_numpy(normal(5, 3, 8, seed=i + 9)),
    )
