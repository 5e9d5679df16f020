"""A `.grad` that lies in the memory of another tensor of the step: eager and jit must agree.

Backward adds to it while nodes that run later have yet to read that memory: what comes depends on the order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from planted import finds

import fusegrad as fg
from fusegrad.compiler.paths import autograd_node

FORMULAS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "p first": lambda p, o, x: (p * x + o.sin()).exp().sum(),
    "o first": lambda p, o, x: (o.sin() + p * x).exp().sum(),
    "p again and again": lambda p, o, x: ((p * p).sin() + o.exp() * p).sum(),
    "both": lambda p, o, x: ((p * o).sin() * o.exp() * p).sum(),
    "a sum between": lambda p, o, x: ((p * x).sum() * o.sin()).sum(),
}


def _put(p: Any, memory: Any, way: str) -> None:
    if way == "data":
        p.grad.data = memory.detach()
    elif way == "numpy":
        p.grad.data = fg.from_numpy(memory.detach().numpy())
    elif way == "view":
        p.grad = memory.detach()
    else:
        p.grad = memory.detach().view(2, 2).view(4)


def _step(formula: Callable[..., Any], p: Any, o: Any, how: str, is_eager: bool) -> Callable[[Any], Any]:
    seen = []

    def whole(x: Any) -> Any:
        if how == "zeroed" and p.grad is not None:
            p.grad.zero_()
        loss = formula(p, o, x)
        if how == "deferred":
            seen.append(1)
        loss.backward()
        return loss.detach()

    forward = fg.jit(lambda x: formula(p, o, x))

    def around(x: Any) -> Any:
        loss = forward(x)
        loss.backward()
        return loss.detach()

    if is_eager:
        return whole
    return around if how == "forward" else fg.jit(whole)


def _history(formula: Callable[..., Any], way: str, place: str, how: str, is_eager: bool) -> list[np.ndarray]:
    """What all tensors are after each of six steps, from where the `.grad` of `p` lies elsewhere."""
    draw = np.random.default_rng(0)
    p, o, x = (fg.tensor(draw.standard_normal(4) * 0.25) for _ in range(3))
    p, o = fg.nn.Parameter(p), fg.nn.Parameter(o)
    step = _step(formula, p, o, how, is_eager)
    for _ in range(5):
        if p.grad is not None:
            p.grad.zero_()
            o.grad.zero_()
        step(x)
    _put(p, {"o": o, "p": p, "x": x, "gradient of o": o.grad}[place], way)
    found = []
    for _ in range(6):
        loss = step(x)
        found += [t.detach().clone().numpy() for t in (loss, p, o, p.grad, o.grad)]
        with fg.no_grad():
            for tensor in (p, o, x, o.grad):
                tensor.mul_(0.3)
    return found


def _outcome(*given: Any) -> Any:
    try:
        return _history(*given)
    except RuntimeError as error:
        return str(error).split(":")[1]


def check(formula: str, way: str, place: str, how: str) -> None:
    right, found = (_outcome(FORMULAS[formula], way, place, how, eager) for eager in (True, False))
    if isinstance(right, str):
        assert found == right
    else:
        for one, other in zip(found, right, strict=True):
            np.testing.assert_allclose(one, other, 1e-9)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("how", ["forward", "whole", "zeroed", "deferred"])
@pytest.mark.parametrize("place", ["o", "p", "x", "gradient of o"])
@pytest.mark.parametrize("way", ["data", "numpy", "view", "view of a view"])
@pytest.mark.parametrize("formula", FORMULAS)
def test_gradients_in_others_memory(formula: str, way: str, place: str, how: str) -> None:
    check(formula, way, place, how)


def test_a_backward_that_does_not_look_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autograd_node, "writes_what_is_read", lambda node: False)
    assert finds(check, "o first", "data", "o", "forward")
