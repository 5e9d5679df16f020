"""An energy-based model: its negative samples come of Langevin dynamics, and are kept in a buffer."""

import torch
import torch.nn as nn
from programs.common import normal, seeded, uniform


class Sampler:
    def __init__(self, model, size):
        self.model = model
        self.examples = torch.from_numpy(uniform(size, 4))

    def generate_samples(self, noises, step_size=0.1):
        inp_imgs = self.examples
        for p in self.model.parameters():
            p.requires_grad = False
        inp_imgs = inp_imgs.detach().clone().requires_grad_(True)
        for noise in noises:
            inp_imgs.data.add_(0.01 * noise)
            inp_imgs.data.clamp_(min=-1.0, max=1.0)
            out_imgs = -self.model(inp_imgs)
            out_imgs.sum().backward()
            inp_imgs.grad.data.clamp_(-0.03, 0.03)
            inp_imgs.data.add_(-step_size * inp_imgs.grad.data)
            inp_imgs.grad.detach_()
            inp_imgs.grad.zero_()
        for p in self.model.parameters():
            p.requires_grad = True
        self.examples = inp_imgs.detach()
        return self.examples


def steps():
    model = seeded(nn.Sequential(nn.Linear(4, 16), nn.SiLU(), nn.Linear(16, 1)))
    sampler = Sampler(model, 6)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.0, 0.999))

    def training_step(real_imgs, noises):
        fake_imgs = sampler.generate_samples(noises)
        inp_imgs = torch.cat([real_imgs, fake_imgs], dim=0)
        real_out, fake_out = model(inp_imgs).chunk(2, dim=0)
        reg_loss = 0.1 * (real_out**2 + fake_out**2).mean()
        cdiv_loss = fake_out.mean() - real_out.mean()
        loss = reg_loss + cdiv_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, cdiv_loss

    return training_step, lambda i: (
        torch.from_numpy(uniform(6, 4, seed=i)),
        torch.from_numpy(normal(3, 6, 4, seed=i)),
    )
