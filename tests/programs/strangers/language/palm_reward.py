"""A reward model of a language model: a deep copy with low-rank parts by scope, embeddings by a mask, bins."""

import copy

import torch
import torch.nn.functional as F
from programs.common import integers, seeded
from torch import nn


def exists(val):
    return val is not None


def default(val, d):
    return val if exists(val) else d


def masked_mean(seq, mask=None, dim=1, keepdim=True):
    if not exists(mask):
        return seq.mean(dim=dim)
    if seq.ndim == 3:
        mask = mask[..., None]
    masked_seq = seq.masked_fill(~mask, 0.0)
    numer = masked_seq.sum(dim=dim, keepdim=keepdim)
    denom = mask.sum(dim=dim, keepdim=keepdim)
    masked_mean = numer / denom.clamp(min=1e-3)
    return masked_mean.masked_fill(denom == 0, 0.0)


class LoRA(nn.Module):
    def __init__(self, dim, dim_out, r=8, alpha=None):
        super().__init__()
        alpha = default(alpha, r)
        self.scale = alpha / r
        self.A = nn.Parameter(torch.randn(dim, r))
        self.B = nn.Parameter(torch.zeros(r, dim_out))

    @property
    def weight(self):
        return (self.A @ self.B) * self.scale

    def forward(self, x):
        return x @ self.weight


class SwiGLU(nn.Module):
    def forward(self, x):
        x, gate = x.chunk(2, dim=-1)
        return F.silu(gate) * x


class ParallelTransformerBlock(nn.Module):
    def __init__(self, dim, dim_head=4, heads=2, ff_mult=2):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        attn_inner_dim = dim_head * heads
        self.fused_dims = (attn_inner_dim, dim_head, dim_head, (dim * ff_mult * 2))
        self.heads, self.scale = heads, dim_head**-0.5
        self.fused_attn_ff_proj = nn.Linear(dim, sum(self.fused_dims), bias=False)
        self.attn_out = nn.Linear(attn_inner_dim, dim, bias=False)
        self.ff_out = nn.Sequential(SwiGLU(), nn.Linear(dim * ff_mult, dim, bias=False))
        self.register_buffer("pos_emb", None, persistent=False)

    def get_rotary_embedding(self, n, device):
        if exists(self.pos_emb) and self.pos_emb.shape[-2] >= n:
            return self.pos_emb[:n]
        freqs = torch.arange(n, device=device)[:, None] * 10000.0 ** -(torch.arange(0, 4, 2) / 4)
        pos_emb = torch.cat((freqs, freqs), dim=-1)
        self.register_buffer("pos_emb", pos_emb, persistent=False)
        return pos_emb

    def forward(self, x, finetune_modules=None):
        n, device, h = x.shape[1], x.device, self.heads
        x = self.norm(x)
        q, k, v, ff = self.fused_attn_ff_proj(x).split(self.fused_dims, dim=-1)
        lora_q = lora_k = lora_v = lora_o = None
        if exists(finetune_modules):
            lora_q, lora_k, lora_v, lora_o = finetune_modules
            q = q + lora_q(x)
            k = k + lora_k(x)
            v = v + lora_v(x)
        q = q.unflatten(-1, (h, -1)).transpose(1, 2)
        pos = self.get_rotary_embedding(n, device)
        q, k = map(lambda t: t * pos.cos() + torch.cat((-t[..., 2:], t[..., :2]), -1) * pos.sin(), (q, k))
        sim = torch.einsum("b h i d, b j d -> b h i j", q * self.scale, k)
        causal = torch.ones((n, n), device=device, dtype=torch.bool).triu(1)
        attn = sim.masked_fill(causal, -torch.finfo(sim.dtype).max).softmax(dim=-1)
        out = torch.einsum("b h i j, b j d -> b h i d", attn, v).transpose(1, 2).flatten(2)
        attn_out = self.attn_out(out)
        if exists(lora_o):
            attn_out = attn_out + lora_o(out)
        return attn_out + self.ff_out(ff)


