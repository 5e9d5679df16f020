"""Model-agnostic meta-learning: gradients of gradients through steps of an inner loop."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import normal, seeded


class MAMLModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2 = nn.Linear(1, 16), nn.Linear(16, 1)

    def parameterised(self, x, weights):
        x = F.relu(F.linear(x, weights[0], weights[1]))
        return F.linear(x, weights[2], weights[3])


class MAML:
    def __init__(self):
        self.model = seeded(MAMLModel())
        self.weights = list(self.model.parameters())
        self.criterion = nn.MSELoss()
        self.meta_optimiser = torch.optim.Adam(self.weights, 1e-3)

    def inner_loop(self, x, y, x_test, y_test):
        temp_weights = [w.clone() for w in self.weights]
        for _ in range(2):
            loss = self.criterion(self.model.parameterised(x, temp_weights), y)
            grad = torch.autograd.grad(loss, temp_weights, create_graph=True)
            temp_weights = [w - 0.01 * g for w, g in zip(temp_weights, grad)]
        return self.criterion(self.model.parameterised(x_test, temp_weights), y_test)

    def outer_loop(self, xs, ys, xs_test, ys_test):
        total_loss = 0
        for task in range(len(xs)):
            total_loss += self.inner_loop(xs[task], ys[task], xs_test[task], ys_test[task])
        meta_grads = torch.autograd.grad(total_loss, self.weights)
        for w, g in zip(self.weights, meta_grads):
            w.grad = g
        self.meta_optimiser.step()
        return total_loss.detach() / len(xs)


def steps():
    maml = MAML()
    return maml.outer_loop, lambda i: tuple(
        torch.from_numpy(normal(2, 5, 1, seed=4 * i + j)) for j in range(4)
    )
