"""Python floats that vary from call to call, as bounds, slopes, factors: calls are replayed, and give what
eager gives, values and gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.eager.core.op import REGISTRY
from fusegrad.nn import functional as F
from fusegrad.tracer.record import scalars
from fusegrad.tracer.record.number_operands import TAKES_OPERANDS, by_operands

CALLS, MOST_EAGER = 14, 4
USES: dict[str, Callable[[Any, Any], Any]] = {
    "a * k": lambda a, k: a * k,
    "clamp above": lambda a, k: (a + k).clamp(max=k),
    "clamp": lambda a, k: a.clamp(-k, k),
    "clamp, a constant": lambda a, k: a.clamp(-2 * k, 2.0),
    "clamp by a mean": lambda a, k: a.clamp(max=a.detach().mean().item() * k),
    "clamp in place": lambda a, k: (a * 2).clamp_(max=k),
    "clip": lambda a, k: fg.clip(a, k, 1.5),
    "clamp_min": lambda a, k: a.clamp_min(k),
    "clamp_max": lambda a, k: fg.clamp_max(a, k),
    "leaky_relu": lambda a, k: F.leaky_relu(a - 1, k),
    "leaky_relu by name": lambda a, k: F.leaky_relu(a - 1, negative_slope=k),
    "threshold": lambda a, k: F.threshold(a, k, 0.5),
    "threshold, value": lambda a, k: F.threshold(a, 0.7, k),
    "hardshrink": lambda a, k: F.hardshrink(a, k),
    "addcmul": lambda a, k: fg.addcmul(a, a, a, value=k),
    "addcdiv": lambda a, k: a.addcdiv(a, a + 4, value=k),
    "lerp": lambda a, k: fg.lerp(a, a * 2, k),
    "alpha": lambda a, k: fg.add(a, a, alpha=k),
    "where": lambda a, k: fg.where(a > 1, a, k),
    "compared": lambda a, k: (a > k) * a,
}
# Replayed only where the number comes again, and right each time.
LOOKED_AT: dict[str, Callable[[Any, Any], Any]] = {
    "hardtanh": lambda a, k: F.hardtanh(a, -k, k),
    "elu": lambda a, k: F.elu(a - 2, k),
    "softplus": lambda a, k: F.softplus(a, k),
    "power": lambda a, k: (a + 3) ** k,
    "eps": lambda a, k: F.layer_norm(a, (5,), eps=k),
    "huber_loss": lambda a, k: F.huber_loss(a, a * 2, delta=k),
    "masked_fill": lambda a, k: a.masked_fill(a > 1, k),
}


def _wrong(use: Callable[[Any, Any], Any], grad: bool) -> tuple[int, int]:
    """In how many calls values or gradients are not eager's; how many were replayed."""

    def function(a: Any, k: Any) -> Any:
        return use(a, k).sum()

    jitted = fg.jit(function)
    wrong = 0
    for number in range(CALLS):
        k = 0.1 + 0.125 * number  # 1.0 is not among them
        data = np.array([-2, -0.5, 0.1, 1.1, 2.5], "f4")
        leaves = [fg.tensor(data, requires_grad=grad) for _ in range(2)]
        results = [call(a, k) for call, a in zip((jitted, function), leaves, strict=True)]
        pairs = [[r.detach().numpy() for r in results]]
        if grad:
            for result in results:
                result.backward()
            pairs.append([a.grad.numpy() for a in leaves])
        wrong += not all(np.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True) for a, b in pairs)
    return wrong, jitted.stats.compiled_calls


@pytest.mark.parametrize("grad", (False, True))
@pytest.mark.parametrize("name", USES)
def test_varying_floats_are_operands(name: str, grad: bool) -> None:
    wrong, replayed = _wrong(USES[name], grad)
    assert not wrong
    assert replayed >= CALLS - MOST_EAGER


@pytest.mark.parametrize("name", LOOKED_AT)
def test_others_are_right(name: str) -> None:
    assert not _wrong(LOOKED_AT[name], True)[0]


def test_the_table_finds_parameters_that_make_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scalars, "TAKES_OPERANDS", frozenset())
    assert _wrong(USES["clamp"], False)[1] < CALLS - MOST_EAGER


def test_the_table_finds_operands_that_are_mixed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def turned(op: Any, names: tuple[str, ...]) -> Any:
        return by_operands(op, names[::-1])

    monkeypatch.setattr(scalars, "by_operands", turned)
    assert _wrong(USES["clamp"], False)[0]


@pytest.mark.parametrize("name", sorted(TAKES_OPERANDS))
def test_an_op_gives_the_same_by_operands(name: str) -> None:
    op: Any = REGISTRY[name]
    names = {"clamp": ("min", "max"), "addcmul": ("value",), "addcdiv": ("value",)}.get(
        name, {"leaky_relu": ("negative_slope",), "hardshrink": ("lambd",)}.get(name, ("threshold", "value"))
    )
    data = np.array([-np.inf, -1.5, -0.0, 0.0, 1.0, 3.0, np.inf, np.nan], "f4")
    args = [fg.tensor(np.roll(data, shift)) for shift in range(len(op.arguments))]
    for numbers in ((0.5, 0.75), (1.0, 1.0), (-0.0, 0.0), (-2.0, 3.0)):
        params = dict(zip(names, numbers, strict=False))
        scalars_of = [fg.tensor(np.array(n, "f4")) for n in params.values()]
        with np.errstate(all="ignore"):
            right = op.evaluate(args, params)
            found = by_operands(op, names).evaluate([*args, *scalars_of], {})
        assert found.tobytes() == right.tobytes() or np.array_equal(found, right, equal_nan=True)
