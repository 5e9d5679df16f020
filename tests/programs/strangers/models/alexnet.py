"""AlexNet with norms, in a class that reads a configuration and warns of sizes as it is made."""

import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, normal, seeded


class AlexNet(nn.Module):
    model_name = "AlexNet"

    def __init__(self, cfg):
        super(AlexNet, self).__init__()
        default_shape = (227, 227)
        c_in = cfg["Train"]["input_size"][0]
        input_shape = tuple(cfg["Train"]["input_size"][1:])
        if input_shape != default_shape:
            warnings.warn("{} is not {}".format(input_shape, default_shape), stacklevel=1)
        self.conv1 = nn.Conv2d(in_channels=c_in, out_channels=6, kernel_size=5, stride=2, padding=0)
        self.bn1 = nn.BatchNorm2d(num_features=6)
        self.pool1 = nn.MaxPool2d(kernel_size=3, stride=2, padding=0)
        self.conv2 = nn.Conv2d(in_channels=6, out_channels=8, kernel_size=3, stride=1, padding=1)
        self.bn2 = nn.BatchNorm2d(num_features=8)
        self.pool2 = nn.MaxPool2d(kernel_size=3, stride=2, padding=0)
        self.conv3 = nn.Conv2d(in_channels=8, out_channels=8, kernel_size=3, stride=1, padding=1)
        self.bn3 = nn.BatchNorm2d(num_features=8)
        self.flatten = nn.Flatten()
        self.fc1 = nn.Linear(8 * 2 * 2, 16)
        self.dropout1 = nn.Dropout(p=cfg["Train"]["dropout"])
        self.fc2 = nn.Linear(16, cfg["num_classes"])

    def forward(self, x):
        x = self.pool1(self.bn1(F.relu(self.conv1(x))))
        x = self.pool2(self.bn2(F.relu(self.conv2(x))))
        x = self.bn3(F.relu(self.conv3(x)))
        x = self.flatten(x)
        x = self.dropout1(F.relu(self.fc1(x)))
        return self.fc2(x)


def steps():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cfg = {"Train": {"input_size": [3, 27, 27], "dropout": 0.0}, "num_classes": 5}
        model = seeded(AlexNet(cfg))
    optimizer = torch.optim.Adam(params=model.parameters(), lr=1e-3)
    loss_fn = nn.CrossEntropyLoss()

    def train(images, targets):
        model.train()
        optimizer.zero_grad()
        preds = model(images)
        loss = loss_fn(preds, targets)
        loss.backward()
        optimizer.step()
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(4, 3, 27, 27, seed=i)),
        torch.from_numpy(integers(5, 4, seed=i)),
    )
