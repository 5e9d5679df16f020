"""A trainer of speech: a context of accumulation, two schedules one after the other, an average, logs of numbers."""

from contextlib import contextmanager
from copy import deepcopy

import torch
import torch.nn.functional as F
from programs.common import integers, normal, seeded, uniform
from torch import nn
from torch.optim.lr_scheduler import LinearLR, SequentialLR


def exists(v):
    return v is not None


class Logger:
    def __init__(self):
        self.level, self.lines = 20, []

    def info(self, message):
        if self.level >= 20:
            self.lines.append(message)


class SummaryWriter:
    def __init__(self):
        self.scalars = {}

    def add_scalar(self, name, value, step):
        self.scalars.setdefault(name, []).append((step, value))


class Accelerator:
    is_main_process = is_local_main_process = sync_gradients = True

    def __init__(self, gradient_accumulation_steps=1):
        self.gradient_accumulation_steps, self.step = gradient_accumulation_steps, 0

    @contextmanager
    def accumulate(self, *models):
        self.step += 1
        self.sync_gradients = (self.step % self.gradient_accumulation_steps) == 0
        yield

    def backward(self, loss):
        (loss / self.gradient_accumulation_steps).backward()

    def clip_grad_norm_(self, parameters, max_norm):
        if self.sync_gradients:
            return torch.nn.utils.clip_grad_norm_(parameters, max_norm)

    def unwrap_model(self, model):
        return model


class EMA(nn.Module):
    def __init__(self, model, beta=0.9):
        super().__init__()
        self.online, self.beta = [model], beta
        self.ema_model = deepcopy(model).requires_grad_(False)
        self.register_buffer("initted", torch.tensor(False))
        self.register_buffer("step", torch.tensor(0))

    @torch.no_grad()
    def update(self):
        self.step += 1
        if not self.initted.item():
            for average, parameter in zip(self.ema_model.parameters(), self.online[0].parameters()):
                average.data.copy_(parameter.data)
            self.initted.data.copy_(torch.tensor(True))
        for average, parameter in zip(self.ema_model.parameters(), self.online[0].parameters()):
            average.data.lerp_(parameter.data, 1.0 - self.beta)


class E2(nn.Module):
    velocity_consistency_weight = 0.1

    def __init__(self, dim=8, channels=4):
        super().__init__()
        self.proj, self.embed = nn.Linear(channels * 2 + 1, dim), nn.Embedding(12, dim)
        self.to_pred = nn.Linear(dim, channels)

    def predict(self, w, cond, times, text):
        t = times[:, None, None].expand(-1, w.shape[1], 1)
        x = self.proj(torch.cat((w, cond, t), dim=-1)) + self.embed(text)
        return self.to_pred(F.silu(x))

    def forward(self, mel, noise, times, text, lens, velocity_consistency_model=None):
        mask = torch.arange(mel.shape[1])[None] < lens[:, None]
        t = times[:, None, None]
        w, flow = (1 - t) * noise + t * mel, mel - noise
        cond = mel.masked_fill(mask[..., None], 0.0)
        pred = self.predict(w, cond, times, text)
        loss = F.mse_loss(pred, flow, reduction="none").masked_fill(~mask[..., None], 0.0).mean()
        if exists(velocity_consistency_model):
            with torch.no_grad():
                target = velocity_consistency_model.predict(w, cond, times + 1e-3, text)
            velocity_loss = F.mse_loss(pred, target)
            loss = loss + velocity_loss * self.velocity_consistency_weight
        return loss, cond, pred, noise + pred


class E2Trainer:
    def __init__(self, model, num_warmup_steps=4, total_steps=40, max_grad_norm=1.0):
        self.accelerator, self.model = Accelerator(), model
        self.need_velocity_consistent_loss = model.velocity_consistency_weight > 0.0
        self.ema_model = EMA(model)
        self.duration_predictor = None
        self.optimizer = torch.optim.Adam(model.parameters(), lr=7.5e-4)
        warmup_scheduler = LinearLR(
            self.optimizer, start_factor=1e-8, end_factor=1.0, total_iters=num_warmup_steps
        )
        decay_scheduler = LinearLR(self.optimizer, start_factor=1.0, end_factor=1e-8, total_iters=total_steps)
        self.scheduler = SequentialLR(
            self.optimizer, schedulers=[warmup_scheduler, decay_scheduler], milestones=[num_warmup_steps]
        )
        self.max_grad_norm, self.writer, self.logger = max_grad_norm, SummaryWriter(), Logger()
        self.global_step, self.epoch_loss = 0, 0.0

    def train_batch(self, batch):
        with self.accelerator.accumulate(self.model):
            text_inputs = batch["text"]
            mel_spec = batch["mel"].transpose(1, 2)
            mel_lengths = batch["mel_lengths"]
            if exists(self.duration_predictor):
                dur_loss = self.duration_predictor(mel_spec, lens=batch.get("durations"))
                self.writer.add_scalar("duration loss", dur_loss.item(), self.global_step)
            velocity_consistency_model = None
            if self.need_velocity_consistent_loss and self.ema_model.initted:
                velocity_consistency_model = self.accelerator.unwrap_model(self.ema_model).ema_model
            loss, cond, pred, pred_data = self.model(
                mel_spec,
                batch["noise"],
                batch["times"],
                text=text_inputs,
                lens=mel_lengths,
                velocity_consistency_model=velocity_consistency_model,
            )
            self.accelerator.backward(loss)
            if self.max_grad_norm > 0 and self.accelerator.sync_gradients:
                self.accelerator.clip_grad_norm_(self.model.parameters(), self.max_grad_norm)
            self.optimizer.step()
            self.scheduler.step()
            self.optimizer.zero_grad()
        self.accelerator.unwrap_model(self.ema_model).update()
        if self.accelerator.is_local_main_process:
            self.logger.info(f"step {self.global_step + 1}: loss = {loss.item():.4f}")
            self.writer.add_scalar("loss", loss.item(), self.global_step)
            self.writer.add_scalar("lr", self.scheduler.get_last_lr()[0], self.global_step)
        self.global_step += 1
        self.epoch_loss += loss.item()
        return loss


def steps():
    trainer = E2Trainer(seeded(E2()))
    trainer.model.train()

    def batch(i):
        return (
            {
                "text": torch.from_numpy(integers(12, 3, 6, seed=i)),
                "mel": torch.from_numpy(normal(3, 4, 6, seed=i)),
                "noise": torch.from_numpy(normal(3, 6, 4, seed=i + 1)),
                "times": torch.from_numpy(uniform(3, seed=i)),
                "mel_lengths": torch.from_numpy(integers(3, 3, seed=i) + 3),
            },
        )

    return trainer.train_batch, batch
