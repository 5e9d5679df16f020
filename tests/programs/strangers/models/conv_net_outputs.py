"""An evolved net with an auxiliary head: a list of outputs, some of them None, and a weighted loss of these."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, normal, seeded


def cross_entropy(logits, target, weight=None, smooth_eps=None, reduction="mean"):
    return F.cross_entropy(
        logits, target, weight=weight, label_smoothing=smooth_eps or 0.0, reduction=reduction
    )


class CrossEntropyLoss(nn.CrossEntropyLoss):
    def __init__(self, weight=None, smooth_eps=None):
        super().__init__(weight=weight)
        self.smooth_eps = smooth_eps

    def forward(self, input, target, **kwargs):
        return cross_entropy(input, target, weight=self.weight, smooth_eps=self.smooth_eps, **kwargs)


def multi_output_loss(outputs, target, output_weights, loss_fn, **loss_kwargs):
    assert isinstance(outputs, list) or isinstance(outputs, tuple)
    assert len(outputs) == len(output_weights)
    loss = 0
    for y, w in zip(outputs, output_weights):
        if y is not None and w is not None and w != 0.0:
            loss = loss + w * loss_fn(y, target, **loss_kwargs)
    return loss


class MultiOutputLoss(nn.Module):
    def __init__(self, output_weights, loss=CrossEntropyLoss, **loss_kwargs):
        super(MultiOutputLoss, self).__init__()
        self.loss = loss(**loss_kwargs)
        self.output_weights = output_weights

    def forward(self, outputs, target):
        return multi_output_loss(outputs, target, self.output_weights, loss_fn=self.loss)


class EvolvedNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6))
        self.cells = nn.ModuleList([nn.Conv2d(6, 6, 3, padding=1, groups=3) for _ in range(3)])
        self.auxiliary_head = nn.Sequential(
            nn.ReLU(inplace=False),
            nn.AvgPool2d(3, stride=2, padding=0, count_include_pad=False),
            nn.Flatten(),
            nn.Linear(54, 4),
        )
        self.classifier = nn.Linear(6, 4)

    def forward(self, x):
        logits_aux = None
        s0 = s1 = self.stem(x)
        for i, cell in enumerate(self.cells):
            s0, s1 = s1, F.relu(cell(s0)) + s1
            if i == 1 and self.training:
                logits_aux = self.auxiliary_head(s1)
        out = F.adaptive_avg_pool2d(s1, 1)
        return [self.classifier(out.view(out.size(0), -1)), logits_aux]


def steps():
    model = seeded(EvolvedNetwork())
    criterion = MultiOutputLoss([1.0, 0.4], smooth_eps=0.1)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.9, momentum=0.9)

    def train(x, y):
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5)
        optimizer.step()
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(3, 3, 8, 8, seed=i)),
        torch.from_numpy(integers(4, 3, seed=i)),
    )
