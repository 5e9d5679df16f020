"""Modules and leaves that a call makes: drawn anew by each replay; nobody outside gets gradients by them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from jit_checks import Entered, leaf, sealed

import fusegrad as fg
from fusegrad import nn
from fusegrad.nn import functional as F

OUTSIDE = SimpleNamespace(weight=leaf(4, 4, seed=3), layer=nn.Linear(4, 4), kept=None)


def attention(x: Any) -> Any:
    context = F.softmax(x @ OUTSIDE.weight, -1) @ OUTSIDE.weight
    output = nn.Linear(4, 4)(context)
    return nn.LayerNorm(4)(output + x)


def embedding(x: Any) -> Any:
    table = nn.Embedding(5, 4, padding_idx=0)
    return table(fg.tensor([0, 3, 1])) @ OUTSIDE.weight + x


def normalised(x: Any) -> Any:
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))(x)


def recurrent(x: Any) -> Any:
    return nn.LSTM(4, 4)(x[:, None])[0]


def convolved(x: Any) -> Any:
    return nn.Conv1d(3, 2, 3)(x[None]).relu()


def own_parameters(x: Any) -> Any:
    scale = nn.Parameter(fg.empty(4))
    nn.init.uniform_(scale, 1, 2)
    shift = nn.Parameter(fg.zeros(4), requires_grad=False)
    return x * scale + shift


def initialised(x: Any) -> Any:
    for init in (nn.init.xavier_normal_, nn.init.kaiming_normal_, nn.init.kaiming_uniform_, nn.init.eye_):
        layer = nn.Linear(4, 4)
        init(layer.weight)
        nn.init.constant_(layer.bias, 0.5)
        x = layer(x)
    return x


def derived_within(x: Any) -> Any:
    layer = nn.Linear(4, 1)
    layer(x.detach()).sum().backward()
    return x * layer.weight.grad + layer.bias.grad


def trained_within(x: Any) -> Any:
    layer = nn.Linear(4, 1)
    for _ in range(3):
        loss = layer(x.detach()).pow(2).mean()
        gradients = fg.autograd.grad(loss, [layer.weight, layer.bias])
        with fg.no_grad():
            for parameter, gradient in zip(layer.parameters(), gradients, strict=True):
                parameter -= 0.1 * gradient
    return layer(x)


def adversarial(x: Any) -> Any:
    delta = fg.zeros(3, 4, requires_grad=True)
    loss = ((x.detach() + delta) @ OUTSIDE.weight.detach()).pow(2).sum()
    (gradient,) = fg.autograd.grad(loss, [delta])
    return (x + 0.1 * gradient.sign()) @ OUTSIDE.weight


def copied_from_the_graph(x: Any) -> Any:
    own = nn.Parameter(fg.empty(3, 4))
    with fg.no_grad():
        own.copy_(x * 2)
    return own * OUTSIDE.weight[0]


def leaf_of_what_was_computed(x: Any) -> Any:
    with fg.no_grad():
        own = x @ OUTSIDE.weight
    return own.requires_grad_() * OUTSIDE.weight[0]


def leaf_in_a_part(x: Any) -> Any:
    own = (x * 2).detach()[1:]
    return (own.requires_grad_() * x[1:]).exp()


def row_written(x: Any) -> Any:
    own = nn.Parameter(fg.ones(3, 4))
    with fg.no_grad():
        own[1] = x[0]
        own[2].mul_(3)
    return own * x


def unseen_write(x: Any) -> Any:
    h = x * 2
    with fg.no_grad():
        h.add_(1)
        h[0] = x[1]
        h[1].zero_()
    return h * h


def unseen_write_of_a_view(x: Any) -> Any:
    h = x @ OUTSIDE.weight
    rows = h[1:]
    with fg.no_grad():
        rows.mul_(3)
    return h * 2, rows * h[:2]


def frozen_again(x: Any) -> Any:
    layer = nn.Linear(4, 4)
    layer.requires_grad_(False)
    return layer(x), layer(x.detach()) * 2


def around_one_from_outside(x: Any) -> Any:
    model = nn.Sequential(nn.Linear(4, 4), OUTSIDE.layer)
    total = sum(parameter.detach().sum() for parameter in model.parameters())
    return model(x) * total


REPLAYED = [
    attention, embedding, normalised, recurrent, convolved, own_parameters, initialised, derived_within,
    trained_within, adversarial, copied_from_the_graph, leaf_of_what_was_computed, leaf_in_a_part,
    row_written, unseen_write, unseen_write_of_a_view, frozen_again, around_one_from_outside,
]  # fmt: skip


def shared_with_the_graph(x: Any) -> Any:
    h = x * 2
    own = nn.Parameter(h)
    return own * h


def a_leaf(x: Any) -> Any:
    return nn.Parameter(fg.ones(2)), x * 2


def own_alone(x: Any) -> Any:
    return nn.Linear(4, 4)(x.detach())


def in_a_list(x: Any) -> Any:
    layer = nn.Linear(4, 4)
    return [*layer.parameters(), layer(x)]


def on_an_object(x: Any) -> Any:
    OUTSIDE.kept = layer = nn.Linear(4, 4)
    return layer(x)


def with_a_hook(x: Any) -> Any:
    own = nn.Parameter(fg.ones(4))
    own.register_hook(lambda gradient: gradient * 2)
    return own * x


RUN = [shared_with_the_graph, a_leaf, own_alone, in_a_list, on_an_object, with_a_hook]


def told(function: Callable[[Any], Any], x: Any, seed: int, twice: bool = False) -> list[Any]:
    """What a call gives, what is derived of it, and what is drawn next."""
    fg.manual_seed(seed)
    given = function(x)
    results = [*given] if isinstance(given, (list, tuple)) else [given]
    found = [r.detach().clone() for r in results] + [fg.tensor(float(r.requires_grad)) for r in results]
    total = sum(r.pow(2).sum() for r in results if r.requires_grad)
    leaves = [x, OUTSIDE.weight, *OUTSIDE.layer.parameters()]
    gradients = fg.autograd.grad(total, leaves, allow_unused=True, create_graph=twice)
    found += [fg.tensor(0.0) if g is None else g.detach().clone() + 1 for g in gradients]
    if twice:
        of = sum(g.pow(2).sum() for g in gradients if g is not None)
        again = fg.autograd.grad(of, leaves, allow_unused=True) if isinstance(of, fg.Tensor) else []
        found += [fg.tensor(0.0) if g is None else g for g in again]
    return [*found, fg.rand(2)]


def agree(ours: list[Any], theirs: list[Any]) -> None:
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("function", REPLAYED)
def test_made_anew_by_replays(function: Callable[[Any], Any]):
    jitted = fg.jit(function)
    seen = []
    for seed in range(8):
        if seed == 4:
            sealed(jitted)
        x = leaf(3, 4, seed=seed // 2)
        seen.append(told(jitted, x, seed))
        agree(seen[-1], told(function, x, seed))


@pytest.mark.parametrize("function", [attention, own_parameters, unseen_write, row_written])
def test_second_derivatives(function: Callable[[Any], Any]):
    jitted = fg.jit(function)
    for seed in range(6):
        x = leaf(3, 4, seed=seed)
        agree(told(jitted, x, seed, twice=True), told(function, x, seed, twice=True))


@pytest.mark.parametrize("function", RUN)
def test_what_others_could_see_runs_the_function(function: Callable[[Any], Any]):
    jitted = fg.jit(function)
    for seed in range(6):
        x = leaf(3, 4, seed=seed)
        agree(told(jitted, x, seed), told(function, x, seed))
    with pytest.raises(Entered):
        sealed(jitted)(x)


def test_no_gradients_where_none_are_wanted():
    jitted = fg.jit(attention)
    with fg.no_grad():
        for seed in range(6):
            if seed == 3:
                sealed(jitted)
            x = fg.ones(3, 4)
            fg.manual_seed(seed)
            ours = jitted(x)
            fg.manual_seed(seed)
            assert not ours.requires_grad
            np.testing.assert_allclose(ours.numpy(), attention(x).numpy(), rtol=1e-4, atol=1e-5)


def written_since(x: Any) -> Any:
    own = nn.Parameter(fg.ones(3, 4))
    y = own * x
    with fg.no_grad():
        own.add_(1)
    return y


def test_what_backward_needs_and_is_gone_is_refused():
    jitted = fg.jit(written_since)
    for _ in range(6):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            jitted(leaf(3, 4)).sum().backward()


@pytest.mark.filterwarnings("ignore:Using backward")
def test_a_gradient_that_was_there_and_can_be_derived():
    weight = leaf(3)
    weight.pow(3).sum().backward(create_graph=True)
    jitted = fg.jit(lambda x: weight.grad * x)
    for seed in range(4):
        x = leaf(3, seed=seed)
        ours, theirs = (
            fg.autograd.grad(f(x).sum(), [x, weight], retain_graph=True) for f in (jitted, jitted.__wrapped__)
        )
        agree([*ours], [*theirs])
