"""A focal loss that multiplies what another loss gave in place."""

import torch
from programs.common import normal, seeded, uniform
from torch import nn


class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0, alpha=1.0, reduction="mean"):
        super(FocalLoss, self).__init__()
        self.__gamma = gamma
        self.__alpha = alpha
        self.__loss = nn.BCEWithLogitsLoss(reduction=reduction)

    def forward(self, input, target):
        loss = self.__loss(input=input, target=target)
        loss *= self.__alpha * torch.pow(torch.abs(target - torch.sigmoid(input)), self.__gamma)
        return loss


def steps():
    model = seeded(nn.Sequential(nn.Linear(6, 12), nn.LeakyReLU(0.1, inplace=True), nn.Linear(12, 4)))
    focal_loss = FocalLoss(gamma=2, alpha=1.0, reduction="none")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def train(x, y):
        loss = focal_loss(model(x), y).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(9, 6, seed=i)),
        torch.from_numpy((uniform(9, 4, seed=i) > 0.7).astype("f4")),
    )
