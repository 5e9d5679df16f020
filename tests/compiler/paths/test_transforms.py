"""`jit` of functions that use transforms, `value_and_grad` and the like: replayed with what they derive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad import nn

SCALES = {"rate": 2.0}


class Scale:
    """An object that is passed on to the function."""

    factor = 3.0


SCALE = Scale()


def loss(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
    return ((x * y).tanh() * SCALES["rate"]).sum()


def branching(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
    return (x * y).exp().sum() if x.sum() > 0 else (x - y).square().sum()


def of_a_tree(parameters: dict[str, Any], x: fg.Tensor) -> fg.Tensor:
    weight, (bias,) = parameters["weight"], parameters["rest"]
    return (x * weight + bias).sigmoid().sum()


def with_aux(x: fg.Tensor, y: fg.Tensor) -> tuple[fg.Tensor, dict[str, fg.Tensor]]:
    z = x * y
    return z.sum(), {"z": z, "twice": z * 2}


def with_object(x: fg.Tensor, scale: Scale) -> fg.Tensor:
    return (x * x * scale.factor).sum()


def pair(seed: int = 0) -> tuple[fg.Tensor, fg.Tensor]:
    draw = np.random.default_rng(seed)
    return fg.tensor(draw.normal(size=(3, 4))), fg.tensor(draw.normal(size=(3, 4)))


def tree(seed: int = 0) -> tuple[dict[str, Any], fg.Tensor]:
    weight, x = pair(seed)
    return {"weight": weight, "rest": (fg.ones(4, dtype=fg.float64),)}, x


def third(x: fg.Tensor, y: fg.Tensor) -> Any:
    slope = fg.func.grad(lambda z: (z**3 * y).sum())
    return fg.func.grad(lambda z: (slope(z) * y).sum())(x)


def pulled_back_twice(x: fg.Tensor, y: fg.Tensor) -> Any:
    output, pull = fg.func.vjp(lambda z: (z * y).tanh(), x)
    return output, pull(y), pull(y * 2)


def newton_step(x: fg.Tensor, y: fg.Tensor) -> Any:
    def value(z: fg.Tensor) -> fg.Tensor:
        return (z.exp() - z * y[0]).sum()

    z = x[0]
    return z - fg.linalg.solve(fg.func.hessian(value)(z), fg.func.grad(value)(z))


REPLAYED: dict[str, tuple[Callable[..., Any], Callable[[int], Any]]] = {
    "value_and_grad": (fg.value_and_grad(loss, (0, 1)), pair),
    "grad": (fg.grad(loss), pair),
    "grad and value": (fg.func.grad_and_value(loss), pair),
    "of a branch": (fg.value_and_grad(branching), pair),
    "of a tree": (fg.value_and_grad(of_a_tree), tree),
    "with aux": (fg.value_and_grad(with_aux, has_aux=True), pair),
    "rows of a Jacobian": (fg.func.jacrev(lambda x, y: (x * y).tanh()), pair),
    "rows, of both": (fg.func.jacrev(lambda x, y: ((x * y).sum(0), x.sin()), (0, 1)), pair),
    "columns of a Jacobian": (fg.func.jacfwd(lambda x, y: (x * y).tanh()), pair),
    "columns, with aux": (fg.func.jacfwd(lambda x, y: (x.sin(), x * y), has_aux=True), pair),
    "hessian": (fg.func.hessian(loss), pair),
    "hessian of a branch": (fg.func.hessian(branching, 1), pair),
    "forward mode": (lambda x, y: fg.func.jvp(lambda z: (z * y).tanh(), (x,), (y,)), pair),
    "pulled back twice": (pulled_back_twice, pair),
    "Newton's step": (newton_step, pair),
    "in the middle": (lambda x, y: fg.grad(loss)(x * 2, y) + x, pair),
    "with an object": (fg.value_and_grad(with_object), lambda seed: (pair(seed)[0], SCALE)),
    "of its gradient": (third, pair),
}


def same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        ours, theirs = list(ours.values()), list(theirs.values())
    if isinstance(theirs, (tuple, list)):
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    else:
        np.testing.assert_allclose(ours.detach(), theirs.detach(), rtol=1e-10)
        assert (ours.requires_grad, ours.is_leaf) == (theirs.requires_grad, theirs.is_leaf)


@pytest.mark.parametrize("name", REPLAYED)
def test_a_transform_is_replayed(name: str):
    function, arguments = REPLAYED[name]
    jitted = fg.jit(function, require="replay")
    for seed in range(6):
        same(jitted(*arguments(seed)), function(*arguments(seed)))
    assert jitted.stats.compiled_calls >= 3


def test_what_the_derived_function_reads_is_guarded(monkeypatch: pytest.MonkeyPatch):
    jitted = fg.jit(fg.value_and_grad(loss))
    for rate in (2.0, 2.0, 2.0, 5.0, 5.0):
        monkeypatch.setitem(SCALES, "rate", rate)
        same(jitted(*pair()), fg.value_and_grad(loss)(*pair()))
    assert jitted.stats.compiled_calls == 3
    jitted, scale = fg.jit(fg.grad(with_object)), Scale()
    for factor in (3.0, 3.0, -1.0, -1.0):
        scale.factor = factor
        same(jitted(pair()[0], scale), fg.grad(with_object)(pair()[0], scale))
    assert jitted.stats.compiled_calls == 2


def test_what_the_derived_function_does_happens_at_every_call():
    seen: list[int] = []

    def noted(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
        seen.insert(99, len(seen))
        return loss(x, y)

    jitted = fg.jit(fg.value_and_grad(noted))
    for seed in range(5):
        same(jitted(*pair(seed)), fg.value_and_grad(loss)(*pair(seed)))
    assert seen == list(range(5))


def rectified(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
    return (fg.relu(x) * y.fill(2.0)).square().sum()


@pytest.mark.parametrize("function", [loss, branching, rectified])
def test_a_transform_of_arguments_that_need_gradients_is_replayed(function: Callable[..., Any]):
    derive = fg.value_and_grad(function, (0, 1))
    jitted = fg.jit(derive, require="replay")
    for seed in range(6):
        x, y = (t.requires_grad_() for t in pair(seed))
        same(jitted(x, y), derive(x, y))
    assert jitted.stats.compiled_calls >= 3


def test_arguments_that_need_gradients_themselves_get_them():
    def gradients(function: Callable[..., Any], seed: int) -> list[Any]:
        x, y = (t.requires_grad_() for t in pair(seed))
        value, (slope, _) = function(x, y)
        (value + slope.square().sum()).backward()
        return [value, x.grad, y.grad]

    derive = fg.value_and_grad(loss, (0, 1))
    jitted = fg.jit(derive)
    for seed in range(5):
        same(gradients(jitted, seed), gradients(derive, seed))


def test_the_gradients_of_a_module_called_inside():
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))

    def of_input(x: fg.Tensor) -> fg.Tensor:
        return model(x).sum()

    jitted = fg.jit(fg.grad(of_input))
    x = pair()[0].float()
    for _ in range(4):
        found, expected = jitted(x), fg.grad(of_input)(x)
        np.testing.assert_allclose(found.detach(), expected.detach(), rtol=1e-5)
        assert found.requires_grad == expected.requires_grad
    assert all(p.grad is None for p in model.parameters())
    assert jitted.stats.compiled_calls == 3
