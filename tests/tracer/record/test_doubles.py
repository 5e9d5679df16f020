"""Numbers that Python computes of tensors' values: a replay computes them again, or guards what comes out."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jit_checks
import numpy as np
import pytest

import fusegrad as fg
from fusegrad.tracer.record import scalars

KEPT = SimpleNamespace(total=0.0, count=0, history=[])
WARM = 4


def _clipped(x: Any, n: Any) -> Any:
    return x * (4.0 / (n + 0.5)) if n > 2 else x


def _total(x: Any, n: Any) -> Any:
    KEPT.total = n * 2 + 1
    return x


def _history(x: Any, n: Any) -> Any:
    KEPT.history.append(n / 4)
    return x


def _several(x: Any, n: Any) -> Any:
    m = x[0].item() + n
    return m - n, m * 2 / (n + 1.0), [m, -m]


def _raises(x: Any, n: Any) -> Any:
    if not math.isfinite(n):
        raise ValueError("not finite")
    return x


def _grows(x: Any, n: Any) -> Any:
    n += 1
    n *= 2
    n -= x.max().item()
    n /= 4
    return n


# What a call does with a number that it takes out of a tensor, so that no outcome depends on which one it is.
USES: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, n: n + 1,
    "sum on the right": lambda x, n: 1.5 + n,
    "difference": lambda x, n: (n - 0.25, 0.25 - n),
    "product": lambda x, n: n * 3,
    "quotient": lambda x, n: (n / 7, 7 / (n + 0.5)),
    "negative": lambda x, n: -n,
    "absolute": lambda x, n: (abs(-n), math.fabs(n)),
    "float": lambda x, n: float(n),
    "whole": lambda x, n: (
        int(n),
        int(-n * 0.75),
        math.trunc(n),
        math.floor(n / 2),
        math.ceil(n / 2),
        round(n),
    ),
    "of a whole": lambda x, n: (int(n) + 1, int(n) / 2, int(n) * 2 - 1),
    "least and greatest": lambda x, n: (
        min(n * 1.0, 1e9),
        max(-1.0, n / 2),
        min(n / 2, x[0].item()),
        max(n, n),
    ),
    "larger": lambda x, n: x * 2 if n > 0.5 else x,
    "chain": lambda x, n: x * 2 if 0 < n < 1e6 else x,
    "equal": lambda x, n: x * 2 if n == -3.0 or n != n else x,
    "truth": lambda x, n: x * 2 if n else x,
    "not": lambda x, n: x * 2 if not n else x,
    "finite": lambda x, n: (math.isfinite(n), math.isnan(n), math.isinf(n)),
    "of two": lambda x, n: x * 2 if n >= x[0].item() else x,
    "times a tensor": lambda x, n: x * n,
    "tensor by it": lambda x, n: (x - n) / (n + 1.0),
    "in an op": lambda x, n: fg.add(x, n),
    "clipped": _clipped,
    "attribute": _total,
    "list": _history,
    "several": _several,
    "raises": _raises,
    "grows": _grows,
}
SOURCES: dict[str, Callable[[Any], Any]] = {
    "item": lambda x: x.sum().item(),
    "float": lambda x: float(x.sum()),
    "float64": lambda x: x.double().sum().item(),
    "a row": lambda x: x.sum(0, keepdim=True).item(),
    "bfloat16": lambda x: x.max().bfloat16().item(),
    "count": lambda x: (x > 0.5).sum().item(),
    "int": lambda x: int((x > 0.5).sum()),
    "float of a count": lambda x: float((x > 0.5).sum()),
    "place": lambda x: x.argmax().item() + 1,
}


def _inputs(seed: int, requires_grad: bool) -> fg.Tensor:
    # Sums of these are exact in whatever order.
    values = np.random.default_rng(seed).integers(5, 64, 6).astype("f4") / 8
    return fg.tensor(values, requires_grad=requires_grad)


def _outcome(function: Callable[..., Any], x: fg.Tensor) -> str:
    KEPT.total = 0.0
    KEPT.history.clear()
    result = function(x)
    for leaf in result if isinstance(result, tuple) else (result,):
        if isinstance(leaf, fg.Tensor) and leaf.requires_grad:
            leaf.sum().backward()
    return repr((result, KEPT.total, KEPT.history, x.grad))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("use", USES)
def test_what_is_computed_of_a_tensors_number_replays(use: str, source: str) -> None:
    for requires_grad in (False, True):

        def step(x: Any, take: Any = SOURCES[source], use: Any = USES[use]) -> Any:
            return use(x, take(x))

        jitted = fg.jit(step)
        for seed in range(WARM):
            assert _outcome(jitted, _inputs(seed, requires_grad)) == _outcome(
                step, _inputs(seed, requires_grad)
            )
        jit_checks.sealed(jitted)
        for seed in range(WARM, WARM + 8):
            expected = _outcome(step, _inputs(seed, requires_grad))
            assert _outcome(jitted, _inputs(seed, requires_grad)) == expected


# What takes another way for other numbers.
WAYS: dict[str, Callable[[Any], Any]] = {
    "larger": lambda x: x * 2 if x.sum().item() > 0 else x - 1,
    "of two": lambda x: x * 2 if x[0].item() < x[1].item() else x - 1,
    "truth": lambda x: x * 2 if x[0].item() else x - 1,
    "nan": lambda x: x * 2 if math.isnan(x[0].item() / 3) else x - 1,
    "divided by": lambda x: _quotient(1.0, x[0].item()),
    "count divided by": lambda x: _quotient(1, (x > 0).sum().item()),
    "least": lambda x: min(x[0].item(), x[1].item(), x[0].item()),
    "least of two": lambda x: (min(x[0].item(), x[1].item()), max(x[0].item(), x[1].item())),
    "whole": lambda x: _whole(x[0].item()),
    "a size": lambda x: fg.zeros((x > 0).sum().item()) + 1,
    "an index": lambda x: x[(x > 0).sum().item() - 1],
    "a slice": lambda x: x[: (x > 0).sum().item()],
    "rounds": lambda x: [x * i for i in range((x > 0).sum().item())],
    "key": lambda x: {0: "none", 1: "one"}.get((x > 0).sum().item(), "more"),
    "text": lambda x: f"{(x > 0).sum().item()} {x[0].item() * 2:.3f}",
    "zeros of whole numbers": lambda x: (
        fg.ones(2) / (fg.ones(2) * -(x > 0).sum().item()),
        math.ceil(_or_zero(x[0].item())) / 2,
        float(int(_or_zero(x[0].item()))),
        fg.ones(2) / (fg.ones(2) * round(_or_zero(x[0].item()))),
    ),
    "uint8": lambda x: ((x > 0).to(fg.uint8).sum().item(), (x > 0).to(fg.uint8).max().item()),
    "remainder": lambda x: (x > 0).sum().item() % 2,
    "shift": lambda x: (x > 0).sum().item() << 2,
    "power": lambda x: x[0].item() ** 2,
    "is": lambda x: (x > 0).sum().item() is None,
    "in": lambda x: (x > 0).sum().item() in (1, 2),
    "one of another type": lambda x: (min((x > 0).sum().item(), x[0].item()), max((x > 0).sum().item(), 1.5)),
    "large": lambda x: (x[0] * 2.0**40).long().item() * 2**20 + 1,
    "sum of many": lambda x: sum([v.item() for v in x]) / 2,
}


def _or_zero(a: Any) -> Any:
    return -0.25 if not math.isfinite(a) or abs(a) > 100 else a / 4


def _quotient(a: Any, b: Any) -> Any:
    try:
        return a / b
    except ZeroDivisionError:
        return "divided by zero"


def _whole(a: Any) -> Any:
    try:
        return int(a), round(a)
    except (ValueError, OverflowError) as error:
        return str(error)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, math.nan, math.inf, -math.inf, 1e30, 3.0]


@pytest.mark.parametrize("way", WAYS)
def test_numbers_that_lead_another_way_are_found(way: str) -> None:
    jitted = fg.jit(WAYS[way])
    random = np.random.default_rng(1)
    for _ in range(40):
        x = fg.tensor(random.choice(SPECIAL, 3).astype("f4"))
        assert repr(jitted(x)) == repr(WAYS[way](x))


def test_no_gradient_goes_through_a_number() -> None:
    def step(x: Any) -> Any:
        return (x * (1.0 / (x.sum().item() + 1.0))).sum()

    jitted = fg.jit(step)
    for seed in range(6):
        x, y = _inputs(seed, True), _inputs(seed, True)
        jitted(x).backward()
        step(y).backward()
        jit_checks.same(x.grad, y.grad)


def test_outcomes_have_to_be_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scalars.Doubles, "compute", _without_guards(scalars.Doubles.compute))
    with pytest.raises(AssertionError):
        test_numbers_that_lead_another_way_are_found("larger")


def test_what_raises_has_to_be_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scalars.Doubles, "_check", lambda self, *args: None)
    with pytest.raises(AssertionError):
        test_numbers_that_lead_another_way_are_found("whole")


def _without_guards(compute: Any) -> Any:
    def planted(self: Any, function: Any, operands: Any) -> Any:
        doors = self._recorder.doors
        guard, doors.guard = doors.guard, lambda *args: None
        try:
            return compute(self, function, operands)
        finally:
            doors.guard = guard

    return planted
