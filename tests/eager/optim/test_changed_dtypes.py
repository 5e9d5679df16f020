"""Models that get another dtype while they are trained: the state of their optimizers stays what it was.

PyTorch, eager and jit must agree. A replay that writes a parameter of float32 with numbers of eight bytes
writes past its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import torch
from planted import finds

import fusegrad as fg
from fusegrad.eager.optim import elementwise

Rule = Callable[[Any, Any], Any]  # of a library and parameters


def rule(name: str, **options: Any) -> Rule:
    return lambda library, parameters: getattr(library.optim, name)(parameters, lr=0.05, **options)


RULES = {
    "SGD with momentum": rule("SGD", momentum=0.9),
    "SGD with Nesterov momentum": rule("SGD", momentum=0.9, nesterov=True, weight_decay=0.1),
    "Adam with amsgrad": rule("Adam", amsgrad=True),
    "RMSprop, centered": rule("RMSprop", centered=True, momentum=0.9),
} | {
    name: rule(name)
    for name in """SGD Adam AdamW RMSprop Adagrad Adadelta Adamax NAdam RAdam ASGD Rprop Adafactor""".split()
}


def trained(library: Any, make: Rule, dtypes: list[str], compiled: bool = False) -> list[Any]:
    """The losses of three steps in each dtype, and the dtypes of what is kept then; an error ends it."""
    model = library.nn.Linear(2, 2).to(getattr(library, dtypes[0]))
    with library.no_grad():
        model.weight.copy_(library.tensor([[0.1, 0.2], [0.3, -0.4]]))
        model.bias.copy_(library.tensor([0.5, -0.6]))
    optimizer = make(library, model.parameters())

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (model(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = fg.jit(step) if compiled else step
    found: list[Any] = []
    for name in dtypes:
        model.to(getattr(library, name))
        x = library.full((3, 2), 0.3, dtype=getattr(library, name))
        try:
            found += [float(run(x)) for _ in range(4)]
        except RuntimeError:
            return [*found, "RuntimeError"]
        kept = {
            k: str(v.dtype) for k, v in sorted(optimizer.state[model.weight].items()) if hasattr(v, "dtype")
        }
        found.append([str(model.weight.dtype), kept])
    return found


def agree(found: list[Any], right: list[Any]) -> None:
    numbers = [[x for x in row if isinstance(x, float)] for row in (found, right)]
    assert [x for x in found if not isinstance(x, float)] == [x for x in right if not isinstance(x, float)]
    np.testing.assert_allclose(*numbers, rtol=2e-5, atol=1e-6)


DTYPES = [["float64", "float32", "float64"], ["float32", "float64", "float32"]]


@pytest.mark.parametrize("dtypes", DTYPES, ids=lambda names: names[0])
@pytest.mark.parametrize("name", RULES)
def test_optimizers_keep_their_state_as_it_was_in_the_dtype_that_it_had(name: str, dtypes: list[str]) -> None:
    right = trained(torch, RULES[name], dtypes)
    agree(trained(fg, RULES[name], dtypes), right)
    agree(trained(fg, RULES[name], dtypes, compiled=True), right)


def test_a_state_that_is_given_the_dtype_of_its_parameter_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elementwise._Plan, "_can_move", lambda *given: True)
    assert finds(
        test_optimizers_keep_their_state_as_it_was_in_the_dtype_that_it_had, "SGD with momentum", DTYPES[0]
    )


def accumulated(library: Any, compiled: bool = False) -> list[Any]:
    """Gradients of float64 that are added to a `.grad` of float32, of before the leaf got another dtype."""
    leaf = library.ones(3, requires_grad=True)
    step: Any = lambda: (leaf * leaf).sum().backward()  # noqa: E731
    run = fg.jit(step) if compiled else step
    for _ in range(3):
        run()
    leaf.data = leaf.data.double()
    for _ in range(4):
        run()
    return [str(leaf.grad.dtype), leaf.grad.tolist()]


def test_a_gradient_is_not_written_into_memory_of_another_dtype() -> None:
    assert accumulated(fg, compiled=True) == accumulated(fg) == accumulated(torch)
