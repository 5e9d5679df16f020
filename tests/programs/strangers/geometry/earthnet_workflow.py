"""A training step of a Lightning module: schedules by name, a dict that gets the step's number, logs to a logger."""

import torch
import torch.nn.functional as F
from programs.common import integers, seeded, uniform
from torch import nn


class MaskedLoss(nn.Module):
    def __init__(self, distance_type="L2", rescale=False):
        super().__init__()
        self.distance_type = distance_type

    def forward(self, preds, targets, mask):
        assert preds.shape == targets.shape
        predsmasked = preds * mask
        targetsmasked = targets * mask
        if self.distance_type == "L2":
            return F.mse_loss(predsmasked, targetsmasked, reduction="sum") / ((mask > 0).sum() + 1)
        elif self.distance_type == "L1":
            return F.l1_loss(predsmasked, targetsmasked, reduction="sum") / ((mask > 0).sum() + 1)


LOSSES = {"masked": MaskedLoss}


class PixelwiseLoss(nn.Module):
    def __init__(self, setting: dict):
        super().__init__()
        self.distance = LOSSES[setting["name"]](**setting["args"])
        self.lc_min = 82 if "lc_min" not in setting else setting["lc_min"]
        self.lc_max = 104 if "lc_max" not in setting else setting["lc_max"]

    def forward(self, preds, batch, aux, current_step=None):
        logs = {}
        targs = batch["dynamic"][0][:, -preds.shape[1] :, ...]
        lc = batch["landcover"]
        masks = (
            ((lc >= self.lc_min).bool() & (lc <= self.lc_max).bool())
            .type_as(preds)
            .unsqueeze(1)
            .repeat(1, preds.shape[1], 1, 1, 1)
        )
        masks = torch.where(masks.bool(), (preds >= 0).type_as(masks), masks)
        dist = self.distance(preds, targs, masks)
        logs["distance"] = dist
        loss = dist
        logs["loss"] = loss
        return loss, logs


class ConvModel(nn.Module):
    def __init__(self, length=2):
        super().__init__()
        self.length = length
        self.cell, self.out = nn.Conv2d(1 + 4, 4, 3, padding=1), nn.Conv2d(4, 1, 1)

    def forward(self, data, pred_start=0, preds_length=None, sampling=1.0):
        images = data["dynamic"][0]
        state = images.new_zeros(images.shape[0], 4, *images.shape[-2:])
        preds, frame = [], images[:, 0]
        for t in range(images.shape[1]):
            state = torch.tanh(self.cell(torch.cat((frame, state), 1)))
            pred = self.out(state)
            if t + 1 < images.shape[1] - self.length:
                frame = images[:, t + 1]
            else:
                frame = sampling * images[:, min(t + 1, images.shape[1] - 1)] + (1 - sampling) * pred
                preds.append(pred)
        return torch.stack(preds, 1)[:, -self.length :], {"state": state}


class Trainer:
    def __init__(self):
        self.logged_metrics, self.global_step = {}, 0

    def log(self, name, value):
        self.logged_metrics[name] = value.detach() if isinstance(value, torch.Tensor) else value


class SpatioTemporalTask(nn.Module):
    def __init__(self, hparams):
        super().__init__()
        self.hparams, self.trainer = hparams, Trainer()
        self.model = ConvModel()
        self.loss = PixelwiseLoss(hparams["loss"])
        self.shedulers = []
        for shedule in hparams["shedulers"]:
            self.shedulers.append(
                (shedule["call_name"], lambda step, decay=shedule["decay"]: (max(0.0, 1.0 - decay * step),))
            )

    @property
    def global_step(self):
        return self.trainer.global_step

    def forward(self, data, pred_start: int = 0, preds_length=None, kwargs={}):
        data["global_step"] = self.global_step
        return self.model(data, pred_start=pred_start, preds_length=preds_length, **kwargs)

    def log_dict(self, logs):
        for name, value in logs.items():
            self.trainer.log(name, value)

    def configure_optimizers(self):
        return [
            getattr(torch.optim, o["name"])(self.parameters(), **o["args"])
            for o in self.hparams["optimization"]["optimizer"]
        ]

    def training_step(self, batch, batch_idx):
        kwargs = {}
        for shedule_name, shedule in self.shedulers:
            kwargs[shedule_name] = shedule(self.global_step)
        preds, aux = self(batch, kwargs={name: value[0] for name, value in kwargs.items()})
        loss, logs = self.loss(preds, batch, aux, current_step=self.global_step)
        for shedule_name in kwargs:
            if len(kwargs[shedule_name]) > 1:
                for i, shed_val in enumerate(kwargs[shedule_name]):
                    logs[f"{shedule_name}_i"] = shed_val
            else:
                logs[shedule_name] = kwargs[shedule_name]
        logs["batch_size"] = torch.tensor(self.hparams["train_batch_size"], dtype=torch.float32)
        self.log_dict(logs)
        return loss


def steps():
    task = SpatioTemporalTask(
        {
            "loss": {"name": "masked", "args": {"distance_type": "L1"}},
            "shedulers": [{"call_name": "sampling", "decay": 0.01}],
            "optimization": {"optimizer": [{"name": "Adam", "args": {"lr": 1e-3, "betas": (0.9, 0.999)}}]},
            "train_batch_size": 2,
        }
    )
    seeded(task)
    (optimizer,) = task.configure_optimizers()

    def train(batch, batch_idx):
        optimizer.zero_grad()
        loss = task.training_step(batch, batch_idx)
        loss.backward()
        optimizer.step()
        task.trainer.global_step += 1
        return loss

    def batch(i):
        images, cover = uniform(2, 4, 1, 5, 5, seed=i), integers(40, 2, 1, 5, 5, seed=i) + 75
        return {"dynamic": [torch.from_numpy(images)], "landcover": torch.from_numpy(cover)}, i

    return train, batch
