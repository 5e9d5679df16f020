"""einops: layers that rearrange, and the functions."""

import einops
import torch
from einops.layers.torch import Rearrange, Reduce

from libraries.case import Case, numbers, training


def layers() -> Case:
    model = torch.nn.Sequential(
        Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4),
        torch.nn.Linear(48, 32),
        torch.nn.GELU(),
        Reduce("b n d -> b d", "mean"),
        torch.nn.Linear(32, 8),
    )
    images, goals = numbers(4, 3, 16, 16), numbers(4, 8, seed=1)
    return training(model, lambda: torch.nn.functional.mse_loss(model(images), goals))


def functions() -> Case:
    x = numbers(2, 6, 4)
    return Case(
        values=lambda: {
            "rearrange": einops.rearrange(x, "b (h d) n -> b h n d", h=2),
            "reduce": einops.reduce(x, "b c n -> c", "max"),
            "repeat": einops.repeat(x, "b c n -> b c n k", k=2),
            "einsum": einops.einsum(x, x, "b c n, b d n -> b c d"),
            "pack": einops.pack([x, x], "b * n")[0],
        }
    )


CASES = {"layers": layers, "functions": functions}