class PaLM(nn.Module):
    def __init__(self, num_tokens, dim, depth):
        super().__init__()
        self.dim, self.num_tokens = dim, num_tokens
        self.token_emb = nn.Embedding(num_tokens, dim)
        self.layers = nn.ModuleList([ParallelTransformerBlock(dim) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.to_logits = nn.Linear(dim, num_tokens, bias=False)
        self.finetune_modules = nn.ModuleDict({})

    def set_dropout(self, dropout):
        for module in self.layers.modules():
            if isinstance(module, nn.Dropout):
                module.p = dropout
        return self

    def add_finetune_params(self, scope, lora_r=2):
        assert scope not in self.finetune_modules, f"finetune scope {scope} already found"
        lora_modules = nn.ModuleList([])
        for _ in range(len(self.layers)):
            lora_modules.append(
                nn.ModuleList(LoRA(self.dim, size, r=lora_r) for size in (8, 4, 4)).append(
                    LoRA(8, self.dim, r=lora_r)
                )
            )
        self.finetune_modules[scope] = lora_modules

    def finetune_parameters(self, scope="default"):
        assert scope in self.finetune_modules, f"finetune parameters of scope {scope} not found"
        return self.finetune_modules[scope].parameters()

    def forward(
        self, x, return_only_embedding=False, disable_lora=False, finetune_scope=None, extra_embed=None
    ):
        x = self.token_emb(x)
        if exists(extra_embed):
            x = x + extra_embed
        finetune_modules = tuple()
        if exists(finetune_scope) and not disable_lora:
            assert finetune_scope in self.finetune_modules
            finetune_modules = self.finetune_modules[finetune_scope]
        for layer, finetune in zip(self.layers, finetune_modules or (None,) * len(self.layers)):
            x = layer(x, finetune_modules=finetune) + x
        embeds = self.norm(x)
        if return_only_embedding:
            return embeds
        return self.to_logits(embeds)


class RewardModel(nn.Module):
    def __init__(self, palm, dropout=0.0, num_binned_output=0, use_lora=True, reward_lora_scope="reward"):
        super().__init__()
        self.palm = copy.deepcopy(palm)
        self.palm.set_dropout(dropout)
        self.reward_lora_scope = reward_lora_scope if use_lora else None
        if exists(self.reward_lora_scope):
            self.palm.add_finetune_params(reward_lora_scope)
        dim = palm.dim
        self.binned_output = num_binned_output > 1
        self.prompt_embed = nn.Parameter(torch.zeros(1, 1, dim))
        self.response_embed = nn.Parameter(torch.zeros(1, 1, dim))
        self.to_pred = nn.Linear(dim, num_binned_output)

    def finetune_parameters(self):
        return [*self.to_pred.parameters(), *self.palm.finetune_parameters(self.reward_lora_scope)]

    def forward(self, x, mask=None, prompt_mask=None, prompt_lengths=None, labels=None, disable_lora=False):
        assert not (exists(prompt_mask) and exists(prompt_lengths))
        if exists(prompt_lengths):
            batch, seq_len = x.shape
            arange = torch.arange(seq_len, device=x.device)
            prompt_mask = arange[None].expand(batch, -1) < prompt_lengths[:, None]
        extra_embed = None
        if exists(prompt_mask):
            extra_embed = torch.where(prompt_mask[..., None], self.prompt_embed, self.response_embed)
        embeds = self.palm(
            x,
            extra_embed=extra_embed,
            return_only_embedding=True,
            disable_lora=disable_lora,
            finetune_scope=self.reward_lora_scope,
        )
        pooled = masked_mean(embeds, mask, dim=1)
        pred = self.to_pred(pooled)
        is_inferencing = not exists(labels)
        if is_inferencing:
            return pred
        if not self.binned_output:
            return F.mse_loss(pred, labels)
        return F.cross_entropy(pred, labels)


def steps():
    reward_model = seeded(RewardModel(PaLM(num_tokens=17, dim=8, depth=2), num_binned_output=5))
    optimizer = torch.optim.Adam(reward_model.finetune_parameters(), lr=1e-3)

    def train(seq, prompt_mask, labels):
        loss = reward_model(seq, prompt_mask=prompt_mask, labels=labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return train, lambda i: (
        torch.from_numpy(integers(17, 2, 9, seed=i)),
        torch.from_numpy(integers(2, 2, 9, seed=i) > 0),
        torch.from_numpy(integers(5, 2, seed=i)),
    )
