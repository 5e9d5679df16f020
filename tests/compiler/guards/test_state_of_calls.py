"""State that changes what a call means: what is set when a call is made holds for that call, as in eager.

Each change is made between calls of functions that have been compiled, then taken back.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler import jit as jit_module
from fusegrad.compiler.paths import plans
from fusegrad.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

Log = list[Any]
Change = Callable[["World"], contextlib.AbstractContextManager[Any]]


def leaf(values: Any) -> fg.Tensor:
    return fg.tensor(values, dtype=fg.float64, requires_grad=True)


class World:
    """A small model with its optimizer, and what hooks have seen."""

    def __init__(self) -> None:
        fg.manual_seed(0)
        # In float64: roundings are told from differences.
        self.model = fg.nn.Sequential(fg.nn.Linear(3, 4), fg.nn.Tanh(), fg.nn.Linear(4, 2)).double()
        self.weight = leaf([[1.0, 2.0, 3.0]])
        self.argument = leaf([[0.5, -1.0, 2.0]])
        self.optimizer = fg.optim.SGD([*self.model.parameters(), self.weight], lr=0.1, momentum=0.9)
        self.seen: Log = []


def forward(world: World, x: fg.Tensor) -> Any:
    return world.model(x * world.weight).sum()


def inner_gradient(world: World, x: fg.Tensor) -> Any:
    return fg.autograd.grad(forward(world, x), [world.weight, world.model[0].weight])


def gradient_of_argument(world: World, x: fg.Tensor) -> Any:
    return fg.autograd.grad((x * x * world.weight).sum(), x)[0]


def inner_backward(world: World, x: fg.Tensor) -> Any:
    world.weight.grad = None
    forward(world, x).backward()
    return world.weight.grad * 1


def step(world: World, x: fg.Tensor) -> Any:
    world.optimizer.zero_grad()
    loss = forward(world, x)
    loss.backward()
    world.optimizer.step()
    return loss.detach()


FUNCTIONS = [forward, inner_gradient, gradient_of_argument, inner_backward, step]


def hook(register: Callable[[World, Callable[..., Any]], Any], result: Callable[..., Any]) -> Change:
    """A hook that notes that it was called, and gives what `result` makes of its arguments."""

    @contextlib.contextmanager
    def change(world: World) -> Iterator[None]:
        def noted(*args: Any) -> Any:
            world.seen.append("called")
            return result(*args)

        handle = register(world, noted)
        try:
            yield
        finally:
            handle.remove()

    return change


@contextlib.contextmanager
def assigned(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextlib.contextmanager
def float64_by_default(world: World) -> Iterator[None]:
    fg.set_default_dtype(fg.float64)
    try:
        yield
    finally:
        fg.set_default_dtype(fg.float32)


@contextlib.contextmanager
def frozen(world: World) -> Iterator[None]:
    world.model[0].weight.requires_grad_(False)
    try:
        yield
    finally:
        world.model[0].weight.requires_grad_(True)


@contextlib.contextmanager
def one_thread(world: World) -> Iterator[None]:
    threads = fg.get_num_threads()
    fg.set_num_threads(1)
    try:
        yield
    finally:
        fg.set_num_threads(threads)


@contextlib.contextmanager
def warnings_are_errors(world: World) -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@contextlib.contextmanager
def learns_faster(world: World) -> Iterator[None]:
    (group,) = world.optimizer.param_groups
    group["lr"] *= 2
    try:
        yield
    finally:
        group["lr"] /= 2


def seeded_module() -> fg.nn.Module:
    fg.manual_seed(1)
    return fg.nn.Sequential(fg.nn.Linear(3, 4), fg.nn.ReLU()).double()


def packed(world: World) -> contextlib.AbstractContextManager[Any]:
    def pack(tensor: fg.Tensor) -> fg.Tensor:
        world.seen.append("packed")
        return tensor * 2

    return fg.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)


CHANGES: dict[str, Change] = {
    "hook of a parameter": hook(lambda w, h: w.weight.register_hook(h), lambda g: g * 0.5),
    "hook that gives nothing": hook(lambda w, h: w.weight.register_hook(h), lambda g: None),
    "hook of an argument": hook(lambda w, h: w.argument.register_hook(h), lambda g: g * 3),
    "hook of a module's parameter": hook(lambda w, h: w.model[0].weight.register_hook(h), lambda g: g + 1),
    "post accumulate hook": hook(
        lambda w, h: w.weight.register_post_accumulate_grad_hook(h), lambda t: t.grad.mul_(2) and None
    ),
    "forward hook": hook(lambda w, h: w.model[1].register_forward_hook(h), lambda m, args, out: out * 2),
    "forward pre-hook": hook(
        lambda w, h: w.model[2].register_forward_pre_hook(h), lambda m, args: (args[0] + 1,)
    ),
    "full backward hook": hook(
        lambda w, h: w.model[1].register_full_backward_hook(h), lambda m, g_in, g_out: (g_in[0] * 2,)
    ),
    "full backward pre-hook": hook(
        lambda w, h: w.model[1].register_full_backward_pre_hook(h), lambda m, g: (g[0] * 2,)
    ),
    "optimizer's pre-hook": hook(
        lambda w, h: w.optimizer.register_step_pre_hook(h), lambda o, args, kwargs: None
    ),
    "optimizer's post-hook": hook(
        lambda w, h: w.optimizer.register_step_post_hook(h), lambda o, args, kwargs: None
    ),
    "pre-hook of all optimizers": hook(
        lambda w, h: register_optimizer_step_pre_hook(h), lambda o, args, kwargs: None
    ),
    "post-hook of all optimizers": hook(
        lambda w, h: register_optimizer_step_post_hook(h), lambda o, args, kwargs: None
    ),
    "no_grad": lambda w: fg.no_grad(),
    "set_grad_enabled": lambda w: fg.set_grad_enabled(False),
    "inference mode": lambda w: fg.inference_mode(),
    "anomaly mode": lambda w: fg.autograd.detect_anomaly(),
    "saved tensors' hooks": packed,
    "default dtype": float64_by_default,
    "floating point errors": lambda w: np.errstate(all="raise"),
    "warnings": warnings_are_errors,
    "threads": one_thread,
    "eval": lambda w: contextlib.ExitStack() if w.model.eval() and w.model.train() else None,  # type: ignore
    "frozen parameter": frozen,
    "learning rate": learns_faster,
    "another parameter": lambda w: assigned(w, "weight", leaf([[3.0, 1.0, 0.0]])),
    "another module": lambda w: assigned(w, "model", seeded_module()),
    "another forward": lambda w: assigned(fg.nn.Tanh, "forward", lambda self, x: x * 2),
    "saturating argument": lambda w: assigned(w, "argument", leaf([[1e308, -1e308, fg.inf]])),
}


def observed(function: Callable[..., Any], world: World) -> list[Any]:
    """All that can be seen of a call, with a backward from what it gives if that can be."""
    world.seen.clear()
    world.argument.grad = None
    try:
        result = function(world, world.argument)
        tensors = [*result] if isinstance(result, tuple) else [result]
        if len(tensors) == 1 and tensors[0].requires_grad:
            tensors[0].sum().backward()
    except Exception as error:
        return [type(error), str(error).split("\n")[0], *world.seen]
    kept = [world.weight, world.weight.grad, world.argument.grad, *world.model.parameters()]
    kept += [p.grad for p in world.model.parameters()]
    arrays = [None if t is None else np.array(t.detach().numpy()) for t in (*tensors, *kept)]
    return [*arrays, *(t.requires_grad for t in tensors), *world.seen]


def assert_alike(ours: list[Any], theirs: list[Any]) -> None:
    assert len(ours) == len(theirs), (ours, theirs)
    for x, y in zip(ours, theirs, strict=True):
        if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
            assert x.dtype == y.dtype
            np.testing.assert_allclose(x, y, 1e-9, 1e-12)
        else:
            assert x is y or x == y, (ours, theirs)


def compiled_calls_after(function: Callable[..., Any], change: Change) -> int:
    """Compare jit with eager before, during and after a change; how many calls were compiled at the end."""
    ours, theirs = World(), World()
    jitted = fg.jit(lambda world, x: function(world, x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            assert_alike(observed(jitted, ours), observed(function, theirs))
        for _ in range(2):
            with change(ours):
                mine = [observed(jitted, ours) for _ in range(3)]
            with change(theirs):
                expected = [observed(function, theirs) for _ in range(3)]
            for x, y in zip(mine, expected, strict=True):
                assert_alike(x, y)
            before = jitted.stats.compiled_calls
            for _ in range(4):
                assert_alike(observed(jitted, ours), observed(function, theirs))
    return jitted.stats.compiled_calls - before


@pytest.mark.one_in(3)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_holds_for_the_calls_that_it_is_made_for(name: str, function: Callable[..., Any]):
    assert compiled_calls_after(function, CHANGES[name]) > 0


@pytest.mark.parametrize(
    "module, name, planted, change",
    [
        (plans, "any_has_hooks", lambda *leaves: False, "hook of a parameter"),
        (jit_module, "watchers", [], "saved tensors' hooks"),
    ],
)
def test_a_change_that_is_overlooked_is_found(
    module: Any, name: str, planted: Any, change: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, name, planted)
    with pytest.raises(AssertionError):
        compiled_calls_after(inner_gradient, CHANGES[change])
