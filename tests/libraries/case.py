"""What a program of a library is made of: models with a step of training each, and other values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

STEPS = 20


@dataclass(frozen=True)
class Case:
    """One thing that a library is asked to do.

    model: whose weights are made the same with PyTorch and with fusegrad before. step: one step of training
    that gives the loss. values: instead of, or besides training, numbers to compare, by what they are.
    """

    model: Any = None
    step: Callable[[], Any] | None = None
    values: Callable[[], dict[str, Any]] | None = None


def training(model: Any, loss: Callable[[], Any], rate: float = 0.01) -> Case:
    """A case that trains all weights of a model by gradient descent."""
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=rate)

    def step() -> Any:
        optimizer.zero_grad()
        result = loss()
        result.backward()
        optimizer.step()
        return result.detach()

    return Case(model, step)


class Cases(dict[str, Callable[[], Case]]):
    """Cases by their names; `add` is a decorator of the functions that build them, which it names them by."""

    def add(self, build: Callable[[], Case]) -> Callable[[], Case]:
        self[build.__name__.replace("_", "-")] = build
        return build


def small() -> Any:
    """A network of six numbers in and three out."""
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))


def by(make: Callable[[Any], Any]) -> Case:
    """A small network that another optimizer trains, which `make` makes of the parameters."""
    model, x, labels = small(), numbers(4, 6), whole_numbers(3, 4)
    optimizer = make(model.parameters())

    def step() -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Case(model, step)


def forward(model: Any, *given: Any, **options: Any) -> Case:
    """What a model gives in evaluation."""
    return Case(model, values=lambda: {"output": model.eval()(*given, **options)})


def numbers(*shape: int, seed: int = 0) -> Any:
    """Numbers that are the same for all, drawn from a normal distribution."""
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def whole_numbers(below: int, *shape: int, seed: int = 0) -> Any:
    return torch.tensor(np.random.default_rng(seed).integers(0, below, shape))


def with_torchvision() -> None:
    """Have torchvision import with a PyTorch for CPUs: its usual wheel is built for CUDA, and declares its
    operators where that is there alone.
    """
    if torch.__version__.endswith("+cpu"):
        operators = torch.library.Library("torchvision", "DEF")
        _OPERATORS.append(operators)
        for name in ("nms", "qnms"):
            operators.define(f"{name}(Tensor boxes, Tensor scores, float iou_threshold) -> Tensor")


_OPERATORS: list[Any] = []  # as long as they are kept they are declared
