"""Bootstrap your own latent: a target net by moving average, and a loss of cosines."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import normal, seeded


def loss_fn(x, y):
    x = F.normalize(x, dim=-1, p=2)
    y = F.normalize(y, dim=-1, p=2)
    return 2 - 2 * (x * y).sum(dim=-1)


def set_requires_grad(model, val):
    for p in model.parameters():
        p.requires_grad = val


class EMA:
    def __init__(self, beta):
        super().__init__()
        self.beta = beta

    def update_average(self, old, new):
        if old is None:
            return new
        return old * self.beta + (1 - self.beta) * new


def update_moving_average(ema_updater, ma_model, current_model):
    for current_params, ma_params in zip(current_model.parameters(), ma_model.parameters()):
        old_weight, up_weight = ma_params.data, current_params.data
        ma_params.data = ema_updater.update_average(old_weight, up_weight)


class BYOL(nn.Module):
    def __init__(self):
        super().__init__()
        self.online_encoder = nn.Sequential(
            nn.Linear(10, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8)
        )
        self.online_predictor = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
        seeded(self)
        self.target_encoder = copy.deepcopy(self.online_encoder)
        set_requires_grad(self.target_encoder, False)
        self.target_ema_updater = EMA(0.9)

    def update_moving_average(self):
        update_moving_average(self.target_ema_updater, self.target_encoder, self.online_encoder)

    def forward(self, one, two):
        pred_one, pred_two = map(self.online_predictor, (self.online_encoder(one), self.online_encoder(two)))
        with torch.no_grad():
            target_one = self.target_encoder(one).detach_()
            target_two = self.target_encoder(two).detach_()
        return (loss_fn(pred_one, target_two) + loss_fn(pred_two, target_one)).mean()


def steps():
    learner = BYOL()
    opt = torch.optim.Adam([p for p in learner.parameters() if p.requires_grad], lr=3e-3)

    def train(one, two):
        loss = learner(one, two)
        opt.zero_grad()
        loss.backward()
        opt.step()
        learner.update_moving_average()
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(6, 10, seed=i)),
        torch.from_numpy(normal(6, 10, seed=i + 50)),
    )
