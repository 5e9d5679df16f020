"""Python as trainers write it, in calls that replay: addresses of modules, locks, functions of leaves,
prints, digits in texts, numbers that are put into dicts; and what must not.
"""

from __future__ import annotations

import contextlib
import functools
import io
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad import nn
from fusegrad.utils._pytree import tree_map


class Own(nn.Module):
    """A module that lists its parameters in a way of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.Tanh())

    def parameters(self, recurse: bool = True) -> Any:
        return self.a.parameters()

    def forward(self, x: fg.Tensor) -> Any:
        return self.b(self.a(x))


MODEL, LOCK, SCALE = Own(), threading.Lock(), {"k": 2.0}
SAVED: dict[str, float] = {}


def _traverses(x: fg.Tensor, i: int) -> Any:
    MODEL.train()
    return MODEL(x)


def _locks(x: fg.Tensor, i: int) -> Any:
    with LOCK:
        scale = SCALE["k"]
    return x * scale


def _maps(x: fg.Tensor, i: int) -> Any:
    first, (second,) = tree_map(lambda t: t * SCALE["k"], (x, [x + 1]))
    return first + second


def _prints(x: fg.Tensor, i: int) -> Any:
    print(f"{i}: {x.sum().item():.3f}", i, "|", end="")
    print(sep=",")
    return x * 2


def _logs(x: fg.Tensor, i: int) -> Any:
    status = dict(loss=x.sum().item(), step=i)  # noqa: C408
    return x * 2, status["loss"], status["step"]


def _counts(x: fg.Tensor, i: int) -> Any:
    steps = (x * 0 + i).sum().long().item()
    if steps % 4 == 3 and steps // 2 > 1:
        x = x * 3
    return x


PROGRAMS: dict[str, Callable[..., Any]] = {
    "addresses of modules": _traverses, "a lock": _locks, "functions of leaves": _maps, "prints": _prints,
    "numbers in dicts": _logs, "whole numbers": _counts,
}  # fmt: skip


def outcomes(function: Callable[..., Any], calls: int = 14) -> list[Any]:
    """What calls give and print."""
    found = []
    for i in range(calls):
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            result = function(fg.full((2, 3), 0.25 * i), i)
        found.append((result, shown.getvalue()))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_replay_as_eager_runs(name: str) -> None:
    function = fg.jit(PROGRAMS[name])
    for (ours, printed), (eagers, shown) in zip(outcomes(function), outcomes(PROGRAMS[name]), strict=True):
        fg.testing.assert_close(ours, eagers, rtol=1e-5, atol=1e-5)
        assert printed == shown
    assert function.stats.compiled_calls >= 9 and function.stats.compiles <= 4, str(function.explain())


def test_a_lock_that_is_held_is_waited_for() -> None:
    function = fg.jit(_locks)
    for _ in range(3):
        function(fg.ones(3), 0)
    LOCK.acquire()
    done: list[Any] = []
    waits = threading.Thread(target=lambda: done.append(function(fg.ones(3), 0)))
    waits.start()
    waits.join(0.2)
    assert not done
    SCALE["k"] = 5.0
    LOCK.release()
    waits.join(30)
    fg.testing.assert_close(done[0], fg.full((3,), 5.0))
    SCALE["k"] = 2.0


def test_a_leafs_function_is_guarded() -> None:
    function = fg.jit(_maps)
    for scale in (2.0, 2.0, 3.0, 3.0, 2.0):
        SCALE["k"] = scale
        fg.testing.assert_close(function(fg.ones(2), 0), fg.full((2,), 3.0 * scale))
    SCALE["k"] = 2.0


@pytest.mark.parametrize("sink", ["a file", "a tensor"])
def test_prints_that_open(sink: str) -> None:
    def prints(x: fg.Tensor) -> Any:
        if sink == "a file":
            print("x", file=shown)
        else:
            print(x.tolist() and x)
        return x * 2

    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        function = fg.jit(prints)
        for _ in range(4):
            function(fg.ones(2))
    assert len(shown.getvalue().splitlines()) == 4 and "prints" in str(function.explain())


def test_an_iterators_last_item_and_what_it_raises() -> None:
    def items() -> Any:
        for i in range(4):
            yield fg.full((2,), float(i))
        raise KeyError("no more")

    given = items()

    @fg.jit
    def function() -> Any:
        return next(given) * 2

    for i in range(4):
        fg.testing.assert_close(function(), fg.full((2,), 2.0 * i))
    assert function.stats.compiled_calls == 3
    with pytest.raises(KeyError, match="no more"):
        function()
    with pytest.raises(StopIteration):
        function()


def _used(use: Callable[[Any], Any], items: Any) -> Any:
    return use(next(items))


def test_items_that_are_written_or_given_out_are_eagers() -> None:
    for use in (lambda x: x.add_(1), lambda x: x, lambda x: (x, x + 1), lambda x: x.requires_grad_()):
        given, expected = [iter([fg.full((2,), float(i)) for i in range(6)]) for _ in range(2)]
        function = fg.jit(functools.partial(_used, use, (x for x in given)))
        for x in expected:
            fg.testing.assert_close(function(), use(x))


class Meter:
    """A meter that says of itself what it has."""

    def __init__(self, name: str, form: str = "") -> None:
        self.name, self.form, self.total, self.count = name, form, 0.0, 0

    def update(self, value: float) -> None:
        self.total, self.count = self.total + value, self.count + 1

    def __str__(self) -> str:
        return f"{self.name} {self.total / max(self.count, 1):.3f}{self.form}"


class Quiet(Meter):
    __str__ = object.__str__

    def __repr__(self) -> str:
        return f"<{self.name} of {self.count}>"


@pytest.mark.parametrize("kind", [Meter, Quiet])
def test_texts_of_objects_are_followed(kind: type[Meter]) -> None:
    def made() -> tuple[Any, Meter]:
        meter = kind("loss")

        def step(x: fg.Tensor) -> Any:
            loss = (x * x).sum()
            meter.update(loss.item())
            return loss, str(meter), "\t".join([repr(meter)] if kind is Quiet else [str(meter)])

        return step, meter

    (eager, theirs), (step, ours) = made(), made()
    jitted = fg.jit(step)
    for i in range(12):
        if i == 8:
            theirs.form = ours.form = " (again)"
        x = fg.full((3,), 0.5 * i)
        assert jitted(x)[1:] == eager(x)[1:] and ours.count == theirs.count
    assert jitted.stats.compiled_calls >= 4, jitted.explain()


def _mixes(x: fg.Tensor, draws: Any) -> Any:
    share = fg.tensor(draws.beta(0.5, 0.5, size=(2,)), dtype=fg.float32).view(-1, 1)
    other = x[fg.tensor(draws.permutation(2))]
    return share * x + (1 - share) * other * float(draws.uniform(1.0, 2.0))


@pytest.mark.parametrize("kind", ["generator", "state", "module"])
def test_numbers_that_numpy_draws_are_asked_for(kind: str) -> None:
    def made() -> Any:
        if kind == "module":
            np.random.seed(3)
            return np.random
        return np.random.default_rng(3) if kind == "generator" else np.random.RandomState(3)

    def outcomes_of(function: Callable[..., Any]) -> list[Any]:
        draws = made()
        found = [function(fg.full((2, 3), 1.0 + i), draws) for i in range(10)]
        return [*found, draws.uniform()]

    jitted = fg.jit(_mixes)
    for ours, theirs in zip(outcomes_of(jitted), outcomes_of(_mixes), strict=True):
        fg.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    assert jitted.stats.compiled_calls >= 8, jitted.explain()


def test_samples_of_a_list_that_changes() -> None:
    names, own = [1, 2, 3, 4], random.Random(5)

    @fg.jit
    def step(x: fg.Tensor) -> Any:
        a, b = own.sample(names, 2)
        return x * a + b

    found = []
    for i in range(12):
        if i == 6:
            names[:] = [10, 20, 30]
        found.append(step(fg.ones(2)).tolist()[0])
    again, expected = random.Random(5), []
    for i in range(12):
        a, b = again.sample([1, 2, 3, 4] if i < 6 else [10, 20, 30], 2)
        expected.append(float(a + b))
    assert found == expected
