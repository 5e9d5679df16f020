"""A convolutional net with batch norm, SGD with momentum and a schedule; the loss comes as a Python number."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, normal, seeded


class ConvNet(nn.Module):
    def __init__(self, num_classes=4):
        super().__init__()
        self.layer1 = nn.Sequential(
            nn.Conv2d(1, 4, kernel_size=3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
        )
        self.layer2 = nn.Sequential(
            nn.Conv2d(4, 8, kernel_size=3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
        )
        self.fc = nn.Linear(3 * 3 * 8, num_classes)

    def forward(self, x):
        out = self.layer2(self.layer1(x))
        out = out.view(out.size(0), -1)
        return F.log_softmax(self.fc(out), dim=1)


def steps():
    model = seeded(ConvNet())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.7)

    def train(images, labels):
        outputs = model(images)
        loss = F.nll_loss(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss.item()

    return train, lambda i: (torch.tensor(normal(8, 1, 12, 12, seed=i)), torch.tensor(integers(4, 8, seed=i)))
