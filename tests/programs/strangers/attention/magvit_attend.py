"""Attention with a function for its causal mask, null keys and values, and a bias of relative positions."""

from functools import wraps

import torch
import torch.nn.functional as F
from programs.common import normal, seeded
from torch import einsum, nn


def exists(val):
    return val is not None


def default(val, d):
    return val if exists(val) else d


def compact(arr):
    return [*filter(exists, arr)]


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


def create_causal_mask(i, j, device):
    return torch.ones((i, j), device=device, dtype=torch.bool).triu(j - i + 1)


def onnx_create_causal_mask(i, j, device):
    r = torch.arange(i, device=device)
    causal_mask = r[:, None] < r[None, :]
    return F.pad(causal_mask, (j - i, 0), value=False)


class Attend(nn.Module):
    def __init__(
        self,
        *,
        dropout=0.0,
        causal=False,
        heads=None,
        scale=None,
        flash=False,
        onnxable=False,
        sdp_kwargs: dict = dict(enable_flash=True, enable_math=True, enable_mem_efficient=True),
    ):
        super().__init__()
        self.scale = scale
        self.causal = causal
        self.create_causal_mask = onnx_create_causal_mask if onnxable else create_causal_mask
        self.dropout = dropout
        self.attn_dropout = nn.Dropout(dropout)
        self.flash = flash and torch.cuda.is_available()
        self.sdp_kwargs = sdp_kwargs

    def forward(self, q, k, v, mask=None, attn_bias=None, prev_attn=None):
        n, heads, kv_heads, device = q.shape[-2], q.shape[1], k.shape[1], q.device
        scale = default(self.scale, q.shape[-1] ** -0.5)
        causal = self.causal
        if n == 1 and causal:
            causal = False
        dots = einsum("b h i d, b h j d -> b h i j", q, k) * scale
        if exists(prev_attn):
            dots = dots + prev_attn
        if exists(attn_bias):
            dots = dots + attn_bias
        i, j, dtype = *dots.shape[-2:], dots.dtype
        mask_value = -torch.finfo(dots.dtype).max
        if exists(mask):
            dots = dots.masked_fill(~mask, mask_value)
        if causal:
            causal_mask = self.create_causal_mask(i, j, device=device)
            dots = dots.masked_fill(causal_mask, mask_value)
        attn = dots.softmax(dim=-1)
        attn = self.attn_dropout(attn)
        return einsum("b h i j, b h j d -> b h i d", attn, v)


class Attention(nn.Module):
    def __init__(self, *, dim, causal=False, dim_head=4, heads=2, onnxable=False, num_memory_kv=3):
        super().__init__()
        self.heads, self.norm = heads, nn.RMSNorm(dim)
        self.to_qkv = nn.Linear(dim, dim_head * heads * 3, bias=False)
        self.mem_kv = nn.Parameter(torch.randn(2, heads, num_memory_kv, dim_head))
        self.attend = Attend(causal=causal, onnxable=onnxable)
        self.to_out = nn.Linear(dim_head * heads, dim, bias=False)

    def forward(self, x, attn_bias=None):
        x = self.norm(x)
        q, k, v = self.to_qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mk, mv = map(lambda t: t[None].expand(q.shape[0], -1, -1, -1), self.mem_kv)
        k = torch.cat((mk, k), dim=-2)
        v = torch.cat((mv, v), dim=-2)
        if exists(attn_bias):
            attn_bias = F.pad(attn_bias, (self.mem_kv.shape[-2], 0), value=0.0)
        out = self.attend(q, k, v, attn_bias=attn_bias)
        return self.to_out(out.transpose(1, 2).flatten(2))


def steps():
    layers = seeded(
        nn.ModuleList(
            [Attention(dim=8, causal=True), Attention(dim=8, causal=True, onnxable=True), Attention(dim=8)]
        )
    )
    bias = nn.Parameter(torch.from_numpy(normal(2, 6, 6)))
    optimizer = torch.optim.Adam(compact([*layers.parameters(), None, bias]), lr=1e-3)

    def train(x, y):
        optimizer.zero_grad()
        for ind, attn in enumerate(layers):
            x = attn(x, attn_bias=bias if ind == 2 else None) + x
        loss = F.mse_loss(x, y)
        loss.backward()
        optimizer.step()
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(2, 6, 8, seed=i)),
        torch.from_numpy(normal(2, 6, 8, seed=i + 1)),
    )
