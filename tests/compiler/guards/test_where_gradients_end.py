"""Backwards inside of a call end at leaves.

What is a leaf in one call is the result of an op in another, of one type: backward goes on there, and such
a call is no replay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fusegrad as fg
from fusegrad.compiler.paths import plans

OUTSIDE = fg.ones(3, requires_grad=True)


def _accumulated(x: Any, y: Any) -> Any:
    (x * y).sum().backward()


def _of_a_root(x: Any, y: Any) -> Any:
    y.backward(x.detach() * 2)


def _of_what_is_outside(x: Any, y: Any) -> Any:
    ((OUTSIDE * 2) * (x + y)).sum().backward()


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "asked for": lambda x, y: fg.autograd.grad((x * y).sum(), [x]),
    "both asked for": lambda x, y: fg.autograd.grad((x * y + y).sum(), [x, y]),
    "asked for, to be derived": lambda x, y: fg.autograd.grad((x * y * y).sum(), [x], create_graph=True),
    "accumulated": _accumulated,
    "of a root": _of_a_root,
    "of what is outside": _of_what_is_outside,
}
WAYS: dict[str, Callable[[Any], Any]] = {
    "computed of the other": lambda x: x * 3,
    "a view of the other": lambda x: x[:],
    "computed of another": lambda x: (fg.ones(3, requires_grad=True) * x.detach()).exp(),
    "computed of what is outside": lambda x: OUTSIDE * 2 + x,
}


def outcome(program: Callable[[Any, Any], Any], way: Callable[[Any], Any] | None) -> list[Any]:
    OUTSIDE.grad = None
    x = fg.full((3,), 2.0, requires_grad=True)
    y = fg.full((3,), 6.0, requires_grad=True) if way is None else way(x)
    found = program(x, y) or ()
    gradients = [*found, x.grad, y.grad if y.is_leaf else None, OUTSIDE.grad]
    return [None if g is None else g.tolist() for g in gradients]


def differing() -> list[tuple[str, str]]:
    found = []
    for name, program in PROGRAMS.items():
        for way, make in WAYS.items():
            jitted = fg.jit(program)
            for _ in range(5):
                outcome(jitted, None)
            assert jitted.stats.compiled_calls >= 3, name
            for _ in range(3):
                if outcome(jitted, make) != outcome(program, make):
                    found.append((name, way))
                    break
            assert outcome(jitted, None) == outcome(program, None)
    return found


@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_gradients_are_eagers():
    assert differing() == []


@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_a_leaf_that_is_none_any_more_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(plans, "any_was_made", lambda *leaves: False)
    assert {name for name, _ in differing()} == set(PROGRAMS)


def test_a_parameter_that_an_op_has_made_since_is_found():
    """It is the same object, and of the same type."""
    source, weight = fg.ones(3, requires_grad=True), fg.ones(3, requires_grad=True)

    def step(x: Any) -> Any:
        (weight * x).sum().backward()

    jitted = fg.jit(step)
    for _ in range(4):
        jitted(fg.ones(3))
    assert jitted.stats.compiled_calls == 2
    weight.requires_grad_(False)
    weight.mul_(source)
    jitted(fg.ones(3))
    assert source.grad is not None and source.grad.tolist() == [1.0] * 3


def test_the_reason_is_told():
    jitted = fg.jit(PROGRAMS["asked for"])
    for way in (None, None, None, WAYS["computed of the other"]):
        outcome(jitted, way)
    assert "is the result of an op now" in str(jitted.explain())


def test_nobody_is_asked_about_leaves_that_were_the_runs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a function transform are gone when it is over."""

    def asked(*leaves: Any) -> bool:
        raise AssertionError(leaves)

    for name in ("any_was_made", "any_has_hooks"):
        monkeypatch.setattr(plans, name, asked)
    step = fg.jit(fg.value_and_grad(lambda x: (x * x).sum()))
    for number in range(6):
        x = fg.arange(3.0) + number
        value, gradient = step(x)
        fg.testing.assert_close((value, gradient), ((x * x).sum(), 2 * x))
    assert step.stats.compiled_calls == 5
