"""A loss of pixels under clouds and land cover: masks of two kinds, a mean over what is left, a distribution's scale."""

import torch
import torch.distributions as distrib
import torch.nn.functional as F
from programs.common import integers, seeded, uniform
from torch import nn


def make_normal_from_raw_params(raw_params, scale_stddev=1, dim=-1, eps=1e-8):
    loc, raw_scale = torch.chunk(raw_params, 2, dim)
    assert loc.shape[dim] == raw_scale.shape[dim]
    scale = F.softplus(raw_scale) + eps
    return distrib.Normal(loc, scale * scale_stddev)


class MaskedPixelwiseLoss(nn.Module):
    def __init__(
        self,
        lc_min=None,
        lc_max=None,
        context_length=None,
        target_length=None,
        ndvi_pred_idx=0,
        ndvi_targ_idx=0,
        setting=None,
        **kwargs,
    ):
        super().__init__()
        self.lc_min = lc_min if lc_min else None
        self.lc_max = lc_max if lc_max else None
        self.use_lc = lc_min & lc_max
        self.context_length = context_length
        self.target_length = target_length
        self.ndvi_pred_idx = ndvi_pred_idx
        self.ndvi_targ_idx = ndvi_targ_idx
        self.setting = setting

    def forward(self, preds, batch, aux, current_step=None):
        logs = {}
        targets = batch["dynamic"][0][
            :, self.context_length : self.context_length + self.target_length, 0, ...
        ].unsqueeze(2)
        if len(batch["dynamic_mask"]) > 0:
            s2_mask = (
                (
                    batch["dynamic_mask"][0][
                        :,
                        self.context_length : self.context_length + self.target_length,
                        self.ndvi_targ_idx,
                        ...,
                    ].unsqueeze(2)
                    < 1.0
                )
                .bool()
                .type_as(preds)
            )
        lc = batch["landcover"]
        if self.setting == "en23":
            lc_bool = (lc <= self.lc_min).bool() | (lc >= self.lc_max).bool()
        else:
            lc_bool = (lc >= self.lc_min).bool() & (lc <= self.lc_max).bool()
        lc_mask = lc_bool.type_as(s2_mask).unsqueeze(1).repeat(1, preds.shape[1], 1, 1, 1)
        mask = s2_mask * lc_mask
        sum_squared_error = torch.pow((preds - targets) * mask, 2).sum()
        n_obs = mask.sum()
        loss = sum_squared_error / (n_obs + 1e-8)
        logs["loss"] = loss
        return loss, logs


def steps():
    net = seeded(
        nn.Sequential(nn.Conv3d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv3d(4, 2, (1, 3, 3), padding=(0, 1, 1)))
    )
    criterion = MaskedPixelwiseLoss(lc_min=80, lc_max=111, context_length=3, target_length=2, setting="en21")
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)

    def train(batch):
        context = batch["dynamic"][0][:, :3].transpose(1, 2)
        raw = net(context)[:, :, -2:].transpose(1, 2)
        predicted = make_normal_from_raw_params(raw, dim=2)
        loss, logs = criterion(predicted.mean, batch, {})
        loss = loss + 1e-3 * predicted.scale.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def batch(i):
        images, clouds = uniform(2, 5, 1, 5, 5, seed=i), integers(3, 2, 5, 1, 5, 5, seed=i)
        return (
            {
                "dynamic": [torch.from_numpy(images)],
                "dynamic_mask": [torch.from_numpy(clouds.astype("f4"))],
                "landcover": torch.from_numpy(integers(40, 2, 1, 5, 5, seed=i) + 75),
            },
        )

    return train, batch
