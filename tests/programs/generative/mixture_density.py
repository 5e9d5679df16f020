"""A mixture density net: the likelihood of a mixture of normal distributions."""

import math

import torch
import torch.nn as nn
from programs.common import normal, seeded

oneDivSqrtTwoPI = 1.0 / math.sqrt(2.0 * math.pi)


class MDN(nn.Module):
    def __init__(self, n_hidden, n_gaussians):
        super().__init__()
        self.z_h = nn.Sequential(nn.Linear(1, n_hidden), nn.Tanh())
        self.z_pi = nn.Linear(n_hidden, n_gaussians)
        self.z_mu = nn.Linear(n_hidden, n_gaussians)
        self.z_sigma = nn.Linear(n_hidden, n_gaussians)

    def forward(self, x):
        z_h = self.z_h(x)
        pi = nn.functional.softmax(self.z_pi(z_h), -1)
        return pi, self.z_mu(z_h), torch.exp(self.z_sigma(z_h))


def gaussian_distribution(y, mu, sigma):
    result = (y.expand_as(mu) - mu) * torch.reciprocal(sigma)
    result = -0.5 * (result * result)
    return (torch.exp(result) * torch.reciprocal(sigma)) * oneDivSqrtTwoPI


def mdn_loss_fn(pi, mu, sigma, y):
    result = gaussian_distribution(y, mu, sigma) * pi
    return torch.mean(-torch.log(torch.sum(result, dim=1) + 1e-8))


def steps():
    network = seeded(MDN(12, 4))
    optimizer = torch.optim.Adam(network.parameters())

    def train(x, y):
        loss = mdn_loss_fn(*network(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(16, 1, seed=i)),
        torch.from_numpy(normal(16, 1, seed=i + 1)),
    )
