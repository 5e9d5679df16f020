"""Functions that nobody knows in the middle of a run: they are called by replays, once, at their place.

What they may do besides is put together at random in `tests/compiler/random/test_random_unknown_calls.py`.
"""

from __future__ import annotations

import ctypes
import threading
import zlib
from collections.abc import Callable
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from jit_checks import sealed

import fusegrad as fg
from fusegrad.tracer.observe.world import unknown_calls

LIBRARY = ctypes.CDLL(None)
SEEN: list[Any] = []
S = SimpleNamespace(step=0, scale=2.0, buffer=fg.ones(3), mode="mean", number=1)


@ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)
def half(x: float) -> float:
    SEEN.append(x)
    return x / 2


@staticmethod
def rows(a: np.ndarray) -> np.ndarray:
    SEEN.append(a.copy())
    return a * 2 + 1


@staticmethod
def named(a: np.ndarray) -> str:
    SEEN.append(a.copy())
    return "high" if a.mean() > 0 else "low"


@staticmethod
def looks(a: Any) -> float:
    SEEN.append(a)
    return float(S.buffer.sum())


def _number(x: fg.Tensor) -> fg.Tensor:
    h = fg.tanh(x)
    return (h * half(h.mean().item())).sum()


def _array(x: fg.Tensor) -> fg.Tensor:
    h = fg.tanh(x)
    return (h * fg.from_numpy(rows(h.detach().numpy()))).sum()


def _text(x: fg.Tensor) -> fg.Tensor:
    h = fg.tanh(x)
    return (h * 2 if named(h.detach().numpy()) == "high" else h * 3).sum()


def _nothing_given(x: fg.Tensor) -> fg.Tensor:
    h = fg.tanh(x)
    pid = LIBRARY.getpid()
    return h.sum() * (pid > 0)


def _of_a_module(x: fg.Tensor) -> fg.Tensor:
    h = fg.tanh(x)
    return h.sum() * (zlib.crc32(b"abc") % 7)


def _two_in_order(x: fg.Tensor) -> fg.Tensor:
    first = half(x.detach().sum().item())
    second = half(first)
    return (x * first).sum() + (x * second).sum() + half(0.5)


def _a_count(x: fg.Tensor) -> fg.Tensor:
    found = half(S.step * 0.5)
    S.step += 1
    return (x * found).sum()


def _behind_dropout(x: fg.Tensor) -> fg.Tensor:
    h = fg.nn.functional.dropout(x, 0.5) * half(x.detach().mean().item())
    return fg.nn.functional.dropout(h, 0.5).sum()


@ctypes.CFUNCTYPE(ctypes.c_int)
def asks_for_modes() -> int:
    return 2 * fg.is_grad_enabled() + fg.ones(1, requires_grad=True).exp().requires_grad


def _in_modes(x: fg.Tensor) -> fg.Tensor:
    with fg.no_grad():
        inside = asks_for_modes()
    return (x * (inside + 10 * asks_for_modes())).sum()


STEPS = [
    _in_modes,
    _number,
    _array,
    _text,
    _nothing_given,
    _of_a_module,
    _two_in_order,
    _a_count,
    _behind_dropout,
]


def compare(step: Callable[[fg.Tensor], fg.Tensor], seals: bool = True, calls: int = 12) -> Any:
    """Eager beside jit: values, gradients, and what functions were given; late calls enter no Python."""
    function = fg.jit(step)
    for seed in range(calls):
        if seals and seed == calls - 3:
            sealed(function)
        found = []
        for called in (step, function):
            x = fg.randn(3, generator=fg.Generator().manual_seed(seed)).requires_grad_()
            S.step, S.number, S.buffer = seed, 1, fg.ones(3) if seed == 0 else S.buffer.fill_(1.0)
            fg.manual_seed(seed)
            SEEN.clear()
            y = called(x)
            y.backward()
            found.append([y.detach().numpy(), x.grad.numpy(), S.buffer.numpy().copy(), *SEEN])
        theirs, ours = found
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, 1e-5, 1e-6)
    return function


@pytest.mark.parametrize("step", STEPS)
def test_unknown_functions_are_called_by_replays(step: Any) -> None:
    compare(step)


def test_a_training_step_is_cut() -> None:
    def made() -> Callable[[fg.Tensor], fg.Tensor]:
        fg.manual_seed(0)
        net = fg.nn.Sequential(fg.nn.Linear(3, 4), fg.nn.Tanh(), fg.nn.Linear(4, 2))
        optimizer = fg.optim.Adam(net.parameters(), lr=0.01)

        def step(x: fg.Tensor) -> fg.Tensor:
            optimizer.zero_grad()
            h = net(x)
            loss = (h * half(h.mean().item()) + 1).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        return step

    eager, jitted = made(), fg.jit(made())
    for seed in range(12):
        if seed == 8:
            sealed(jitted)
        x = fg.randn(5, 3, generator=fg.Generator().manual_seed(seed))
        np.testing.assert_allclose(jitted(x).item(), eager(x).item(), rtol=1e-5)


