"""Training on examples that projected gradient descent makes worse."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, seeded, uniform


def pgd(model, x_natural, y, start, epsilon=0.1, step_size=0.05, num_steps=2):
    model.eval()
    x_adv = x_natural.detach() + 0.001 * start.detach()
    for _ in range(num_steps):
        x_adv.requires_grad_()
        with torch.enable_grad():
            loss = F.cross_entropy(model(x_adv), y)
        grad = torch.autograd.grad(loss, [x_adv])[0]
        x_adv = x_adv.detach() + step_size * torch.sign(grad.detach())
        x_adv = torch.min(torch.max(x_adv, x_natural - epsilon), x_natural + epsilon)
        x_adv = torch.clamp(x_adv, 0.0, 1.0)
    model.train()
    return x_adv


def fgsm(model, x, y, epsilon):
    x = x.clone().detach()
    x.requires_grad = True
    loss = F.cross_entropy(model(x), y)
    model.zero_grad()
    loss.backward()
    return torch.clamp(x + epsilon * x.grad.data.sign(), 0, 1)


def steps():
    model = seeded(
        nn.Sequential(nn.Flatten(), nn.Linear(16, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 4))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def train(x, y, start):
        x_adv = pgd(model, x, y, start)
        x_fast = fgsm(model, x, y, 0.05)
        optimizer.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits, y) + F.cross_entropy(model(x_fast.detach()), y)
        loss += F.kl_div(F.log_softmax(model(x_adv), dim=1), F.softmax(logits, dim=1), reduction="batchmean")
        loss.backward()
        optimizer.step()
        return loss, (x_adv - x).abs().max()

    return train, lambda i: (
        torch.from_numpy(uniform(6, 1, 4, 4, seed=i)),
        torch.from_numpy(integers(4, 6, seed=i)),
        torch.from_numpy(uniform(6, 1, 4, 4, seed=i + 1)),
    )
