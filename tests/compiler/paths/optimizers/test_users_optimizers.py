"""Optimizers of users' classes: their steps are replayed, and leave what eager leaves, whatever changes."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

import fusegrad as fg
from fusegrad.optim.optimizer import register_optimizer_step_pre_hook
from fusegrad.tracer.observe import optimizer_steps


class Base(fg.optim.Optimizer):
    def __init__(self, params: Any, lr: float = 0.05, beta: float = 0.9, decay: float = 0.01) -> None:
        super().__init__(params, {"lr": lr, "beta": beta, "decay": decay})

    def members(self) -> Any:
        for group in self.param_groups:
            for p in filter(lambda p: p.grad is not None, group["params"]):
                yield group, p, self.state[p]


class Signs(Base):
    """A state that is made at the first step, by the length of what is kept."""

    @fg.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = None
        if closure is not None:
            with fg.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in filter(lambda p: p.grad is not None, group["params"]):
                grad, lr, decay, beta, state = (
                    p.grad,
                    group["lr"],
                    group["decay"],
                    group["beta"],
                    self.state[p],
                )
                if len(state) == 0:
                    state["mean"] = fg.zeros_like(p)
                mean = state["mean"]
                p.data.mul_(1.0 - lr * decay)
                p.add_(mean.clone().mul_(beta).add(grad, alpha=1.0 - beta).sign_(), alpha=-lr)
                mean.mul_(beta).add_(grad, alpha=1.0 - beta)
        return loss


class Counted(Base):
    """Steps that are counted for each parameter, and a tensor that is kept anew each time."""

    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if p.grad.is_sparse:
                    raise RuntimeError("no sparse gradients")
                grad, state = p.grad.data, self.state[p]
                if not state:
                    state["step"], state["mean"], state["before"] = 0, fg.zeros_like(p), fg.zeros_like(p)
                state["step"] += 1
                state["mean"].mul_(group["beta"]).add_(grad, alpha=1 - group["beta"])
                changed = fg.abs(state["before"] - grad)
                state["before"] = grad.clone()
                size = group["lr"] / (1 - group["beta"] ** state["step"])
                p.data.addcdiv_(state["mean"], 1.0 + fg.exp(-changed), value=-size)


class ByGroups(Base):
    """A count for each group, and an average of what was every other step."""

    @fg.no_grad()
    def step(self, closure: Any = None) -> None:
        norm = fg.zeros(1)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    norm.add_(p.grad.pow(2).sum())
        norm = fg.where(norm > 1, norm.sqrt(), fg.ones_like(norm))
        for group in self.param_groups:
            if "step" in group:
                group["step"] += 1
            else:
                group["step"] = 1
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.add_(p.grad.div_(norm), alpha=-group["lr"])
                state = self.state[p]
                if "slow" not in state:
                    state["slow"] = p.clone()
                if group["step"] % 2 == 0:
                    state["slow"] += (p - state["slow"]) * 0.5
                    p.copy_(state["slow"])


class Clipped(fg.optim.Adam):
    """A rule of ours, after something else."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, lr=0.05)

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad.clamp_(-0.1, 0.1)
        return super().step(closure)


class Around(fg.optim.Optimizer):
    """Another optimizer with something behind; it does not call `Optimizer.__init__`."""

    def __init__(self, params: Any) -> None:
        self.inner = fg.optim.SGD(params, lr=0.1, momentum=0.9)
        self.param_groups, self.defaults, self.state = self.inner.param_groups, {}, defaultdict(dict)

    def step(self, closure: Any = None) -> Any:
        loss = self.inner.step(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if "slow" not in self.state[p]:
                    self.state[p]["slow"] = p.data.clone()
                self.state[p]["slow"] += (p.data - self.state[p]["slow"]) * 0.5
                p.data.copy_(self.state[p]["slow"])
        return loss


KINDS = [Signs, Counted, ByGroups, Clipped, Around]


class World:
    """A model, its optimizer, and a step of both."""

    def __init__(self, kind: Any, jitted: bool) -> None:
        fg.manual_seed(0)
        self.model = fg.nn.Sequential(fg.nn.Linear(5, 6), fg.nn.Tanh(), fg.nn.Linear(6, 2))
        self.optimizer = kind(self.model.parameters())
        self.x, self.seen = fg.randn(4, 5), []  # type: ignore[var-annotated]
        self.handles: list[Any] = []
        self.step = fg.jit(self._step) if jitted else self._step

    def _step(self) -> Any:
        self.optimizer.zero_grad()
        loss = (self.model(self.x) ** 2).mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def left(self) -> Any:
        """What there is after some steps."""
        state = getattr(self.optimizer, "inner", self.optimizer).state, self.optimizer.state
        kept = [
            [{k: _plain(v) for k, v in s.get(p, {}).items()} for p in self.model.parameters()] for s in state
        ]
        options = [{k: v for k, v in group.items() if k != "params"} for group in self.optimizer.param_groups]
        return [p.tolist() for p in self.model.parameters()], kept, options, self.seen


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, fg.Tensor) else value


