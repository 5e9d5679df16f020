"""YOLO: targets written at indices, losses of masked elements, sparse norms, gradients gathered over steps."""

import torch
import torch.nn as nn
from programs.common import integers, normal, seeded, uniform


def bbox_wh_iou(wh1, wh2):
    wh2 = wh2.t()
    w1, h1 = wh1[0], wh1[1]
    w2, h2 = wh2[0], wh2[1]
    inter_area = torch.min(w1, w2) * torch.min(h1, h2)
    union_area = (w1 * h1 + 1e-16) + w2 * h2 - inter_area
    return inter_area / union_area


def build_targets(pred_boxes, pred_cls, target, anchors, ignore_thres):
    batch_size, number_anchor, number_grid = pred_boxes.size(0), pred_boxes.size(1), pred_boxes.size(2)
    number_classes = pred_cls.size(-1)
    shape = (batch_size, number_anchor, number_grid, number_grid)
    object_mask = torch.BoolTensor(*shape).fill_(0)
    noobject_mask = torch.BoolTensor(*shape).fill_(1)
    target_x = torch.FloatTensor(*shape).fill_(0)
    target_w = torch.FloatTensor(*shape).fill_(0)
    target_cls = torch.FloatTensor(*shape, number_classes).fill_(0)
    target_bboxes = target[:, 2:6] * number_grid
    ground_xy, ground_wh = target_bboxes[:, :2], target_bboxes[:, 2:]
    ious = torch.stack([bbox_wh_iou(anchor, ground_wh) for anchor in anchors])
    best_ious, best_n = ious.max(0)
    sample_index, target_labels = target[:, :2].long().t()
    ground_x, ground_y = ground_xy.t()
    ground_w, ground_h = ground_wh.t()
    ground_i, ground_j = ground_xy.long().t()
    object_mask[sample_index, best_n, ground_j, ground_i] = 1
    noobject_mask[sample_index, best_n, ground_j, ground_i] = 0
    for index, anchor_ious in enumerate(ious.t()):
        noobject_mask[sample_index[index], anchor_ious > ignore_thres, ground_j[index], ground_i[index]] = 0
    target_x[sample_index, best_n, ground_j, ground_i] = ground_x - ground_x.floor()
    target_w[sample_index, best_n, ground_j, ground_i] = torch.log(ground_w / anchors[best_n][:, 0] + 1e-16)
    target_cls[sample_index, best_n, ground_j, ground_i, target_labels] = 1
    return object_mask, noobject_mask, target_x, target_w, target_cls, object_mask.float()


class YOLOLoss(nn.Module):
    def __init__(self):
        super(YOLOLoss, self).__init__()
        self.mse_loss = nn.MSELoss(reduction="none")
        self.bce_loss = nn.BCEWithLogitsLoss(reduction="none")
        self.metric = []

    def forward(self, predicts, targets):
        loss = 0
        for predict in predicts:
            x, w, conf, cls, anchors = predict
            boxes = torch.stack([x, w], -1).detach()
            obj, noobj, tx, tw, tcls, tconf = build_targets(boxes, cls, targets, anchors, 0.5)
            loss_x = self.mse_loss(torch.sigmoid(x)[obj], tx[obj]).mean()
            loss_w = self.mse_loss(w[obj], tw[obj]).mean()
            loss_conf = (
                self.bce_loss(conf[obj], tconf[obj]).mean()
                + 2 * self.bce_loss(conf[noobj], tconf[noobj]).mean()
            )
            loss_cls = self.bce_loss(cls[obj], tcls[obj]).mean()
            loss += loss_x + loss_w + loss_conf + loss_cls
        return loss


class Darknet(nn.Module):
    def __init__(self):
        super().__init__()
        self.module_list = nn.ModuleList(
            [
                nn.Sequential(
                    nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.LeakyReLU(0.1)
                ),
                nn.Conv2d(8, 2 * 6, 1),
            ]
        )
        self.anchors = torch.tensor([[1.0, 2.0], [3.0, 1.5]])

    def forward(self, x):
        for module in self.module_list:
            x = module(x)
        p = x.view(x.size(0), 2, 6, x.size(2), x.size(3)).permute(0, 1, 3, 4, 2).contiguous()
        return [(p[..., 0], p[..., 1], p[..., 2], p[..., 3:], self.anchors)]


class SparsityTrain:
    def __init__(self, s):
        self.s = s

    def update_bn(self, module_list):
        for module in module_list:
            if isinstance(module, nn.Sequential) and isinstance(module[1], nn.BatchNorm2d):
                module[1].weight.grad.data.add_(self.s * torch.sign(module[1].weight.data))


class Solver:
    def __init__(self, config):
        self.config = config
        self.model = seeded(Darknet())
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.criterion = YOLOLoss()
        self.sparsity_train = SparsityTrain(0.01)

    def train_batch(self, iterations, images, targets):
        predicts = self.model(images)
        loss = self.criterion(predicts, targets)
        self.__update_parameter__(loss, iterations)
        return loss

    def __update_parameter__(self, loss, iterations):
        loss.backward()
        if self.sparsity_train is not None:
            self.sparsity_train.update_bn(self.model.module_list)
        if self.config["gradient_accumulation"] is not None:
            if iterations % self.config["gradient_accumulation"] == 0:
                self.optimizer.step()
                self.optimizer.zero_grad()
        else:
            self.optimizer.step()
            self.optimizer.zero_grad()


def steps():
    solver = Solver({"gradient_accumulation": 2})

    def batch(i):
        target = uniform(4, 6, seed=i) * 0.8 + 0.1
        target[:, 0], target[:, 1] = [0, 1, 2, 2], integers(3, 4, seed=i)
        return i, torch.from_numpy(normal(3, 3, 6, 6, seed=i)), torch.from_numpy(target)

    return solver.train_batch, batch
