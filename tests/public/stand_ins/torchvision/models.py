"""Untrained residual networks under torchvision's names. Source: He et al., arXiv:1512.03385."""

from torch import nn


class BasicBlock(nn.Module):
    def __init__(self, before, planes, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = None
        if stride != 1 or before != planes:
            shortcut = nn.Conv2d(before, planes, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(planes))

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(x + shortcut)


class ResNet(nn.Module):
    """layers: how many blocks each of the four stages has."""

    def __init__(self, layers, num_classes=1000):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1, self.relu, self.maxpool = nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        before = 64
        for stage, blocks in enumerate(layers, 1):
            planes, parts = 64 << (stage - 1), []
            for block in range(blocks):
                parts.append(BasicBlock(before, planes, 2 if stage > 1 and block == 0 else 1))
                before = planes
            setattr(self, f"layer{stage}", nn.Sequential(*parts))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(before, num_classes)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


def resnet18(weights=None, **options):
    return ResNet([2, 2, 2, 2], **options)


def resnet34(weights=None, **options):
    return ResNet([3, 4, 6, 3], **options)
