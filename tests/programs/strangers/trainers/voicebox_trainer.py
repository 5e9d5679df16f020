"""Flow matching with a trainer: steps in a buffer, warm-up written into groups, batches from an endless iterator."""

from contextlib import nullcontext
from functools import partial

import torch
from programs.common import normal, seeded, uniform
from torch import nn


def exists(val):
    return val is not None


def cycle(dl):
    while True:
        for data in dl:
            yield data


def accum_log(log, new_logs):
    for key, new_value in new_logs.items():
        old_value = log.get(key, 0.0)
        log[key] = old_value + new_value
    return log


class ConditionalFlowMatcherWrapper(nn.Module):
    def __init__(self, net, sigma=0.1):
        super().__init__()
        self.net, self.sigma = net, sigma

    def forward(self, x1, x0, times):
        t = times[:, None, None]
        w = (1 - (1 - self.sigma) * t) * x0 + t * x1
        flow = x1 - (1 - self.sigma) * x0
        pred = self.net(torch.cat((w, t.expand(-1, w.shape[1], 1)), dim=-1))
        return (pred - flow).square().mean()


class VoiceBoxTrainer(nn.Module):
    def __init__(self, data):
        super().__init__()
        net = nn.Sequential(nn.Linear(5, 12), nn.GELU(), nn.Linear(12, 4))
        self.cfm_wrapper = seeded(ConditionalFlowMatcherWrapper(net))
        self.register_buffer("steps", torch.Tensor([0]))
        self.optim = torch.optim.AdamW(self.cfm_wrapper.parameters(), lr=1e-3, betas=(0.9, 0.99))
        self.lr, self.initial_lr, self.num_warmup_steps = 1e-3, 1e-5, 6
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optim, T_max=100)
        self.grad_accum_every, self.max_grad_norm, self.log_every = 2, 0.5, 50
        self.dl_iter = cycle(data)

    def no_sync(self, model):
        return nullcontext()

    def warmup(self, step):
        if step < self.num_warmup_steps:
            return self.initial_lr + (self.lr - self.initial_lr) * step / self.num_warmup_steps
        return self.lr

    def train_step(self):
        steps = int(self.steps.item())
        self.cfm_wrapper.train()
        if steps < self.num_warmup_steps:
            lr = self.warmup(steps)
            for param_group in self.optim.param_groups:
                param_group["lr"] = lr
        else:
            self.scheduler.step()
        logs = {}
        for grad_accum_step in range(self.grad_accum_every):
            is_last = grad_accum_step == (self.grad_accum_every - 1)
            context = partial(self.no_sync, self.cfm_wrapper) if not is_last else nullcontext
            wave, noise, times = next(self.dl_iter)
            with context():
                loss = self.cfm_wrapper(wave, noise, times)
                (loss / self.grad_accum_every).backward()
            accum_log(logs, {"loss": loss.item() / self.grad_accum_every})
        if exists(self.max_grad_norm):
            torch.nn.utils.clip_grad_norm_(self.cfm_wrapper.parameters(), self.max_grad_norm)
        self.optim.step()
        self.optim.zero_grad()
        if not steps % self.log_every:
            print(f"{steps}: loss: {logs['loss']:0.3f}")
        self.steps += 1
        return logs["loss"]


def steps():
    data = [
        tuple(
            map(torch.from_numpy, (normal(3, 6, 4, seed=i), normal(3, 6, 4, seed=i + 9), uniform(3, seed=i)))
        )
        for i in range(5)
    ]
    trainer = VoiceBoxTrainer(data)
    return trainer.train_step, lambda i: ()
