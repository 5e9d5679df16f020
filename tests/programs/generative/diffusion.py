"""A denoising diffusion model with a small U-Net."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, normal, seeded


class SinusoidalPositionEmbeddings(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, time):
        half_dim = self.dim // 2
        embeddings = math.log(10000) / (half_dim - 1)
        embeddings = torch.exp(torch.arange(half_dim, device=time.device) * -embeddings)
        embeddings = time[:, None] * embeddings[None, :]
        return torch.cat((embeddings.sin(), embeddings.cos()), dim=-1)


class Block(nn.Module):
    def __init__(self, in_ch, out_ch, time_emb_dim):
        super().__init__()
        self.time_mlp = nn.Linear(time_emb_dim, out_ch)
        self.conv1 = nn.Conv2d(in_ch, out_ch, 3, padding=1)
        self.conv2 = nn.Conv2d(out_ch, out_ch, 3, padding=1)
        self.norm1 = nn.GroupNorm(2, out_ch)
        self.norm2 = nn.GroupNorm(2, out_ch)

    def forward(self, x, t):
        h = self.norm1(F.silu(self.conv1(x)))
        h = h + F.silu(self.time_mlp(t))[(...,) + (None,) * 2]
        return self.norm2(F.silu(self.conv2(h)))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.time_mlp = nn.Sequential(SinusoidalPositionEmbeddings(8), nn.Linear(8, 8), nn.SiLU())
        self.down1, self.down2 = Block(1, 4, 8), Block(4, 8, 8)
        self.pool, self.up = nn.AvgPool2d(2), nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.up1, self.out = Block(8, 4, 8), nn.Conv2d(4, 1, 1)

    def forward(self, x, time):
        t = self.time_mlp(time)
        x1 = self.down1(x, t)
        x2 = self.down2(self.pool(x1), t)
        return self.out(self.up1(torch.cat([self.up(x2), x1], dim=1), t))


def extract(a, t, x_shape):
    return a.gather(-1, t).reshape(t.shape[0], *((1,) * (len(x_shape) - 1)))


def steps():
    betas = torch.linspace(1e-4, 0.02, 20)
    alphas_cumprod = torch.cumprod(1 - betas, axis=0)
    model = seeded(UNet())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def train(x_start, t, noise):
        optimizer.zero_grad()
        x_noisy = (
            extract(torch.sqrt(alphas_cumprod), t, x_start.shape) * x_start
            + extract(torch.sqrt(1.0 - alphas_cumprod), t, x_start.shape) * noise
        )
        loss = F.smooth_l1_loss(noise, model(x_noisy, t))
        loss.backward()
        optimizer.step()
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(4, 1, 8, 8, seed=i)),
        torch.from_numpy(integers(20, 4, seed=i)),
        torch.from_numpy(normal(4, 1, 8, 8, seed=i + 30)),
    )
