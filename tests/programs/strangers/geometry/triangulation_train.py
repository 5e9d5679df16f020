"""Joints in space of several views: a config of attributes, a dict of lists of numbers, the norm of gradients, anomalies."""

import time
from collections import defaultdict

import torch
from programs.common import integers, normal, seeded
from torch import autograd, nn


class Config(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class KeypointsMSESmoothLoss(nn.Module):
    def __init__(self, threshold=400):
        super().__init__()
        self.threshold = threshold

    def forward(self, keypoints_pred, keypoints_gt, keypoints_binary_validity):
        dimension = keypoints_pred.shape[-1]
        diff = (keypoints_gt - keypoints_pred) ** 2 * keypoints_binary_validity
        diff[diff > self.threshold] = torch.pow(diff[diff > self.threshold], 0.1) * (self.threshold**0.9)
        return torch.sum(diff) / (dimension * max(1, torch.sum(keypoints_binary_validity).item()))


class KeypointsL2Loss(nn.Module):
    def forward(self, keypoints_pred, keypoints_gt, keypoints_binary_validity):
        loss = torch.sum(
            torch.sqrt(torch.sum((keypoints_gt - keypoints_pred) ** 2 * keypoints_binary_validity, dim=2))
        )
        return loss / max(1, torch.sum(keypoints_binary_validity).item())


def calc_gradient_norm(named_parameters):
    total_norm = 0.0
    for name, p in named_parameters:
        param_norm = p.grad.data.norm(2)
        total_norm += param_norm.item() ** 2
    return total_norm ** (1.0 / 2)


class AlgebraicNet(nn.Module):
    def __init__(self, joints):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1), nn.ReLU(), nn.Conv2d(6, joints, 3, padding=1))
        self.confidences = nn.Linear(joints, joints)

    def forward(self, images, proj_matricies, batch):
        batch_size, n_views = images.shape[:2]
        heatmaps = self.backbone(images.view(-1, *images.shape[2:]))
        confidences = self.confidences(heatmaps.mean((2, 3))).sigmoid() + 1e-5
        h, w = heatmaps.shape[2:]
        probabilities = heatmaps.flatten(2).softmax(2).view_as(heatmaps)
        x = (probabilities.sum(2) * torch.arange(w)).sum(2)
        y = (probabilities.sum(3) * torch.arange(h)).sum(2)
        keypoints_2d = torch.stack((x, y), 2).view(batch_size, n_views, -1, 2)
        confidences = confidences.view(batch_size, n_views, -1)
        rows = (
            torch.cat(
                (
                    keypoints_2d[..., :1] * proj_matricies[:, :, None, 2] - proj_matricies[:, :, None, 0],
                    keypoints_2d[..., 1:] * proj_matricies[:, :, None, 2] - proj_matricies[:, :, None, 1],
                ),
                1,
            )
            * torch.cat((confidences, confidences), 1)[..., None]
        )
        a, b = rows[..., :3].transpose(1, 2), -rows[..., 3:].transpose(1, 2)
        gram = a.transpose(-1, -2) @ a + 1e-2 * torch.eye(3)
        keypoints_3d = torch.linalg.solve(gram, a.transpose(-1, -2) @ b)[..., 0]
        return keypoints_3d, keypoints_2d, heatmaps, confidences


def steps():
    config = Config(
        kind="human36m",
        model=Config(name="alg"),
        opt=Config(criterion="MSESmooth", lr=1e-3, grad_clip=1.0, scale_keypoints_3d=0.1),
    )
    model = seeded(AlgebraicNet(4))
    criterion, l2_loss = KeypointsMSESmoothLoss(0.5), KeypointsL2Loss()
    opt = torch.optim.Adam(model.parameters(), lr=config.opt.lr)
    metric_dict = defaultdict(list)
    clock = {"end": time.time()}

    def iteration(batch):
        with autograd.detect_anomaly():
            data_time = time.time() - clock["end"]
            images_batch, keypoints_3d_gt, keypoints_3d_validity_gt, proj_matricies_batch = batch
            keypoints_3d_pred, keypoints_2d_pred, heatmaps_pred, confidences_pred = model(
                images_batch, proj_matricies_batch, batch
            )
            n_views = images_batch.shape[1]
            keypoints_3d_binary_validity_gt = (keypoints_3d_validity_gt > 0.0).type(torch.float32)
            scale_keypoints_3d = (
                config.opt.scale_keypoints_3d if hasattr(config.opt, "scale_keypoints_3d") else 1.0
            )
            if n_views == 1:
                raise NotImplementedError
            total_loss = 0.0
            loss = criterion(
                keypoints_3d_pred * scale_keypoints_3d,
                keypoints_3d_gt * scale_keypoints_3d,
                keypoints_3d_binary_validity_gt,
            )
            total_loss += loss
            metric_dict[f"{config.opt.criterion}"].append(loss.item())
            use_volumetric_ce_loss = (
                config.opt.use_volumetric_ce_loss if hasattr(config.opt, "use_volumetric_ce_loss") else False
            )
            assert not use_volumetric_ce_loss
            metric_dict["total_loss"].append(total_loss.item())
            opt.zero_grad()
            total_loss.backward()
            if hasattr(config.opt, "grad_clip"):
                torch.nn.utils.clip_grad_norm_(model.parameters(), config.opt.grad_clip / config.opt.lr)
            metric_dict["grad_norm_times_lr"].append(
                config.opt.lr
                * calc_gradient_norm(filter(lambda x: x[1].requires_grad, model.named_parameters()))
            )
            opt.step()
            l2 = l2_loss(
                keypoints_3d_pred * scale_keypoints_3d,
                keypoints_3d_gt * scale_keypoints_3d,
                keypoints_3d_binary_validity_gt,
            )
            metric_dict["l2"].append(l2.item())
            metric_dict["data_time"].append(data_time)
            clock["end"] = time.time()
            return total_loss

    def batch(i):
        arrays = (
            normal(2, 3, 3, 8, 8, seed=i),
            normal(2, 4, 3, seed=i + 1),
            (integers(4, 2, 4, 1, seed=i) > 0).astype("f4"),
            normal(2, 3, 3, 4, seed=i + 2),
        )
        return (tuple(map(torch.from_numpy, arrays)),)

    return iteration, batch
