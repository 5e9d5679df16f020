"""Memory as context: a memory whose weights a gradient of its own loss changes within the step, by `vmap(grad)`."""

from collections import namedtuple
from functools import partial
from math import ceil

import torch
import torch.nn.functional as F
from programs.common import integers, seeded
from torch import cat, nn, stack
from torch.func import functional_call, grad, vmap
from torch.nn import Linear, Module, ModuleList

LinearNoBias = partial(Linear, bias=False)
AttnIntermediates = namedtuple("AttnIntermediates", ("value_residual", "cached_key_values"))
NeuralMemState = namedtuple("NeuralMemState", ("seq_index", "weights", "updates"))


def exists(v):
    return v is not None


def default(v, d):
    return v if exists(v) else d


def round_up_multiple(seq, mult):
    return ceil(seq / mult) * mult


def cycle(loader):
    while True:
        for data in loader:
            yield data


def pad_and_segment_with_inverse(seq, segment_len, inverse_remove_pad=True):
    batch, seq_len = seq.shape[:2]
    next_seq_len_mult = round_up_multiple(seq_len, segment_len)
    padding = next_seq_len_mult - seq_len
    needs_pad = padding > 0
    if needs_pad:
        seq = F.pad(seq, (0, 0, 0, padding))
    seq = seq.reshape(-1, segment_len, seq.shape[-1])

    def inverse(out):
        out = out.reshape(batch, -1, out.shape[-1])
        if needs_pad and inverse_remove_pad:
            out = out[..., :-padding, :]
        return out

    return seq, inverse


class GEGLU(Module):
    def forward(self, x):
        x, gate = x.chunk(2, dim=-1)
        return F.silu(gate) * x


def FeedForward(dim, mult=2):
    dim_inner = int(dim * mult * 2 / 3)
    return nn.Sequential(nn.RMSNorm(dim), nn.Linear(dim, dim_inner * 2), GEGLU(), nn.Linear(dim_inner, dim))


class MemoryMLP(Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(dim, dim)) for _ in range(depth)])

    def forward(self, x):
        for ind, weight in enumerate(self.weights):
            if ind != 0:
                x = F.gelu(x)
            x = x @ weight
        return x


class NeuralMemory(Module):
    def __init__(self, dim, chunk_size, model, max_lr=1e-1):
        super().__init__()
        self.chunk_size, self.memory_model = chunk_size, model
        self.memory_model_parameter_names = [*dict(model.named_parameters()).keys()]
        self.store_norm, self.retrieve_norm = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.to_queries, self.to_keys, self.to_values = (LinearNoBias(dim, dim) for _ in range(3))
        self.to_adaptive_step, self.to_decay_factor = nn.Linear(dim, 1), nn.Linear(dim, 1)
        self.max_lr = max_lr

        def forward_and_loss(params, inputs, loss_weights, target):
            pred = functional_call(self.memory_model, params, inputs)
            loss = (pred - target).pow(2).mean(dim=-1)
            weighted_loss = loss * loss_weights
            return weighted_loss.sum(), loss

        grad_fn = grad(forward_and_loss, has_aux=True)
        self.per_sample_grad_fn = vmap(grad_fn, in_dims=(None, 0, 0, 0))

    @property
    def memory_model_parameter_dict(self):
        return dict(zip(self.memory_model_parameter_names, self.memory_model.parameters()))

    def store_memories(self, seq, weights):
        batch, seq_len = seq.shape[:2]
        chunks = seq_len // self.chunk_size
        seq = self.store_norm(seq[:, : chunks * self.chunk_size])
        adaptive_lr = self.to_adaptive_step(seq).sigmoid() * self.max_lr
        decay = self.to_decay_factor(seq.unflatten(1, (chunks, -1)).mean(2)).sigmoid()
        keys, values = self.to_keys(seq), self.to_values(seq)
        keys, values, lr = (
            t.reshape(batch * chunks, self.chunk_size, -1) for t in (keys, values, adaptive_lr)
        )
        grads, _ = self.per_sample_grad_fn(dict(weights), keys, lr[..., 0], values)
        updates = {}
        for name, surprise in grads.items():
            surprise = -surprise.unflatten(0, (batch, chunks))
            state, rounds = weights[name][None].expand(batch, -1, -1), []
            for chunk in range(chunks):
                state = state * (1 - decay[:, chunk, :, None]) + surprise[:, chunk]
                rounds.append(state)
            updates[name] = stack(rounds, dim=1)
        return updates

    def retrieve_memories(self, seq, updates):
        queries = self.to_queries(self.retrieve_norm(seq))
        last = {name: update[:, -1] for name, update in updates.items()}
        return vmap(lambda params, inputs: functional_call(self.memory_model, params, inputs))(last, queries)

    def forward(self, seq, state=None):
        weights = default(state, self.memory_model_parameter_dict)
        updates = self.store_memories(seq, weights)
        retrieved = self.retrieve_memories(seq, updates)
        return retrieved, NeuralMemState(seq.shape[-2], weights, updates)


