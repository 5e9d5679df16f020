"""A net of point sets, with an alignment that is regularised to be orthogonal."""

import functools

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, normal, seeded


@functools.cache
def identity(k):
    return torch.eye(k)


class TNet(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k
        self.conv1, self.conv2 = nn.Conv1d(k, 8, 1), nn.Conv1d(8, 12, 1)
        self.bn1, self.bn2 = nn.BatchNorm1d(8), nn.BatchNorm1d(12)
        self.fc = nn.Linear(12, k * k)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = torch.max(x, 2, keepdim=True)[0].view(-1, 12)
        return self.fc(x).view(-1, self.k, self.k) + identity(self.k)


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stn, self.conv, self.fc = TNet(3), nn.Conv1d(3, 16, 1), nn.Linear(16, 4)

    def forward(self, x):
        trans = self.stn(x)
        x = torch.bmm(x.transpose(2, 1), trans).transpose(2, 1)
        x = F.relu(self.conv(x)).amax(-1)
        return F.log_softmax(self.fc(x), dim=-1), trans


def feature_transform_regularizer(trans):
    I = identity(trans.size(1))[None, :, :]
    return torch.mean(torch.norm(torch.bmm(trans, trans.transpose(2, 1)) - I, dim=(1, 2)))


def steps():
    classifier = seeded(PointNet())
    optimizer = torch.optim.Adam(classifier.parameters(), lr=1e-3, betas=(0.9, 0.999))
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)

    def train(points, target):
        optimizer.zero_grad()
        classifier.train()
        pred, trans = classifier(points)
        loss = F.nll_loss(pred, target) + feature_transform_regularizer(trans) * 0.001
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss, pred.data.max(1)[1].eq(target.data).sum()

    return train, lambda i: (
        torch.from_numpy(normal(5, 3, 10, seed=i)),
        torch.from_numpy(integers(4, 5, seed=i)),
    )
