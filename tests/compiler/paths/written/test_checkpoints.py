"""Checkpointed functions in compiled calls: backward runs them again on what then lies there, as PyTorch's.

Programs times what is written times how, between the call and its backward or within it; all of them by
`PYTHONPATH=tests/helpers python tests/compiler/paths/written/test_checkpoints.py 1`.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from oracle import torch
from planted import finds

import fusegrad as fg
from fusegrad.compiler.paths.autograd_node import CompiledNode
from fusegrad.eager.utils.checkpoint import Run
from fusegrad.tracer.ir.evaluation import _Part
from fusegrad.tracer.record.checkpoints import Checkpoint, Checkpoints

Program = Callable[[Any, "World", Any], Any]


class World:
    """What a program finds outside; `norm` keeps statistics."""

    layers: Any = None

    def __init__(self, lib: Any, reentrant: bool) -> None:
        self.parameter = lib.tensor([1.0, 2.0, 3.0], dtype=lib.float64, requires_grad=True)
        self.constant = lib.tensor([0.5, 1.0, 1.5], dtype=lib.float64)
        self.buffer = lib.tensor([1.5, 1.0, 0.7], dtype=lib.float64)
        self.norm = lib.nn.BatchNorm1d(3).double()
        self.count = 0
        self.reentrant = reentrant

    def checkpoint(self, lib: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        return lib.utils.checkpoint.checkpoint(function, *args, use_reentrant=self.reentrant, **kwargs)


def _layer(lib: Any, world: World, x: Any, buffer: Any) -> Any:
    h = (x * world.parameter).exp() * world.constant
    return (h * buffer).tanh() * x


def _once(lib: Any, world: World, x: Any) -> Any:
    return world.checkpoint(lib, lambda t, b: _layer(lib, world, t, b), x, world.buffer)


def _between(lib: Any, world: World, x: Any) -> Any:
    """Ops before, between and after two checkpointed calls."""
    h = world.checkpoint(lib, lambda t: (t * world.parameter).sigmoid() * t, x.sin())
    h = h * world.constant.exp()
    return world.checkpoint(lib, lambda t: (t * t).tanh() * world.buffer, h).square()


def _nested(lib: Any, world: World, x: Any) -> Any:
    def inner(t: Any) -> Any:
        return (t * world.parameter).tanh() * t

    return world.checkpoint(lib, lambda t: world.checkpoint(lib, inner, t).exp() * world.constant, x)


def _of_layers(lib: Any, world: World, x: Any) -> Any:
    for _ in range(3):
        x = world.checkpoint(lib, lambda t: (t * world.parameter).sin() * world.buffer, x)
    return x


def _of_views(lib: Any, world: World, x: Any) -> Any:
    part = world.parameter.view(3, 1)[:, 0]
    return world.checkpoint(lib, lambda t: (t * part).exp() * t, x.reshape(1, 3)).sum(0)


def _drawing(lib: Any, world: World, x: Any) -> Any:
    def layer(t: Any) -> Any:
        return lib.nn.functional.dropout(t * world.parameter, 0.5).exp() * lib.ones_like(t)

    return world.checkpoint(lib, layer, x)


def _other_draws(lib: Any, world: World, x: Any) -> Any:
    def layer(t: Any) -> Any:
        return (lib.nn.functional.dropout(t * world.parameter, 0.5) * 2).exp()

    return world.checkpoint(lib, layer, x, preserve_rng_state=False)


def _normalizing(lib: Any, world: World, x: Any) -> Any:
    rows = x.repeat(4, 1) * lib.arange(4.0, dtype=lib.float64).reshape(4, 1)
    made = world.checkpoint(lib, lambda t: (world.norm(t * world.parameter) * world.constant).exp(), rows)
    return made.sum(0) + world.norm.running_mean.clone()


def _counting(lib: Any, world: World, x: Any) -> Any:
    def layer(t: Any) -> Any:
        world.count += 1
        made = (t * world.parameter).exp() * t
        world.count += 10
        return made

    return world.checkpoint(lib, layer, x)


def _printing(lib: Any, world: World, x: Any) -> Any:
    print(end="")
    return _once(lib, world, x)


def _with_contexts(lib: Any, world: World, x: Any) -> Any:
    def contexts() -> Any:
        return lib.no_grad(), lib.enable_grad()

    if world.reentrant:  # which takes none
        return _once(lib, world, x)
    plain = lib.utils.checkpoint.checkpoint
    return x + plain(lambda t: (t * t).exp(), x, use_reentrant=False, context_fn=contexts)


def _casting(lib: Any, world: World, x: Any) -> Any:
    rows = x.float().repeat(3, 1)
    with lib.autocast("cpu", lib.bfloat16):
        made = world.checkpoint(lib, lambda t: (t @ world.constant.float().diag()).sin() * t, rows)
    return made.double().sum(0)


PROGRAMS: dict[str, Program] = {
    "no call": lambda lib, world, x: _layer(lib, world, x, world.buffer),
    "one call": _once,
    "ops between calls": _between,
    "nested": _nested,
    "layers": _of_layers,
    "views": _of_views,
    "a call that draws": _drawing,
    "a call that draws others": _other_draws,
    "a call that keeps statistics": _normalizing,
    "a call that counts": _counting,
    "a run that prints": _printing,
    "contexts": _with_contexts,
    "autocast": _casting,
}


def _added(lib: Any, t: Any) -> None:
    with lib.no_grad():
        t.add_(0.5)


WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "nothing": lambda lib, t: None,
    "in place": _added,
    "in place, through .data": lambda lib, t: t.data.mul_(2),
    "a part, through .data": lambda lib, t: t.data[1:].mul_(2),
    "other memory": lambda lib, t: setattr(t, "data", lib.tensor([2.0, 1.0, 0.5], dtype=lib.float64)),
}
WRITTEN = ("input", "parameter", "constant", "buffer")
# Where it is written: after the call; within it, with the backward after it; and with that within, too.
PLACES = ("after", "within", "step")

Case = tuple[str, str, str, str, bool]
CASES: list[Case] = [
    case
    for case in itertools.product(PROGRAMS, WRITES, WRITTEN, PLACES, (False, True))
    if case[1] != "nothing" or case[2] == "input"
]


def outcomes(lib: Any, wrap: Callable[[Any], Any], case: Case) -> list[Any]:
    """What five calls give, each with its write and its backward."""
    name, how, what, place, reentrant = case
    lib.manual_seed(0)
    world = World(lib, reentrant)

    def write(x: Any) -> None:
        WRITES[how](lib, x if what == "input" else getattr(world, what))

    def called(x: Any) -> Any:
        if place == "step":  # a backward through what was done before is not replayed
            x = x * 1
        loss = PROGRAMS[name](lib, world, x).sum()
        if place != "after":
            write(x)
        if place == "step":
            loss.backward()
        return loss

    call = wrap(called)
    made: list[Any] = []
    for turn in range(5):
        fresh = World(lib, reentrant)
        for part in WRITTEN[1:]:
            getattr(world, part).data = getattr(fresh, part).data
        world.parameter.grad = None
        lib.manual_seed(turn)
        leaf = lib.tensor([0.1, 0.2, 0.3], dtype=lib.float64, requires_grad=True)
        x = leaf if place == "step" else leaf * 1
        try:
            loss = call(x)
            if place == "after":
                write(x)
            if place != "step":
                loss.backward()
        except RuntimeError as error:
            assert "modified by an inplace" in str(error), error
            made.append("an error")
            continue
        found = [loss.detach(), leaf.grad, world.parameter.grad, world.norm.running_mean]
        made.append([*(None if t is None else t for t in found), world.count])
    return made


def alike(found: Any, right: Any, tolerance: float) -> bool:
    """Whether results are the same, numbers to a part of them."""
    if isinstance(found, list):
        pairs = zip(found, right, strict=True)
        return isinstance(right, list) and all(alike(a, b, tolerance) for a, b in pairs)
    if not hasattr(found, "tolist"):
        return bool(found == right)
    return hasattr(right, "tolist") and np.allclose(found.tolist(), right.tolist(), tolerance, 1e-12)


def differing(case: Case) -> dict[str, Any]:
    """What eager and jitted calls give where it is not PyTorch's; draws are not PyTorch's, but eager's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {name: outcomes(fg, wrap, case) for name, wrap in WAYS.items()}
        right = found["eager"] if "draws" in case[0] else outcomes(torch, lambda f: f, case)
    tolerance = 1e-2 if case[0] == "autocast" else 1e-6
    return {name: (made, right) for name, made in found.items() if not alike(made, right, tolerance)}


