"""Loops whose rounds branch on data: one op for all, whichever way each round goes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.nn import functional as F
from fusegrad.tracer.loops import tested_rounds

Loop = Callable[[fg.Tensor, fg.Tensor], Any]


def bouncing(x: Any, v: Any) -> Any:
    for _ in range(60):
        x = x + v * 0.1
        if x.sum() > 1:
            v = -v
        elif x.sum() < -1:
            v = -v * 0.9
    return x, v


def two_sides(x: Any, v: Any) -> Any:
    for _ in range(40):
        if x.sum() > 0:
            x = x * 0.9 - 0.3 * v
        else:
            x = x * 0.8 + 0.2 * v
    return x


def chosen_steps(x: Any, v: Any) -> Any:
    t, dt, steps = fg.zeros((), dtype=fg.float64), fg.full((), 0.1, dtype=fg.float64), 0
    while t < 1 and steps < 100:
        slope = fg.sin(x) * v
        rough = x + dt * slope
        fine = x + dt * 0.5 * (slope + fg.sin(rough) * v)
        if (fine - rough).abs().max() < 1e-2:
            x = fine
            t = t + dt
            dt = dt * 1.3
        else:
            dt = dt * 0.5
        steps += 1
    return x * steps


def lowest(x: Any, v: Any) -> Any:
    low, where = float("inf"), 0.0
    for _ in range(30):
        x = x * 0.97 - v * 0.1
        energy = (x * x).sum().item()
        if energy < low:
            low, where = energy, x.sum().item()
    return x * low + where


def clipped(x: Any, v: Any) -> Any:
    for _ in range(30):
        step = x * x * v * 0.1 + 0.5 * x
        size = step.norm()
        if size > 0.2:
            step = step * (0.2 / size)
        x = x - step
    return x


def branches_within(x: Any, v: Any) -> Any:
    calm = x.sum() * 0
    while x.abs().max() > 0.1:
        if x.sum() > 0:
            if x.max() > 1:
                x = x * 0.5
            else:
                x = x * 0.7 - v * 0.01
        else:
            x, calm = x * 0.6, calm + x.sum()
    return x + calm


def not_computed(x: Any, v: Any) -> Any:
    """Of negative numbers the one side would be NaN, and its slope at 0 infinite."""
    for _ in range(12):
        if x.min() > 0:
            x = fg.sqrt(x) - 0.6 * v
        else:
            x = x * x * 0.5 + 0.3
    return x


def left_within(x: Any, v: Any) -> Any:
    for _ in range(50):
        if x.sum() > 1:
            x = x * 0.8
        else:
            x = x * 1.1 + 0.2 * v * v + 0.05
            if x.norm() > 2:
                break
    return x


def counting(x: Any, v: Any) -> Any:
    """Only one side counts, so that the number does not follow from how many rounds there were."""
    hits, others = 0, 0
    for _ in range(30):
        if x.sum() > 0:
            x = x * 0.5 - 0.3 * v
            hits += 1
        else:
            x = x * 0.6 + 0.2 * v * v + 0.1
            others += 2
    return x * hits, x * (others + 1)


def bisection(x: Any, v: Any) -> Any:
    """What rounds hand on are numbers, which they never take out of tensors."""
    low, high = 0.0, 4.0
    for _ in range(30):
        middle = (low + high) / 2
        if (x * x).sum() > middle * middle:
            low = middle
        else:
            high = middle
    return x / (low + 1e-3) + v * 0


LOOPS: list[Loop] = [
    bouncing, two_sides, chosen_steps, lowest, clipped, branches_within, not_computed, left_within,
    counting, bisection,
]  # fmt: skip


def _outcome(loop: Loop, seed: int, wants: bool) -> list[Any]:
    draw = np.random.default_rng(seed)
    x, v = (fg.from_numpy(draw.normal(size=3)).requires_grad_(wants) for _ in "xv")
    made = loop(x, v)
    made = list(made) if isinstance(made, tuple) else [made]
    if wants:
        sum((part * part).sum() for part in made).backward()
    found = [part.detach().numpy() for part in made]
    return found + [None if t.grad is None else t.grad.numpy() for t in (x, v)]


def _compare(jitted: Loop, loop: Loop, seed: int, wants: bool) -> None:
    found, expected = (_outcome(function, seed, wants) for function in (jitted, loop))
    assert [a is None for a in found] == [b is None for b in expected]
    for ours, theirs in zip(found, expected, strict=True):
        if theirs is not None:
            np.testing.assert_allclose(ours, theirs, 1e-6, 1e-9)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("wants", [False, True], ids=["values", "gradients"])
def test_whichever_way_rounds_go_few_paths_do_them_all(loop: Loop, wants: bool) -> None:
    jitted = fg.jit(loop)
    for seed in range(40):
        _compare(jitted, loop, seed, wants)
    assert jitted.stats.compiles <= 8, jitted.stats
    before = jitted.stats.compiled_calls
    for seed in range(40, 60):
        _compare(jitted, loop, seed, wants)
    assert jitted.stats.compiled_calls - before >= 18, jitted.stats
    assert "rounds of a loop" in str(jitted.explain())


def test_a_leaf_that_no_round_has_used_has_no_gradient() -> None:
    """So rounds of which only some do are not left to one op."""

    def loop(x: Any, v: Any) -> Any:
        for _ in range(20):
            x = x * 0.9 - 0.3 if x.sum() > 0 else x * 0.8 + v
        return x

    jitted = fg.jit(loop)
    for seed in range(12):
        _compare(jitted, loop, seed, True)


def keeping(x: Any, v: Any) -> Any:
    """Until a round changes it, the variable is what somebody else has, too."""
    speed = v
    for _ in range(30):
        x = x + speed * 0.1 - v * 0.05
        if x.sum() > 1:
            speed = -speed
    return x, speed


def test_what_variables_share_with_others_at_first_is_told_apart() -> None:
    jitted = fg.jit(keeping)
    for seed in range(40):
        _compare(jitted, keeping, seed, False)
    x, v = fg.zeros(3), fg.ones(3) * 0.01
    assert jitted(x, v)[1] is v


def cooling(x: Any, v: Any) -> Any:
    """The one side has another dtype."""
    for _ in range(20):
        x = x.float() * 0.5 if x.sum() > 0.1 else x * 0.5 + v
    return x, v


def spreading(x: Any, v: Any) -> Any:
    """The one side has another shape."""
    a = x[:1] * 1
    for _ in range(20):
        a = a * 0.5 if a.sum() > 0.1 else a * 0.5 + v
    return a, v


def looked_up(x: Any, v: Any) -> Any:
    """Of the next round's class there would be no score."""
    y, loss = (v[:1] > 0).to(fg.int64), x.sum()
    for _ in range(12):
        if y.max() < 3:
            loss, y = loss * 0.5 + F.cross_entropy(x[None], y), y + 1
        else:
            y = y * 0
    return loss