class SegmentedAttention(Module):
    def __init__(
        self, dim, segment_len, num_persist_mem_tokens=2, dim_head=4, heads=2, accept_residual=False
    ):
        super().__init__()
        self.norm, dim_inner = nn.RMSNorm(dim), dim_head * heads
        self.to_qkv, self.to_out = LinearNoBias(dim, dim_inner * 3), LinearNoBias(dim_inner, dim)
        self.to_learned_v_mix = (
            nn.Sequential(nn.Linear(dim, heads), nn.Sigmoid()) if accept_residual else None
        )
        self.segment_len = segment_len
        self.split_heads = lambda t: t.unflatten(-1, (heads, -1)).transpose(1, 2)
        self.persistent_memory = nn.Parameter(torch.zeros(2, heads, num_persist_mem_tokens, dim_head))

    def forward(self, seq, value_residual=None):
        assert not (exists(value_residual) ^ exists(self.to_learned_v_mix))
        seq, inverse_segment = pad_and_segment_with_inverse(seq, self.segment_len)
        seq = self.norm(seq)
        q, k, v = self.to_qkv(seq).chunk(3, dim=-1)
        q, k, v = map(self.split_heads, (q, k, v))
        orig_v = v
        if exists(self.to_learned_v_mix):
            mix = self.to_learned_v_mix(seq).transpose(1, 2)[..., None]
            v = v.lerp(value_residual, mix)
        next_cache = (k, v)
        pmk, pmv = self.persistent_memory[:, None].expand(-1, k.shape[0], -1, -1, -1)
        k, v = cat((pmk, k), dim=-2), cat((pmv, v), dim=-2)
        i, j = q.shape[-2], k.shape[-2]
        mask = torch.ones((i, j), dtype=torch.bool).tril(j - i)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        out = self.to_out(out.transpose(1, 2).flatten(2))
        return inverse_segment(out), AttnIntermediates(orig_v, next_cache)


class MemoryAsContextTransformer(Module):
    def __init__(self, *, num_tokens, dim, depth, segment_len, neural_memory_layers):
        super().__init__()
        self.token_emb = nn.Embedding(num_tokens, dim)
        self.layers = ModuleList([])
        for layer in range(1, depth + 1):
            mem = NeuralMemory(dim, 4, MemoryMLP(dim, 2)) if layer in neural_memory_layers else None
            attn = SegmentedAttention(dim, segment_len, accept_residual=layer != 1)
            self.layers.append(ModuleList([mem, attn, FeedForward(dim)]))
        self.norm, self.to_logits = nn.RMSNorm(dim), LinearNoBias(dim, num_tokens)

    def forward(self, x, return_loss=False, cache=None):
        if return_loss:
            x, labels = x[:, :-1], x[:, 1:]
        x = self.token_emb(x)
        neural_mem_caches = iter(default(cache, []))
        next_kv_caches, value_residual = [], None
        for mem, attn, ff in self.layers:
            if exists(mem):
                retrieved, _ = mem.forward(x, state=next(neural_mem_caches, None))
                x = x + retrieved
            attn_out, (values, next_kv_cache) = attn(x, value_residual=value_residual)
            value_residual = default(value_residual, values)
            x = x + attn_out
            next_kv_caches.append(next_kv_cache)
            x = x + ff(x)
        logits = self.to_logits(self.norm(x))
        if not return_loss:
            return logits
        return F.cross_entropy(logits.transpose(1, 2), labels)


def steps():
    model = seeded(
        MemoryAsContextTransformer(num_tokens=13, dim=8, depth=2, segment_len=4, neural_memory_layers=(2,))
    )
    optim = torch.optim.AdamW(model.parameters(), lr=2e-4)
    train_loader = cycle([torch.from_numpy(integers(13, 2, 11, seed=i)) for i in range(5)])
    GRADIENT_ACCUMULATE_EVERY = 2

    def train_step():
        model.train()
        for __ in range(GRADIENT_ACCUMULATE_EVERY):
            loss = model(next(train_loader), return_loss=True)
            loss.backward()
        print(f"training loss: {loss.item():.4f}")
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optim.step()
        optim.zero_grad()
        return loss

    return train_step, lambda i: ()
