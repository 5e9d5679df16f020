"""A model that grows while it trains: a layer more, then a wider one, given to the same optimizer.

Nothing is compiled or declared beforehand, so the network is whatever its modules are at this step.
Each change leaves what the network computes as it is; training goes on where it was.
"""

import math

import fusegrad as fg
from fusegrad import nn
from fusegrad.nn import functional as F


def data(count):
    """A curve that one small layer cannot follow."""
    x = fg.linspace(-1, 1, count).unsqueeze(1)
    return x, fg.sin(math.pi * 3 * x) * fg.exp(-x * x)


class Residual(nn.Module):
    """A layer that starts by passing its input on: its last weights are zero."""

    def __init__(self, width):
        super().__init__()
        self.into = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, x):
        return x + self.out(fg.tanh(self.into(x)))


def widened(first, second, more):
    """Two layers with `more` units between them, whose outgoing weights are zero."""
    wide = nn.Linear(first.in_features, first.out_features + more)
    after = nn.Linear(second.in_features + more, second.out_features)
    with fg.no_grad():
        wide.weight[: first.out_features] = first.weight
        wide.bias[: first.out_features] = first.bias
        after.weight.zero_()
        after.weight[:, : second.in_features] = second.weight
        after.bias.copy_(second.bias)
    return wide, after


def train(model, optimizer, x, y, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()


def main():
    fg.manual_seed(0)
    x, y = data(200)
    model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = fg.optim.Adam(model.parameters(), lr=0.02)

    def report(what):
        count = sum(p.numel() for p in model.parameters())
        print(f"{what}: loss {F.mse_loss(model(x), y).item():.5f}, {count} parameters")

    train(model, optimizer, x, y, 500)
    report("two layers, 500 steps")

    layer = Residual(8)
    model.insert(2, layer)
    optimizer.add_param_group({"params": layer.parameters(), "lr": 0.01})
    report("a layer more, untrained")
    train(model, optimizer, x, y, 500)
    report("a layer more, 500 steps")

    layer.into, layer.out = widened(layer.into, layer.out, 24)
    optimizer.param_groups.pop()
    optimizer.add_param_group({"params": layer.parameters(), "lr": 0.005})
    report("that layer wider, untrained")
    train(model, optimizer, x, y, 500)
    report("that layer wider, 500 steps")
    print(model)


if __name__ == "__main__":
    main()