def _load(world: World) -> None:
    optimizer = getattr(world.optimizer, "inner", world.optimizer)
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))


def _hook(world: World) -> None:
    world.optimizer.__dict__.setdefault("_step_post_hooks", {})
    world.optimizer.register_step_post_hook(lambda *_: world.seen.append(1))


def _hook_of_all(world: World) -> None:
    own = (world.optimizer, getattr(world.optimizer, "inner", None))
    hook = register_optimizer_step_pre_hook(lambda o, *_: world.seen.append(4) if o in own else None)
    world.handles.append(hook)


def _set_rate(world: World) -> None:
    world.optimizer.param_groups[0]["lr"] = 0.01


def _forget(world: World) -> None:
    world.optimizer.state.clear()


def _other_tensor(world: World) -> None:
    for state in world.optimizer.state.values():
        for name, value in state.items():
            if isinstance(value, fg.Tensor) and value.ndim:
                state[name] = value * 0.5


def _freeze(world: World) -> None:
    world.model[0].weight.requires_grad_(False)


def _own_rule(world: World) -> None:
    step = type(world.optimizer).step
    world.optimizer.step = lambda: (world.seen.append(2), step(world.optimizer))  # type: ignore[method-assign]


def _other_class(world: World) -> None:
    class Other(type(world.optimizer)):  # type: ignore[misc]
        def step(self, closure: Any = None) -> Any:
            world.seen.append(3)
            return super().step(closure)

    world.optimizer.__class__ = Other


def _fewer(world: World) -> None:
    world.optimizer.param_groups[0]["params"].pop()


def _nothing(world: World) -> None:
    pass


CHANGES: list[Callable[[World], None]] = [
    _nothing, _load, _hook, _hook_of_all, _set_rate, _forget, _other_tensor, _freeze,
    _own_rule, _other_class, _fewer,
]  # fmt: skip


def differ(kind: Any, change: Callable[[World], None]) -> str:
    """Where jitted steps leave something else than eager ones, also after a change; empty if nowhere."""
    plain, jitted = World(kind, False), World(kind, True)
    try:
        return _first_difference(plain, jitted, change)
    finally:
        for handle in (*plain.handles, *jitted.handles):
            handle.remove()


def _first_difference(plain: World, jitted: World, change: Callable[[World], None]) -> str:
    for number in range(20):
        for world in (plain, jitted):
            if number == 12:
                change(world)
        ours, right = float(jitted.step()), float(plain.step())
        if ours != pytest.approx(right, rel=1e-4):
            return f"the loss of step {number} is {ours}, not {right}"
        left, expected = jitted.left(), plain.left()
        if not _alike(left, expected):
            return f"step {number} leaves {left}, not {expected}"
    return ""


def _alike(left: Any, right: Any) -> bool:
    if isinstance(right, dict):
        return left.keys() == right.keys() and all(_alike(left[k], v) for k, v in right.items())
    if isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(_alike, left, right))
    if isinstance(right, float):
        return bool(left == pytest.approx(right, rel=1e-3, abs=1e-5))
    return bool(left == right)


def replayed(jitted: Any) -> int:
    """How many calls were answered without Python."""
    entries = jitted.explain().as_dict()["entries"]
    return sum(path["calls"] for entry in entries for path in entry["paths"])


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_replayed(kind: Any) -> None:
    world = World(kind, True)
    for _ in range(14):
        world.step()
    before = replayed(world.step)
    for _ in range(4):
        world.step()
    assert replayed(world.step) - before == 4, str(world.step.explain())


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", CHANGES)
def test_they_leave_what_eager_leaves(kind: Any, change: Callable[[World], None]) -> None:
    assert differ(kind, change) == ""


def test_a_step_whose_hooks_nobody_looks_for_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizer_steps, "_is_plain", lambda optimizer: True)
    assert differ(Signs, _hook)