def test_explain_names_the_call_and_its_line() -> None:
    text = str(compare(_array).explain())
    line = _array.__code__.co_firstlineno + 2
    assert f"test_unknown_calls.py:{line}" in text
    assert "cut at" in text and "rows(_)" in text


def _looks_after_a_write(x: fg.Tensor) -> fg.Tensor:
    S.buffer.mul_(0.5)
    return (x * looks(0.5)).sum()


def test_what_was_written_before_is_seen() -> None:
    compare(_looks_after_a_write, seals=False)


def test_changes_that_nobody_minds_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unknown_calls, "_is_hindered", lambda observer, function: False)
    with pytest.raises(AssertionError):
        test_what_was_written_before_is_seen()


def _maker(word: str) -> Any:
    def says(a: float) -> str:
        return word

    return staticmethod(says)


def test_functions_of_one_name_are_told_apart() -> None:
    world = SimpleNamespace(f=_maker("high"), g=_maker("low"))

    def step(x: fg.Tensor) -> fg.Tensor:
        return (x * 2 if world.f(0.5) == "high" else x).sum()

    function = fg.jit(step)
    for call in range(12):
        x = fg.randn(3, generator=fg.Generator().manual_seed(call))
        np.testing.assert_allclose(function(x).item(), step(x).item(), rtol=1e-5)
        if call % 3 == 2:
            world.f, world.g = world.g, world.f


def test_a_change_of_what_was_read_that_comes_late_is_an_error_once() -> None:
    calls: list[int] = []

    @staticmethod
    def counts(a: float) -> float:
        calls.append(len(calls))
        if len(calls) == 6:
            S.number += 1
        return 0.5

    @fg.jit
    def step(x: fg.Tensor) -> fg.Tensor:
        return (x * S.number * counts(0.5)).sum()

    S.number, x = 1, fg.ones(3)
    for _ in range(5):
        assert step(x).item() == 1.5
    with pytest.raises(RuntimeError, match="changes what was read before"):
        step(x)
    assert len(calls) == 6
    for _ in range(3):
        assert step(x).item() == 3.0
    assert len(calls) == 9


LOCK, VARIABLE = threading.Lock(), ContextVar("variable", default=0)


@ctypes.CFUNCTYPE(ctypes.c_int)
def asks_for_more() -> int:
    return 2 * VARIABLE.get() + LOCK.locked()


def _with_a_lock(x: fg.Tensor) -> fg.Tensor:
    with LOCK:
        found = asks_for_more()
    return (x * (found + 10 * asks_for_more() + 1)).sum()


def _with_a_variable(x: fg.Tensor) -> fg.Tensor:
    token = VARIABLE.set(3)
    found = asks_for_more()
    VARIABLE.reset(token)
    return (x * (found + 10 * asks_for_more() + 1)).sum()


@pytest.mark.parametrize("step", [_with_a_lock, _with_a_variable])
def test_what_replays_leave_out_is_there_for_calls(step: Any) -> None:
    """Locks that are taken, and variables that are set and set back: such a call has the body run."""
    assert "asks_for_more" in str(compare(step, seals=False).explain())


def _between(x: fg.Tensor) -> fg.Tensor:
    """What the first gave is read between two calls alone."""
    h = x.sin() * half(S.step)
    return (fg.from_numpy(rows(h.detach().numpy())) * h.exp() * half(S.step)).sum()


@pytest.mark.parametrize("step", [s for s in STEPS if s not in (_of_a_module, _nothing_given)] + [_between])
def test_gradients_are_derived_again(step: Any) -> None:
    """Without a call: eager's ops compute the forward again, from what the functions gave."""
    function = fg.jit(step)
    for seed in range(8):
        found = []
        for called in (step, function):
            x = fg.randn(3, generator=fg.Generator().manual_seed(seed)).requires_grad_()
            S.step = seed
            fg.manual_seed(seed)
            SEEN.clear()
            y = called(x)
            gave = len(SEEN)
            (first,) = fg.autograd.grad(y, [x], create_graph=True)
            weighted = (first * x).sum()
            found.append([y, first, *fg.autograd.grad(weighted, [x]), fg.tensor(gave), fg.tensor(len(SEEN))])
        for ours, theirs in zip(*reversed(found), strict=True):
            np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), 1e-5, 1e-6)
    assert function.stats.compiled_calls >= 3
