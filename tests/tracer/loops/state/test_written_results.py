"""What a rolled loop leaves is written in place afterwards: backward refuses that where eager's does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fusegrad as fg
from fusegrad.tracer.loops import turns

ROUNDS = 150

BODIES: dict[str, Callable[[Any, Any], Any]] = {
    "linear": lambda h, a: h * 0.9 + a * 0.01,
    "product": lambda h, a: h * 0.9 + a * h * 0.01,
    "square": lambda h, a: h - h * h * 0.01,
    "quotient": lambda h, a: (h + a) / (1 + h * h),
    "sine": lambda h, a: h.sin() + a * 0.1,
    "sigmoid": lambda h, a: (h * a).sigmoid(),
    "exponential": lambda h, a: (-h * a).exp(),
    "view of what keeps": lambda h, a: (h * a).tanh().view(2, 2).view(4),
    "root": lambda h, a: (h * h + a).sqrt(),
    "clamped": lambda h, a: (h * 0.9 + a).clamp(-1, 1),
    "another reads it": lambda h, a: (lambda k: k + 0 * (k * k).sum())(h * 0.5 + a),
    "two": lambda h, a: h * a.sigmoid() + h.tanh() * 0.1,
}


def counted(body: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def settle(a: Any, rounds: int) -> Any:
        h, i = a * 2, 0
        while i < rounds:
            h = body(h, a)
            i += 1
        return h

    return settle


def ranged(body: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def settle(a: Any, rounds: int) -> Any:
        h = a * 2
        for _ in range(rounds):
            h = body(h, a)
        return h

    return settle


def by_caller(settle: Callable[..., Any], wrap: Any) -> Any:
    called = wrap(settle)

    def step(a: Any) -> Any:
        y = called(a, ROUNDS)
        y.mul_(3)
        return fg.autograd.grad(y.sum(), a)[0]

    return step


def within(settle: Callable[..., Any], wrap: Any) -> Any:
    def written(a: Any) -> Any:
        y = settle(a, ROUNDS)
        y.mul_(3)
        return y

    called = wrap(written)
    return lambda a: fg.autograd.grad(called(a).sum(), a)[0]


def step(settle: Callable[..., Any], wrap: Any) -> Any:
    def whole(a: Any) -> Any:
        y = settle(a, ROUNDS)
        y.mul_(3)
        return fg.autograd.grad(y.sum(), a)[0]

    return wrap(whole)


def outcome(call: Callable[[Any], Any]) -> Any:
    try:
        return call(fg.full((4,), 0.5, dtype=fg.float64, requires_grad=True)).tolist()
    except RuntimeError:
        return RuntimeError


@pytest.mark.one_in(8)
@pytest.mark.parametrize("written", [by_caller, within, step], ids=lambda f: f.__name__)
@pytest.mark.parametrize("loop", [counted, ranged], ids=lambda f: f.__name__)
@pytest.mark.parametrize("body", BODIES)
def test_a_result_is_kept_where_eager_keeps_it(body: str, loop: Any, written: Any):
    settle = loop(BODIES[body])
    expected = outcome(written(settle, lambda f: f))
    called = written(settle, fg.jit)
    for _ in range(3):
        found = outcome(called)
        assert found == (expected if expected is RuntimeError else pytest.approx(expected, rel=1e-9))


def test_a_result_that_is_kept_too_often_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(turns, "is_kept", lambda *given: True)
    with pytest.raises(AssertionError):
        test_a_result_is_kept_where_eager_keeps_it("linear", counted, by_caller)
