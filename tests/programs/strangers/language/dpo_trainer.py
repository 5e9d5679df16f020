"""Preferences: a policy beside its frozen copy, an average of it, batches from an endless iterator, prints."""

from contextlib import nullcontext
from copy import deepcopy
from functools import lru_cache, partial

import torch
import torch.nn.functional as F
from programs.common import integers, seeded
from torch import nn


def exists(v):
    return v is not None


def cycle(dl):
    while True:
        for batch in dl:
            yield batch


@lru_cache(maxsize=None)
def is_distributed():
    return False


def freeze_all_layers_(module):
    for param in module.parameters():
        param.requires_grad = False


def log_prob_from_model_and_seq(model, seq):
    logits = model(seq)
    log_probs = logits.log_softmax(dim=-1)
    return log_probs.gather(-1, seq[..., None])[..., 0]


def prompt_mask_from_len(lengths, seq):
    seq_len, device = seq.shape[-1], seq.device
    return torch.arange(seq_len, device=device) < lengths[..., None]


def maybe_and_mask(*masks):
    masks = [*filter(exists, masks)]
    if len(masks) == 0:
        return None
    mask, *rest_masks = masks
    for rest_mask in rest_masks:
        mask = mask & rest_mask
    return mask


def masked_mean(t, mask=None, dim=None, eps=1e-5):
    if not exists(mask):
        return t.mean() if not exists(dim) else t.mean(dim=dim)
    num = t.masked_fill(~mask, 0.0).sum(dim=dim)
    den = mask.float().sum(dim=dim)
    return num / den.clamp(min=eps)


def set_dropout_(model, prob):
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = prob


class Accelerator:
    is_main_process = True

    def print(self, *msg):
        if self.is_main_process:
            print(*msg)

    def log(self, data, step):
        for tracker in ():
            tracker.log(data, step)

    def backward(self, loss):
        loss.backward()

    def no_sync(self, model):
        return nullcontext()

    def wait_for_everyone(self):
        pass

    def unwrap_model(self, model):
        return model


def model_forward_contexts(accelerator, model, grad_accum_steps):
    for i in range(grad_accum_steps):
        is_last_step = i == grad_accum_steps - 1
        maybe_no_sync = partial(accelerator.no_sync, model) if not is_last_step else nullcontext
        yield maybe_no_sync


class EMA(nn.Module):
    def __init__(self, model, beta=0.99, update_after_step=2, update_every=2):
        super().__init__()
        self.online_model = [model]
        self.ema_model = deepcopy(model)
        self.ema_model.requires_grad_(False)
        self.beta, self.update_after_step, self.update_every = beta, update_after_step, update_every
        self.register_buffer("initted", torch.tensor(False))
        self.register_buffer("step", torch.tensor(0))

    @property
    def model(self):
        return self.online_model[0]

    def get_params_iter(self, model):
        for name, param in model.named_parameters():
            if param.is_floating_point():
                yield name, param

    @torch.no_grad()
    def copy_params_from_model_to_ema(self):
        for (_, ma_params), (_, current_params) in zip(
            self.get_params_iter(self.ema_model), self.get_params_iter(self.model)
        ):
            ma_params.data.copy_(current_params.data)

    def get_current_decay(self):
        epoch = (self.step - self.update_after_step - 1).clamp(min=0.0)
        value = 1 - (1 + epoch / 1.0) ** -(2 / 3)
        if epoch.item() <= 0:
            return 0.0
        return value.clamp(min=0.0, max=self.beta).item()

    def update(self):
        step = self.step.item()
        self.step += 1
        if not self.initted.item():
            self.copy_params_from_model_to_ema()
            self.initted.data.copy_(torch.tensor(True))
        should_update = (step % self.update_every) == 0
        if should_update and step <= self.update_after_step:
            self.copy_params_from_model_to_ema()
            return
        if should_update:
            self.update_moving_average()

    @torch.no_grad()
    def update_moving_average(self):
        current_decay = self.get_current_decay()
        for (_, current_params), (_, ma_params) in zip(
            self.get_params_iter(self.model), self.get_params_iter(self.ema_model)
        ):
            ma_params.data.lerp_(current_params.data, 1.0 - current_decay)


