"""A regression whose parameters are written by hand, through `.data` and `.grad.data`."""

import torch
from programs.common import normal


def steps():
    w1 = torch.from_numpy(normal(5, 8)).requires_grad_()
    w2 = torch.from_numpy(normal(8, 1, seed=1)).requires_grad_()
    b = torch.zeros(1, requires_grad=True)
    learning_rate = 1e-3

    def train(x, y):
        h = x.mm(w1)
        y_pred = h.clamp(min=0).mm(w2) + b
        loss = (y_pred - y).pow(2).sum()
        for p in (w1, w2, b):
            if p.grad is not None:
                p.grad.data.zero_()
        loss.backward()
        w1.data -= learning_rate * w1.grad.data
        w2.data -= learning_rate * w2.grad.data
        b.data.sub_(b.grad.data * learning_rate)
        if loss.is_cuda or x.is_sparse:
            return None
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(8, 5, seed=i)),
        torch.from_numpy(normal(8, 1, seed=i + 1)),
    )
