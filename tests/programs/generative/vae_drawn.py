"""A variational autoencoder that draws its noise with `randn_like`, and keeps parts of its loss."""

import torch
from programs.common import seeded, uniform
from torch import nn
from torch.nn import functional as F

DRAWS = True


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(24, 16), nn.Softplus(), nn.Dropout(0.2))
        self.mean, self.logvar = nn.Linear(16, 4), nn.Linear(16, 4)
        self.decoder = nn.Sequential(nn.Linear(4, 16), nn.Softplus(), nn.Linear(16, 24))

    def reparameterize(self, mu, logvar):
        if self.training:
            std = logvar.mul(0.5).exp_()
            eps = torch.randn_like(std)
            return eps.mul(std).add_(mu)
        return mu

    def forward(self, x):
        h = self.encoder(x)
        mu, logvar = self.mean(h), self.logvar(h)
        logits = self.decoder(self.reparameterize(mu, logvar))
        self.kl = -0.5 * torch.mean(1 + logvar - mu**2 - logvar.exp())
        self.reconstruction = F.binary_cross_entropy_with_logits(logits, x)
        return self.reconstruction + 0.1 * self.kl


def steps():
    model = seeded(VAE())
    optimizer = torch.optim.Adamax(model.parameters(), lr=1e-2)

    def train(x):
        optimizer.zero_grad(set_to_none=True)
        loss = model(x + 0.01 * torch.rand_like(x))
        loss.backward()
        optimizer.step()
        return loss, model.kl.detach()

    return train, lambda i: (torch.from_numpy(uniform(8, 24, seed=i)),)
