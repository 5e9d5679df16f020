"""SSD: anchors' losses with the hardest negatives found by sorting twice, and a write through a mask."""

import torch
import torch.nn.functional as F
from programs.common import integers, normal, seeded, uniform
from torch import nn


class MultiBoxLoss:
    def __init__(self, anchors, variance, negpos_ratio):
        self.default_boxes = torch.from_numpy(anchors)
        self.default_boxes.requires_grad = False
        self.default_boxes = self.default_boxes.unsqueeze(dim=0)
        self.negpos_ratio = negpos_ratio
        self.scale_xy = 1.0 / variance[0]
        self.scale_wh = 1.0 / variance[1]

    def _location_vec(self, loc):
        g_cxcy = self.scale_xy * (loc[..., :2] - self.default_boxes[..., :2]) / self.default_boxes[..., 2:]
        g_wh = self.scale_wh * torch.log(loc[..., 2:] / self.default_boxes[..., 2:])
        return torch.cat(tensors=(g_cxcy, g_wh), dim=-1)

    def __call__(self, y_true, y_pred):
        ploc, plabel = y_pred
        gloc = y_true[..., :-1]
        glabel = y_true[..., -1].long()
        mask = glabel > 0
        pos_num = mask.sum(dim=1)
        vec_gd = self._location_vec(gloc)
        loc_loss = F.smooth_l1_loss(ploc, vec_gd, reduction="none").sum(dim=-1)
        loc_loss = (mask.float() * loc_loss).sum(dim=1)
        con = F.cross_entropy(torch.permute(plabel, dims=(0, 2, 1)), glabel, reduction="none")
        con_neg = con.clone()
        con_neg[mask] = torch.tensor(0.0)
        _, con_idx = con_neg.sort(1, descending=True)
        _, con_rank = con_idx.sort(1)
        neg_num = torch.clamp(self.negpos_ratio * pos_num, max=mask.size(1)).unsqueeze(-1)
        neg_mask = con_rank < neg_num
        con_loss = (con * (mask.float() + neg_mask.float())).sum(1)
        total_loss = loc_loss + con_loss
        num_mask = (pos_num > 0).float()
        pos_num = pos_num.float().clamp(min=1e-6)
        total_loss = (total_loss * num_mask / pos_num).mean(dim=0)
        loss_l = (loc_loss * num_mask / pos_num).mean(dim=0)
        loss_c = (con_loss * num_mask / pos_num).mean(dim=0)
        return total_loss, loss_l, loss_c


class SSD(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.ReLU(inplace=True))
        self.locs = nn.ModuleList([nn.Conv2d(8, 4 * 2, 3, padding=1)])
        self.confs = nn.ModuleList([nn.Conv2d(8, 3 * 2, 3, padding=1)])

    def forward(self, x):
        x = self.base(x)
        loc, conf = [], []
        for l, c in zip(self.locs, self.confs):
            loc.append(l(x).permute(0, 2, 3, 1).contiguous())
            conf.append(c(x).permute(0, 2, 3, 1).contiguous())
        loc = torch.cat([o.view(o.size(0), -1) for o in loc], 1)
        conf = torch.cat([o.view(o.size(0), -1) for o in conf], 1)
        return loc.view(loc.size(0), -1, 4), conf.view(conf.size(0), -1, 3)


def steps():
    model = seeded(SSD())
    criterion = MultiBoxLoss(uniform(32, 4, seed=5) + 0.1, [0.1, 0.2], 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def train(images, targets):
        optimizer.zero_grad()
        preds = model(images)
        loss, l_loss, c_loss = criterion(y_true=targets, y_pred=preds)
        loss.backward()
        optimizer.step()
        return loss, l_loss, c_loss

    def batch(i):
        boxes, labels = uniform(3, 32, 4, seed=i) + 0.1, integers(16, 3, 32, seed=i)
        labels = (labels * (labels < 3))[..., None].astype("f4")
        return torch.from_numpy(normal(3, 3, 8, 8, seed=i)), torch.cat(
            [torch.from_numpy(boxes), torch.from_numpy(labels)], -1
        )

    return train, batch
