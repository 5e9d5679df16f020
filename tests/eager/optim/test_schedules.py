"""Schedules of learning rates, against PyTorch's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from optimizers import parameters, refused
from oracle import torch

import fusegrad as fg

RATES = fg.optim.lr_scheduler

SCHEDULES = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (e + 1)]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda e: 0.95),
    "StepLR": lambda s, o: s.StepLR(o, 7, 0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [3, 9, 9, 20], 0.5),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.25, 6),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.2, 0.9, 12),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 20, 2.0),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 9, 0.001),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 4, 2, 0.01),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, [0.2, 0.3], 5, 9),
    "CyclicLR-triangular2": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 5, mode="triangular2"),
    "CyclicLR-exp_range": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 5, mode="exp_range", gamma=0.9),
    "CyclicLR-own": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 5, scale_fn=lambda x: 0.5 + 0.5 * (x % 2)),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.5, 60),
    "OneCycleLR-linear": lambda s, o: s.OneCycleLR(
        o, [0.5, 0.2], epochs=10, steps_per_epoch=6, three_phase=True, anneal_strategy="linear"
    ),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 5), s.ExponentialLR(o, 0.9)]),
    "SequentialLR": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, 1.0, 5), s.CosineAnnealingLR(o, 10), s.ExponentialLR(o, 0.9)], [5, 20]
    ),
}  # fmt: skip


def scheduled(namespace, name, kind="SGD"):
    a, b = parameters(namespace, [(2,), (3,)])
    options = {"momentum": 0.9} if kind == "SGD" else {}
    groups = [{"params": [a]}, {"params": [b], "lr": 0.4}]
    optimizer = getattr(namespace.optim, kind)(groups, lr=0.1, **options)
    return optimizer, SCHEDULES[name](namespace.optim.lr_scheduler, optimizer)


def rates(optimizer, schedule, steps, keys=("lr", "momentum", "betas")):
    seen = []
    for _ in range(steps):
        values = [[g[k] for k in keys if k in g] for g in optimizer.param_groups]
        seen.append(str(schedule.get_last_lr()) + str(values))
        optimizer.step()
        schedule.step()
    return seen


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_torchs(name, kind):
    assert rates(*scheduled(fg, name, kind), 50) == rates(*scheduled(torch, name, kind), 50)


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_resume_from_files(name, tmp_path):
    optimizer, schedule = scheduled(fg, name)
    rates(optimizer, schedule, 8)
    other_optimizer, other = scheduled(fg, name)
    fg.save([optimizer.state_dict(), schedule.state_dict()], tmp_path / "f")
    saved_optimizer, saved = fg.load(tmp_path / "f")
    other_optimizer.load_state_dict(saved_optimizer)
    other.load_state_dict(saved)
    assert rates(other_optimizer, other, 10) == rates(optimizer, schedule, 10)
    reference = scheduled(torch, name)[1].state_dict()
    assert set(schedule.state_dict()) <= set(reference)


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("threshold_mode", ["rel", "abs"])
def test_reduce_on_plateau(mode, threshold_mode):
    seen = []
    for namespace in (fg, torch):
        optimizer = namespace.optim.SGD(parameters(namespace), lr=1.0)
        schedule = namespace.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, mode, 0.5, 2, threshold=0.05, threshold_mode=threshold_mode, cooldown=1, min_lr=0.01
        )
        data = np.random.default_rng(0)
        values = []
        for epoch in range(40):
            schedule.step(namespace.tensor(1 / (epoch + 1) + data.normal() / 10))
            values.append((schedule.get_last_lr(), schedule.num_bad_epochs, schedule.best))
        seen.append(values)
    assert seen[0] == seen[1]
    twin = fg.optim.lr_scheduler.ReduceLROnPlateau(fg.optim.SGD(parameters(fg), lr=1.0))
    state = {k: v for k, v in schedule.state_dict().items() if k != "optimizer"}
    twin.load_state_dict(state)
    assert twin.best == schedule.best and twin.mode == mode


def test_schedules_warn_and_refuse():
    x = fg.ones(1, requires_grad=True)
    optimizer = fg.optim.SGD([x], lr=1.0)
    schedule = RATES.StepLR(optimizer, 2)
    with pytest.warns(UserWarning, match=r"before `optimizer.step\(\)`"):
        schedule.step()
    with pytest.warns(UserWarning, match="deprecat"):
        schedule.step(5)
    assert abs(optimizer.param_groups[0]["lr"] - 0.01) < 1e-12
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other = RATES.StepLR(optimizer, 2)
        optimizer.step()
        other.step()
    refused(TypeError, "is not an Optimizer", lambda: RATES.StepLR(3, 2))
    refused(KeyError, "initial_lr", lambda: RATES.StepLR(fg.optim.SGD([x]), 2, last_epoch=3))
    refused(ValueError, "Expected 1 lr_lambdas", lambda: RATES.LambdaLR(optimizer, [abs, abs]))
    refused(TypeError, "lr_lambda should be a function", lambda: RATES.MultiplicativeLR(optimizer, 3))
    refused(ValueError, "between 0 and 1", lambda: RATES.ConstantLR(optimizer, 2.0))
    refused(ValueError, "Starting", lambda: RATES.LinearLR(optimizer, 0.0))
    refused(ValueError, "positive integer T_0", lambda: RATES.CosineAnnealingWarmRestarts(optimizer, 0))
    refused(ValueError, "momentum or beta1", lambda: RATES.CyclicLR(fg.optim.Adagrad([x]), 0.1, 0.2))
    refused(ValueError, "same length", lambda: RATES.CyclicLR(optimizer, [0.1, 0.2], 0.2))
    refused(ValueError, "total_steps OR", lambda: RATES.OneCycleLR(optimizer, 0.1))
    refused(ValueError, "at least one", lambda: RATES.ChainedScheduler([]))
    refused(ValueError, "milestone", lambda: RATES.SequentialLR(optimizer, [other], [3]))
    refused(ValueError, "Factor", lambda: RATES.ReduceLROnPlateau(optimizer, factor=1.0))
    one = RATES.OneCycleLR(fg.optim.SGD([x], momentum=0.9), 0.1, 2)
    one.optimizer.step()
    one.step()
    one.step()
    refused(ValueError, "Tried to step 3 times", one.step)
