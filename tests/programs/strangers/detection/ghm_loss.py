"""Gradients harmonised: bins counted as numbers, running counts in a list, weights written through masks."""

import torch
import torch.nn as nn
from programs.common import integers, normal, seeded


def _sigmoid_cross_entropy_with_logits(logits, labels):
    loss = torch.clamp(logits, min=0) - logits * labels.type_as(logits)
    loss += torch.log1p(torch.exp(-torch.abs(logits)))
    return loss


class GHMCLoss:
    def __init__(self, bins=5, momentum=0.75):
        self.bins = bins
        self.momentum = momentum
        self.edges = [float(x) / bins for x in range(bins + 1)]
        self.edges[-1] += 1e-6
        if momentum > 0:
            self.acc_sum = [0.0 for _ in range(bins)]
        self.count = 50

    def __call__(self, prediction_tensor, target_tensor, weights):
        input, target = prediction_tensor, target_tensor
        batch_size, num_anchors, num_class = prediction_tensor.shape
        edges = self.edges
        weights_ghm = torch.zeros_like(input).view(-1, num_class)
        per_entry_cross_ent = _sigmoid_cross_entropy_with_logits(
            labels=target_tensor, logits=prediction_tensor
        )
        g = torch.abs(input.sigmoid().detach() - target).view(-1, num_class)
        valid = weights.view(-1, 1).expand(-1, num_class) > 0
        num_examples = max(valid.float().sum().item(), 1.0)
        num_valid_bins = 0
        self.count -= 1
        num_bins = []
        for i in range(self.bins):
            inds = (g >= edges[i]) & (g < edges[i + 1]) & valid
            num_in_bin = inds.sum().item()
            num_bins.append(num_in_bin)
            if num_in_bin > 0:
                if self.momentum > 0:
                    self.acc_sum[i] = self.momentum * self.acc_sum[i] + (1 - self.momentum) * num_in_bin
                    weights_ghm[inds] = num_examples / self.acc_sum[i]
                else:
                    weights_ghm[inds] = num_examples / num_in_bin
                num_valid_bins += 1
        if self.count <= 0:
            print("GHMC loss bins:", num_bins)
            self.count = 50
        if num_valid_bins > 0:
            weights_ghm = weights_ghm / num_valid_bins
        return per_entry_cross_ent * weights_ghm.view(batch_size, num_anchors, num_class) / num_examples


def steps():
    model = seeded(nn.Linear(5, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loss_fn = GHMCLoss()

    def train(x, target, weights):
        loss = loss_fn(model(x), target, weights).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return train, lambda i: (
        torch.from_numpy(2 * normal(2, 20, 5, seed=i)),
        torch.from_numpy(integers(2, 2, 20, 3, seed=i).astype("f4")),
        torch.from_numpy(integers(4, 2, 20, seed=i).astype("f4")),
    )
