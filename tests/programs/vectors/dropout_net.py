"""Dropout of several kinds, mixed up batches and noise added to gradients."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, normal, seeded

DRAWS = True


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 4, 3)
        self.drop, self.fc = nn.Dropout2d(0.25), nn.Linear(64, 3)

    def forward(self, x):
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        x = torch.flatten(self.drop(x), 1)
        return self.fc(F.dropout(x, p=0.3, training=self.training))


def steps():
    model = seeded(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def train(x, y):
        model.train()
        index = torch.randperm(x.size(0))
        mixed_x = 0.7 * x + 0.3 * x[index]
        output = model(mixed_x)
        loss = 0.7 * F.cross_entropy(output, y) + 0.3 * F.cross_entropy(output, y[index])
        optimizer.zero_grad()
        loss.backward()
        for p in model.parameters():
            p.grad.add_(0.01 * torch.randn_like(p))
        optimizer.step()
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(6, 1, 8, 8, seed=i)),
        torch.from_numpy(integers(3, 6, seed=i)),
    )
