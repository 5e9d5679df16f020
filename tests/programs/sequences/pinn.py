"""A physics-informed net for Burgers' equation: second derivatives with respect to its inputs."""

import math

import torch
import torch.nn as nn
from programs.common import seeded, uniform


class DNN(nn.Module):
    def __init__(self, layers):
        super().__init__()
        parts = []
        for n_in, n_out in zip(layers[:-2], layers[1:-1]):
            parts += [nn.Linear(n_in, n_out), nn.Tanh()]
        self.layers = nn.Sequential(*parts, nn.Linear(layers[-2], layers[-1]))

    def forward(self, x):
        return self.layers(x)


class PhysicsInformedNN:
    def __init__(self):
        self.dnn = seeded(DNN([2, 12, 12, 1]))
        self.nu = 0.01 / math.pi
        self.optimizer = torch.optim.Adam(self.dnn.parameters(), lr=1e-3)
        self.iter = 0

    def net_u(self, x, t):
        return self.dnn(torch.cat([x, t], dim=1))

    def net_f(self, x, t):
        u = self.net_u(x, t)
        u_t = torch.autograd.grad(
            u, t, grad_outputs=torch.ones_like(u), retain_graph=True, create_graph=True
        )[0]
        u_x = torch.autograd.grad(
            u, x, grad_outputs=torch.ones_like(u), retain_graph=True, create_graph=True
        )[0]
        u_xx = torch.autograd.grad(
            u_x, x, grad_outputs=torch.ones_like(u_x), retain_graph=True, create_graph=True
        )[0]
        return u_t + u * u_x - self.nu * u_xx

    def train_step(self, x_u, t_u, u, x_f, t_f):
        self.optimizer.zero_grad()
        u_pred = self.net_u(x_u, t_u)
        f_pred = self.net_f(x_f, t_f)
        loss_u = torch.mean((u - u_pred) ** 2)
        loss_f = torch.mean(f_pred**2)
        loss = loss_u + loss_f
        loss.backward()
        self.optimizer.step()
        self.iter += 1
        return loss

    def batch(self, i):
        x_u, t_u = torch.from_numpy(uniform(8, 1, seed=i)), torch.from_numpy(uniform(8, 1, seed=i + 1))
        x_f, t_f = torch.from_numpy(uniform(10, 1, seed=i + 2)), torch.from_numpy(uniform(10, 1, seed=i + 3))
        return x_u, t_u, -torch.sin(math.pi * x_u), x_f.requires_grad_(), t_f.requires_grad_()


def steps():
    model = PhysicsInformedNN()
    return model.train_step, model.batch
