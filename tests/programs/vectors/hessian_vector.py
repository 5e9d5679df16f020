"""Newton's steps by conjugate gradients on products with the Hessian."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, normal, seeded
from torch.nn.utils import parameters_to_vector, vector_to_parameters


def hvp(loss_grad, params, v):
    return parameters_to_vector(torch.autograd.grad(loss_grad @ v, params, retain_graph=True))


def conjugate_gradient(product, b, iterations=3, damping=0.5):
    x, r = torch.zeros_like(b), b.clone()
    p, rs = r.clone(), r @ r
    for _ in range(iterations):
        Ap = product(p) + damping * p
        alpha = rs / (p @ Ap)
        x += alpha * p
        r -= alpha * Ap
        new = r @ r
        p = r + (new / rs) * p
        rs = new
    return x


def steps():
    model = seeded(nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)))
    params = list(model.parameters())

    def newton_step(x, y):
        loss = F.cross_entropy(model(x), y)
        gradient = parameters_to_vector(torch.autograd.grad(loss, params, create_graph=True))
        direction = conjugate_gradient(lambda v: hvp(gradient, params, v.detach()), gradient.detach())
        with torch.no_grad():
            vector_to_parameters(parameters_to_vector(params) - 0.5 * direction, params)
        return loss

    return newton_step, lambda i: (
        torch.from_numpy(normal(8, 4, seed=i)),
        torch.from_numpy(integers(3, 8, seed=i)),
    )
