"""Sliced score matching: a trace of the Hessian by random directions."""

import torch
import torch.autograd as autograd
from programs.common import normal, seeded
from torch import nn


def sliced_score_matching(energy_net, samples, vectors):
    samples = samples.clone().requires_grad_(True)
    logp = -energy_net(samples).sum()
    grad1 = autograd.grad(logp, samples, create_graph=True)[0]
    loss1 = torch.norm(grad1, dim=-1) ** 2 * 0.5
    grad2 = autograd.grad(torch.sum(grad1 * vectors), samples, create_graph=True)[0]
    loss2 = torch.sum(vectors * grad2, dim=-1)
    return (loss1 + loss2).mean(), loss1.mean(), loss2.mean()


def steps():
    net = seeded(
        nn.Sequential(nn.Linear(3, 16), nn.Softplus(), nn.Linear(16, 16), nn.Softplus(), nn.Linear(16, 1))
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def train(x, v):
        optimizer.zero_grad()
        loss, *parts = sliced_score_matching(net, x, v)
        loss.backward()
        optimizer.step()
        return loss, *parts

    return train, lambda i: (
        torch.from_numpy(normal(7, 3, seed=i)),
        torch.from_numpy(normal(7, 3, seed=i + 1)),
    )
