"""A residual net under one cycle of learning rate and momentum; `optimizer.param_groups` is looked at."""

import torch
from programs.common import integers, normal, seeded
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, in_planes, planes, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(in_planes, planes, kernel_size=3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, kernel_size=3, stride=1, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or in_planes != planes:
            self.downsample = nn.Sequential(
                nn.Conv2d(in_planes, planes, kernel_size=1, stride=stride, bias=False), nn.BatchNorm2d(planes)
            )

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.layers = nn.Sequential(BasicBlock(4, 4), BasicBlock(4, 8, 2))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(8, 3)

    def forward(self, x):
        return self.fc(torch.flatten(self.avgpool(self.layers(self.stem(x))), 1))


def steps():
    model = seeded(ResNet())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    scheduler = OneCycleLR(optimizer, max_lr=0.1, total_steps=30)
    criterion = nn.CrossEntropyLoss()

    def train(inputs, targets):
        optimizer.zero_grad(set_to_none=True)
        outputs = model(inputs)
        loss = criterion(outputs, targets)
        loss.backward()
        optimizer.step()
        scheduler.step()
        _, predicted = outputs.max(1)
        return loss, predicted.eq(targets).sum(), optimizer.param_groups[0]["lr"]

    return train, lambda i: (
        torch.from_numpy(normal(4, 3, 6, 6, seed=i)),
        torch.from_numpy(integers(3, 4, seed=i)),
    )
