"""Attention as the author's packages have it: named tuples of settings, a way chosen by the device."""

from collections import namedtuple
from functools import wraps

import torch
import torch.nn.functional as F
from programs.common import normal, seeded, uniform
from torch import einsum, nn

FlashAttentionConfig = namedtuple(
    "FlashAttentionConfig", ["enable_flash", "enable_math", "enable_mem_efficient"]
)


def exists(val):
    return val is not None


def default(val, d):
    return val if exists(val) else d


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
    def __init__(self, dropout=0.0, flash=False, scale=None):
        super().__init__()
        self.dropout = dropout
        self.attn_dropout = nn.Dropout(dropout)
        self.scale, self.flash = scale, flash
        self.cpu_config = FlashAttentionConfig(True, True, True)
        self.cuda_config = None

    def flash_attn(self, q, k, v, mask=None):
        _, heads, q_len, _, k_len, is_cuda, device = *q.shape, k.shape[-2], q.is_cuda, q.device
        if exists(self.scale):
            q = q * (self.scale / (q.shape[-1] ** -0.5))
        if exists(mask):
            mask = mask.expand(-1, heads, q_len, -1)
        config = self.cuda_config if is_cuda else self.cpu_config
        assert config._asdict()["enable_math"]
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=self.dropout if self.training else 0.0
        )

    def forward(self, q, k, v, mask=None):
        q_len, k_len, device = q.shape[-2], k.shape[-2], q.device
        scale = default(self.scale, q.shape[-1] ** -0.5)
        if exists(mask) and mask.ndim != 4:
            mask = mask[:, None, None, :]
        if self.flash:
            return self.flash_attn(q, k, v, mask=mask)
        sim = einsum("b h i d, b h j d -> b h i j", q, k) * scale
        if exists(mask):
            sim = sim.masked_fill(~mask, -torch.finfo(sim.dtype).max)
        attn = sim.softmax(dim=-1)
        attn = self.attn_dropout(attn)
        return einsum("b h i j, b h j d -> b h i d", attn, v)


class Attention(nn.Module):
    def __init__(self, dim, heads, flash):
        super().__init__()
        self.heads = heads
        self.attend = Attend(flash=flash)
        self.to_qkv, self.to_out = nn.Linear(dim, dim * 3, bias=False), nn.Linear(dim, dim, bias=False)

    def forward(self, x, mask=None):
        h = self.heads
        q, k, v = self.to_qkv(x).chunk(3, dim=-1)
        q, k, v = map(lambda t: t.unflatten(-1, (h, -1)).transpose(1, 2), (q, k, v))
        out = self.attend(q, k, v, mask=mask)
        return self.to_out(out.transpose(1, 2).flatten(2))


def steps():
    layers = seeded(nn.ModuleList([Attention(8, 2, False), Attention(8, 2, True)]))
    optimizer = torch.optim.Adam(layers.parameters(), lr=1e-3)

    def train(x, mask, y):
        print_once("training")
        for layer in layers:
            x = layer(x, mask=mask) + x
        pooled = x.masked_fill(~mask[..., None], 0.0).mean(1)
        loss = F.mse_loss(pooled, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def batch(i):
        mask = uniform(3, 6, seed=i) > 0.3
        mask[:, 0] = True
        return (
            torch.from_numpy(normal(3, 6, 8, seed=i)),
            torch.from_numpy(mask),
            torch.from_numpy(normal(3, 8, seed=i + 1)),
        )

    return train, batch
