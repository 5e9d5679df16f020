"""Low-rank adapters in a frozen net; only what is trainable goes to the optimizer."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, normal, seeded


class LoRALinear(nn.Module):
    def __init__(self, base, r=2, lora_alpha=4):
        super().__init__()
        self.base, self.scaling = base, lora_alpha / r
        self.lora_A = nn.Parameter(torch.zeros(r, base.in_features))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, r))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
        base.weight.requires_grad = False
        base.bias.requires_grad = False

    def forward(self, x):
        return self.base(x) + (x @ self.lora_A.T @ self.lora_B.T) * self.scaling


def replace_linears(module):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, LoRALinear(child))
        else:
            replace_linears(child)


def steps():
    model = nn.Sequential(
        nn.Linear(8, 16), nn.SiLU(), nn.Sequential(nn.Linear(16, 16), nn.SiLU()), nn.Linear(16, 3)
    )
    replace_linears(model)
    seeded(model)
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=1e-2)

    def train(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss, sum(p.numel() for p in trainable)

    return train, lambda i: (torch.from_numpy(normal(6, 8, seed=i)), torch.from_numpy(integers(3, 6, seed=i)))