@pytest.mark.parametrize("loop", [cooling, spreading, looked_up])
def test_what_no_one_op_can_stand_for_is_eagers(loop: Loop) -> None:
    jitted = fg.jit(loop)
    for seed in range(30):
        assert _dtypes(jitted, seed) == _dtypes(loop, seed)
        _compare(jitted, loop, seed, seed % 3 == 0)


def _dtypes(loop: Loop, seed: int) -> list[Any]:
    return [part.dtype for part in _outcome(loop, seed, False) if part is not None]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_explain_tells_of_loops_in_each_dtype(dtype: str) -> None:
    jitted = fg.jit(two_sides)
    for seed in range(4):
        draw = np.random.default_rng(seed)
        x, v = (fg.from_numpy(draw.normal(size=3)).to(getattr(fg, dtype)).requires_grad_() for _ in "xv")
        jitted(x, v).sum().backward()
    assert "rounds of a loop" in str(jitted.explain())


@pytest.mark.parametrize("loop", [clipped, lowest, two_sides])
def test_they_are_exported_also_where_rounds_are_compiled(loop: Loop, tmp_path: Path) -> None:
    args = fg.tensor([0.3, 0.4, 0.5], dtype=fg.float64), fg.tensor([0.3, -0.4, 0.5], dtype=fg.float64)
    fg.jit(loop)(*args)
    fg.export(loop, args, tmp_path / "loop.py")
    names: dict[str, Any] = {}
    exec((tmp_path / "loop.py").read_text(), names)
    np.testing.assert_allclose(names["run"](*args).numpy(), loop(*args).numpy(), 1e-9)


def test_ways_of_rounds_that_mistake_the_one_for_the_other_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = tested_rounds.TestedRounds._kind
    monkeypatch.setattr(tested_rounds.TestedRounds, "_kind", lambda *args: kind(*args)._replace(value=None))
    jitted = fg.jit(keeping)
    with pytest.raises(AssertionError):
        for seed in range(40):
            _compare(jitted, keeping, seed, False)
