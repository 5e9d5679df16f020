"""Weights with a distribution of their own, drawn anew in each forward."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import normal, seeded

DRAWS = True


class BayesianLinear(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight_mu = nn.Parameter(torch.zeros(out_features, in_features))
        self.weight_rho = nn.Parameter(torch.full((out_features, in_features), -3.0))
        self.bias = nn.Parameter(torch.zeros(out_features))
        self.log_prior = self.log_variational_posterior = 0

    def forward(self, input):
        sigma = torch.log1p(torch.exp(self.weight_rho))
        epsilon = torch.normal(torch.zeros_like(sigma), torch.ones_like(sigma))
        weight = self.weight_mu + sigma * epsilon
        self.log_prior = (-0.5 * weight**2 - 0.5 * math.log(2 * math.pi)).sum()
        self.log_variational_posterior = (-0.5 * epsilon**2 - torch.log(sigma)).sum()
        return F.linear(input, weight, self.bias)


class BayesianNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2 = BayesianLinear(3, 8), BayesianLinear(8, 1)

    def forward(self, x):
        return self.l2(torch.relu(self.l1(x)))

    def sample_elbo(self, input, target, samples=2):
        outputs = torch.zeros(samples, *target.shape)
        priors, posteriors = torch.zeros(samples), torch.zeros(samples)
        for i in range(samples):
            outputs[i] = self(input)
            priors[i] = self.l1.log_prior + self.l2.log_prior
            posteriors[i] = self.l1.log_variational_posterior + self.l2.log_variational_posterior
        nll = F.mse_loss(outputs.mean(0), target, reduction="sum")
        return (posteriors.mean() - priors.mean()) / 10 + nll


def steps():
    net = seeded(BayesianNetwork())
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)

    def train(x, y):
        net.zero_grad()
        loss = net.sample_elbo(x, y)
        loss.backward()
        optimizer.step()
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(6, 3, seed=i)),
        torch.from_numpy(normal(6, 1, seed=i + 1)),
    )
