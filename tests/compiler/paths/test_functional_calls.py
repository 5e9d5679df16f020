"""`functional_call` within jitted steps: with tensors from outside, made in the step, batched; and what is
changed between steps. Beside eager: losses, gradients, and the module's own parameters, which stay in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fusegrad as fg
from fusegrad import nn
from fusegrad.func import functional_call, grad, vmap
from fusegrad.tracer.observe import modules

STEPS = 8


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.norm = nn.Linear(3, 4), nn.Linear(4, 3), nn.BatchNorm1d(3)
        self.scales = nn.ParameterList([nn.Parameter(fg.full((3,), 0.5 + i)) for i in range(2)])
        self.factor = 1.0

    def forward(self, x: fg.Tensor, more: Any = 0.0) -> fg.Tensor:
        x = self.b(fg.tanh(self.a(x))) * self.factor + more
        for scale in self.scales:
            x = x * scale
        return self.norm(x) if self.training else x


class World:
    def __init__(self) -> None:
        fg.manual_seed(0)
        self.net = Net().double().eval()
        self.given = {name: (p.detach() * 1.5).requires_grad_() for name, p in self.net.named_parameters()}
        self.stacked = {
            name: fg.stack([p.detach(), p.detach() * 0.5]) for name, p in self.net.named_parameters()
        }


def _from_outside(world: World, x: fg.Tensor) -> Any:
    return functional_call(world.net, world.given, (x,))


def _some(world: World, x: fg.Tensor) -> Any:
    return functional_call(world.net, {"a.weight": world.given["a.weight"] * 2}, x, {"more": x})


def _adapted(world: World, x: fg.Tensor) -> Any:
    """As meta-learning does it: a step on the graph, then the loss."""
    parameters = {n: p for n, p in world.net.named_parameters() if not n.startswith("norm")}
    inner = functional_call(world.net, parameters, (x,)).square().mean()
    gradients = fg.autograd.grad(inner, [*parameters.values()], create_graph=True)
    stepped = {n: p - 0.1 * g for (n, p), g in zip(parameters.items(), gradients, strict=True)}
    return functional_call(world.net, stepped, (x,)) + world.net(x)


def _ensemble(world: World, x: fg.Tensor) -> Any:
    return vmap(lambda p, x: functional_call(world.net, p, (x,)), in_dims=(0, None))(world.stacked, x)


def _per_example(world: World, x: fg.Tensor) -> Any:
    def loss(parameters: Any, row: fg.Tensor) -> fg.Tensor:
        return functional_call(world.net, parameters, (row[None],)).sum()

    return vmap(grad(loss), in_dims=(None, 0))(world.given, x)["b.weight"]


def _nested(world: World, x: fg.Tensor) -> Any:
    def again(row: fg.Tensor) -> fg.Tensor:
        return functional_call(world.net, {"b.bias": row.sum(0)}, (x,))

    first = functional_call(world.net, [{"a.bias": x.sum(0)[:1].expand(4)}, {"b.bias": x.sum(0)}], (x,))
    return again(first) + world.net(x)


def _trains(world: World, x: fg.Tensor) -> Any:
    world.net.train()
    buffers = {"norm.running_mean": fg.zeros(3).double(), "norm.running_var": fg.ones(3).double()}
    found = functional_call(world.net, (world.given, buffers), (x,))
    world.net.eval()
    return found * x + buffers["norm.running_mean"]


PROGRAMS: dict[str, Callable[[World, fg.Tensor], Any]] = {
    "from outside": _from_outside, "some": _some, "adapted": _adapted, "ensemble": _ensemble,
    "per example": _per_example, "nested": _nested, "trains": _trains,
}  # fmt: skip


def _writes(world: World) -> None:
    with fg.no_grad():
        world.net.a.weight.mul_(0.5)
        world.given["b.bias"].add_(1.0)


def _replaces(world: World) -> None:
    world.net.b.weight = nn.Parameter(fg.ones(3, 4).double())
    world.given["a.bias"] = fg.ones(4, dtype=fg.float64, requires_grad=True)


def _takes_away(world: World) -> None:
    world.net.b.bias = None


def _other_part(world: World) -> None:
    world.net.a = nn.Linear(3, 4, bias=False).double()


def _attribute(world: World) -> None:
    world.net.factor = 3.0


CHANGES: dict[str, Callable[[World], None]] = {
    "none": lambda world: None, "writes": _writes, "replaces": _replaces, "takes away": _takes_away,
    "other part": _other_part, "attribute": _attribute,
}  # fmt: skip


def outcomes(program: str, change: str, jitted: bool) -> tuple[list[Any], Any]:
    world = World()

    def step(x: fg.Tensor) -> Any:
        found = PROGRAMS[program](world, x)
        if found.requires_grad:
            found.square().sum().backward()
        return found

    run, found = fg.jit(step) if jitted else step, list[Any]()
    for i in range(STEPS):
        if i == 4:
            fg.manual_seed(1)
            CHANGES[change](world)
        for p in (*world.net.parameters(), *world.given.values()):
            p.grad = None
        found.append(run(fg.linspace(-1.0, 1.0 + 0.1 * i, 15, dtype=fg.float64).sin().reshape(5, 3)))
        found += [p.grad for p in (*world.net.parameters(), *world.given.values())]
    return [*found, *world.net.state_dict().values()], run


def same(ours: Any, theirs: Any) -> None:
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            fg.testing.assert_close(one, other, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_steps_are_those_of_eager(program: str, change: str) -> None:
    expected, _ = outcomes(program, change, False)
    found, run = outcomes(program, change, True)
    same(found, expected)
    if change in ("none", "writes"):
        assert run.stats.compiled_calls >= 5, run.explain()


def test_modules_that_nobody_guards_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, _ = outcomes("from outside", "takes away", False)
    monkeypatch.setattr(modules, "guard", lambda *_: True)
    with pytest.raises(AssertionError):
        same(outcomes("from outside", "takes away", True)[0], expected)


def test_strict_names_are_asked_for() -> None:
    world = World()

    @fg.jit
    def step(x: fg.Tensor) -> Any:
        return functional_call(world.net, {"a.none": x}, (x,), strict=True)

    for _ in range(3):
        with pytest.raises(RuntimeError, match=r"a\.none"):
            step(fg.ones(2, 3).double())
