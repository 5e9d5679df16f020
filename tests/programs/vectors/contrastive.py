"""SimCLR: the loss of temperature-scaled cross entropies between two views."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import normal, seeded


class SimCLR(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(12, 24), nn.BatchNorm1d(24), nn.ReLU())
        self.projector = nn.Sequential(nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 8))

    def forward(self, x):
        return self.projector(self.backbone(x))


def info_nce_loss(features, batch_size, n_views=2, temperature=0.07):
    labels = torch.cat([torch.arange(batch_size) for i in range(n_views)], dim=0)
    labels = (labels.unsqueeze(0) == labels.unsqueeze(1)).float()
    features = F.normalize(features, dim=1)
    similarity_matrix = torch.matmul(features, features.T)
    own = torch.eye(labels.shape[0], dtype=torch.bool)
    similarity_matrix = similarity_matrix.masked_fill(own, -1e9) / temperature
    positives = torch.cat([torch.arange(batch_size) + batch_size, torch.arange(batch_size)])
    return F.cross_entropy(similarity_matrix, positives)


def steps():
    model = seeded(SimCLR())
    optimizer = torch.optim.Adam(model.parameters(), 3e-4, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10, eta_min=0, last_epoch=-1)

    def train(images, noise):
        features = model(torch.cat([images, images + 0.1 * noise], dim=0))
        loss = info_nce_loss(features, images.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(8, 12, seed=i)),
        torch.from_numpy(normal(8, 12, seed=i + 7)),
    )
