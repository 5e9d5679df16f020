"""When results and gradients become one program: soon where there is little to plan, later where much."""

from __future__ import annotations

from typing import Any

import pytest

import fusegrad as fg
from fusegrad.compiler.paths import segments


def loss(x: fg.Tensor) -> fg.Tensor:
    for _ in range(20):
        x = fg.sin(x) * 0.9
    return x.sum()


def calls_until_joint(most: int) -> tuple[Any, int]:
    """The jitted loss, and how often it was called and derived until it had a joint program."""
    jitted = fg.jit(loss)
    x = fg.randn(5, requires_grad=True)
    for number in range(most):
        jitted(x).backward()
        if jitted.kernels().joint:
            return jitted, number + 1
    return jitted, most


def test_short_paths_have_one_soon() -> None:
    _, calls = calls_until_joint(20)
    assert calls <= segments.JOINT_AFTER + 2


def test_long_paths_have_one_once_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "LONG_PATH", 40)
    monkeypatch.setattr(segments, "EQUATIONS_PER_CALL", 2)
    jitted, calls = calls_until_joint(200)
    (leaf,) = jitted.segments()
    equations = len(leaf.path.forward) + len(leaf.path.derivative.equations)
    assert equations // 2 <= calls <= equations // 2 + 2
    assert jitted.stats.compiled_calls == calls - 1


def test_long_paths_that_are_not_derived_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "LONG_PATH", 40)
    jitted = fg.jit(loss)
    for _ in range(30):
        jitted(fg.randn(5, requires_grad=True))
    assert not jitted.kernels().joint
