"""A perceptron that classifies, as a first script does it."""

import torch
import torch.nn.functional as F
from programs.common import integers, normal, seeded
from torch import nn, optim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(20, 32)
        self.fc2 = nn.Linear(32, 32)
        self.fc3 = nn.Linear(32, 5)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


def steps():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = seeded(Net()).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.Adam(model.parameters(), lr=1e-2)

    def train(data, target):
        model.train()
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = criterion(output, target)
        loss.backward()
        optimizer.step()
        correct = (output.argmax(1) == target).float().sum()
        return loss, correct

    return train, lambda i: (
        torch.from_numpy(normal(16, 20, seed=i)),
        torch.from_numpy(integers(5, 16, seed=i)),
    )
