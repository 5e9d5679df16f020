"""Steps on the autograd graph: gradients through `differentiable=True` are PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from optimizers import IDS, OPTIONS
from oracle import torch

import fusegrad as fg

# PyTorch's Adafactor takes no steps on the graph.
TAKING = [(name, options) for name, options in OPTIONS if name != "Adafactor"]
TAKING_IDS = [i for i in IDS if not i.startswith("Adafactor")]


def gradients_through(t: Any, name: str, options: dict[str, Any], steps: int = 3) -> list[np.ndarray]:
    """The parameter after some steps, and the gradients of a sum of it with respect to all that led there."""
    data = np.random.default_rng(5)
    start = t.tensor(data.normal(size=(3, 4)), requires_grad=True)
    given = [t.tensor(data.normal(size=(3, 4)), requires_grad=True) for _ in range(steps)]
    parameter = start.clone()
    optimizer = getattr(t.optim, name)([parameter], differentiable=True, **options)
    for gradient in given:
        parameter.grad = gradient
        optimizer.step()
    weights = t.tensor(data.normal(size=(3, 4)))
    loss = (parameter * weights).sum()
    found = t.autograd.grad(loss, [start, *given], allow_unused=True, materialize_grads=True)
    return [parameter.detach().numpy(), *(g.detach().numpy() for g in found)]


# Where PyTorch's gradients are others than differences say: it takes the first gradient of a momentum off the
# graph, divides by a rate of 0, and refuses later steps of some rules, which write what they have kept.
def is_comparable(name: str, options: dict[str, Any]) -> bool:
    return not (name == "SGD" and "momentum" in options) and options.get("lr") != 0


@pytest.mark.parametrize(("name", "options"), TAKING, ids=TAKING_IDS)
def test_gradients_through_a_step_are_torchs(name: str, options: dict[str, Any]):
    if is_comparable(name, options):
        ours, theirs = (gradients_through(t, name, options, 1) for t in (fg, torch))
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)  # PyTorch's step counts are float32


@pytest.mark.parametrize(("name", "options"), TAKING, ids=TAKING_IDS)
def test_gradients_through_several_steps_are_what_differences_say(name: str, options: dict[str, Any]):
    data = np.random.default_rng(6)

    def stepped(start: Any, *given: Any) -> Any:
        parameter = start.clone()
        optimizer = getattr(fg.optim, name)([parameter], differentiable=True, **options)
        for gradient in given:
            parameter.grad = gradient
            optimizer.step()
        return parameter

    inputs = [fg.tensor(data.normal(size=4), requires_grad=True) for _ in range(3)]
    assert fg.autograd.gradcheck(stepped, inputs, atol=1e-4)


@pytest.mark.parametrize("name", ["SGD", "Adam", "Rprop"])
def test_values_are_those_of_plain_steps(name: str):
    made = []
    for differentiable in (False, True):
        parameter = fg.tensor(np.linspace(-1, 1, 20), requires_grad=True)
        target = parameter.clone() if differentiable else parameter
        optimizer = getattr(fg.optim, name)([target], lr=0.1, differentiable=differentiable)
        for scale in (1.0, -2.0, 0.5):
            target.grad = fg.tensor(np.linspace(1, 2, 20) * scale)
            optimizer.step()
        made.append(target.detach().numpy())
    np.testing.assert_allclose(made[0], made[1], rtol=1e-6)


def test_complex_parameters_are_stepped_as_pairs():
    values = np.array([1 + 2j, -3 + 0.5j])
    for t in (fg, torch):
        start = t.tensor(values, requires_grad=True)
        parameter = start.clone()
        optimizer = t.optim.Adam([parameter], lr=0.1, differentiable=True)
        parameter.grad = t.tensor(values[::-1].copy())
        optimizer.step()
        t.view_as_real(parameter).sum().backward()
        if t is fg:
            ours = parameter.detach().numpy(), start.grad.numpy()
        else:
            np.testing.assert_allclose(ours[0], parameter.detach().numpy(), rtol=1e-6)
            np.testing.assert_allclose(ours[1], start.grad.numpy(), rtol=1e-6)


def test_what_is_refused():
    leaf = fg.ones(2, requires_grad=True)
    leaf.grad = fg.ones(2)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        fg.optim.SGD([leaf], lr=0.1, differentiable=True).step()
    inner = leaf.clone()
    inner.grad = fg.ones(2)
    rate = fg.tensor(0.1, requires_grad=True)
    with pytest.raises(NotImplementedError, match="lr needs one"):
        fg.optim.SGD([inner], lr=rate, differentiable=True).step()


def test_a_jitted_function_takes_such_steps_as_eager_does():
    def trained(start: Any) -> Any:
        parameter = start.clone()
        optimizer = fg.optim.SGD([parameter], lr=0.1, momentum=0.9, differentiable=True)
        for _ in range(2):
            parameter.grad = parameter * 2
            optimizer.step()
        return parameter.sum()

    jitted = fg.jit(trained)
    for _ in range(3):
        found = []
        for function in (trained, jitted):
            start = fg.tensor([1.0, 2.0], requires_grad=True)
            result = function(start)
            result.backward()
            found.append((result.item(), start.grad.tolist()))
        assert found[0] == found[1]
