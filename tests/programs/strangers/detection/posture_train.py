"""Poses: a meter of `loss.data`, a logger, and every so often images and labels scaled back in NumPy."""

import numpy as np
import torch
import torch.nn as nn
from programs.common import normal, seeded


class AverageMeter(object):
    def __init__(self):
        self.reset()

    def reset(self):
        self.val = 0
        self.avg = 0
        self.sum = 0
        self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count


class Logger:
    def __init__(self):
        self.values = {}

    def add_scalar(self, name, value, niter):
        self.values.setdefault(name, []).append((niter, float(value)))


def steps():
    model = seeded(
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 8))
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.MSELoss()
    losses, logger, shown = AverageMeter(), Logger(), []
    labels_mean, labels_std = np.float32(0.3), np.float32(1.7)

    def train(images, labels, niter):
        model.train()
        optimizer.zero_grad()
        outputs = model(images)
        loss = criterion(outputs, labels)
        losses.update(loss.data, images.size(0))
        loss.backward()
        optimizer.step()
        logger.add_scalar("posture/Train/Loss", loss.data, niter)
        if niter % 100 == 0:
            print("BATCH LOSS: %.8f/ %.8f(avg)" % (losses.val, losses.avg))
            output = outputs.data[0].cpu().numpy() * labels_std + labels_mean
            shown.append(output.reshape(-1, 2).astype(int).tolist())
        return loss, losses.avg

    return train, lambda i: (
        torch.from_numpy(normal(5, 1, 8, 8, seed=i)),
        torch.from_numpy(normal(5, 8, seed=i)),
        i + 1,
    )
