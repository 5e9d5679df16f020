"""A teacher that is the mean of the student over time, its buffers with it; the weight ramps up."""

import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, normal, seeded


class EMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.model = copy.deepcopy(model)
        for param in self.model.parameters():
            param.detach_()

    def update(self, model):
        for ema_param, param in zip(self.model.parameters(), model.parameters()):
            ema_param.data.mul_(self.decay).add_(param.data, alpha=1 - self.decay)
        for ema_buffer, buffer in zip(self.model.buffers(), model.buffers()):
            ema_buffer.copy_(buffer)


def sigmoid_rampup(current, length):
    phase = 1.0 - min(current, length) / length
    return math.exp(-5.0 * phase * phase)


class Trainer:
    def __init__(self):
        self.student = seeded(
            nn.Sequential(nn.Linear(10, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
        )
        self.ema = EMA(self.student, 0.95)
        self.optimizer = torch.optim.SGD(self.student.parameters(), 0.05, momentum=0.9)
        self.global_step = 0

    def step(self, x, noisy, y):
        logits = self.student(x)
        with torch.no_grad():
            teacher_logits = self.ema.model(noisy)
        weight = sigmoid_rampup(self.global_step, 20)
        consistency = F.mse_loss(F.softmax(logits, 1), F.softmax(teacher_logits, 1))
        loss = F.cross_entropy(logits, y) + weight * consistency
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.global_step += 1
        self.ema.update(self.student)
        return loss, consistency


def steps():
    trainer = Trainer()
    return trainer.step, lambda i: (
        torch.from_numpy(normal(8, 10, seed=i)),
        torch.from_numpy(normal(8, 10, seed=i + 1)),
        torch.from_numpy(integers(4, 8, seed=i)),
    )
