"""Attention over attention: keys and values of a chain of weights, rotated in part, batches accumulated, a print."""

import torch
import torch.nn.functional as F
from programs.common import integers, seeded
from torch import cat, nn
from torch.nn import Module, ModuleList
from torch.utils._pytree import tree_map


def exists(v):
    return v is not None


def cycle(loader):
    while True:
        for data in loader:
            yield data


class RotaryEmbedding(Module):
    def __init__(self, dim):
        super().__init__()
        self.freqs = nn.Parameter(
            1.0 / (10000 ** (torch.arange(0, dim, 2).float() / dim)), requires_grad=False
        )
        self.cached = None

    def forward(self, seq_len):
        if exists(self.cached) and self.cached.shape[0] >= seq_len:
            return self.cached[:seq_len].detach()
        freqs = torch.arange(seq_len)[:, None] * self.freqs
        freqs = freqs.repeat_interleave(2, dim=-1)
        self.cached = freqs.detach()
        return freqs

    def rotate(self, t):
        freqs = self.forward(t.shape[-2])
        rot_dim = freqs.shape[-1]
        t, t_right = t[..., :rot_dim], t[..., rot_dim:]
        x1, x2 = t.unflatten(-1, (-1, 2)).unbind(-1)
        half = torch.stack((-x2, x1), dim=-1).flatten(-2)
        return cat(((t * freqs.cos()) + (half * freqs.sin()), t_right), dim=-1)

    def rotate_queries_with_cached_keys(self, q, k):
        return self.rotate(q), self.rotate(k)


class ImplicitMLPAttention(Module):
    def __init__(self, dim, mlp_hiddens, *, activation=nn.SiLU(), heads=2, talking_heads=True):
        super().__init__()
        assert isinstance(mlp_hiddens, tuple) and len(mlp_hiddens) >= 2
        dim_mlp_in, *dim_mlp_inner, dim_mlp_out = mlp_hiddens
        self.norm = nn.RMSNorm(dim)
        self.to_queries = nn.Linear(dim, dim_mlp_in * heads, bias=False)
        self.rotary_embed = RotaryEmbedding(min(mlp_hiddens))
        self.keys, self.key_norms, self.values = ModuleList([]), ModuleList([]), ModuleList([])
        for dim_in, dim_out in zip(mlp_hiddens[:-1], mlp_hiddens[1:]):
            self.keys.append(nn.Linear(dim, dim_in * heads, bias=False))
            self.key_norms.append(nn.RMSNorm(dim_in))
            self.values.append(nn.Linear(dim, dim_out * heads, bias=False))
        self.activation = activation
        self.talking_heads = nn.Identity()
        if talking_heads and len(dim_mlp_inner) > 0:
            self.talking_heads = nn.Conv2d(heads, heads, 1, bias=False)
            nn.init.dirac_(self.talking_heads.weight)
        self.split_heads = lambda t: t.unflatten(-1, (heads, -1)).transpose(1, 2)
        self.merge_heads = lambda t: t.transpose(1, 2).flatten(2)
        self.to_out = nn.Linear(dim_mlp_out * heads, dim, bias=False)

    def forward(self, tokens, cache=None, return_kv_cache=False):
        batch, seq_len, device = *tokens.shape[:2], tokens.device
        tokens = self.norm(tokens)
        queries = self.to_queries(tokens)
        keys = [fn(tokens) for fn in self.keys]
        values = [fn(tokens) for fn in self.values]
        queries, keys, values = tree_map(self.split_heads, (queries, keys, values))
        keys = [norm(k) for norm, k in zip(self.key_norms, keys)]
        if exists(cache):
            cache_keys, cache_values = cache
            keys = [cat(args, dim=-2) for args in zip(cache_keys, keys)]
            values = [cat(args, dim=-2) for args in zip(cache_values, values)]

        def attend(q, k, v):
            q, k = self.rotary_embed.rotate_queries_with_cached_keys(q, k)
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

        out = queries
        for i, (key, value) in enumerate(zip(keys, values), start=1):
            is_last = i == len(keys)
            out = attend(out, key, value)
            if not is_last:
                out = self.talking_heads(out)
                out = self.activation(out)
        out = self.to_out(self.merge_heads(out))
        if not return_kv_cache:
            return out
        return out, (keys, values)


class Transformer(Module):
    def __init__(self, *, num_tokens, dim, depth, implicit_mlp_attn_hiddens, ff_expansion=2.0):
        super().__init__()
        self.token_emb = nn.Embedding(num_tokens, dim)
        self.layers = ModuleList([])
        for _ in range(depth):
            attn = ImplicitMLPAttention(dim=dim, mlp_hiddens=implicit_mlp_attn_hiddens)
            ff = nn.Sequential(
                nn.RMSNorm(dim),
                nn.Linear(dim, int(dim * ff_expansion)),
                nn.GELU(),
                nn.Linear(int(dim * ff_expansion), dim),
            )
            self.layers.append(ModuleList([attn, ff]))
        self.norm = nn.RMSNorm(dim)
        self.to_logits = nn.Linear(dim, num_tokens, bias=False)

    def forward(self, x, return_loss=False):
        if return_loss:
            x, target = x[:, :-1], x[:, 1:]
        seq_len, device = x.shape[-1], x.device
        tokens = self.token_emb(x)
        for attn, ff in self.layers:
            tokens = attn(tokens) + tokens
            tokens = ff(tokens) + tokens
        embed = self.norm(tokens)
        logits = self.to_logits(embed)
        if not return_loss:
            return logits
        return F.cross_entropy(logits.transpose(1, 2), target)


def steps():
    model = Transformer(num_tokens=13, dim=8, depth=1, implicit_mlp_attn_hiddens=(4, 6, 4))
    seeded(model)
    optim = torch.optim.Adam(model.parameters(), lr=1e-4)
    train_loader = cycle([torch.from_numpy(integers(13, 2, 9, seed=i)) for i in range(5)])
    GRAD_ACCUM_EVERY = 2

    def train_step():
        model.train()
        for _ in range(GRAD_ACCUM_EVERY):
            data = next(train_loader)
            loss = model(data, return_loss=True)
            (loss / GRAD_ACCUM_EVERY).backward()
        print(f"training loss: {loss.item():.3f}")
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optim.step()
        optim.zero_grad()
        return loss

    return train_step, lambda i: ()
