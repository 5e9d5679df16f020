"""Conditioning by texts: a class decorated for guidance, functions of conditions in a tuple, null embeddings."""

from collections import namedtuple
from functools import cache, partial, wraps
from inspect import signature

import torch
import torch.nn.functional as F
from programs.common import normal, seeded
from torch import nn

DRAWS = True

COND_DROP_KEY_NAME = "cond_drop_prob"
TEXTS_KEY_NAME = "texts"
TEXT_EMBEDS_KEY_NAME = "text_embeds"
TEXT_CONDITIONER_NAME = "text_conditioner"
CONDITION_FUNCTION_KEY_NAME = "cond_fns"
TextCondReturn = namedtuple("TextCondReturn", ["embed", "mask"])


def exists(val):
    return val is not None


def default(*values):
    for value in values:
        if exists(value):
            return value
    return None


def cast_tuple(val, length=1):
    return val if isinstance(val, tuple) else ((val,) * length)


def prob_mask_like(shape, prob, device):
    if prob == 1:
        return torch.ones(shape, device=device, dtype=torch.bool)
    elif prob == 0:
        return torch.zeros(shape, device=device, dtype=torch.bool)
    else:
        return torch.zeros(shape, device=device).float().uniform_(0, 1) < prob


def classifier_free_guidance(
    fn,
    cond_drop_prob_keyname=COND_DROP_KEY_NAME,
    texts_key_name=TEXTS_KEY_NAME,
    text_embeds_key_name=TEXT_EMBEDS_KEY_NAME,
    cond_fns_keyname=CONDITION_FUNCTION_KEY_NAME,
    text_conditioner_name=TEXT_CONDITIONER_NAME,
):
    fn_params = signature(fn).parameters
    auto_handle_text_condition = texts_key_name not in fn_params and text_embeds_key_name not in fn_params

    @wraps(fn)
    def inner(self, *args, cond_scale=1.0, return_unconditioned=False, **kwargs):
        @wraps(fn)
        def fn_maybe_with_text(self, *args, **kwargs):
            if auto_handle_text_condition:
                texts = kwargs.pop("texts", None)
                text_embeds = kwargs.pop("text_embeds", None)
                assert not (exists(texts) and exists(text_embeds))
                raw_text_cond = cond_fns = None
                text_conditioner = getattr(self, text_conditioner_name, None)
                cond_drop_prob = kwargs.pop(cond_drop_prob_keyname, None)
                assert not exists(cond_drop_prob) or 0.0 <= cond_drop_prob <= 1.0
                if exists(texts) ^ exists(text_embeds):
                    text_condition_input = (
                        dict(texts=texts) if exists(texts) else dict(text_embeds=text_embeds)
                    )
                    cond_fns, raw_text_cond = text_conditioner(
                        **text_condition_input, **{cond_drop_prob_keyname: cond_drop_prob}
                    )
                if "cond_fns" in fn_params:
                    kwargs.update(cond_fns=cond_fns)
                if "raw_text_cond" in fn_params:
                    kwargs.update(raw_text_cond=raw_text_cond)
            return fn(self, *args, **kwargs)

        if self.training:
            assert cond_scale == 1, "you cannot do condition scaling when in training mode"
            return fn_maybe_with_text(self, *args, **kwargs)
        raise NotImplementedError

    return inner


def guidance_class_decorator(orig_class):
    orig_init = orig_class.__init__

    @wraps(orig_init)
    def __init__(self, *args, text_condition_hidden_dims, text_condition_cond_drop_prob, **kwargs):
        orig_init(self, *args, **kwargs)
        self.text_conditioner = TextConditioner(
            hidden_dims=text_condition_hidden_dims, cond_drop_prob=text_condition_cond_drop_prob
        )

    orig_class.__init__ = __init__
    orig_class.forward = classifier_free_guidance(orig_class.forward)

    @property
    @cache
    def max_cond_text_len(self):
        return sum([size for size in self.text_conditioner.hidden_dims])

    if not hasattr(orig_class, "max_cond_text_len"):
        orig_class.max_cond_text_len = max_cond_text_len
    orig_class.__decorated_with_cfg = True
    return orig_class


