"""kornia: filters, geometry and colours, and an image that is learned."""

import kornia
import torch

from libraries.case import Case, numbers, training


def values_of() -> Case:
    image = numbers(1, 3, 16, 16).sigmoid()
    centre, angle, scale = torch.tensor([[8.0, 8.0]]), torch.tensor([30.0]), torch.ones(1, 2)

    def values() -> dict[str, torch.Tensor]:
        turn = kornia.geometry.get_rotation_matrix2d(centre, angle, scale)
        return {
            "blurred": kornia.filters.gaussian_blur2d(image, (3, 3), (1.0, 1.0)),
            "edges": kornia.filters.sobel(image),
            "turned": kornia.geometry.warp_affine(image, turn, dsize=(16, 16)),
            "hsv": kornia.color.rgb_to_hsv(image),
            "lab": kornia.color.rgb_to_lab(image),
            "grey": kornia.color.rgb_to_grayscale(image),
            "dilated": kornia.morphology.dilation(image, torch.ones(3, 3)),
            "harris": kornia.feature.harris_response(image),
            "axis": kornia.geometry.axis_angle_to_rotation_matrix(numbers(2, 3)),
        }

    return Case(values=values)


class Turned(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.angle = torch.nn.Parameter(torch.tensor([5.0]))
        self.blur = torch.nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return kornia.geometry.rotate(self.blur(image), self.angle)


def learned() -> Case:
    model, image, goal = Turned(), numbers(1, 3, 16, 16), numbers(1, 3, 16, 16, seed=1)
    return training(model, lambda: torch.nn.functional.mse_loss(model(image), goal))


def ssim() -> Case:
    model, image = torch.nn.Conv2d(3, 3, 3, padding=1), numbers(1, 3, 16, 16).sigmoid()
    return training(model, lambda: kornia.losses.ssim_loss(model(image), image, 5))


CASES = {"functions": values_of, "an angle is learned": learned, "a loss": ssim}
