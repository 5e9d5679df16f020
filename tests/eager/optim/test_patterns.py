"""Every optimizer against torch: ways to group parameters, and steps in which some have no gradient."""

from __future__ import annotations

import random

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg

OPTIONS = {
    "Adafactor": [{}, {"d": 2.0, "weight_decay": 0.1}],
    "ASGD": [{}, {"weight_decay": 0.1, "t0": 2}, {"maximize": True}],
    "Adadelta": [{}, {"weight_decay": 0.1}],
    "Adagrad": [{}, {"lr_decay": 0.1, "initial_accumulator_value": 0.5}],
    "Adam": [{}, {"amsgrad": True, "weight_decay": 0.1}],
    "AdamW": [{}, {"amsgrad": True}],
    "Adamax": [{}],
    "NAdam": [{}, {"decoupled_weight_decay": True, "weight_decay": 0.1}],
    "RAdam": [{}],
    "RMSprop": [{}, {"momentum": 0.9, "centered": True}],
    "Rprop": [{}],
    "SGD": [
        {},
        {"momentum": 0.9, "dampening": 0.5},
        {"momentum": 0.9, "nesterov": True},
        {"momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1, "maximize": True},
    ],
}
SHAPES = [(1,), (2, 3), (1,), (4, 2), (3,)]
GROUPINGS = ["list", "each its own group", "two groups", "a group added later", "options by group"]


def made(T, grouping, options, name):
    values = [np.linspace(-1, 2, int(np.prod(s))).reshape(s).astype(np.float32) for s in SHAPES]
    params = [T.nn.Parameter(T.tensor(v)) for v in values]
    optimizer = getattr(T.optim, name)
    options = {"lr": 0.05, **options}
    if grouping == "list":
        return params, optimizer(params, **options), None
    if grouping == "each its own group":
        return params, optimizer([{"params": [p]} for p in params], **options), None
    if grouping == "two groups":
        return params, optimizer([{"params": params[:2]}, {"params": params[2:]}], **options), None
    if grouping == "options by group":
        return (
            params,
            optimizer([{"params": params[:2], "lr": 0.01}, {"params": params[2:]}], **options),
            None,
        )
    return params, optimizer(params[:3], **options), params[3:]


def run(T, grouping, options, name, seed):
    drawn = random.Random(seed)
    params, optimizer, later = made(T, grouping, options, name)
    for step in range(7):
        if later and step == 3:
            optimizer.add_param_group({"params": later})
        with_gradient = [drawn.random() < (1.0 if seed == 0 else 0.7) for _ in params]
        optimizer.zero_grad()
        losses = [(p * p * p).sum() * (step + 1) for p, w in zip(params, with_gradient, strict=True) if w]
        if losses:
            sum(losses).backward()
        optimizer.step()
        if step == 4 and seed == 2:  # saved, and taken up again
            optimizer.load_state_dict(optimizer.state_dict())
    return [p.detach().numpy() for p in params]


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("grouping", GROUPINGS)
def test_parameters_are_those_of_torch(name, grouping):
    for options in OPTIONS[name]:
        for seed in range(4):
            found, right = (run(T, grouping, options, name, seed) for T in (fg, torch))
            for mine, other in zip(found, right, strict=True):
                np.testing.assert_allclose(mine, other, rtol=2e-4, atol=1e-6, err_msg=f"{options} {seed}")


def test_the_table_has_all():
    kinds = {n for n in dir(fg.optim) if isinstance(getattr(fg.optim, n), type) and n != "Optimizer"}
    assert kinds - set(OPTIONS) <= {"LBFGS", "SparseAdam", "Muon"}
