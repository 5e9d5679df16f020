"""Text spotting: regions chosen by a mask, a CTC loss of these, a dict of losses that is logged."""

import torch
import torch.nn as nn
from programs.common import integers, normal, seeded, uniform


class DetectionLoss(nn.Module):
    def forward(self, y_true_cls, y_pred_cls, y_true_geo, y_pred_geo, training_mask):
        eps = 1e-5
        intersection = torch.sum(y_true_cls * y_pred_cls * training_mask)
        union = torch.sum(y_true_cls * training_mask) + torch.sum(y_pred_cls * training_mask) + eps
        cls_loss = 1.0 - (2 * intersection / union)
        d1_gt, d2_gt, theta_gt = torch.split(y_true_geo, 1, 1)
        d1_pred, d2_pred, theta_pred = torch.split(y_pred_geo, 1, 1)
        w_union = torch.min(d1_gt, d1_pred)
        h_union = torch.min(d2_gt, d2_pred)
        area = w_union * h_union
        loss_aabb = -torch.log((area + 1.0) / (d1_gt * d2_gt + d1_pred * d2_pred - area + 1.0))
        loss_theta = 1 - torch.cos(theta_pred - theta_gt)
        loss_geo = loss_aabb + 20 * loss_theta
        return torch.mean(loss_geo * y_true_cls * training_mask), cls_loss


class FOTSModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU())
        self.score, self.geo = nn.Conv2d(6, 1, 1), nn.Conv2d(6, 3, 1)
        self.recognizer = nn.Linear(6, 7)
        self.detection, self.recognition = DetectionLoss(), nn.CTCLoss(zero_infinity=True)
        self.logged = {}

    def log(self, name, value, on_step=True, logger=True, prog_bar=False):
        self.logged[name] = value.item()

    def forward(self, images, rois):
        shared = self.shared(images)
        preds = self.recognizer(shared.mean(2).permute(0, 2, 1)[rois]).log_softmax(-1).permute(1, 0, 2)
        return {"score_maps": torch.sigmoid(self.score(shared)), "geo_maps": torch.sigmoid(self.geo(shared)) * 4,
                "transcripts": preds}  # fmt: skip

    def training_step(self, input_data):
        rois, labels = input_data["rois"], input_data["labels"]
        if labels.sum() > 0:
            valid_transcripts = input_data["transcripts"][0][labels]
            valid_length = input_data["transcripts"][1][labels]
            valid_rois = rois[labels]
            labels = labels[labels == True]  # noqa: E712
        else:
            valid_transcripts = input_data["transcripts"][0]
            valid_length = input_data["transcripts"][1]
            valid_rois = rois
        output = self.forward(images=input_data["images"], rois=valid_rois)
        preds = output["transcripts"]
        lengths = torch.full((preds.size(1),), preds.size(0), dtype=torch.long)
        recog = self.recognition(preds, valid_transcripts, lengths, valid_length)
        reg, cls = self.detection(
            input_data["score_maps"],
            output["score_maps"],
            input_data["geo_maps"],
            output["geo_maps"],
            input_data["training_masks"],
        )
        loss_dict = dict(reg_loss=reg, cls_loss=cls, recog_loss=recog)
        loss = loss_dict["reg_loss"] + loss_dict["cls_loss"] + loss_dict["recog_loss"]
        self.log("loss", loss, on_step=True, logger=True)
        self.log("reg_loss", loss_dict["reg_loss"], on_step=True, logger=True, prog_bar=True)
        self.log("recog_loss", loss_dict["recog_loss"], on_step=True, logger=True, prog_bar=True)
        return loss


def steps():
    model = seeded(FOTSModel())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def train(input_data):
        loss = model.training_step(input_data)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def batch(i):
        t = torch.from_numpy
        return ({
            "images": t(normal(3, 3, 8, 12, seed=i)),
            "rois": t(integers(3, 5, seed=i)),
            "labels": t(uniform(5, seed=i) > 0.4),
            "transcripts": (t(integers(6, 5, 4, seed=i) + 1), t(integers(3, 5, seed=i) + 1)),
            "score_maps": t((uniform(3, 1, 8, 12, seed=i) > 0.5).astype("f4")),
            "geo_maps": t(uniform(3, 3, 8, 12, seed=i + 1)),
            "training_masks": t((uniform(3, 1, 8, 12, seed=i + 2) > 0.1).astype("f4")),
        },)  # fmt: skip

    return train, batch
