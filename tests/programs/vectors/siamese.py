"""A siamese net with a triplet loss and a contrastive one."""

import torch
from programs.common import integers, normal, seeded
from torch import nn
from torch.nn import functional as F


class SiameseNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.cnn = nn.Sequential(
            nn.ReflectionPad2d(1), nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2)
        )
        self.fc = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.PReLU(), nn.Linear(8, 4))

    def forward_once(self, x):
        return self.fc(self.cnn(x))

    def forward(self, *inputs):
        return [self.forward_once(x) for x in inputs]


class ContrastiveLoss(nn.Module):
    def __init__(self, margin=2.0):
        super().__init__()
        self.margin = margin

    def forward(self, output1, output2, label):
        distance = F.pairwise_distance(output1, output2)
        same = (1 - label) * torch.pow(distance, 2)
        return torch.mean(same + label * torch.pow(torch.clamp(self.margin - distance, min=0.0), 2))


def steps():
    net = seeded(SiameseNetwork())
    contrastive, triplet = ContrastiveLoss(), nn.TripletMarginLoss(margin=1.0, p=2)
    optimizer = torch.optim.RAdam(net.parameters(), lr=5e-3)

    def train(anchor, positive, negative, label):
        optimizer.zero_grad()
        a, p, n = net(anchor, positive, negative)
        loss = triplet(a, p, n) + contrastive(a, p, label)
        loss.backward()
        optimizer.step()
        return loss

    return train, lambda i: (
        *(torch.from_numpy(normal(6, 1, 6, 6, seed=3 * i + j)) for j in range(3)),
        torch.from_numpy(integers(2, 6, seed=i)),
    )
