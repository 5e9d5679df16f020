"""Super-resolution by adversaries: weights of losses as tensors, crops and turns at random, a scaler, meters."""

import random
import time
from enum import Enum

import torch
from programs.common import normal, seeded
from torch import nn
from torch.amp import GradScaler
from torch.optim.swa_utils import AveragedModel

CONFIG = {
    "SCALE": 2,
    "TRAIN": {
        "PRINT_FREQ": 100,
        "DATASET": {"GT_IMAGE_SIZE": 8},
        "LOSSES": {
            "PIXEL_LOSS": {"WEIGHT": [1.0]},
            "CONTENT_LOSS": {"WEIGHT": [1.0]},
            "ADVERSARIAL_LOSS": {"WEIGHT": [0.001]},
        },
    },
    "MODEL": {"EMA": {"ENABLE": True}},
}


class Summary(Enum):
    NONE = 0
    AVERAGE = 1


class AverageMeter:
    def __init__(self, name, fmt=":f", summary_type=Summary.AVERAGE):
        self.name, self.fmt, self.summary_type = name, fmt, summary_type
        self.reset()

    def reset(self):
        self.val = 0
        self.avg = 0
        self.sum = 0
        self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count


def random_crop_torch(gt, lr, gt_patch_size, upscale_factor):
    lr_image_height, lr_image_width = lr.shape[-2:]
    lr_patch_size = gt_patch_size // upscale_factor
    lr_top = random.randint(0, lr_image_height - lr_patch_size)
    lr_left = random.randint(0, lr_image_width - lr_patch_size)
    lr = lr[:, :, lr_top : lr_top + lr_patch_size, lr_left : lr_left + lr_patch_size]
    top, left = int(lr_top * upscale_factor), int(lr_left * upscale_factor)
    return gt[:, :, top : top + gt_patch_size, left : left + gt_patch_size], lr


def random_vertically_flip_torch(gt, lr, p=0.5):
    if random.random() > p:
        gt, lr = torch.flip(gt, (-2,)), torch.flip(lr, (-2,))
    return gt, lr


def random_horizontally_flip_torch(gt, lr, p=0.5):
    if random.random() > p:
        gt, lr = torch.flip(gt, (-1,)), torch.flip(lr, (-1,))
    return gt, lr


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.prelu = nn.Conv2d(3, 6, 3, padding=1), nn.PReLU()
        self.trunk = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1), nn.BatchNorm2d(6))
        self.upsample = nn.Sequential(nn.Conv2d(6, 24, 3, padding=1), nn.PixelShuffle(2), nn.PReLU())
        self.conv3 = nn.Conv2d(6, 3, 3, padding=1)

    def forward(self, x):
        conv1 = self.prelu(self.conv1(x))
        x = torch.add(conv1, self.trunk(conv1))
        x = self.conv3(self.upsample(x))
        return torch.clamp_(x, 0.0, 1.0)


class ContentLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU())
        for parameter in self.parameters():
            parameter.requires_grad = False
        self.eval()

    def forward(self, sr, gt):
        assert sr.size() == gt.size(), "Two tensor must have the same size"
        losses = [nn.functional.mse_loss(self.features(sr), self.features(gt))]
        return torch.Tensor([0.0]).add(losses[0])


def steps():
    random.seed(0)
    g_model, content_criterion = seeded(Generator()), seeded(ContentLoss())
    d_model = seeded(
        nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1), nn.LeakyReLU(0.2, True), nn.Flatten(), nn.Linear(96, 1))
    )
    ema_g_model = AveragedModel(g_model, avg_fn=lambda mean, now, count: 0.9 * mean + 0.1 * now)
    pixel_criterion, adversarial_criterion = nn.MSELoss(), nn.BCEWithLogitsLoss()
    g_optimizer = torch.optim.Adam(g_model.parameters(), lr=1e-3)
    d_optimizer = torch.optim.Adam(d_model.parameters(), lr=1e-3)
    scaler = GradScaler(enabled=False)
    losses = CONFIG["TRAIN"]["LOSSES"]
    pixel_weight = torch.Tensor(losses["PIXEL_LOSS"]["WEIGHT"])
    feature_weight = torch.Tensor(losses["CONTENT_LOSS"]["WEIGHT"])
    adversarial_weight = torch.Tensor(losses["ADVERSARIAL_LOSS"]["WEIGHT"])
    batch_time = AverageMeter("Time", ":6.3f", Summary.NONE)
    data_time = AverageMeter("Data", ":6.3f", Summary.NONE)
    g_losses = AverageMeter("G Loss", ":6.6f", Summary.NONE)
    d_losses = AverageMeter("D Loss", ":6.6f", Summary.NONE)
    real_label, fake_label = torch.full([2, 1], 1.0), torch.full([2, 1], 0.0)
    g_model.train()
    d_model.train()
    state = {"end": time.time()}

    def train(batch_index, batch_data):
        gt = batch_data["gt"].to("cpu", non_blocking=True)
        lr = batch_data["lr"].to("cpu", non_blocking=True)
        gt, lr = random_crop_torch(gt, lr, CONFIG["TRAIN"]["DATASET"]["GT_IMAGE_SIZE"], CONFIG["SCALE"])
        gt, lr = random_vertically_flip_torch(gt, lr)
        gt, lr = random_horizontally_flip_torch(gt, lr)
        data_time.update(time.time() - state["end"])
        for d_parameters in d_model.parameters():
            d_parameters.requires_grad = False
        g_model.zero_grad(set_to_none=True)
        with torch.autocast("cpu", enabled=False):
            sr = g_model(lr)
            pixel_loss = pixel_criterion(sr, gt)
            feature_loss = content_criterion(sr, gt)
            adversarial_loss = adversarial_criterion(d_model(sr), real_label)
            pixel_loss = torch.sum(torch.mul(pixel_weight, pixel_loss))
            feature_loss = torch.sum(torch.mul(feature_weight, feature_loss))
            adversarial_loss = torch.sum(torch.mul(adversarial_weight, adversarial_loss))
            g_loss = pixel_loss + feature_loss + adversarial_loss
        scaler.scale(g_loss).backward()
        scaler.step(g_optimizer)
        scaler.update()
        for d_parameters in d_model.parameters():
            d_parameters.requires_grad = True
        d_model.zero_grad(set_to_none=True)
        with torch.autocast("cpu", enabled=False):
            gt_output = d_model(gt)
            d_loss_gt = adversarial_criterion(gt_output, real_label)
        scaler.scale(d_loss_gt).backward()
        with torch.autocast("cpu", enabled=False):
            sr_output = d_model(sr.detach().clone())
            d_loss_sr = adversarial_criterion(sr_output, fake_label)
        scaler.scale(d_loss_sr).backward()
        d_loss = d_loss_gt + d_loss_sr
        scaler.step(d_optimizer)
        scaler.update()
        if CONFIG["MODEL"]["EMA"]["ENABLE"]:
            ema_g_model.update_parameters(g_model)
        d_losses.update(d_loss.item(), 2)
        g_losses.update(g_loss.item(), 2)
        batch_time.update(time.time() - state["end"])
        state["end"] = time.time()
        if batch_index % CONFIG["TRAIN"]["PRINT_FREQ"] == 0:
            print("GT probability", torch.sigmoid_(torch.mean(gt_output.detach())).item())
        return g_loss, d_loss

    def batch(i):
        gt, lr = normal(2, 3, 10, 10, seed=i), normal(2, 3, 5, 5, seed=i + 1)
        return i + 1, {"gt": torch.from_numpy(gt), "lr": torch.from_numpy(lr)}

    return train, batch
