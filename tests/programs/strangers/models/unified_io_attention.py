"""An audio encoder in the manner of JAX: products by einsum, a mask made of another, a dropout of broadcast rows."""

from typing import Any, Optional

import torch
from programs.common import normal, seeded, uniform
from torch import nn
from torch.nn import functional as F


class Config:
    emb_dim: int = 8
    mlp_dim: int = 16
    num_heads: int = 2
    head_dim: int = 4
    num_layers: int = 2
    dropout_rate: float = 0.0


class Dropout(nn.Module):
    def __init__(self, p: float = 0.5, inplace: bool = False, broadcast_dims=()):
        super().__init__()
        assert inplace is False, "not implemented"
        self.p, self.broadcast_dims = p, broadcast_dims

    def forward(self, x, deterministic: Optional[bool] = None):
        if not self.training or self.p == 0:
            return x
        shape = list(x.shape)
        for dim in self.broadcast_dims:
            shape[dim] = 1
        keep = torch.bernoulli(torch.full(shape, 1 - self.p))
        return x * keep / (1 - self.p)


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.fc1 = nn.Linear(config.emb_dim, config.mlp_dim, bias=True)
        self.gelu = nn.GELU(approximate="tanh")
        self.fc2 = nn.Linear(config.mlp_dim, config.emb_dim, bias=True)

    def forward(self, x):
        x = self.fc1(x)
        x = self.gelu(x)
        x = self.fc2(x)
        return x


class MultiHeadDotProductAttention(nn.Module):
    def __init__(
        self, emb_dim, num_heads: int, head_dim: int, dropout_rate: float = 0.0, float32_logits: bool = False
    ):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, head_dim
        assert emb_dim == num_heads * head_dim, "embed_dim must be divisible by num_heads"
        self.scale = self.head_dim**-0.5
        self.float32_logits = float32_logits
        self.query_in_proj_weight = nn.Parameter(torch.randn(emb_dim, emb_dim) * self.scale)
        self.query_in_proj_bias = nn.Parameter(torch.zeros(emb_dim))
        self.key_in_proj_weight = nn.Parameter(torch.randn(emb_dim, emb_dim) * self.scale)
        self.key_in_proj_bias = nn.Parameter(torch.zeros(emb_dim))
        self.attn_drop = Dropout(dropout_rate, broadcast_dims=(-2,))
        self.out_proj = nn.Linear(emb_dim, emb_dim, bias=True)

    def forward(self, inputs_q, inputs_kv, attn_mask: Optional[torch.Tensor] = None):
        bs, q_len, emb_dim = inputs_q.shape
        kv_len = inputs_kv.shape[1]
        query = F.linear(inputs_q, self.query_in_proj_weight, self.query_in_proj_bias).reshape(
            bs, q_len, self.num_heads, self.head_dim
        )
        key = F.linear(inputs_kv, self.key_in_proj_weight, self.key_in_proj_bias).reshape(
            bs, kv_len, self.num_heads, self.head_dim
        )
        query = query * self.scale
        attn_weights = torch.einsum("bqhd,bkhd->bhqk", query, key)
        if attn_mask is not None:
            new_attn_mask = torch.zeros_like(attn_mask, dtype=attn_weights.dtype)
            new_attn_mask.masked_fill_(~(attn_mask > 0), -1e10)
            attn_mask = new_attn_mask
            attn_weights += attn_mask
        attn_weights = F.softmax(attn_weights, dim=-1).to(inputs_q.dtype)
        attn_weights = self.attn_drop(attn_weights)
        attn_out = torch.einsum("bhqk,bkhd->bqhd", attn_weights, key)
        return self.out_proj(attn_out.reshape(bs, q_len, emb_dim))


class ResidualAttentionBlock(nn.Module):
    def __init__(self, config: Any):
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.emb_dim, eps=1e-6)
        self.attn = MultiHeadDotProductAttention(
            config.emb_dim, config.num_heads, config.head_dim, config.dropout_rate
        )
        self.ln_2 = nn.LayerNorm(config.emb_dim, eps=1e-6)
        self.mlp = MLP(config)

    def forward(self, x, attn_mask):
        x1 = self.ln_1(x)
        x2 = self.attn(x1, x1, attn_mask)
        x = x + x2
        return x + self.mlp(self.ln_2(x))


class Transformer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.resblocks = nn.ModuleList([ResidualAttentionBlock(config) for _ in range(config.num_layers)])

    def forward(self, x, attn_mask: Optional[torch.Tensor] = None):
        xs = []
        for r in self.resblocks:
            x = r(x, attn_mask)
            xs.append(x)
        return x, xs


def steps():
    model = seeded(Transformer(Config()))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def train(x, mask, y):
        out, hidden = model(x, mask)
        loss = F.mse_loss(out, y) + 0.1 * torch.stack(hidden).pow(2).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(2, 5, 8, seed=i)),
        torch.from_numpy((uniform(2, 1, 5, 5, seed=i) > 0.2).astype("f4")),
        torch.from_numpy(normal(2, 5, 8, seed=i + 1)),
    )
