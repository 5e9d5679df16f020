"""What the tests of optimizers share: options that take each of their ways, parameters and gradients."""

from __future__ import annotations

import numpy as np
import pytest

import fusegrad as fg

OPTIONS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.1, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "maximize": True, "weight_decay": 0.01}),
    ("Adam", {}),
    ("Adam", {"lr": 0.01, "betas": (0.3, 0.8), "eps": 1e-3}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.1, "amsgrad": True}),
    ("Adam", {"lr": 0.01, "maximize": True}),
    ("Adam", {"lr": 0.0, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.01, "weight_decay": 0.3, "amsgrad": True, "maximize": True}),
    ("Adamax", {}),
    ("Adamax", {"lr": 0.1, "betas": (0.5, 0.9), "weight_decay": 0.1, "maximize": True}),
    ("NAdam", {}),
    ("NAdam", {"lr": 0.1, "momentum_decay": 0.1, "weight_decay": 0.1}),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("RAdam", {}),
    ("RAdam", {"lr": 0.1, "betas": (0.9, 0.9), "weight_decay": 0.1}),
    ("RAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("RMSprop", {}),
    ("RMSprop", {"lr": 0.1, "alpha": 0.5, "weight_decay": 0.1, "maximize": True}),
    ("RMSprop", {"lr": 0.01, "momentum": 0.9}),
    ("RMSprop", {"lr": 0.01, "momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    ("Adagrad", {}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5}),
    ("Adagrad", {"lr": 0.1, "maximize": True}),
    ("Adadelta", {}),
    ("Adadelta", {"lr": 0.5, "rho": 0.5, "weight_decay": 0.1, "maximize": True}),
    ("Rprop", {}),
    ("Rprop", {"lr": 0.1, "etas": (0.3, 2.0), "step_sizes": (1e-3, 0.5), "maximize": True}),
    ("ASGD", {}),
    ("ASGD", {"lr": 0.1, "lambd": 0.01, "alpha": 0.5, "t0": 3, "weight_decay": 0.1, "maximize": True}),
    ("Adafactor", {}),
    ("Adafactor", {"lr": 0.1, "beta2_decay": -0.5, "eps": (1e-4, 1e-2), "d": 1.5, "weight_decay": 0.1}),
    ("Adafactor", {"lr": 0.1, "maximize": True}),
]
IDS = [f"{name}-{','.join(options)}" for name, options in OPTIONS]

# Of every kind that steps in a replay.
RULES = {
    "sgd": lambda m: fg.optim.SGD(m.parameters(), lr=0.1),
    "momentum": lambda m: fg.optim.SGD(
        m.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True
    ),
    "dampened": lambda m: fg.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, dampening=0.2, maximize=True),
    "adam": lambda m: fg.optim.Adam(m.parameters(), lr=0.02, weight_decay=0.1, amsgrad=True),
    "adamw": lambda m: fg.optim.AdamW(m.parameters(), lr=0.02),
    "adamax": lambda m: fg.optim.Adamax(m.parameters(), lr=0.02),
    "radam": lambda m: fg.optim.RAdam(m.parameters(), lr=0.02),
    "rmsprop": lambda m: fg.optim.RMSprop(m.parameters(), lr=0.02, momentum=0.5, centered=True),
    "adagrad": lambda m: fg.optim.Adagrad(m.parameters(), lr=0.1),
    "adadelta": lambda m: fg.optim.Adadelta(m.parameters(), lr=1.0),
    "nadam": lambda m: fg.optim.NAdam(m.parameters(), lr=0.02, momentum_decay=0.1, weight_decay=0.01),
    "rprop": lambda m: fg.optim.Rprop(m.parameters(), lr=0.02, step_sizes=(1e-3, 0.05)),
    "asgd": lambda m: fg.optim.ASGD(m.parameters(), lr=0.1, lambd=0.01, alpha=0.5),
}

SHAPES = [(3, 4), (4,), (), (2, 0), (95, 90), (5, 1, 2)]  # one that is cut into blocks


def shapes_of(name):
    """The shapes that an optimizer steps; PyTorch's Adafactor divides by the number of elements."""
    return [s for s in SHAPES if name != "Adafactor" or 0 not in s]


def parameters(namespace, shapes=SHAPES, dtype="float64", seed=0):
    data = np.random.default_rng(seed)
    return [namespace.tensor(data.normal(size=s).astype(dtype), requires_grad=True) for s in shapes]


def set_gradients(namespace, tensors, step, skipped=()):
    data = np.random.default_rng(1000 + step)
    for i, tensor in enumerate(tensors):
        values = data.normal(size=tuple(tensor.shape))
        if tensor.is_complex():
            values = values + 1j * data.normal(size=tuple(tensor.shape))
        gradient = namespace.tensor(values).to(tensor.dtype)
        tensor.grad = None if i in skipped else gradient


def assert_same(ours, theirs, rtol=1e-11):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=rtol, atol=rtol / 10)


def refused(kind, match, function):
    with pytest.raises(kind, match=match):
        function()
