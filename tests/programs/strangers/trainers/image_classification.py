"""A classifier's step with three meters, an F1 score, a writer of scalars and a line every so many steps."""

import torch
import torch.nn as nn
from programs.common import integers, normal, seeded


class MeanMetric:
    def __init__(self):
        self.reset()

    def update(self, value):
        self.total += value
        self.count += 1

    def result(self):
        return self.total / self.count

    def reset(self):
        self.total = 0.0
        self.count = 0


class SummaryWriter:
    def __init__(self):
        self.scalars = []

    def add_scalar(self, tag, scalar_value, global_step):
        self.scalars.append((tag, scalar_value, global_step))


def accuracy(preds, targets, num_batches):
    return torch.eq(torch.argmax(preds, dim=1), targets).sum() / num_batches


def multi_label_f1_score(preds, targets, num_classes):
    preds = nn.functional.one_hot(torch.argmax(preds, dim=1), num_classes)
    targets = nn.functional.one_hot(targets, num_classes)
    tp = (preds * targets).sum(dim=0).float()
    precision = tp / (preds.sum(dim=0) + 1e-7)
    recall = tp / (targets.sum(dim=0) + 1e-7)
    return (2 * precision * recall / (precision + recall + 1e-7)).mean()


def steps():
    cfg = {"num_classes": 4, "Train": {"log": {"print_freq": 50}, "mixed_precision": False}}
    model = seeded(
        nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), nn.BatchNorm2d(6), nn.ReLU6(), nn.AdaptiveAvgPool2d(1),
                      nn.Flatten(), nn.Linear(6, 4))
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)
    loss_mean, f1_mean, acc_mean = MeanMetric(), MeanMetric(), MeanMetric()
    writer, postfix = SummaryWriter(), {}
    mixed_precision = cfg["Train"]["mixed_precision"]
    scaler = None

    def train(images, targets, i):
        model.train()
        batch_size = images.size(0)
        optimizer.zero_grad()
        if mixed_precision:
            with torch.autocast("cpu"):
                preds = model(images)
                loss = loss_fn(preds, targets)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            preds = model(images)
            loss = loss_fn(preds, targets)
            loss.backward()
            optimizer.step()
        loss_mean.update(loss.item())
        f1_mean.update(multi_label_f1_score(preds, targets, cfg["num_classes"]).item())
        acc_mean.update(accuracy(preds, targets, num_batches=batch_size).item())
        writer.add_scalar(tag="Loss", scalar_value=loss_mean.result(), global_step=i)
        writer.add_scalar(tag="Accuracy", scalar_value=acc_mean.result(), global_step=i)
        writer.add_scalar(
            tag="lr", scalar_value=optimizer.state_dict()["param_groups"][0]["lr"], global_step=i
        )
        postfix.update({"loss": "{}".format(loss_mean.result()), "f1": "{:.6f}".format(f1_mean.result())})
        if i % cfg["Train"]["log"]["print_freq"] == 0:
            print(
                "step: {}, Loss: {}, Accuracy: {:.4f}%".format(i, loss_mean.result(), 100 * acc_mean.result())
            )
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(8, 3, 9, 9, seed=i)),
        torch.from_numpy(integers(4, 8, seed=i)),
        i,
    )
