"""A controlled differential equation: a matrix of a net's times the increments of a path."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, normal, seeded


class CDEFunc(nn.Module):
    def __init__(self, input_channels, hidden_channels):
        super().__init__()
        self.shape = (hidden_channels, input_channels)
        self.linear1 = nn.Linear(hidden_channels, 16)
        self.linear2 = nn.Linear(16, input_channels * hidden_channels)

    def forward(self, z):
        z = self.linear2(self.linear1(z).relu()).tanh()
        return z.view(z.size(0), *self.shape)


class NeuralCDE(nn.Module):
    def __init__(self):
        super().__init__()
        self.func, self.initial, self.readout = CDEFunc(3, 5), nn.Linear(3, 5), nn.Linear(5, 1)

    def forward(self, path):
        z = self.initial(path[:, 0])
        increments = path[:, 1:] - path[:, :-1]
        for i in range(increments.size(1)):
            dX = increments[:, i].unsqueeze(-1)
            half = z + 0.5 * torch.bmm(self.func(z), dX).squeeze(-1)
            z = z + torch.bmm(self.func(half), dX).squeeze(-1)
        return self.readout(z).squeeze(-1)


def steps():
    model = seeded(NeuralCDE())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def train(path, y):
        loss = F.binary_cross_entropy_with_logits(model(path), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(6, 7, 3, seed=i)),
        torch.from_numpy(integers(2, 6, seed=i)).float(),
    )
