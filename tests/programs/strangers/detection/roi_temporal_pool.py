"""Regions of time pooled to a size, each with bounds that are found as numbers from a tensor."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, normal, seeded


class RoITemporalPooling(nn.Module):
    def __init__(self, pooled_length, temporal_scale):
        super().__init__()
        self.pooled_length = int(pooled_length)
        self.temporal_scale = float(temporal_scale)

    def forward(self, features, rois):
        outputs = []
        for roi in rois:
            batch = int(roi[0].item())
            start = int(round(roi[1].item() * self.temporal_scale))
            end = int(round(roi[2].item() * self.temporal_scale))
            length = max(end - start + 1, 1)
            outputs.append(
                F.adaptive_max_pool1d(features[batch, :, start : start + length], self.pooled_length)
            )
        return torch.stack(outputs, 0)


def steps():
    net, head = seeded(nn.Conv1d(3, 6, 3, padding=1)), seeded(nn.Linear(12, 3))
    pool = RoITemporalPooling(2, 0.5)
    optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.05)

    def train(x, rois, y):
        pooled = pool(net(x), rois)
        loss = F.cross_entropy(head(pooled.view(pooled.size(0), -1)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def batch(i):
        rois = integers(8, 5, 3, seed=i)
        rois[:, 0] %= 2
        rois[:, 2] += 9
        return (
            torch.from_numpy(normal(2, 3, 12, seed=i)),
            torch.from_numpy(rois.astype("f4")),
            torch.from_numpy(integers(3, 5, seed=i)),
        )

    return train, batch
