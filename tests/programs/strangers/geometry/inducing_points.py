"""Inducing points as a property that projects them, a kernel of them, a module's own base class, trained by a fit."""

import torch
import torch.nn.functional as F
from programs.common import normal, seeded
from torch import Tensor, nn


class Module(nn.Module):
    @property
    def prms(self):
        raise NotImplementedError

    @property
    def msg(self):
        return ""


class InducingPoints(Module):
    def __init__(self, n: int, d: int, n_z: int, parameterise=None, z: "Tensor | None" = None):
        super().__init__()
        self.n = n
        self.d = d
        self.n_z = n_z
        self.parameterise = parameterise
        z = torch.randn(n, d, n_z) if z is None else z
        self.z = nn.Parameter(data=z, requires_grad=True)

    @property
    def prms(self):
        if self.parameterise is None:
            return self.z
        else:
            return self.parameterise(self.z)


class QuadExp(Module):
    def __init__(self, n):
        super().__init__()
        self._scale_sqrt, self._ell = nn.Parameter(torch.ones(n)), nn.Parameter(torch.zeros(n))

    @property
    def scale(self):
        return self._scale_sqrt.square()

    @property
    def ell(self):
        return F.softplus(self._ell)

    @property
    def prms(self):
        return self.scale, self.ell

    def forward(self, x, y):
        scale, ell = self.prms
        x, y = x / ell[:, None, None], y / ell[:, None, None]
        distance = (x[..., :, None] - y[..., None, :]).square().sum(-3)
        return scale[:, None, None] * torch.exp(-0.5 * distance)


def steps():
    n, d, n_z = 3, 2, 4
    points = InducingPoints(n, d, n_z, parameterise=lambda z: z / z.norm(dim=1, keepdim=True))
    free = InducingPoints(n, d, n_z)
    kernel, weights = QuadExp(n), nn.ParameterList([torch.zeros(n, n_z), torch.zeros(n, n_z)])
    model = seeded(nn.ModuleList([points, free, kernel, weights]))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def train(x, y):
        optimizer.zero_grad()
        mean = 0.0
        for inducing, w in zip((points, free), weights):
            z = inducing.prms
            kzz = kernel(z, z) + 1e-3 * torch.eye(n_z)
            kxz = kernel(x, z)
            solved = torch.linalg.solve(kzz, w[..., None])
            mean = mean + (kxz @ solved)[..., 0]
        loss = F.mse_loss(mean, y)
        loss.backward()
        optimizer.step()
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(3, 2, 7, seed=i)),
        torch.from_numpy(normal(3, 7, seed=i + 1)),
    )
