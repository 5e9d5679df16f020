"""torchmetrics: metrics of classes, of numbers, and a metric as a loss."""

import torch
import torchmetrics
from torchmetrics import MetricCollection
from torchmetrics.functional.image import structural_similarity_index_measure

from libraries.case import Case, numbers, training, whole_numbers


def metrics() -> Case:
    def values() -> dict[str, object]:
        task = {"task": "multiclass", "num_classes": 4}
        classes = MetricCollection(
            [
                torchmetrics.Accuracy(**task),
                torchmetrics.F1Score(**task),
                torchmetrics.ConfusionMatrix(**task),
                torchmetrics.AUROC(**task),
                torchmetrics.AveragePrecision(**task),
            ]
        )
        regression = MetricCollection(
            [
                torchmetrics.MeanSquaredError(),
                torchmetrics.R2Score(),
                torchmetrics.PearsonCorrCoef(),
                torchmetrics.SpearmanCorrCoef(),
            ]
        )
        for batch in range(3):
            classes.update(numbers(16, 4, seed=batch).softmax(-1), whole_numbers(4, 16, seed=batch))
            regression.update(numbers(16, seed=batch), numbers(16, seed=batch + 5))
        return {**classes.compute(), **regression.compute()}

    return Case(values=values)


def loss() -> Case:
    model = torch.nn.Conv2d(1, 1, 3, padding=1)
    image, goal = numbers(1, 1, 16, 16), numbers(1, 1, 16, 16, seed=1)
    return training(
        model, lambda: 1 - structural_similarity_index_measure(model(image), goal, data_range=1.0)
    )


CASES = {"metrics": metrics, "a metric as a loss": loss}
