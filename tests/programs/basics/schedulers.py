"""SGD under two schedules at once, with the learning rate in the step's report."""

import torch
import torch.nn as nn
from programs.common import integers, normal, seeded


def steps():
    model = seeded(nn.Sequential(nn.Linear(8, 16), nn.SELU(), nn.AlphaDropout(0.0), nn.Linear(16, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, dampening=0.1)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=3)
    cosine = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=4, T_mult=2)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], milestones=[3])
    criterion = nn.CrossEntropyLoss()

    def train(x, y):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss, scheduler.get_last_lr()[0]

    return train, lambda i: (torch.from_numpy(normal(8, 8, seed=i)), torch.from_numpy(integers(3, 8, seed=i)))
