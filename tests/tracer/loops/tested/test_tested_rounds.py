"""Loops that test data: one op stands for all rounds that go on, however many those are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jit_checks
import numpy as np
import pytest

import fusegrad as fg
from fusegrad.tracer.capture.api import capture
from fusegrad.tracer.ir import passes, tested
from fusegrad.tracer.ir.evaluation import evaluate_graph
from fusegrad.tracer.ir.text import load, parse_graph
from fusegrad.tracer.loops import tested_op

Loop = Callable[[fg.Tensor], Any]


@pytest.fixture(autouse=True)
def _checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "CHECK", True)


def newton(a: Any) -> Any:
    x = a
    while ((x * x - a) / a).abs().max() > 1e-9:
        x = x - (x * x - a) / (2 * x)
    return x


def by_item(a: Any) -> Any:
    x = a
    while ((x * x - a) / a).abs().max().item() > 1e-9:
        x = x - (x * x - a) / (2 * x)
    return x


def left_by_break(a: Any) -> Any:
    x = a
    for _ in range(100):
        y = x - (x * x - a) / (2 * x)
        if ((y - x) / y).abs().max() < 1e-9:
            break
        x = y
    return y


def left_at_last(a: Any) -> Any:
    """Some calls go round as often as they may."""
    x, y = a, a
    for _ in range(12):
        y = x * 0.9
        if y.max() < 1:
            break
        x = y
    return x * y


def endless(a: Any) -> Any:
    x = a
    while True:
        x = x * 0.75
        if x.sum() < 3:
            break
    return x * 2


def counting(a: Any) -> Any:
    x, steps, halves = a, 0, 10
    while x.sum() > 3:
        steps += 1
        x = x * 0.75
        halves += 2
    return x * steps, steps, halves / 2


def handing_on(a: Any) -> Any:
    x, before, long_before = a, a, a
    while x.sum() > 3:
        long_before = before
        before = x
        x = x * 0.75
    return x + before * long_before


def changing_places(a: Any) -> Any:
    x, y = a, a * 0.5
    while x.sum() + y.sum() > 3:
        x, y = y, x * 0.8
    return x - 2 * y


def one_of_two(a: Any) -> Any:
    x, y = a, a * a
    while x.sum() + y.sum() > 3:
        x, y = y * 0.7, x * 0.8
    return x


def several_tests(a: Any) -> Any:
    x, y = a, a * 0
    for _ in range(60):
        if x.sum() < 3:
            break
        y = y + x
        if not (y.sum() < 1e9):
            break
        x = x * 0.75
    return x, y


def conjugate_gradients(a: Any) -> Any:
    matrix = fg.diag(a) + 0.5
    x = a * 0
    r = p = a - matrix @ x
    rs = r @ r
    while rs > 1e-18:
        q = matrix @ p
        alpha = rs / (p @ q)
        x = x + alpha * p
        r = r - alpha * q
        new = r @ r
        p = r + (new / rs) * p
        rs = new
    return x


def one_side(a: Any) -> Any:
    x = a
    while x.sum() > 3:
        x = x * 0.75 if x.sum() > 0 else x - 1
    return x


def joined(a: Any) -> Any:
    x = a
    while x.sum() > 3:
        x = fg.stack([x, x * 0.5]).mean(0) * 0.9
    return x


def number_that_is_left(a: Any) -> Any:
    x = a
    for t in range(100):  # noqa: B007
        x = x * 0.9
        if x.sum() < 3:
            break
    return x * t, t


def bounded(a: Any) -> Any:
    x, n, most = a, 0, 200
    while x.sum() > 3 and n + 1 <= most:
        x = x * 0.9
        n += 1
    return x * n, n < 100


def number_tested_next(a: Any) -> Any:
    x, change = a, 1.0
    while change > 1e-9:
        y = x - (x * x - a) / (2 * x)
        change = ((y - x) / y).abs().max().item()
        x = y
    return x, change > 1e-3


def numbers_handed_on(a: Any) -> Any:
    x, last, now, best, most = a, 1e9, 0.0, 1e9, 0
    while x.sum() > 3:
        x = x * 0.75
        last, now = now, x.sum().item()
        best = min(best, x.mean().item() * 2)
        most = max(most, (x > 1).sum().item())
    return x * (last - now) + best, most


def returning(a: Any) -> Any:
    x, steps = a, 0
    while True:
        y = (x + a / x) / 2
        steps += 1
        if (y - x).abs().max() < 1e-9:
            return y * steps
        x = y


def returning_its_number(a: Any) -> Any:
    x = a
    for i in range(100):
        y = (x + a / x) / 2
        if (y - x).abs().max() < 1e-9:
            return y * i
        x = y
    return x


LOOPS: list[Loop] = [
    newton, by_item, left_by_break, left_at_last, endless, counting, handing_on, changing_places, one_of_two,
    several_tests, conjugate_gradients, one_side, joined, number_that_is_left, bounded,
    number_tested_next, numbers_handed_on, returning, returning_its_number,
]  # fmt: skip


def given(size: float, wants: bool = False) -> fg.Tensor:
    return fg.tensor([1.3 * size, 2.1 * size, 1.7 * size], dtype=fg.float64, requires_grad=wants)


def _leaves(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def _same(ours: Any, theirs: Any) -> None:
    for one, other in zip(_leaves(ours), _leaves(theirs), strict=True):
        if not isinstance(other, fg.Tensor):
            assert repr(one) == repr(other)
            continue
        assert one.requires_grad == other.requires_grad
        np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), 1e-9, 1e-12)


def _loss(result: Any) -> fg.Tensor:
    total: fg.Tensor = sum((x * x).sum() for x in _leaves(result) if isinstance(x, fg.Tensor))
    return total


@pytest.mark.one_in(2)
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
@pytest.mark.parametrize("wants", [False, True], ids=["values", "gradients"])
def test_calls_that_go_round_more_or_less_often_are_one_path(loop: Loop, wants: bool) -> None:
    jitted = fg.jit(loop)
    sizes = [40, 50, 7, 300, 3000, 60, 11, 900]
    for number, size in enumerate(sizes):
        if number == 3:
            jit_checks.sealed(jitted)
        x, y = given(size, wants), given(size, wants)
        ours, theirs = jitted(x), loop(y)
        _same(ours, theirs)
        if wants:
            _loss(ours).backward()
            _loss(theirs).backward()
            np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), 1e-7, 1e-10)
    assert jitted.stats.compiles == 1
    assert "rounds of a loop" in str(jitted.explain())


@pytest.mark.parametrize("loop", [newton, left_by_break, handing_on], ids=lambda loop: loop.__name__)
def test_second_derivatives(loop: Loop) -> None:
    jitted = fg.jit(loop)
    for size in (40, 50, 7, 300):
        found = []
        for function in (jitted, loop):
            x = given(size, True)
            (first,) = fg.autograd.grad(_loss(function(x)), [x], create_graph=True)
            (second,) = fg.autograd.grad((first * first).sum(), [x])
            found.append(second.numpy())
        np.testing.assert_allclose(*found, 1e-6, 1e-9)


def test_bfloat16_is_rounded_op_by_op() -> None:
    def change(x: Any) -> Any:
        last = 1.0
        while last > 0.1:
            y = x * 0.7
            last, x = (x - y).abs().max().item(), y
        return x, last

    jitted = fg.jit(change)
    for size in (5.0, 4.0, 1.0, 10.0, 2.0, 30.0):
        x = fg.full((3,), size, dtype=fg.bfloat16)
        assert repr(jitted(x)) == repr(change(x))


def test_calls_without_a_round_have_a_path_of_their_own() -> None:
    for wants in (False, True):
        jitted = fg.jit(endless_while)
        for size in (40, 0.1, 50, 0.2, 0.9, 1.1, 60, 0.1):
            x, y = given(size, wants), given(size, wants)
            _same(jitted(x), endless_while(y))


def endless_while(a: Any) -> Any:
    x = a
    while x.sum() > 3:
        x = x * 0.75
    return x


def test_no_gradients_are_recorded_of_what_needs_none() -> None:
    weight = fg.tensor(0.75, dtype=fg.float64, requires_grad=True)

    def loop(a: Any) -> Any:
        x = a
        while x.sum() > 3:
            x = x * weight
        return x

    jitted = fg.jit(loop)
    with fg.no_grad():
        for size in (40, 50, 7, 300, 3000):
            _same(jitted(given(size)), loop(given(size)))
    assert jitted.stats.compiles == 1


def test_the_graph_prints_and_runs() -> None:
    graph = capture(newton, (given(40),)).graph
    assert "tested(" in str(graph) and parse_graph(str(graph)).text == graph.text
    for run in (load(graph.text), lambda *x: evaluate_graph(graph, x)):
        _same(run(given(40)), newton(given(40)))


# What must not be left to an op, or not all of it.


def _with_list(a: Any) -> Any:
    x, found = a, []
    while x.sum() > 3:
        x = x * 0.75
        found.append(x.sum().item())
    return x, len(found)


def _with_dict(a: Any) -> Any:
    x, found = a, {}
    while x.sum() > 3:
        x = x * 0.75
        found[len(found)] = x
    return x, len(found)


def _in_place(a: Any) -> Any:
    x = a.clone()
    while x.sum() > 3:
        x *= 0.75
    return x


def _of_a_list(a: Any) -> Any:
    x, rates = a, [0.9, 0.8, 0.7, 0.6] * 50
    for rate in rates:
        x = x * rate
        if x.sum() < 3:
            break
    return x


def _other_numbers(a: Any) -> Any:
    x, rate = a, 0.9
    while x.sum() > 3:
        x = x * rate
        rate = rate * 0.99
    return x, rate


def _number_of_the_round(a: Any) -> Any:
    x = a
    for t in range(100):
        x = x * (0.9 - t * 0.001)
        if x.sum() < 3:
            break
    return x


def _with_a_bound(a: Any) -> Any:
    x, n = a, 0
    while x.sum() > 3 and n < 9:
        x = x * 0.9
        n += 1
    return x, n


def _bound_on_two_ways(a: Any) -> Any:
    x, n = a, 0
    for _ in range(30):
        if x.sum() < 3:
            break
        if x.sum() > 60:
            x = x * 0.5
        else:
            x = x * 0.97
        n += 1
    return x, n


def _looked_up(a: Any) -> Any:
    """The place that comes behind the last one is none."""
    table, place, total = fg.arange(8) * 2, fg.tensor(0), a * 0
    while place < 8:
        total = total + table[place] * a
        place = place + 1
    return total


def _parts_of_it(a: Any) -> Any:
    x, part = a, a[:2]
    while x.sum() > 3:
        x = x * 0.75
        part = x[:2]
    return x, part.mul_(2)


REFUSED: list[Loop] = [
    _with_list, _with_dict, _in_place, _of_a_list, _other_numbers, _number_of_the_round,
    _with_a_bound, _bound_on_two_ways, _looked_up, _parts_of_it,
]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("loop", REFUSED, ids=lambda loop: loop.__name__)
@pytest.mark.parametrize("wants", [False, True], ids=["values", "gradients"])
def test_what_depends_on_the_number_of_rounds_is_found(loop: Loop, wants: bool) -> None:
    if wants and loop is _in_place:
        pytest.skip("eager refuses it")
    jitted = fg.jit(loop)
    for size in (40, 50, 7, 300, 1.1, 60, 40):
        x, y = given(size, wants), given(size, wants)
        ours, theirs = jitted(x), loop(y)
        _same(ours, theirs)
        if wants and _loss(theirs).requires_grad:
            _loss(ours).backward()
            _loss(theirs).backward()
            assert (x.grad is None) == (y.grad is None)
            if y.grad is not None:
                np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), 1e-7, 1e-10)


def test_what_has_a_gradient_may_depend_on_the_number_of_rounds() -> None:
    def spreading(x: Any, y: Any, z: Any) -> Any:
        while z.sum() > 1:
            x, y, z = x * 0.5 + y, y * 0.5 + z, z * 0.75
        return x

    jitted = fg.jit(spreading)
    for size in (40, 50, 7, 1.2, 300, 0.1):
        ours, theirs = ([given(n, True) for n in (1, 2, size * 0.2)] for _ in range(2))
        _loss(jitted(*ours)).backward()
        _loss(spreading(*theirs)).backward()
        assert [x.grad is None for x in ours] == [x.grad is None for x in theirs]


# Faults that are found.


def test_a_loop_that_runs_a_round_too_many_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    run = tested.rounds_while

    def planted(round_: Any, tensors: Any, carried: int, most: int) -> Any:
        now, count = run(round_, tensors, carried, most)
        *after, _ = round_(*now, *tensors[carried:])
        return after, count

    monkeypatch.setattr(tested, "rounds_while", planted)
    with pytest.raises(AssertionError):
        test_calls_that_go_round_more_or_less_often_are_one_path(endless, False)


def test_gradients_that_are_zeros_in_place_of_none_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tested_op.TestedOp, "_check_reach", lambda *args: None)
    with pytest.raises(AssertionError):
        test_what_has_a_gradient_may_depend_on_the_number_of_rounds()