WAYS: dict[str, Callable[[Any], Any]] = {"eager": lambda f: f, "jit": fg.jit}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", CASES[::29], ids=str)
def test_what_backward_runs_again_is_pytorchs(case: Case) -> None:
    assert not differing(case)


@pytest.mark.parametrize(
    ("owner", "name", "fault", "case"),
    [
        (_Part, "kept_no_longer", lambda self: nullcontext(), "in place, through .data constant after"),
        (CompiledNode, "before_write", lambda self, version: None, "in place parameter after"),
        (Checkpoints, "draw", lambda self, generator: None, "a call that draws nothing input step"),
        (Checkpoints, "evaluated", lambda self: None, "a call that counts nothing input step"),
        (Checkpoint, "_deeds", lambda self: (), "a call that counts nothing input after"),
        (Run, "_check_arguments", lambda self: None, "in place input after"),
    ],
)
def test_planted_faults_are_found(
    owner: Any, name: str, fault: Any, case: str, monkeypatch: pytest.MonkeyPatch, faults_are_covered: None
) -> None:
    monkeypatch.setattr(owner, name, fault)
    named = {" ".join(c[:4]).removeprefix("one call "): c for c in CASES if c[4] is False}
    assert finds(test_what_backward_runs_again_is_pytorchs, named[case])


def _of_modules(lib: Any, world: World, x: Any) -> Any:
    return world.checkpoint(lib, world.layers, x)


@pytest.mark.parametrize(
    ("program", "replays"), [(_of_modules, True), (_of_layers, True), (_counting, False)]
)
def test_replays_say_why_they_are_none(program: Program, replays: bool) -> None:
    world = World(fg, False)
    world.layers = fg.nn.Sequential(fg.nn.Linear(3, 3), fg.nn.GELU(), fg.nn.Linear(3, 3)).double()
    called = fg.jit(lambda x: program(fg, world, x).sum())
    for _ in range(4):
        called(fg.tensor([0.1, 0.2, 0.3], dtype=fg.float64, requires_grad=True)).backward()
    explained = str(called.explain())
    assert (called.stats.eager_calls <= 1) is replays, explained
    assert ("in a checkpointed function, which backward runs again" in explained) is not replays


if __name__ == "__main__":
    step = int(sys.argv[1])
    wrong = [(case, found) for case in CASES[::step] if (found := differing(case))]
    for case, found in wrong:
        print(case)
        for name, (made, right) in found.items():
            print("   ", name, made, right)
    print(f"{len(CASES[::step])} cases, {len(wrong)} differ")
