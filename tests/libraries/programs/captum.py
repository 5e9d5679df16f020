"""captum: which inputs and layers answers come from."""

import torch
from captum.attr import (
    DeepLift,
    FeatureAblation,
    GradientShap,
    IntegratedGradients,
    LayerConductance,
    LayerGradCam,
    Occlusion,
    Saliency,
)

from libraries.case import Case, numbers, training


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.relu = torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.ReLU()
        self.out = torch.nn.Linear(4 * 8 * 8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.relu(self.conv(x)).flatten(1))


def attributed() -> Case:
    model, x = Network(), numbers(2, 1, 8, 8)
    zero = torch.zeros_like(x)

    def values() -> dict[str, torch.Tensor]:
        return {
            "integrated gradients": IntegratedGradients(model).attribute(x, zero, target=1, n_steps=8),
            "saliency": Saliency(model).attribute(x, target=1),
            "DeepLift": DeepLift(model).attribute(x, zero, target=1),
            "ablation": FeatureAblation(model).attribute(x, target=1),
            "occlusion": Occlusion(model).attribute(x, (1, 3, 3), target=1),
            "conductance": LayerConductance(model, model.conv).attribute(x, zero, target=1, n_steps=8),
            "Grad-CAM": LayerGradCam(model, model.conv).attribute(x, target=1),
            "shape of SHAP": GradientShap(model).attribute(x, torch.cat([zero, x]), target=1).shape,
        }

    return Case(model, values=values)


def step() -> Case:
    """A model that is trained for its attributions to be small."""
    model, x = Network(), numbers(2, 1, 8, 8)
    method = Saliency(model)

    def loss() -> torch.Tensor:
        return model(x).square().mean() + 0 * method.attribute(x.clone(), target=1).sum()

    return training(model, loss)


CASES = {"attributions": attributed, "training": step}
