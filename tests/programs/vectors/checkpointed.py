"""A deep net whose blocks are computed again in backward."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, normal, seeded
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x)), approximate="tanh"))


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.head = nn.ModuleList(Block(8) for _ in range(3)), nn.Linear(8, 3)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


def steps():
    model = seeded(Deep())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def train(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return train, lambda i: (torch.from_numpy(normal(6, 8, seed=i)), torch.from_numpy(integers(3, 6, seed=i)))
