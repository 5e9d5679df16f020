"""Gradients of several small batches, clipped together; a report says how large they were."""

import torch
import torch.nn as nn
from programs.common import integers, normal, seeded

ACCUMULATE = 4


def steps():
    model = seeded(nn.Sequential(nn.Linear(10, 24), nn.Mish(), nn.Linear(24, 4)))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def train(inputs, labels):
        running_loss = 0.0
        for i, (x, y) in enumerate(zip(inputs.chunk(ACCUMULATE), labels.chunk(ACCUMULATE))):
            loss = criterion(model(x), y) / ACCUMULATE
            loss.backward()
            running_loss += loss.detach()
            if (i + 1) % ACCUMULATE == 0:
                grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5, norm_type=2)
                optimizer.step()
                optimizer.zero_grad()
        return running_loss, grad_norm

    return train, lambda i: (
        torch.from_numpy(normal(16, 10, seed=i)),
        torch.from_numpy(integers(4, 16, seed=i)),
    )
