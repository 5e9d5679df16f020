"""Super-resolution by pixels: a batch as a dict, a scaler that is off, an averaged model, meters of time and loss."""

import time

import torch
from programs.common import normal, seeded
from torch import nn, optim
from torch.amp import GradScaler
from torch.optim.swa_utils import AveragedModel


class AverageMeter:
    def __init__(self, name, fmt=":f"):
        self.name, self.fmt = name, fmt
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self):
        fmtstr = "{name} {val" + self.fmt + "} ({avg" + self.fmt + "})"
        return fmtstr.format(**self.__dict__)


class ProgressMeter:
    def __init__(self, num_batches, meters, prefix=""):
        num_digits = len(str(num_batches // 1))
        fmt = "{:" + str(num_digits) + "d}"
        self.batch_fmtstr = "[" + fmt + "/" + fmt.format(num_batches) + "]"
        self.meters, self.prefix = meters, prefix

    def display(self, batch):
        entries = [self.prefix + self.batch_fmtstr.format(batch)]
        entries += [str(meter) for meter in self.meters]
        print("\t".join(entries))


class ResidualConvBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.rcb = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.PReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x):
        identity = x
        x = self.rcb(x)
        return torch.add(x, identity)


class SRResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.PReLU())
        self.trunk = nn.Sequential(*(ResidualConvBlock(6) for _ in range(2)))
        self.upsampling = nn.Sequential(nn.Conv2d(6, 24, 3, padding=1), nn.PixelShuffle(2), nn.PReLU())
        self.conv3 = nn.Conv2d(6, 3, 3, padding=1)

    def forward(self, x):
        return self._forward_impl(x)

    def _forward_impl(self, x):
        conv1 = self.conv1(x)
        x = torch.add(conv1, self.trunk(conv1))
        x = self.conv3(self.upsampling(x))
        return torch.clamp_(x, 0.0, 1.0)


def steps():
    config = {
        "TRAIN": {"PRINT_FREQ": 4, "LOSSES": {"PIXEL_LOSS": {"WEIGHT": [1.0]}}},
        "MODEL": {"EMA": {"ENABLE": True}},
    }
    g_model = seeded(SRResNet())
    ema_g_model = AveragedModel(
        g_model, avg_fn=lambda mean, now, count: (1 - 0.01) * mean + 0.01 * now, use_buffers=True
    )
    pixel_criterion = nn.MSELoss()
    optimizer = optim.Adam(g_model.parameters(), lr=1e-3)
    scaler = GradScaler(enabled=False)
    batch_time, losses = AverageMeter("Time", ":6.3f"), AverageMeter("Loss", ":6.6f")
    progress = ProgressMeter(40, [losses], prefix="Epoch: [1]")
    g_model.train()
    loss_weight = torch.Tensor(config["TRAIN"]["LOSSES"]["PIXEL_LOSS"]["WEIGHT"])
    clock = {"end": time.time()}

    def train(batch_index, batch_data):
        gt = batch_data["gt"].to("cpu", non_blocking=True)
        lr = batch_data["lr"].to("cpu", non_blocking=True)
        g_model.zero_grad(set_to_none=True)
        with torch.autocast("cpu", enabled=False):
            sr = g_model(lr)
            pixel_loss = pixel_criterion(sr, gt)
            pixel_loss = torch.sum(torch.mul(loss_weight, pixel_loss))
        scaler.scale(pixel_loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if config["MODEL"]["EMA"]["ENABLE"]:
            ema_g_model.update_parameters(g_model)
        losses.update(pixel_loss.item(), lr.size(0))
        batch_time.update(time.time() - clock["end"])
        clock["end"] = time.time()
        if batch_index % config["TRAIN"]["PRINT_FREQ"] == 0:
            progress.display(batch_index)
        return pixel_loss

    return train, lambda i: (
        i,
        {
            "gt": torch.from_numpy(normal(2, 3, 8, 8, seed=i)),
            "lr": torch.from_numpy(normal(2, 3, 4, 4, seed=i + 1)),
        },
    )
