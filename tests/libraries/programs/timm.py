"""timm: eight architectures, in the smallest sizes that it has, of small images."""

import importlib
from collections.abc import Callable

import torch

from libraries.case import Case, numbers, training, whole_numbers, with_torchvision

with_torchvision()
timm = importlib.import_module("timm")  # after that

ARCHITECTURES = """test_resnet test_vit test_efficientnet test_byobnet test_convnext test_mambaout test_nfnet
    test_efficientnet_gn""".split()


def trained(name: str) -> Callable[[], Case]:
    def case() -> Case:
        size = {"img_size": 32} if "vit" in name else {}
        model = timm.create_model(name, num_classes=4, **size)
        # Of two images a batch norm of the last layers has two numbers, which it makes 1 and -1: chaos.
        images, labels = numbers(8, 3, 32, 32), whole_numbers(4, 8)
        return training(model, lambda: torch.nn.functional.cross_entropy(model(images), labels), rate=0.001)

    return case


CASES = {name.removeprefix("test_"): trained(name) for name in ARCHITECTURES}
