"""A U-Net that segments: bilinear upsampling, a Dice loss beside cross entropy."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import normal, seeded, uniform


class DoubleConv(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1, bias=False),
            nn.InstanceNorm2d(out_channels, affine=True),
            nn.ReLU(inplace=True),
            nn.Conv2d(out_channels, out_channels, kernel_size=3, padding=1, bias=False),
            nn.InstanceNorm2d(out_channels, affine=True),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.double_conv(x)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inc, self.down = DoubleConv(1, 4), DoubleConv(4, 8)
        self.up, self.outc = DoubleConv(12, 4), nn.Conv2d(4, 1, 1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down(F.max_pool2d(x1, 2))
        x2 = F.interpolate(x2, scale_factor=2, mode="bilinear", align_corners=True)
        diffY, diffX = x1.size()[2] - x2.size()[2], x1.size()[3] - x2.size()[3]
        x2 = F.pad(x2, [diffX // 2, diffX - diffX // 2, diffY // 2, diffY - diffY // 2])
        return self.outc(self.up(torch.cat([x1, x2], dim=1)))


def dice_loss(input, target, epsilon=1e-6):
    inter = 2 * (input * target).sum(dim=(-1, -2))
    sets_sum = input.sum(dim=(-1, -2)) + target.sum(dim=(-1, -2))
    sets_sum = torch.where(sets_sum == 0, inter, sets_sum)
    return 1 - ((inter + epsilon) / (sets_sum + epsilon)).mean()


def steps():
    model = seeded(UNet())
    optimizer = torch.optim.RMSprop(
        model.parameters(), lr=1e-3, weight_decay=1e-8, momentum=0.9, foreach=True
    )
    criterion = nn.BCEWithLogitsLoss()

    def train(images, true_masks):
        masks_pred = model(images)
        loss = criterion(masks_pred.squeeze(1), true_masks.float())
        loss += dice_loss(torch.sigmoid(masks_pred.squeeze(1)), true_masks.float())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(2, 1, 9, 9, seed=i)),
        torch.from_numpy((uniform(2, 9, 9, seed=i) > 0.5).astype("i8")),
    )
