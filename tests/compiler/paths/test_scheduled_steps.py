"""Training steps in replays whose learning rates follow a schedule."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from optimizers import RULES

import fusegrad as fg

pytestmark = pytest.mark.usefixtures("answered")
schedules = fg.optim.lr_scheduler

SCHEDULES = {
    "cosine": lambda o: schedules.CosineAnnealingLR(o, 30),
    "restarts": lambda o: schedules.CosineAnnealingWarmRestarts(o, 4),
    "exponential": lambda o: schedules.ExponentialLR(o, 0.9),
    "step": lambda o: schedules.StepLR(o, 2, 0.5),
    "milestones": lambda o: schedules.MultiStepLR(o, [2, 4]),
    "lambda": lambda o: schedules.LambdaLR(o, lambda epoch: 0.9**epoch),
    "multiplied": lambda o: schedules.MultiplicativeLR(o, lambda epoch: 0.9),
    "linear": lambda o: schedules.LinearLR(o),
    "polynomial": lambda o: schedules.PolynomialLR(o, 10),
    "cyclic": lambda o: schedules.CyclicLR(o, 0.01, 0.1, cycle_momentum=False),
    "chained": lambda o: schedules.SequentialLR(
        o, [schedules.ConstantLR(o), schedules.ExponentialLR(o, 0.9)], [3]
    ),
}


def scheduled(rule: Any, schedule: Any, rate: Any, jitted: bool) -> tuple[list[Any], Any]:
    """What some steps of a small training with a schedule leave, and the step."""
    w, b = fg.tensor([1.0, 2.0, 3.0], requires_grad=True), fg.ones(3, 2, requires_grad=True)
    optimizer = rule(SimpleNamespace(parameters=lambda: [w, b]))
    for group in optimizer.param_groups:
        group["lr"] = rate
    plan = schedule(optimizer)

    def step(x: fg.Tensor) -> fg.Tensor:
        optimizer.zero_grad()
        loss = ((w - x) ** 2).sum() + (b * b).sum()
        loss.backward()
        optimizer.step()
        plan.step()
        return loss

    run = fg.jit(step) if jitted else step
    seen = [float(run(fg.zeros(3))) for _ in range(12)]
    return [*seen, float(optimizer.param_groups[0]["lr"]), *w.tolist()], run


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", RULES)
def test_schedules_change_numbers_without_compiling_anew(name: str, schedule: str):
    ours, run = scheduled(RULES[name], SCHEDULES[schedule], 0.05, True)
    theirs, _ = scheduled(RULES[name], SCHEDULES[schedule], 0.05, False)
    np.testing.assert_allclose(ours, theirs, 1e-4, 1e-6)
    # RAdam goes another way once it has seen enough gradients.
    assert run.stats.compiles == 1 + (name == "radam"), run.explain()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", RULES)
def test_schedules_set_learning_rates_that_are_tensors(name: str, schedule: str):
    ours, _ = scheduled(RULES[name], SCHEDULES[schedule], fg.tensor(0.05), True)
    theirs, _ = scheduled(RULES[name], SCHEDULES[schedule], fg.tensor(0.05), False)
    np.testing.assert_allclose(ours, theirs, 1e-4, 1e-6)
