"""A Wasserstein GAN with a penalty of gradients."""

import torch
import torch.autograd as autograd
from programs.common import normal, seeded, uniform
from torch import nn


def compute_gradient_penalty(D, real_samples, fake_samples, alpha):
    interpolates = (alpha * real_samples + (1 - alpha) * fake_samples).requires_grad_(True)
    d_interpolates = D(interpolates)
    fake = torch.ones(real_samples.shape[0], 1, requires_grad=False)
    gradients = autograd.grad(
        outputs=d_interpolates,
        inputs=interpolates,
        grad_outputs=fake,
        create_graph=True,
        retain_graph=True,
        only_inputs=True,
    )[0]
    gradients = gradients.view(gradients.size(0), -1)
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


def steps():
    G = seeded(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 6)))
    D = seeded(nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1)), seed=1)
    opt_g = torch.optim.RMSprop(G.parameters(), lr=1e-3)
    opt_d = torch.optim.RMSprop(D.parameters(), lr=1e-3)

    def critic_step(real, z, alpha):
        opt_d.zero_grad()
        fake = G(z)
        penalty = compute_gradient_penalty(D, real.data, fake.data, alpha)
        d_loss = -torch.mean(D(real)) + torch.mean(D(fake.detach())) + 10 * penalty
        d_loss.backward()
        opt_d.step()
        opt_g.zero_grad()
        g_loss = -torch.mean(D(G(z)))
        g_loss.backward()
        opt_g.step()
        return d_loss.detach(), g_loss.detach()

    return critic_step, lambda i: (
        torch.from_numpy(normal(8, 6, seed=i)),
        torch.from_numpy(normal(8, 4, seed=50 + i)),
        torch.from_numpy(uniform(8, 1, seed=i)),
    )
