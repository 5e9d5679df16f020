"""Muon against torch: its ways, what it refuses, its state, and its steps in replays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from optimizers import assert_same, parameters, refused, set_gradients
from oracle import torch

import fusegrad as fg

SHAPES = [(3, 4), (40, 7), (16, 16), (1, 1), (64, 128)]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"lr": 0.02, "nesterov": False, "weight_decay": 0.3},
    {"lr": 0.02, "momentum": 0.5, "adjust_lr_fn": "match_rms_adamw", "ns_steps": 3},
    {"lr": 0.1, "adjust_lr_fn": "original", "ns_coefficients": (2.0, -1.5, 0.5), "eps": 1e-2},
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: ",".join(o) or "defaults")
def test_steps(options: dict[str, Any], dtype: str) -> None:
    """bfloat16 has 8 bits, and the polynomial is steep: a last bit may be another where sums are long."""
    ours, theirs = (parameters(t, SHAPES, dtype) for t in (fg, torch))
    before = [p.detach().numpy().copy() for p in ours]
    one, other = fg.optim.Muon(ours, **options), torch.optim.Muon(theirs, **options)
    for step in range(5):
        for library, tensors, optimizer in ((fg, ours, one), (torch, theirs, other)):
            set_gradients(library, tensors, step, skipped=(step % 3,))
            optimizer.step()
    for a, b, start in zip(ours, theirs, before, strict=True):
        a, b = a.detach().numpy(), b.detach().numpy()
        assert np.abs(a - b).max() <= 0.03 * np.abs(b - start).max() and a.dtype == dtype
    for a, b in zip(ours, theirs, strict=True):
        assert_same([one.state[a]["momentum_buffer"]], [other.state[b]["momentum_buffer"]], rtol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"lr": -1.0}, {"momentum": -0.1}, {"weight_decay": -1.0}, {"adjust_lr_fn": "other"},
        {"ns_steps": 100}, {"ns_coefficients": (1.0, 2.0)},
    ],
)  # fmt: skip
def test_refused(options: dict[str, Any]) -> None:
    said = []
    for library in (fg, torch):
        weight = library.ones(2, 2, requires_grad=True)
        with pytest.raises(ValueError) as caught:
            optimizer = library.optim.Muon([weight], **options)
            weight.grad = library.ones(2, 2)
            optimizer.step()
        said.append(str(caught.value).splitlines()[0])
    assert said[0].startswith(said[1])


def test_vectors_are_refused() -> None:
    refused(
        ValueError, "only supports 2D parameters", lambda: fg.optim.Muon([fg.ones(3, requires_grad=True)])
    )


def test_state_goes_from_one_to_another() -> None:
    (weight,) = parameters(fg, [(4, 3)])
    optimizer = fg.optim.Muon([weight])
    set_gradients(fg, [weight], 0)
    optimizer.step()
    copy = weight.detach().clone().requires_grad_()
    other = fg.optim.Muon([copy])
    other.load_state_dict(optimizer.state_dict())
    for tensors, one in (([weight], optimizer), ([copy], other)):
        set_gradients(fg, tensors, 1)
        one.step()
    assert_same([weight], [copy])


def test_steps_are_replayed() -> None:
    def trained(wrap: Any) -> list[Any]:
        fg.manual_seed(0)
        model = fg.nn.Sequential(fg.nn.Linear(6, 8, bias=False), fg.nn.Tanh(), fg.nn.Linear(8, 3, bias=False))
        optimizer = fg.optim.Muon(model.parameters(), lr=0.02)
        x, y = fg.randn(10, 6), fg.arange(10) % 3

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = fg.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = wrap(step)
        losses = [run(x, y) for _ in range(8)]
        if wrap is fg.jit:
            assert run.stats.compiled_calls >= 5
        return [*losses, *model.parameters()]

    assert_same(trained(fg.jit), trained(lambda f: f), rtol=2e-2)
