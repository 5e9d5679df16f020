"""Gradients that are kept over calls of the step: every second call takes a step."""

import torch
import torch.nn as nn
from programs.common import integers, normal, seeded


def steps():
    model = seeded(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3)))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches_accumulated = 2

    def train(idx, x, y):
        outputs = model(x)
        loss = criterion(outputs, y) / batches_accumulated
        loss.backward()
        if (idx + 1) % batches_accumulated == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss

    return train, lambda i: (
        i % 10,
        torch.from_numpy(normal(5, 6, seed=i)),
        torch.from_numpy(integers(3, 5, seed=i)),
    )
