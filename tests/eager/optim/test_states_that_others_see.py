"""Views and arrays of an optimizer's state, as PyTorch has them: what steps do to it, they see."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracle import torch
from planted import finds

import fusegrad as fg
from fusegrad.eager.optim import elementwise

OPTIMIZERS = {
    "SGD": ({"lr": 0.1, "momentum": 0.9}, "momentum_buffer"),
    "Adam": ({}, "exp_avg"),
    "AdamW": ({}, "exp_avg_sq"),
    "RMSprop": ({"momentum": 0.5}, "square_avg"),
    "Adagrad": ({}, "sum"),
    "Adadelta": ({}, "acc_delta"),
    "Adamax": ({}, "exp_inf"),
    "NAdam": ({}, "exp_avg"),
    "RAdam": ({}, "step"),
    "Rprop": ({}, "step_size"),
    "ASGD": ({}, "ax"),
}
EVENTS = ("nothing", "another parameter", "no gradient", "state of another", "a group more")


def _event(event: str, library: Any, parameters: list[Any], optimizer: Any, name: str) -> None:
    if event == "another parameter":
        parameters[0].data = library.ones(6)
    elif event == "no gradient":
        parameters[1].requires_grad_(False)
        parameters[1].grad = None
    elif event == "state of another":
        optimizer.state[parameters[2]][name] = optimizer.state[parameters[2]][name].clone()
    elif event == "a group more":
        optimizer.add_param_group({"params": [library.nn.Parameter(library.ones(2))]})


def seen(library: Any, kind: str, event: str, jitted: bool = False) -> list[bool]:
    """Whether each alias of a state is what the state is, after steps."""
    options, name = OPTIMIZERS[kind]
    parameters = [library.nn.Parameter(library.ones(6) * n) for n in range(1, 5)]
    optimizer = getattr(library.optim, kind)(parameters, **options)

    def step() -> None:
        optimizer.zero_grad()
        sum((p**2).sum() for p in parameters).backward()
        optimizer.step()

    def state(number: int) -> Any:
        return optimizer.state[parameters[number]][name]

    if jitted:
        step = fg.jit(step)
    step()
    early = state(0).reshape(-1)
    step()
    given = state(1).detach().numpy().copy()
    state(1).data = library.from_numpy(given)
    views = [
        (state(2).view(-1), 2),
        (state(3).detach(), 3),
        (state(3).detach().numpy(), 3),
        (early, 0),
        (given, 1),
    ]
    step()
    _event(event, library, parameters, optimizer, name)
    step()
    step()
    found = []
    for view, number in views:
        values = view.numpy() if isinstance(view, library.Tensor) else view
        found.append(bool(np.array_equal(values.ravel(), state(number).detach().numpy().ravel())))
    return found


def check(kind: str, event: str, jitted: bool = False) -> None:
    assert seen(fg, kind, event, jitted) == seen(torch, kind, event)


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_states_that_others_see(kind: str, event: str, jitted: bool) -> None:
    check(kind, event, jitted)


def test_states_are_stepped_together_as_long_as_nobody_sees_them() -> None:
    parameters = [fg.nn.Parameter(fg.ones(6)) for _ in range(4)]
    optimizer = fg.optim.Adam(parameters)
    other = fg.optim.Adam(parameters)
    for each in (optimizer, other, other):
        sum((p**2).sum() for p in parameters).backward()
        each.step()
        assert [len(bundle.rows) for bundle in each._plans[0].bundles] == [4]
        other.load_state_dict(optimizer.state_dict())


def test_states_that_are_moved_all_the_same_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elementwise, "_with_own_memory", lambda states: {id(s) for s in states})
    assert finds(check, "Adam", "nothing")
