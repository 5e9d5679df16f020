"""Denoising with classes that are left out at times, by a drawn number: a mean over micro-batches, an average."""

from contextlib import nullcontext

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, normal, seeded

DRAWS = True


class AverageMeter:
    def __init__(self):
        self.sum, self.count = 0, 0

    def update(self, val, n=1):
        self.sum += val * n
        self.count += n

    @property
    def avg(self):
        return self.sum / self.count


class EMA:
    def __init__(self, parameters, decay=0.9999, gradual=True):
        self.decay = decay
        self.gradual = gradual
        self.num_updates = 0
        self.shadow = [param.detach().clone() for param in parameters]

    def get_decay(self):
        if self.gradual:
            return min(self.decay, (1 + self.num_updates) / (10 + self.num_updates))
        else:
            return self.decay

    @torch.no_grad()
    def update(self, parameters):
        self.num_updates += 1
        decay = self.get_decay()
        for s_param, param in zip(self.shadow, parameters):
            if param.requires_grad:
                s_param.sub_((1.0 - decay) * (s_param - param))
            else:
                s_param.copy_(param)


class DDPM:
    def __init__(self, total_steps=50, objective="pred_eps"):
        self.total_steps, self.objective = total_steps, objective
        betas = torch.linspace(1e-4, 0.02, total_steps, dtype=torch.float64)
        self.alphas_cumprod = torch.cumprod(1.0 - betas, dim=0).to("cpu", torch.float)

    def loss_func(self, model, x0, t, eps=None, model_kwargs=None):
        model_kwargs = dict() if model_kwargs is None else model_kwargs
        eps = torch.randn_like(x0) if eps is None else eps
        xt = self.diffuse(x0, t, eps)
        if self.objective == "pred_eps":
            pred_eps = model(xt, t, **model_kwargs)
            return F.mse_loss(pred_eps, eps)
        elif self.objective == "pred_x0":
            pred_x0 = model(xt, t, **model_kwargs)
            return F.mse_loss(pred_x0, x0)
        elif self.objective == "pred_v":
            v = self.get_v(x0, eps, t)
            pred_v = model(xt, t, **model_kwargs)
            return F.mse_loss(pred_v, v)
        else:
            raise ValueError(f"Objective {self.objective} is not supported.")

    def scales(self, x0, t):
        sqrt_alphas_cumprod_t = self.alphas_cumprod[t] ** 0.5
        while sqrt_alphas_cumprod_t.ndim < x0.ndim:
            sqrt_alphas_cumprod_t = sqrt_alphas_cumprod_t.unsqueeze(-1)
        sqrt_one_minus_alphas_cumprod = (1.0 - self.alphas_cumprod[t]) ** 0.5
        while sqrt_one_minus_alphas_cumprod.ndim < x0.ndim:
            sqrt_one_minus_alphas_cumprod = sqrt_one_minus_alphas_cumprod.unsqueeze(-1)
        return sqrt_alphas_cumprod_t, sqrt_one_minus_alphas_cumprod

    def get_v(self, x0, eps, t):
        a, b = self.scales(x0, t)
        return a * eps - b * x0

    def diffuse(self, x0, t, eps=None):
        a, b = self.scales(x0, t)
        return a * x0 + b * eps


class UNet(nn.Module):
    def __init__(self, num_classes=None):
        super().__init__()
        self.time_embed = nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.Linear(8, 6))
        self.class_embed = nn.Embedding(num_classes, 6) if num_classes is not None else None
        self.first, self.last = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 2, 3, padding=1)
        self.norm = nn.GroupNorm(2, 6)

    def forward(self, X, T, y=None):
        freqs = torch.exp(-torch.arange(2) * 2.0)
        args = T[:, None] * freqs[None, :]
        emb = self.time_embed(torch.cat([torch.cos(args), torch.sin(args)], dim=-1))
        if y is not None:
            emb = emb + self.class_embed(y)
        h = F.silu(self.norm(self.first(X) + emb[:, :, None, None]))
        return self.last(h)


def steps():
    model = seeded(UNet(num_classes=5))
    diffuser, ema = DDPM(), EMA(model.parameters())
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)
    micro_batch, p_uncond, device = 4, 0.2, torch.device("cpu")

    def run_step(_batch):
        optimizer.zero_grad()
        _batch, labels = _batch
        batch_size = _batch.shape[0]
        loss_meter = AverageMeter()
        for i in range(0, batch_size, micro_batch):
            X = _batch[i : i + micro_batch].float()
            y = labels[i : i + micro_batch].long()
            if torch.rand(1) < p_uncond:
                y = None
            t = torch.randint(diffuser.total_steps, (X.shape[0],), device=device).long()
            loss_scale = X.shape[0] / batch_size
            cm = nullcontext()
            with cm:
                loss = diffuser.loss_func(model, x0=X, t=t, model_kwargs=dict(y=y))
                (loss * loss_scale).backward()
            loss_meter.update(loss.item(), X.shape[0])
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        ema.update(model.parameters())
        return dict(loss=loss_meter.avg, lr=optimizer.param_groups[0]["lr"])

    def step(batch):
        status = run_step(batch)
        return status["loss"], status["lr"]

    return step, lambda i: (
        (torch.from_numpy(normal(8, 2, 6, 6, seed=i)), torch.from_numpy(integers(5, 8, seed=i))),
    )
