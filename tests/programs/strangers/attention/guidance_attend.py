"""Attention of a guidance package: a causal mask kept in a buffer that a forward registers, one head of keys."""

from collections import namedtuple
from functools import wraps

import torch
import torch.nn.functional as F
from programs.common import normal, seeded, uniform
from torch import einsum, nn

EfficientAttentionConfig = namedtuple(
    "EfficientAttentionConfig", ["enable_flash", "enable_math", "enable_mem_efficient"]
)


def exists(val):
    return val is not None


def once(fn):
    called = False

    @wraps(fn)
    def inner(x):
        nonlocal called
        if called:
            return
        called = True
        return fn(x)

    return inner


print_once = once(print)


class Attend(nn.Module):
    def __init__(self, dropout=0.0, causal=False, flash=False):
        super().__init__()
        self.dropout = dropout
        self.attn_dropout = nn.Dropout(dropout)
        self.causal = causal
        self.register_buffer("mask", None, persistent=False)
        self.flash = flash
        self.cpu_config = EfficientAttentionConfig(True, True, True)
        self.cuda_config = None

    def get_mask(self, n, device):
        if exists(self.mask) and self.mask.shape[-1] >= n:
            return self.mask[:n, :n]
        mask = torch.ones((n, n), device=device, dtype=torch.bool).triu(1)
        self.register_buffer("mask", mask, persistent=False)
        return mask

    def flash_attn(self, q, k, v, mask=None):
        _, heads, q_len, _, k_len, is_cuda = *q.shape, k.shape[-2], q.is_cuda
        if k.ndim == 3:
            k = k.unsqueeze(1).expand(-1, heads, -1, -1)
        if v.ndim == 3:
            v = v.unsqueeze(1).expand(-1, heads, -1, -1)
        if exists(mask):
            if mask.ndim == 2:
                mask = mask[:, None, None, :]
            mask = mask.expand(-1, heads, q_len, -1)
        config = self.cuda_config if is_cuda else self.cpu_config
        assert all(config._asdict().values())
        return F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=self.causal,
        )

    def forward(self, q, k, v, mask=None):
        n, device = q.shape[-2], q.device
        scale = q.shape[-1] ** -0.5
        if self.flash:
            return self.flash_attn(q, k, v, mask=mask)
        kv_einsum_eq = "b j d" if k.ndim == 3 else "b h j d"
        sim = einsum(f"b h i d, {kv_einsum_eq} -> b h i j", q, k) * scale
        if exists(mask):
            if mask.ndim == 2:
                mask = mask[:, None, None, :]
            sim = sim.masked_fill(~mask, -torch.finfo(sim.dtype).max)
        if self.causal:
            causal_mask = self.get_mask(n, device)
            sim = sim.masked_fill(causal_mask, -torch.finfo(sim.dtype).max)
        attn = sim.softmax(dim=-1)
        attn = self.attn_dropout(attn)
        return einsum(f"b h i j, {kv_einsum_eq} -> b h i d", attn, v)


class Attention(nn.Module):
    def __init__(self, dim, heads=2, dim_head=4, **kwargs):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.attend = Attend(**kwargs)
        self.to_q = nn.Linear(dim, dim_head * heads, bias=False)
        self.to_kv = nn.Linear(dim, dim_head * 2, bias=False)
        self.to_out = nn.Linear(dim_head * heads, dim, bias=False)

    def forward(self, x, mask=None):
        x = self.norm(x)
        q, k, v = self.to_q(x), *self.to_kv(x).chunk(2, dim=-1)
        q = q.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        out = self.attend(q, k, v, mask=mask)
        return self.to_out(out.transpose(1, 2).flatten(2))


def steps():
    layers = seeded(nn.ModuleList([Attention(8, causal=True), Attention(8, flash=True)]))
    optimizer = torch.optim.Adam(layers.parameters(), lr=1e-3)

    def train(x, mask, y):
        causal, flash = layers
        x = causal(x) + x
        x = flash(x, mask=mask) + x
        loss = F.mse_loss(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    def batch(i):
        mask = uniform(3, 6, seed=i) > 0.3
        mask[:, 0] = True
        arrays = normal(3, 6, 8, seed=i), mask, normal(3, 6, 8, seed=i + 1)
        return tuple(map(torch.from_numpy, arrays))

    return train, batch