def rearrange_channel_first(fn):
    @wraps(fn)
    def inner(hiddens):
        shape = hiddens.shape
        hiddens = hiddens.flatten(2).transpose(1, 2)
        conditioned = fn(hiddens)
        return conditioned.transpose(1, 2).reshape(shape)

    return inner


class FiLM(nn.Module):
    def __init__(self, dim, hidden_dim):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(dim, hidden_dim * 4), nn.SiLU(), nn.Linear(hidden_dim * 4, hidden_dim * 2)
        )
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, conditions, hiddens):
        scale, shift = self.net(conditions).chunk(2, dim=-1)
        assert scale.shape[-1] == hiddens.shape[-1], (
            f"unexpected hidden dimesion {hiddens.shape[-1]} used for conditioning"
        )
        scale, shift = map(lambda t: t.unsqueeze(1), (scale, shift))
        return hiddens * (scale + 1) + shift


class TextConditioner(nn.Module):
    def __init__(self, *, hidden_dims, cond_drop_prob=0.0, latent_dim=6):
        super().__init__()
        self.hidden_dims = hidden_dims
        self.num_condition_fns = len(hidden_dims)
        self.hiddens_channel_first = cast_tuple(True, self.num_condition_fns)
        self.cond_drop_prob = cond_drop_prob
        self.text_embed_stem_mlp = nn.Sequential(nn.Linear(latent_dim, latent_dim * 2), nn.SiLU())
        self.conditioners = nn.ModuleList([])
        for hidden_dim in hidden_dims:
            self.conditioners.append(FiLM(latent_dim * 2, hidden_dim))
        self.null_text_embed = nn.Parameter(torch.randn(latent_dim))
        self.register_buffer("_device_param", torch.tensor(0.0), persistent=False)

    @property
    def device(self):
        return next(self.buffers()).device

    def forward(self, texts=None, text_embeds=None, cond_drop_prob=None, repeat_batch=1):
        assert exists(texts) ^ exists(text_embeds)
        if self.training:
            cond_drop_prob = default(cond_drop_prob, self.cond_drop_prob)
        else:
            assert exists(cond_drop_prob), "when not training, cond_drop_prob must be explicitly set"
        batch = text_embeds.shape[0]
        if cond_drop_prob > 0.0:
            prob_keep_mask = prob_mask_like((batch, 1), 1.0 - cond_drop_prob, device=self.device)
            text_embeds = torch.where(prob_keep_mask, text_embeds, self.null_text_embed[None])
        text_embeds = self.text_embed_stem_mlp(text_embeds)
        repeat_batch = cast_tuple(repeat_batch, self.num_condition_fns)
        cond_fns = []
        for cond, cond_hiddens_channel_first, cond_repeat_batch in zip(
            self.conditioners, self.hiddens_channel_first, repeat_batch
        ):
            cond_text_embeds = text_embeds.repeat_interleave(cond_repeat_batch, dim=0)
            cond_fn = partial(cond, cond_text_embeds)
            wrapper_fn = rearrange_channel_first if cond_hiddens_channel_first else lambda fn: fn
            cond_fns.append(wrapper_fn(cond_fn))
        return tuple(cond_fns), TextCondReturn(text_embeds, None)


@guidance_class_decorator
class Net(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.first, self.second = nn.Conv2d(2, dim, 3, padding=1), nn.Conv2d(dim, 2, 3, padding=1)

    def forward(self, x, cond_fns=None):
        first, second = cond_fns
        x = F.silu(first(self.first(x)))
        return second(self.second(x))


def steps():
    net = seeded(Net(4, text_condition_hidden_dims=(4, 2), text_condition_cond_drop_prob=0.25))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def train(x, text_embeds, y):
        optimizer.zero_grad()
        loss = F.mse_loss(net(x, text_embeds=text_embeds), y)
        loss.backward()
        optimizer.step()
        return loss

    def batch(i):
        arrays = normal(3, 2, 5, 5, seed=i), normal(3, 6, seed=i + 1), normal(3, 2, 5, 5, seed=i + 2)
        return tuple(map(torch.from_numpy, arrays))

    return train, batch
