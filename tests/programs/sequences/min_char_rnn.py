"""A recurrent net written with tensors alone, and Adagrad by hand in a loop over named parameters."""

import torch
from programs.common import integers, normal


def steps():
    vocab_size, hidden_size = 9, 12
    params = {
        "Wxh": torch.from_numpy(0.1 * normal(hidden_size, vocab_size)),
        "Whh": torch.from_numpy(0.1 * normal(hidden_size, hidden_size, seed=1)),
        "Why": torch.from_numpy(0.1 * normal(vocab_size, hidden_size, seed=2)),
        "bh": torch.zeros(hidden_size, 1),
        "by": torch.zeros(vocab_size, 1),
    }
    for p in params.values():
        p.requires_grad_()
    mem = {k: torch.zeros_like(v) for k, v in params.items()}
    hprev = torch.zeros(hidden_size, 1)

    def loss_fun(inputs, targets, h):
        loss = 0
        for t in range(len(inputs)):
            x = torch.zeros(vocab_size, 1)
            x[inputs[t]] = 1
            h = torch.tanh(params["Wxh"] @ x + params["Whh"] @ h + params["bh"])
            y = params["Why"] @ h + params["by"]
            p = torch.exp(y) / torch.sum(torch.exp(y))
            loss = loss - torch.log(p[targets[t], 0])
        return loss, h

    def train(inputs, targets):
        loss, h = loss_fun(inputs, targets, hprev)
        loss.backward()
        with torch.no_grad():
            hprev.copy_(h)
            for name, param in params.items():
                param.grad.clamp_(-5, 5)
                mem[name] += param.grad * param.grad
                param += -1e-1 * param.grad / torch.sqrt(mem[name] + 1e-8)
                param.grad = None
        return loss

    return train, lambda i: (
        torch.from_numpy(integers(9, 5, seed=i)),
        torch.from_numpy(integers(9, 5, seed=i + 1)),
    )
