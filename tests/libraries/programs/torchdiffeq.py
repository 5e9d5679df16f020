"""torchdiffeq: ordinary differential equations, with gradients through the solver and by its adjoint."""

from collections.abc import Callable

import torch
from torchdiffeq import odeint, odeint_adjoint

from libraries.case import Case, numbers, training


class Field(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))

    def forward(self, time: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        return self.net(state)


def solved(solver: Callable, method: str) -> Callable[[], Case]:
    def case() -> Case:
        model, start, times = Field(), numbers(8, 2), torch.linspace(0.0, 1.0, 5)
        goal = numbers(5, 8, 2, seed=1)
        return training(model, lambda: ((solver(model, start, times, method=method) - goal) ** 2).mean())

    return case


CASES = {
    "fixed steps": solved(odeint, "rk4"),
    "chosen steps": solved(odeint, "dopri5"),
    "adjoint": solved(odeint_adjoint, "rk4"),
}
