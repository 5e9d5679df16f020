"""A trainer that chunks batches, mixes them up, asks a regime of dicts for the optimizer's settings, scales losses."""

import numpy as np
import torch
import torch.nn as nn
from programs.common import integers, normal, seeded
from torch.nn.utils import clip_grad_norm_


class MixUp(nn.Module):
    def __init__(self):
        super().__init__()
        self.enabled, self.mix_values, self.mix_index = True, None, None

    def sample(self, batch_size, alpha, rng):
        self.mix_values = torch.tensor(rng.beta(alpha, alpha, size=(batch_size,)), dtype=torch.float)
        self.mix_index = torch.tensor(rng.permutation(batch_size))

    def mix_target(self, y, n_class):
        y = nn.functional.one_hot(y, n_class).float()
        value = self.mix_values.view(-1, 1)
        return value * y + (1 - value) * y[self.mix_index]

    def forward(self, x):
        value = self.mix_values.view(-1, *([1] * (x.dim() - 1)))
        return value * x + (1 - value) * x[self.mix_index]


class OptimRegime:
    def __init__(self, model, regime):
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0)
        self.regime, self.current_regime_phase, self.setting = regime, None, {}

    def update(self, epoch, train_steps):
        phase = max(i for i, r in enumerate(self.regime) if epoch >= r["epoch"])
        if phase != self.current_regime_phase:
            self.current_regime_phase = phase
            self.setting.update(self.regime[phase])
        updated = {k: v for k, v in self.setting.items() if k not in ("epoch", "step_lambda")}
        if "step_lambda" in self.setting:
            updated.update(self.setting["step_lambda"](train_steps))
        for group in self.optimizer.param_groups:
            for key, value in updated.items():
                if key in group and group[key] != value:
                    group[key] = value

    def zero_grad(self):
        self.optimizer.zero_grad()

    def pre_forward(self):
        pass

    def step(self):
        self.optimizer.step()


class CrossEntropyLoss(nn.CrossEntropyLoss):
    def __init__(self, smooth_eps=None):
        super().__init__()
        self.smooth_eps = smooth_eps

    def forward(self, input, target):
        lsm = nn.functional.log_softmax(input, dim=-1)
        if self.smooth_eps:
            eps_sum = self.smooth_eps / input.size(-1)
            target = target * (1.0 - self.smooth_eps) + eps_sum
        return -(target * lsm).sum(-1).mean()


class Trainer:
    def __init__(self):
        self.model = seeded(
            nn.Sequential(nn.Flatten(), nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
        )
        self.criterion = CrossEntropyLoss(smooth_eps=0.1)
        regime = [{"epoch": 0, "momentum": 0.9, "weight_decay": 1e-4, "step_lambda": lambda t: {"lr": min(0.1, 0.01 * (t + 1))}},
                  {"epoch": 5, "lr": 1e-2}]  # fmt: skip
        self.optimizer = OptimRegime(self.model, regime)
        self.epoch, self.training_steps, self.grad_clip, self.loss_scale = 0, 0, 5.0, 4.0
        self.rng = np.random.RandomState(3)
        self.mixup = MixUp()

    def _step(self, inputs_batch, target_batch, training=True, chunk_batch=2):
        outputs = []
        total_loss = 0
        if training:
            self.optimizer.zero_grad()
            self.optimizer.update(self.epoch, self.training_steps)
        for inputs, target in zip(
            inputs_batch.chunk(chunk_batch, dim=0), target_batch.chunk(chunk_batch, dim=0)
        ):
            if training:
                self.optimizer.pre_forward()
                self.mixup.sample(inputs.size(0), 0.4, self.rng)
                inputs = self.mixup(inputs)
            output = self.model(inputs)
            target = self.mixup.mix_target(target, output.size(-1))
            loss = self.criterion(output, target)
            if chunk_batch > 1:
                loss = loss / chunk_batch
            if isinstance(output, list) or isinstance(output, tuple):
                output = output[0]
            outputs.append(output.detach())
            total_loss += float(loss)
            if training:
                if self.loss_scale is not None:
                    loss = loss * self.loss_scale
                loss.backward()
        if training:
            if self.loss_scale is not None:
                for p in self.model.parameters():
                    if p.grad is None:
                        continue
                    p.grad.data.div_(self.loss_scale)
            if self.grad_clip > 0:
                grad = clip_grad_norm_(self.model.parameters(), self.grad_clip)
            self.optimizer.step()
            self.training_steps += 1
        outputs = torch.cat(outputs, dim=0)
        return outputs.sum(), total_loss, grad


def steps():
    trainer = Trainer()
    return trainer._step, lambda i: (
        torch.from_numpy(normal(8, 3, 4, seed=i)),
        torch.from_numpy(integers(4, 8, seed=i)),
    )
