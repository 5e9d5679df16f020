"""Layers that learn their shapes from the first input, beside PyTorch's: before and after it, loaded."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg

RANKS = 1, 2, 3
CASES: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "linear": (lambda nn: nn.LazyLinear(3), (4, 6)),
    "linear without bias": (lambda nn: nn.LazyLinear(3, bias=False), (6,)),
}
for r in RANKS:
    size = (2, 4, *([5] * r))
    CASES |= {
        f"conv{r}d": (
            lambda nn, r=r: getattr(nn, f"LazyConv{r}d")(6, 3, stride=2, padding=1, groups=2),
            size,
        ),
        f"conv{r}d, one": (lambda nn, r=r: getattr(nn, f"LazyConv{r}d")(6, 3, bias=False), size[1:]),
        f"transposed{r}d": (lambda nn, r=r: getattr(nn, f"LazyConvTranspose{r}d")(6, 2, 2, groups=2), size),
        f"batch norm {r}d": (lambda nn, r=r: getattr(nn, f"LazyBatchNorm{r}d")(), size),
        f"batch norm {r}d, bare": (
            lambda nn, r=r: getattr(nn, f"LazyBatchNorm{r}d")(affine=False, track_running_stats=False),
            size,
        ),
        f"instance norm {r}d": (lambda nn, r=r: getattr(nn, f"LazyInstanceNorm{r}d")(momentum=0.3), size),
    }


def described(layer: Any) -> Any:
    """What there is to see of a layer."""
    state = {
        name: getattr(value, "_fields", None) or kind_of(value) for name, value in layer.state_dict().items()
    }
    kinds = [(name, kind_of(p), p.requires_grad, p.is_leaf) for name, p in layer.named_parameters()]
    return repr(layer), type(layer).__name__, state, kinds, [name for name, _ in layer.named_buffers()]


def kind_of(value: Any) -> Any:
    name, dtype = type(value).__name__, str(value.dtype)
    return (name, dtype) if name.startswith("Uninitialized") else (name, dtype, tuple(value.shape))


@pytest.mark.parametrize("name", CASES)
def test_they_are_pytorch_s(name: str) -> None:
    make, size = CASES[name]
    x = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    ours, theirs = make(fg.nn), make(torch.nn)
    assert described(ours) == described(theirs)
    spare, beside = copy.deepcopy(ours), make(torch.nn)  # PyTorch copies no buffers without a shape
    assert described(ours.double()) == described(theirs.double())
    ours.float(), theirs.float()
    first = ours(fg.tensor(x))
    theirs(torch.tensor(x))
    assert described(ours) == described(theirs)
    state = {key: torch.tensor(value.numpy()) for key, value in ours.state_dict().items()}
    theirs.load_state_dict(state), beside.load_state_dict(state)
    spare.load_state_dict(ours.state_dict())
    assert described(spare) == described(beside)
    for layer, other in ((ours, theirs), (spare, beside)):
        got, right = outcome(layer.eval(), fg.tensor(x)), outcome(other.eval(), torch.tensor(x))
        np.testing.assert_allclose(got, right, 1e-4, 1e-5)
    assert first.requires_grad is any(p.requires_grad for p in ours.parameters())


def outcome(layer: Any, x: Any) -> Any:
    """What a layer gives; NaN where it refuses, as instance norm does that was loaded first."""
    try:
        return layer(x).detach().numpy()
    except ValueError:
        return np.nan


USES: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda lib, p: p + 1, "shape": lambda lib, p: p.shape, "numel": lambda lib, p: p.numel(),
    "sum": lambda lib, p: p.sum(), "detach": lambda lib, p: p.detach(), "item": lambda lib, p: p[0],
    "linear": lambda lib, p: lib.nn.functional.linear(lib.ones(2, 0), p), "tolist": lambda lib, p: p.tolist(),
    "share": lambda lib, p: p.share_memory_(), "zero": lambda lib, p: lib.nn.init.zeros_(p),
    "pickle": lambda lib, p: type(pickle.loads(pickle.dumps(p))).__name__, "repr": lambda lib, p: repr(p),
    "half": lambda lib, p: str(p.half().dtype), "lazy": lambda lib, p: lib.nn.parameter.is_lazy(p),
    "leaf": lambda lib, p: (p.is_leaf, p.requires_grad, p.grad, str(p.device), p.is_floating_point()),
}  # fmt: skip


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", ["UninitializedParameter", "UninitializedBuffer"])
def test_without_a_shape_they_are_refused_as_by_pytorch(kind: str, use: str) -> None:
    said = []
    for lib in (fg, torch):
        value = getattr(lib.nn.parameter, kind)()
        try:
            said.append(USES[use](lib, value))
        except Exception as error:
            said.append(type(error).__mro__[-4:] if isinstance(error, (ValueError, RuntimeError)) else error)
    assert said[0] == said[1]


def test_a_step_of_training_that_begins_with_them_replays() -> None:
    net = fg.nn.Sequential(
        fg.nn.LazyConv2d(4, 3), fg.nn.LazyBatchNorm2d(), fg.nn.Flatten(), fg.nn.LazyLinear(2)
    )
    optimizer = fg.optim.SGD(net.parameters(), lr=0.1)

    @fg.jit
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses = [float(step(fg.ones(2, 3, 5, 5))) for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
    assert step.stats.compiled_calls >= 2
    assert not any(map(fg.nn.parameter.is_lazy, net.parameters()))
