"""Activities in videos: proposals of four losses, a running loss, the time, a line every so many steps."""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, normal, seeded, uniform


def smooth_l1_loss(bbox_pred, bbox_targets, inside_weights, outside_weights, sigma=1.0, dim=(1,)):
    sigma_2 = sigma**2
    in_box_diff = inside_weights * (bbox_pred - bbox_targets)
    abs_in_box_diff = torch.abs(in_box_diff)
    sign = (abs_in_box_diff < 1.0 / sigma_2).detach().float()
    in_loss_box = torch.pow(in_box_diff, 2) * (sigma_2 / 2.0) * sign + (abs_in_box_diff - (0.5 / sigma_2)) * (
        1.0 - sign
    )
    loss_box = outside_weights * in_loss_box
    for i in sorted(dim, reverse=True):
        loss_box = loss_box.sum(i)
    return loss_box.mean()


class TDCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Sequential(
            nn.Conv3d(2, 6, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool3d((1, 2, 2))
        )
        self.rpn_cls, self.rpn_twin = nn.Conv1d(6, 4, 1), nn.Conv1d(6, 4, 1)
        self.fc = nn.Linear(6, 8)
        self.cls, self.twin = nn.Linear(8, 3), nn.Linear(8, 6)

    def forward(self, video, gt_twins, rpn_label, rois_label):
        batch_size = video.size(0)
        base_feat = self.base(video).mean((3, 4))
        score = self.rpn_cls(base_feat).view(batch_size, 2, -1)
        keep = rpn_label.view(-1).ne(-1).nonzero().view(-1)
        rpn_score = torch.index_select(score.permute(0, 2, 1).contiguous().view(-1, 2), 0, keep)
        label = torch.index_select(rpn_label.view(-1), 0, keep)
        rpn_loss_cls = F.cross_entropy(rpn_score, label)
        twin = self.rpn_twin(base_feat).view(batch_size, 2, -1).permute(0, 2, 1)
        weights = (rpn_label == 1).float().view(batch_size, -1, 1)
        rpn_loss_twin = smooth_l1_loss(
            twin, gt_twins[:, : twin.size(1)], weights, weights, sigma=3, dim=[1, 2]
        )
        pooled = F.relu(self.fc(base_feat.permute(0, 2, 1).reshape(-1, 6)))
        cls_score, twin_pred = self.cls(pooled), self.twin(pooled)
        twin_view = twin_pred.view(twin_pred.size(0), twin_pred.size(1) // 2, 2)
        select = torch.gather(twin_view, 1, rois_label.long().view(-1, 1, 1).expand(-1, 1, 2)).squeeze(1)
        loss_cls = F.cross_entropy(cls_score, rois_label)
        loss_twin = smooth_l1_loss(select, gt_twins[:, :4].reshape(-1, 2), 1.0, 1.0)
        return F.softmax(cls_score, 1), rpn_loss_cls, rpn_loss_twin, loss_cls, loss_twin


def steps():
    model = seeded(TDCNN())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    state = {"loss_temp": 0.0, "start": time.time()}

    def train(step, video_data, gt_twins, rpn_label, rois_label):
        model.train()
        model.zero_grad()
        prob, rpn_loss_cls, rpn_loss_twin, loss_cls, loss_twin = model(
            video_data, gt_twins, rpn_label, rois_label
        )
        loss = rpn_loss_cls.mean() + rpn_loss_twin.mean() + loss_cls.mean() + loss_twin.mean()
        state["loss_temp"] += loss.item()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            end = time.time()
            if step > 0:
                state["loss_temp"] /= 100
            fg_cnt = torch.sum(rois_label.data.ne(0))
            bg_cnt = rois_label.data.numel() - fg_cnt
            print("[iter %4d] loss: %.4f fg/bg=(%d/%d)" % (step + 1, state["loss_temp"], fg_cnt, bg_cnt))
            state["loss_temp"] = 0
            state["start"] = end
        return loss

    return train, lambda i: (
        i + 1,
        torch.from_numpy(normal(2, 2, 4, 6, 6, seed=i)),
        torch.from_numpy(uniform(2, 8, 2, seed=i)),
        torch.from_numpy(integers(3, 2, 8, seed=i) - 1),
        torch.from_numpy(integers(3, 8, seed=i)),
    )
