"""Detection in point clouds: pillars scattered by masks, a step count in a buffer, metrics in NumPy."""

import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, normal, seeded


class PointPillarsScatter(nn.Module):
    def __init__(self, output_shape, num_input_features):
        super().__init__()
        self.ny, self.nx, self.nchannels = output_shape[0], output_shape[1], num_input_features

    def forward(self, voxel_features, coords, batch_size):
        batch_canvas = []
        for batch_itt in range(batch_size):
            canvas = torch.zeros(
                self.nchannels, self.nx * self.ny, dtype=voxel_features.dtype, device=voxel_features.device
            )
            batch_mask = coords[:, 0] == batch_itt
            this_coords = coords[batch_mask, :]
            indices = this_coords[:, 2] * self.nx + this_coords[:, 3]
            indices = indices.type(torch.long)
            voxels = voxel_features[batch_mask, :]
            voxels = voxels.t()
            canvas[:, indices] = voxels
            batch_canvas.append(canvas)
        batch_canvas = torch.stack(batch_canvas, 0)
        return batch_canvas.view(batch_size, self.nchannels, self.ny, self.nx)


class VoxelNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.vfe, self.scatter = nn.Linear(4, 6), PointPillarsScatter((4, 4), 6)
        self.cls, self.box = nn.Conv2d(6, 1, 1), nn.Conv2d(6, 3, 1)
        self.register_buffer("global_step", torch.LongTensor(1).zero_())

    def update_global_step(self):
        self.global_step += 1

    def get_global_step(self):
        return int(self.global_step.cpu().numpy()[0])

    def forward(self, example):
        batch_size = example["anchors"].shape[0]
        canvas = self.scatter(
            F.relu(self.vfe(example["voxels"]).max(1)[0]), example["coordinates"], batch_size
        )
        cls_preds, box_preds = self.cls(canvas).view(batch_size, -1), self.box(canvas).view(batch_size, 3, -1)
        labels = example["labels"]
        cared = labels >= 0
        positives, negatives = labels > 0, labels == 0
        pos_normalizer = positives.sum(1, keepdim=True).type(torch.float32)
        reg_weights = positives.type(torch.float32) / torch.clamp(pos_normalizer, min=1.0)
        cls_weights = (negatives.type(torch.float32) + positives.type(torch.float32)) / torch.clamp(
            pos_normalizer, min=1.0
        )
        cls_targets = (labels * cared.type_as(labels)).float()
        cls_loss = F.binary_cross_entropy_with_logits(cls_preds, cls_targets, reduction="none") * cls_weights
        loc_loss = (
            F.smooth_l1_loss(box_preds, example["reg_targets"], reduction="none") * reg_weights[:, None]
        )
        loc_reduced = loc_loss.sum() / batch_size
        return {"loss": loc_reduced * 2 + cls_loss.sum() / batch_size, "cls_loss": cls_loss, "loc_loss": loc_loss,
                "cls_pos_loss": (positives.type_as(cls_loss) * cls_loss).sum() / batch_size, "cls_preds": cls_preds,
                "cared": cared}  # fmt: skip


def example_convert_to_torch(example, dtype=torch.float32, device=None):
    device = device or torch.device("cpu")
    example_torch = {}
    for k, v in example.items():
        if k in ["voxels", "anchors", "reg_targets"]:
            example_torch[k] = torch.tensor(v, dtype=torch.float32, device=device).to(dtype)
        elif k in ["coordinates", "labels"]:
            example_torch[k] = torch.tensor(v, dtype=torch.int32, device=device)
        else:
            example_torch[k] = v
    return example_torch


def steps():
    net = seeded(VoxelNet())
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    step_times, last = [], [time.time()]

    def train(example):
        example = dict(example)
        example_torch = example_convert_to_torch(example)
        batch_size = example["anchors"].shape[0]
        ret_dict = net(example_torch)
        loss = ret_dict["loss"].mean()
        cls_pos_loss = ret_dict["cls_pos_loss"].mean()
        labels = example_torch["labels"]
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 10.0)
        optimizer.step()
        optimizer.zero_grad()
        net.update_global_step()
        step_time = time.time() - last[0]
        step_times.append(step_time)
        last[0] = time.time()
        num_pos = int((labels > 0)[0].float().sum().cpu().numpy())
        num_neg = int((labels == 0)[0].float().sum().cpu().numpy())
        global_step = net.get_global_step()
        if global_step % 50 == 0:
            loc_loss = ret_dict["loc_loss"]
            elem = [
                float(loc_loss[:, i].sum().detach().cpu().numpy() / batch_size)
                for i in range(loc_loss.shape[1])
            ]
            print(global_step, np.mean(step_times), elem, num_pos, num_neg)
        return loss, cls_pos_loss

    def batch(i):
        coordinates = integers(4, 9, 4, seed=i)
        coordinates[:, 0] = [0, 0, 0, 0, 1, 1, 1, 1, 1] if i % 2 else [0, 0, 0, 0, 0, 1, 1, 1, 1]
        coordinates[:, 2:] = np.stack(np.divmod(np.random.default_rng(i).permutation(16)[:9], 4), 1)
        return ({"voxels": normal(9, 3, 4, seed=i), "coordinates": coordinates, "anchors": normal(2, 16, 7, seed=1),
                 "labels": integers(3, 2, 16, seed=i) - 1, "reg_targets": normal(2, 3, 16, seed=i)},)  # fmt: skip

    return train, batch
