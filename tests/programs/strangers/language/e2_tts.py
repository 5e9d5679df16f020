"""Speech from texts: strings to padded tensors, spans by fractions of lengths, a dropped condition, flow matching."""

from collections import namedtuple
from random import Random

import torch
import torch.nn.functional as F
from programs.common import integers, normal, seeded
from torch import nn, tensor
from torch.nn import Module
from torch.nn.utils.rnn import pad_sequence

DRAWS = True

LossBreakdown = namedtuple("LossBreakdown", ["flow", "velocity_consistency"])
E2TTSReturn = namedtuple("E2TTS", ["loss", "cond", "pred_flow", "pred_data", "loss_breakdown"])


def exists(v):
    return v is not None


def default(v, d):
    return v if exists(v) else d


class Identity(Module):
    def forward(self, x, **kwargs):
        return x


def list_str_to_tensor(text, padding_value=-1):
    list_tensors = [tensor([*bytes(t, "UTF-8")]) for t in text]
    return pad_sequence(list_tensors, padding_value=-1, batch_first=True)


def lens_to_mask(t, length=None):
    if not exists(length):
        length = t.amax()
    seq = torch.arange(length, device=t.device)
    return seq[None, :] < t[:, None]


def mask_from_start_end_indices(seq_len, start, end):
    max_seq_len = seq_len.max().item()
    seq = torch.arange(max_seq_len, device=start.device).long()
    return (seq[None] >= start[:, None]) & (seq[None] < end[:, None])


def pad_to_length(t, length, value=None):
    seq_len = t.shape[-1]
    if length > seq_len:
        t = F.pad(t, (0, length - seq_len), value=value)
    return t[..., :length]


def mask_from_frac_lengths(seq_len, frac_lengths, max_length=None):
    lengths = (frac_lengths * seq_len).long()
    max_start = seq_len - lengths
    rand = torch.rand_like(frac_lengths)
    start = (max_start * rand).long().clamp(min=0)
    end = start + lengths
    out = mask_from_start_end_indices(seq_len, start, end)
    if exists(max_length):
        out = pad_to_length(out, max_length)
    return out


class CharacterEmbed(Module):
    def __init__(self, dim, num_embeds=256):
        super().__init__()
        self.embed = nn.Embedding(num_embeds + 1, dim)

    def forward(self, text, max_seq_len, **kwargs):
        text = text + 1
        text = text[:, :max_seq_len]
        text = F.pad(text, (0, max_seq_len - text.shape[1]), value=0)
        return self.embed(text)


class Transformer(Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.mix, self.time = nn.LayerNorm(dim), nn.Linear(dim, dim), nn.Linear(1, dim)
        self.abs_pos_emb = Identity()

    def forward(self, x, times=None, mask=None, text_embed=None):
        x = self.abs_pos_emb(x) + self.time(times[:, None])[:, None]
        if exists(text_embed):
            x = x + text_embed
        if exists(mask):
            x = x.masked_fill(~mask[..., None], 0.0)
        return x + F.silu(self.mix(self.norm(x.cumsum(1) / (1 + x.shape[1]))))


class E2TTS(Module):
    def __init__(self, dim=8, num_channels=4, cond_drop_prob=0.25, frac_lengths_mask=(0.7, 1.0)):
        super().__init__()
        self.transformer, self.num_channels = Transformer(dim), num_channels
        self.cond_proj_in, self.proj_in = nn.Linear(num_channels, dim), nn.Linear(num_channels, dim)
        self.to_pred, self.embed_text = nn.Linear(dim, num_channels), CharacterEmbed(dim)
        self.cond_drop_prob, self.frac_lengths_mask = cond_drop_prob, frac_lengths_mask
        self.immiscible, self.velocity_consistency_weight = False, 0.0
        self.random = Random(0)
        self.register_buffer("zero", torch.tensor(0.0), persistent=False)

    @property
    def device(self):
        return next(self.parameters()).device

    def transformer_with_pred_head(self, x, cond, times, mask=None, text=None, drop_text_cond=None):
        seq_len = x.shape[-2]
        drop_text_cond = default(drop_text_cond, self.training and self.random.random() < self.cond_drop_prob)
        x = self.proj_in(x)
        cond = self.cond_proj_in(cond)
        x = x + cond
        text_embed = None
        if exists(text) and not drop_text_cond:
            text_embed = self.embed_text(text, seq_len, mask=mask)
        attended = self.transformer(x, times=times, mask=mask, text_embed=text_embed)
        return self.to_pred(attended)

    def forward(self, inp, *, text=None, times=None, lens=None, velocity_consistency_model=None):
        need_velocity_loss = exists(velocity_consistency_model) and self.velocity_consistency_weight > 0.0
        batch, seq_len, dtype, device = *inp.shape[:2], inp.dtype, self.device
        if isinstance(text, list):
            text = list_str_to_tensor(text).to(device)
            assert text.shape[0] == batch
        if not exists(lens):
            lens = torch.full((batch,), seq_len, device=device)
        mask = lens_to_mask(lens, length=seq_len)
        frac_lengths = torch.zeros((batch,), device=device).float().uniform_(*self.frac_lengths_mask)
        rand_span_mask = mask_from_frac_lengths(lens, frac_lengths, max_length=seq_len)
        if exists(mask):
            rand_span_mask &= mask
        x1 = inp
        x0 = torch.randn_like(x1)
        times = torch.rand((batch,), dtype=dtype, device=self.device)
        t = times[:, None, None]
        w = (1.0 - t) * x0 + t * x1
        flow = x1 - x0
        cond = torch.where(rand_span_mask[..., None], torch.zeros((), device=device), x1)
        pred = self.transformer_with_pred_head(w, cond, times=times, text=text, mask=mask)
        loss = F.mse_loss(pred, flow, reduction="none")
        velocity_loss = self.zero
        assert not need_velocity_loss
        loss = loss[rand_span_mask].mean()
        total_loss = loss + velocity_loss * self.velocity_consistency_weight
        breakdown = LossBreakdown(loss, velocity_loss)
        return E2TTSReturn(total_loss, cond, pred, x0 + pred, breakdown)


def steps():
    model = seeded(E2TTS())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    texts = ["abc", "de", "fghi", "jk l"]

    def train(mel, text, lens):
        loss, cond, pred, pred_data, _ = model(mel, text=text, lens=lens)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(3, 9, 4, seed=i)),
        [texts[(i + n) % 4] for n in range(3)],
        torch.from_numpy(integers(3, 3, seed=i) + 7),
    )
