"""A neural ODE, integrated by Runge and Kutta's rule through time."""

import torch
import torch.nn as nn
from programs.common import normal, seeded


class ODEFunc(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
        self.nfe = 0

    def forward(self, t, y):
        self.nfe += 1
        return self.net(y**3) * torch.cos(t)


def rk4_step(func, t, dt, y):
    k1 = func(t, y)
    k2 = func(t + dt / 2, y + dt * k1 / 2)
    k3 = func(t + dt / 2, y + dt * k2 / 2)
    k4 = func(t + dt, y + dt * k3)
    return y + dt * (k1 + 2 * k2 + 2 * k3 + k4) / 6


def odeint(func, y0, t):
    solution = [y0]
    for t0, t1 in zip(t[:-1], t[1:]):
        solution.append(rk4_step(func, t0, t1 - t0, solution[-1]))
    return torch.stack(solution)


def steps():
    func = seeded(ODEFunc())
    optimizer = torch.optim.RMSprop(func.parameters(), lr=1e-3)

    def train(batch_y0, batch_t, batch_y):
        optimizer.zero_grad()
        func.nfe = 0
        pred_y = odeint(func, batch_y0, batch_t)
        loss = torch.mean(torch.abs(pred_y - batch_y))
        loss.backward()
        optimizer.step()
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(6, 2, seed=i)),
        torch.linspace(0.0, 1.0, 5),
        torch.from_numpy(normal(5, 6, 2, seed=i + 1)),
    )
