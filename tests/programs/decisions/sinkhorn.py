"""A distance of optimal transport between two clouds, by Sinkhorn's iterations."""

import torch
from programs.common import normal


class SinkhornDistance(torch.nn.Module):
    def __init__(self, eps, max_iter):
        super().__init__()
        self.eps, self.max_iter = eps, max_iter

    def M(self, C, u, v):
        return (-C + u.unsqueeze(-1) + v.unsqueeze(-2)) / self.eps

    def forward(self, x, y):
        C = torch.cdist(x, y) ** 2
        mu = torch.empty(x.shape[0]).fill_(1.0 / x.shape[0])
        nu = torch.empty(y.shape[0]).fill_(1.0 / y.shape[0])
        u, v = torch.zeros_like(mu), torch.zeros_like(nu)
        for _ in range(self.max_iter):
            u = self.eps * (torch.log(mu + 1e-8) - torch.logsumexp(self.M(C, u, v), dim=-1)) + u
            v = (
                self.eps * (torch.log(nu + 1e-8) - torch.logsumexp(self.M(C, u, v).transpose(-2, -1), dim=-1))
                + v
            )
        pi = torch.exp(self.M(C, u, v))
        return torch.sum(pi * C)


def steps():
    sinkhorn = SinkhornDistance(0.5, 8)
    points = torch.from_numpy(normal(6, 2)).requires_grad_()

    def flow(target):
        cost = sinkhorn(points, target)
        (gradient,) = torch.autograd.grad(cost, [points])
        points.data -= 0.2 * len(points) * gradient
        return cost

    return flow, lambda i: (torch.from_numpy(normal(7, 2, seed=i + 1)),)
