"""A sparse Gaussian process: means over samples in batches, lists of numbers, NumPy's sums, a schedule by groups."""

import numpy as np
import torch
from programs.common import normal, seeded
from torch import nn, optim
from torch.distributions import MultivariateNormal, Normal, kl_divergence
from torch.optim.lr_scheduler import LambdaLR

DRAWS = True


class DataLoader:
    def __init__(self, data):
        n_samples, n, m = data.shape
        self.n = n
        self.n_samples = n_samples
        self.m = m
        self.batch_pool_size = m
        self.data = data

    def __iter__(self):
        self.i = 0
        return self

    def __next__(self):
        if self.i == 0:
            self.i += 1
            return (None, None, self.data)
        else:
            raise StopIteration


class SvgpLvm(nn.Module):
    def __init__(self, n, m, d=2, n_z=4):
        super().__init__()
        self.z = nn.Parameter(torch.randn(d, n_z))
        self.q_mu, self.q_sqrt = nn.Parameter(torch.zeros(n, n_z)), nn.Parameter(torch.zeros(n, n_z, n_z))
        self.lat_mu, self.lat_scale = nn.Parameter(torch.zeros(m, d)), nn.Parameter(torch.zeros(m, d))
        self.log_length, self.log_noise = nn.Parameter(torch.zeros(())), nn.Parameter(torch.zeros(n))
        self.n_z = n_z

    def kernel(self, x, y):
        distance = ((x[..., :, None, :] - y[..., None, :, :]) ** 2).sum(-1)
        return torch.exp(-0.5 * distance / torch.exp(self.log_length) ** 2)

    def forward(
        self, data, n_mc, batch_idxs=None, sample_idxs=None, neuron_idxs=None, m=None, analytic_kl=False
    ):
        latent = Normal(self.lat_mu, nn.functional.softplus(self.lat_scale))
        g = latent.rsample((n_mc,))
        z = self.z.T
        kzz = self.kernel(z, z) + 1e-4 * torch.eye(self.n_z)
        l = torch.linalg.cholesky(kzz)  # noqa: E741
        kzx = self.kernel(z, g)
        a = torch.linalg.solve_triangular(l, kzx, upper=False)
        mean = torch.einsum("nz,bzm->bnm", self.q_mu, a)
        q_sqrt = torch.tril(self.q_sqrt) + torch.eye(self.n_z)
        var = 1 - (a**2).sum(-2)[:, None] + torch.einsum("nzk,bzm->bnkm", q_sqrt, a).square().sum(2)
        noise = torch.exp(self.log_noise)[:, None]
        lik = Normal(mean, noise).log_prob(data) - 0.5 * var / noise**2
        q = MultivariateNormal(self.q_mu, scale_tril=q_sqrt)
        prior = MultivariateNormal(torch.zeros(self.n_z), scale_tril=torch.eye(self.n_z))
        svgp_elbo = lik.sum((-1, -2)).mean() - kl_divergence(q, prior).sum()
        kl = kl_divergence(latent, Normal(torch.zeros(()), torch.ones(()))).sum()
        return svgp_elbo, kl


def steps():
    n, m, burnin, n_mc = 3, 8, 20, 4
    model = seeded(SvgpLvm(n, m))
    params = [
        {"params": [model.lat_mu, model.z, model.q_mu, model.q_sqrt]},
        {"params": [model.lat_scale, model.log_length, model.log_noise]},
    ]
    opt = optim.Adam(params, lr=1e-2)

    def fburn(x):
        return 1 - np.exp(-x / (3 * burnin))

    scheduler = LambdaLR(opt, lr_lambda=[lambda x: 1, fburn])
    dataloader = DataLoader(torch.from_numpy(normal(1, n, m)))
    n_samples, batch_mc, accumulate_gradient = dataloader.n_samples, 2, True
    mc_batches = [batch_mc for _ in range(n_mc // batch_mc)]
    progress = []

    def iteration(i):
        loss_vals, kl_vals, svgp_vals = [], [], []
        ramp = 1 - np.exp(-i / burnin)
        for imc, mc in enumerate(mc_batches):
            for sample_idxs, batch_idxs, batch in dataloader:
                if batch_idxs is None:
                    weight = 1
                else:
                    weight = len(batch_idxs) / m
                mc_weight = mc / n_mc
                svgp_elbo, kl = model(batch, mc, batch_idxs=batch_idxs, sample_idxs=sample_idxs)
                loss = (-svgp_elbo) + (ramp * kl)
                loss_vals.append(weight * loss.item() * mc_weight)
                kl_vals.append(weight * kl.item() * mc_weight)
                svgp_vals.append(weight * svgp_elbo.item() * mc_weight)
                if accumulate_gradient:
                    loss *= mc_weight
                    if batch_idxs is not None:
                        loss *= weight
                loss.backward()
        opt.step()
        opt.zero_grad()
        scheduler.step()
        if i % 50 == 0:
            Z = n * m * n_samples
            print("\riter {:>3d} | loss {:> .3f} |".format(i, np.sum(loss_vals) / Z))
        progress.append(np.sum(loss_vals) / (n * m * n_samples))
        return progress[-1]

    return iteration, lambda i: (i,)
