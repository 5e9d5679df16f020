"""A mixture of experts: the best two of four, with a loss that balances their load."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import normal, seeded


class MoE(nn.Module):
    def __init__(self, width, experts, k=2):
        super().__init__()
        self.k = k
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
            for _ in range(experts)
        )
        self.aux_loss = None

    def forward(self, x):
        logits = self.gate(x)
        weights, chosen = torch.topk(F.softmax(logits, dim=-1), self.k, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        gates = torch.zeros_like(logits).scatter(1, chosen, weights)
        load = (gates > 0).float().mean(0)
        importance = F.softmax(logits, dim=-1).mean(0)
        self.aux_loss = len(self.experts) * (load * importance).sum()
        return sum(gates[:, i : i + 1] * expert(x) for i, expert in enumerate(self.experts))


def steps():
    model = seeded(MoE(8, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def train(x, y):
        loss = F.mse_loss(model(x), y) + 0.01 * model.aux_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(12, 8, seed=i)),
        torch.from_numpy(normal(12, 8, seed=i + 1)),
    )
