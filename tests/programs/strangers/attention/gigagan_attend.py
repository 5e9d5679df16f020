"""Attention over feature maps, with a kernel chosen by configuration and queries normalised in channels."""

from collections import namedtuple
from functools import wraps

import torch
import torch.nn.functional as F
from programs.common import normal, seeded
from torch import einsum, nn

AttentionConfig = namedtuple("AttentionConfig", ["enable_flash", "enable_math", "enable_mem_efficient"])


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
    def __init__(self, dropout=0.0, flash=False):
        super().__init__()
        self.dropout = dropout
        self.attn_dropout = nn.Dropout(dropout)
        self.flash = flash
        self.cpu_config = AttentionConfig(True, True, True)
        self.cuda_config = None
        if not torch.cuda.is_available() or not flash:
            return
        print_once("GPU detected")

    def flash_attn(self, q, k, v):
        is_cuda = q.is_cuda
        q, k, v = map(lambda t: t.contiguous(), (q, k, v))
        config = self.cuda_config if is_cuda else self.cpu_config
        assert config._asdict()
        return F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0)

    def forward(self, q, k, v):
        if self.flash:
            return self.flash_attn(q, k, v)
        scale = q.shape[-1] ** -0.5
        sim = einsum("b h i d, b h j d -> b h i j", q, k) * scale
        attn = sim.softmax(dim=-1)
        attn = self.attn_dropout(attn)
        return einsum("b h i j, b h j d -> b h i d", attn, v)


class ChannelRMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.scale = dim**0.5
        self.gamma = nn.Parameter(torch.ones(dim, 1, 1))

    def forward(self, x):
        normed = F.normalize(x, dim=1)
        return normed * self.scale * self.gamma


class SelfAttention(nn.Module):
    def __init__(self, dim, dim_head=4, heads=2, flash=False):
        super().__init__()
        self.heads, self.norm = heads, ChannelRMSNorm(dim)
        dim_inner = dim_head * heads
        self.to_qkv = nn.Conv2d(dim, dim_inner * 3, 1, bias=False)
        self.null_kv = nn.Parameter(torch.randn(2, heads, dim_head))
        self.to_out = nn.Conv2d(dim_inner, dim, 1, bias=False)
        self.attend = Attend(flash=flash)

    def forward(self, fmap):
        batch = fmap.shape[0]
        fmap = self.norm(fmap)
        x, y = fmap.shape[-2:]
        h = self.heads
        q, k, v = self.to_qkv(fmap).chunk(3, dim=1)
        q, k, v = map(lambda t: t.reshape(batch, h, -1, x * y).transpose(2, 3), (q, k, v))
        nk, nv = map(lambda t: t[None, :, None, :].expand(batch, -1, 1, -1), self.null_kv)
        k = torch.cat((nk, k), dim=-2)
        v = torch.cat((nv, v), dim=-2)
        out = self.attend(q, k, v)
        return self.to_out(out.transpose(2, 3).reshape(batch, -1, x, y))


def steps():
    layers = seeded(nn.ModuleList([SelfAttention(6), SelfAttention(6, flash=True)]))
    optimizer = torch.optim.Adam(layers.parameters(), lr=1e-3, betas=(0.5, 0.9))

    def train(fmap, y):
        optimizer.zero_grad()
        for layer in layers:
            fmap = layer(fmap) + fmap
        loss = F.mse_loss(fmap, y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return train, lambda i: (
        torch.from_numpy(normal(2, 6, 4, 4, seed=i)),
        torch.from_numpy(normal(2, 6, 4, 4, seed=i + 1)),
    )