class DPO(nn.Module):
    def __init__(self, model, beta=0.1, pad_id=None):
        super().__init__()
        self.policy_model = model
        self.ref_model = deepcopy(model)
        freeze_all_layers_(self.ref_model)
        self.ema = EMA(model)
        self.beta, self.pad_id = beta, pad_id

    def update_ema(self):
        self.ema.update()

    def parameters(self):
        return self.policy_model.parameters()

    def forward(self, preferred_seq, unpreferred_seq, prompt_len, preferred_mask=None, unpreferred_mask=None):
        assert preferred_seq.ndim == 2
        assert preferred_seq.shape == unpreferred_seq.shape
        preferred_prompt_mask = prompt_mask_from_len(prompt_len, preferred_seq)
        unpreferred_prompt_mask = prompt_mask_from_len(prompt_len, unpreferred_seq)
        if exists(self.pad_id):
            assert not exists(preferred_mask)
            assert not exists(unpreferred_mask)
            preferred_mask = preferred_seq != self.pad_id
            preferred_seq = preferred_seq.masked_fill(~preferred_mask, 0)
            unpreferred_mask = unpreferred_seq != self.pad_id
            unpreferred_seq = unpreferred_seq.masked_fill(~unpreferred_mask, 0)
        with torch.no_grad():
            self.ref_model.eval()
            ref_preferred_logprob = log_prob_from_model_and_seq(self.ref_model, preferred_seq)
            ref_unpreferred_logprob = log_prob_from_model_and_seq(self.ref_model, unpreferred_seq)
        policy_preferred_logprob = log_prob_from_model_and_seq(self.policy_model, preferred_seq)
        policy_unpreferred_logprob = log_prob_from_model_and_seq(self.policy_model, unpreferred_seq)
        preferred_mask = maybe_and_mask(~preferred_prompt_mask, preferred_mask)
        unpreferred_mask = maybe_and_mask(~unpreferred_prompt_mask, unpreferred_mask)
        ref_preferred_logprob, policy_preferred_logprob = map(
            lambda t: masked_mean(t, preferred_mask, dim=-1),
            (ref_preferred_logprob, policy_preferred_logprob),
        )
        ref_unpreferred_logprob, policy_unpreferred_logprob = map(
            lambda t: masked_mean(t, unpreferred_mask, dim=-1),
            (ref_unpreferred_logprob, policy_unpreferred_logprob),
        )
        policy_logratios = policy_preferred_logprob - policy_unpreferred_logprob
        ref_logratios = ref_preferred_logprob - ref_unpreferred_logprob
        losses = -F.logsigmoid(self.beta * (policy_logratios - ref_logratios))
        return losses.mean()


class DPOTrainer(nn.Module):
    def __init__(self, dpo, data, grad_accum_steps=2):
        super().__init__()
        self.accelerator = Accelerator()
        self.model, self.grad_accum_steps = dpo, grad_accum_steps
        self.optimizer = torch.optim.Adam(dpo.parameters(), lr=1e-3)
        self.scheduler = torch.optim.lr_scheduler.LinearLR(
            self.optimizer, start_factor=1.0, end_factor=0.1, total_iters=50
        )
        self.iter_dl = cycle(data)
        self.steps, self.num_train_steps = 0, 1000
        self.check_early_stop_every, self.early_stopper = 100, None

    @property
    def unwrapped_model(self):
        return self.accelerator.unwrap_model(self.model)

    def print(self, *msg):
        self.accelerator.print(*msg)

    def wait(self):
        return self.accelerator.wait_for_everyone()

    def log(self, **data):
        self.accelerator.log(data, step=self.steps)

    def train_step(self):
        self.model.train()
        for forward_context in model_forward_contexts(self.accelerator, self.model, self.grad_accum_steps):
            with forward_context():
                batch = next(self.iter_dl)
                dpo_loss = self.model(*batch)
                self.accelerator.backward(dpo_loss / self.grad_accum_steps)
        self.print(f"dpo loss: {dpo_loss.item():.3f}")
        self.log(loss=dpo_loss.item())
        self.optimizer.step()
        self.scheduler.step()
        self.optimizer.zero_grad()
        self.wait()
        self.unwrapped_model.update_ema()
        self.steps += 1
        return dpo_loss


def steps():
    model = nn.Sequential(
        nn.Embedding(11, 8), nn.Linear(8, 12), nn.GELU(), nn.Dropout(0.0), nn.Linear(12, 11)
    )
    data = [
        (
            torch.from_numpy(integers(11, 3, 7, seed=i)),
            torch.from_numpy(integers(11, 3, 7, seed=i + 20)),
            torch.from_numpy(integers(5, 3, seed=i + 40) + 1),
        )
        for i in range(5)
    ]
    trainer = DPOTrainer(DPO(seeded(model), pad_id=10), data)
    set_dropout_(trainer.model, 0.0)
    return trainer.train_step, lambda i: ()
