"""Losses of joints: validity counted as a number, a volume looked up at the nearest voxel, found by NumPy."""

import numpy as np
import torch
from programs.common import integers, normal, seeded
from torch import nn


class KeypointsMSELoss(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, keypoints_pred, keypoints_gt, keypoints_binary_validity):
        dimension = keypoints_pred.shape[-1]
        loss = torch.sum((keypoints_gt - keypoints_pred) ** 2 * keypoints_binary_validity)
        loss = loss / (dimension * max(1, torch.sum(keypoints_binary_validity).item()))
        return loss


class VolumetricCELoss(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, coord_volumes_batch, volumes_batch_pred, keypoints_gt, keypoints_binary_validity):
        loss = 0.0
        n_losses = 0
        batch_size = volumes_batch_pred.shape[0]
        for batch_i in range(batch_size):
            coord_volume = coord_volumes_batch[batch_i]
            keypoints_gt_i = keypoints_gt[batch_i]
            coord_volume_unsq = coord_volume.unsqueeze(0)
            keypoints_gt_i_unsq = keypoints_gt_i.unsqueeze(1).unsqueeze(1).unsqueeze(1)
            dists = torch.sqrt(((coord_volume_unsq - keypoints_gt_i_unsq) ** 2).sum(-1))
            dists = dists.view(dists.shape[0], -1)
            min_indexes = torch.argmin(dists, dim=-1).detach().cpu().numpy()
            min_indexes = np.stack(np.unravel_index(min_indexes, volumes_batch_pred.shape[-3:]), axis=1)
            for joint_i, index in enumerate(min_indexes):
                validity = keypoints_binary_validity[batch_i, joint_i]
                loss += validity[0] * (
                    -torch.log(volumes_batch_pred[batch_i, joint_i, index[0], index[1], index[2]] + 1e-6)
                )
                n_losses += 1
        return loss / n_losses


def steps():
    model = seeded(nn.Sequential(nn.Conv3d(2, 6, 3, padding=1), nn.ReLU(), nn.Conv3d(6, 3, 1)))
    criterion, volumetric_ce_criterion = KeypointsMSELoss(), VolumetricCELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    grid = torch.stack(torch.meshgrid(*(torch.linspace(-1, 1, 4) for _ in range(3)), indexing="ij"), -1)
    coord_volumes = grid[None].expand(2, -1, -1, -1, -1)

    def train(features, keypoints_gt, validity):
        volumes = model(features)
        volumes = volumes.flatten(2).softmax(2).view_as(volumes)
        keypoints_pred = torch.einsum("bjxyz,bxyzc->bjc", volumes, coord_volumes)
        loss = criterion(keypoints_pred, keypoints_gt, validity)
        loss = loss + 0.01 * volumetric_ce_criterion(coord_volumes, volumes, keypoints_gt, validity)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def batch(i):
        validity = (integers(4, 2, 3, 1, seed=i) > 0).astype("f4")
        arrays = normal(2, 2, 4, 4, 4, seed=i), 0.5 * normal(2, 3, 3, seed=i + 1), validity
        return tuple(map(torch.from_numpy, arrays))

    return train, batch
