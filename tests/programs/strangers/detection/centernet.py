"""CenterNet: a focal loss of heat maps, offsets gathered at indices, a trainer of many methods, a warm-up."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, normal, seeded, uniform


def move_to_device(data, device):
    if isinstance(data, torch.Tensor):
        return data.to(device)
    if isinstance(data, (list, tuple)):
        return [move_to_device(d, device) for d in data]
    if isinstance(data, dict):
        return {k: move_to_device(v, device) for k, v in data.items()}
    raise ValueError(type(data))


class RegL1Loss:
    def __call__(self, y_true, y_pred, mask, index):
        y_pred = torch.permute(y_pred, dims=(0, 2, 3, 1)).reshape(y_pred.size(0), -1, y_pred.size(1))
        index = torch.unsqueeze(index, dim=-1).repeat(1, 1, y_pred.size(-1))
        y_pred = torch.gather(y_pred, dim=1, index=index)
        mask = torch.unsqueeze(mask, dim=-1).repeat(1, 1, y_pred.size(-1))
        loss = F.l1_loss(y_pred * mask, y_true * mask, reduction="sum")
        return loss / (torch.sum(mask) + 1e-4)


class CombinedLoss:
    def __init__(self, hm_weight, off_weight, wh_weight):
        self.weights = hm_weight, off_weight, wh_weight
        self.reg = RegL1Loss()

    @staticmethod
    def focal_loss(y_pred, y_true):
        pos_mask = torch.eq(y_true, 1).float()
        neg_mask = torch.lt(y_true, 1).float()
        neg_weights = torch.pow(1.0 - y_true, 4)
        y_pred = torch.clamp(y_pred, 1e-6, 1.0 - 1e-6)
        pos_loss = (torch.log(y_pred) * torch.pow(1.0 - y_pred, 2) * pos_mask).sum()
        neg_loss = (torch.log(1 - y_pred) * torch.pow(y_pred, 2) * neg_weights * neg_mask).sum()
        num_pos = pos_mask.sum()
        loss = 0
        if num_pos == 0:
            loss = loss - neg_loss
        else:
            loss = loss - (pos_loss + neg_loss) / num_pos
        return loss

    def __call__(self, y_pred, y_true):
        heatmap_true, reg_true, wh_true, reg_mask, indices = y_true
        heatmap, reg, wh = torch.split(y_pred, [y_pred.size(1) - 4, 2, 2], dim=1)
        heatmap = torch.sigmoid(heatmap)
        total = self.weights[0] * self.focal_loss(heatmap, heatmap_true)
        total += self.weights[1] * self.reg(reg_true, reg, reg_mask, indices)
        total += self.weights[2] * self.reg(wh_true, wh, reg_mask, indices)
        return total


class CenterNetTrainer:
    def __init__(self):
        self.device = torch.device("cpu")
        self.mixed_precision = False
        self.model = seeded(nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2 + 4, 1)))
        self.set_optimizer()
        self.set_lr_scheduler()
        self.criterion = CombinedLoss(1.0, 1.0, 0.1)

    def set_optimizer(self):
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def set_lr_scheduler(self):
        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda epoch: (epoch + 1) / 5 if epoch < 5 else 0.1 ** (epoch // 30)
        )

    def train_loop(self, batch_data, scaler):
        images = move_to_device(batch_data[0], self.device)
        targets = move_to_device(batch_data[1], self.device)
        self.optimizer.zero_grad()
        if self.mixed_precision:
            with torch.autocast("cpu"):
                preds = self.model(images)
                loss = self.criterion(preds, targets)
            scaler.scale(loss).backward()
            scaler.step(self.optimizer)
            scaler.update()
        else:
            preds = self.model(images)
            loss = self.criterion(preds, targets)
            loss.backward()
            self.optimizer.step()
        return [loss]


def steps():
    trainer = CenterNetTrainer()

    def train(batch_data):
        (loss,) = trainer.train_loop(batch_data, None)
        return loss

    def batch(i):
        heat = uniform(2, 2, 8, 8, seed=i) * 0.9
        heat[0, 0, 2, 3] = heat[1, 1, 5, 1] = 1
        targets = [heat, uniform(2, 3, 2, seed=i), uniform(2, 3, 2, seed=i + 1), (uniform(2, 3, seed=i) > 0.4).astype("f4"),
                   integers(64, 2, 3, seed=i)]  # fmt: skip
        return ([torch.from_numpy(normal(2, 3, 8, 8, seed=i)), [torch.from_numpy(t) for t in targets]],)

    return train, batch
