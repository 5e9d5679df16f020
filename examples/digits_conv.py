"""Handwritten digits read by a small convolutional network, eager from end to end.

Two 3x3 convolutions, a pool and a linear layer learn the 1,437 first of scikit-learn's shuffled 8x8
scans in a few epochs; the 360 others tell how well. Run it: `python examples/digits_conv.py`.
"""

import time

import numpy as np
from sklearn.datasets import load_digits

import fusegrad as fg
from fusegrad import nn
from fusegrad.nn import functional as F

EPOCHS, BATCH = 6, 64


class Network(nn.Module):
    """Ten scores for each image [N, 1, 8, 8]."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.linear = nn.Linear(32 * 4 * 4, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = self.pool(F.relu(self.conv2(x)))
        return self.linear(x.flatten(1))


def data():
    """Images [N, 1, 8, 8] scaled to 0..1 and labels, shuffled: 1,437 to train on, 360 held out."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.images))
    x = fg.from_numpy((digits.images[order, None] / 16).astype(np.float32))
    y = fg.from_numpy(digits.target[order].astype(np.int64))
    return x[:1437], y[:1437], x[1437:], y[1437:]


def train(network, x, labels):
    """One line for each epoch: the mean loss of its batches."""
    optimizer = fg.optim.Adam(network.parameters(), lr=3e-3)
    for epoch in range(EPOCHS):
        losses = []
        for rows in fg.randperm(len(x)).split(BATCH):
            loss = F.cross_entropy(network(x[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1}/{EPOCHS}  loss {sum(losses) / len(losses):.4f}")


def main():
    fg.manual_seed(0)
    x, labels, x_test, labels_test = data()
    network = Network()
    print(network)
    began = time.perf_counter()
    train(network, x, labels)
    with fg.no_grad():
        accuracy = (network(x_test).argmax(1) == labels_test).float().mean().item()
    print(f"{accuracy:.2%} of the held-out digits are read correctly; {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
