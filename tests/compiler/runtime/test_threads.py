"""Many threads call the same and other jitted functions, first compiles included; lifetimes.

`python tests/compiler/runtime/test_threads.py [SECONDS [SEED]]` does what the test does, for a minute. It
goes in rounds: in each, new jitted functions are made, and the threads start on them at once.
"""

from __future__ import annotations

import copy
import faulthandler
import gc
import io
import linecache
import random
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler import entries
from fusegrad.compiler.call_family import Family
from fusegrad.compiler.codegen import kernel_cache
from fusegrad.eager.core.state import state
from fusegrad.tracer.observe import observer

THREADS = 8
JOBS = 40  # of each thread in a round


def same(a: Any, b: Any) -> None:
    if b is None:
        assert a is None
        return
    assert a.requires_grad == b.requires_grad and a.dtype == b.dtype
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)


def model_of(width: int = 3) -> fg.nn.Module:
    return fg.nn.Sequential(fg.nn.Linear(width, 4), fg.nn.Tanh(), fg.nn.Linear(4, width))


# Programs that all threads share.


def flipping(x: fg.Tensor) -> fg.Tensor:
    return (x.tanh() * x).sum() if x.sum() > 0 else (x - 1).exp().mean() + x.abs().sum()


def several(x: fg.Tensor, factor: float) -> tuple[fg.Tensor, fg.Tensor]:
    y = x * factor
    return y.sin().sum(), (y * y).mean()


def logged(x: fg.Tensor, log: list[Any], out: Any) -> fg.Tensor:
    """Runs deferred: it prints and appends."""
    y = (x * 2).sigmoid()
    print("begins", tuple(x.shape), file=out)
    log.insert(99, y.detach() + 1)
    z = (y * x).sum()
    log.insert(99, round(float(z.detach()) * 10))
    return z + y.mean()


def looped(x: fg.Tensor) -> fg.Tensor:
    """A loop whose length depends on data."""
    for _ in range(6):
        if x.abs().max() > 2.0137:
            break
        x = x * 1.7
    return x


def refused(x: fg.Tensor) -> fg.Tensor:
    """An exception on data."""
    if x.min() < -0.7137:
        raise ValueError("too low")
    return x.sqrt() if x.min() > 0 else x * 2


def stepped(model: fg.nn.Module, optimizer: Any, x: fg.Tensor) -> fg.Tensor:
    """A whole training step."""
    optimizer.zero_grad()
    loss = ((model(x) - x) ** 2).mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


def applied(model: fg.nn.Module, x: fg.Tensor) -> fg.Tensor:
    return model(x).softmax(-1)


PROGRAMS = (flipping, several, logged, looped, refused, stepped, applied)


class Shared:
    """What the threads of one round have in common: one jitted function for each program, and a model."""

    def __init__(self) -> None:
        self.model = model_of()
        self.jitted = {p.__name__: fg.jit(p) for p in PROGRAMS}
        inner = fg.jit(lambda x: x.exp() * 0.1)
        self.jitted["outer"] = fg.jit(lambda x: inner(x) + inner(x * 2).sum())
        self.module = fg.jit(self.model)


class Worker:
    """One thread's jobs; each makes a call jitted and eager, and compares what can be seen."""

    def __init__(self, shared: Shared, seed: int) -> None:
        self.shared, self.choose = shared, random.Random(seed)
        self.model = model_of()
        self.optimizer = fg.optim.Adam(self.model.parameters(), lr=0.05)
        self.twin = copy.deepcopy(self.model)
        self.twin_optimizer = fg.optim.Adam(self.twin.parameters(), lr=0.05)
        self.jobs = [getattr(self, name) for name in dir(self) if name.startswith("job_")]

    def go(self, count: int) -> None:
        for _ in range(count):
            self.choose.choice(self.jobs)()
            assert state.interpreter is None and state.grad_enabled and observer.current.observer is None

    def pair(self, *shape: int, tracked: bool = True) -> tuple[fg.Tensor, fg.Tensor]:
        """Two tensors of the same values."""
        generator = np.random.default_rng(self.choose.randrange(1 << 30))
        values = (generator.normal(size=shape) + self.choose.choice((-0.5, 0.5))).astype("f4")
        return fg.tensor(values, requires_grad=tracked), fg.tensor(values, requires_grad=tracked)

    def any_shape(self) -> tuple[int, ...]:
        return self.choose.choice([(3,), (4,), (2, 3), (5, 2), (300, 70)])

    def both(self, name: str, ours: fg.Tensor, theirs: fg.Tensor, *others: Any) -> None:
        """A program's result and its gradient."""
        program = next(p for p in PROGRAMS if p.__name__ == name)
        a, b = self.shared.jitted[name](ours, *others), program(theirs, *others)
        for mine, reference in zip(*((r if type(r) is tuple else (r,)) for r in (a, b)), strict=True):
            same(mine, reference)
            if reference.requires_grad:
                mine.sum().backward()
                reference.sum().backward()
        same(ours.grad, theirs.grad)

    def job_flips(self) -> None:
        self.both("flipping", *self.pair(*self.any_shape()))

    def job_several_results(self) -> None:
        self.both("several", *self.pair(3, 2), self.choose.choice([0.5, 2.0, self.choose.random()]))

    def job_without_gradients(self) -> None:
        ours, theirs = self.pair(*self.any_shape())
        with fg.no_grad():
            self.both("flipping", ours, theirs)
        self.both("looped", ours, theirs)

    def job_loops(self) -> None:
        self.both("looped", *self.pair(3))

    def job_retains(self) -> None:
        ours, theirs = self.pair(4)
        a, b = self.shared.jitted["flipping"](ours), flipping(theirs)
        for result in (a, b):
            result.backward(retain_graph=True)
            result.backward()
        same(ours.grad, theirs.grad)

    def job_derives_twice(self) -> None:
        ours, theirs = self.pair(3)
        slopes = []
        for function, x in ((self.shared.jitted["flipping"], ours), (flipping, theirs)):
            (slope,) = fg.autograd.grad(function(x), x, create_graph=True)
            (slope * slope).sum().backward()
            slopes.append(slope)
        same(*slopes)
        same(ours.grad, theirs.grad)

    def job_logs(self) -> None:
        ours, theirs = self.pair(*self.any_shape())
        logs: tuple[list[Any], list[Any]] = ([], [])
        texts = io.StringIO(), io.StringIO()
        same(self.shared.jitted["logged"](ours, logs[0], texts[0]), logged(theirs, logs[1], texts[1]))
        assert texts[0].getvalue() == texts[1].getvalue()
        for a, b in zip(*logs, strict=True):
            same(a, b) if isinstance(b, fg.Tensor) else np.testing.assert_allclose(a, b, rtol=1e-4, atol=1)

    def job_raises(self) -> None:
        ours, theirs = self.pair(3)
        try:
            expected = refused(theirs)
        except ValueError as error:
            with pytest.raises(ValueError, match=str(error)):
                self.shared.jitted["refused"](ours)
        else:
            same(self.shared.jitted["refused"](ours), expected)

    def job_steps_a_model_of_its_own(self) -> None:
        ours, theirs = self.pair(5, 3, tracked=False)
        loss = self.shared.jitted["stepped"](self.model, self.optimizer, ours)
        same(loss, stepped(self.twin, self.twin_optimizer, theirs))
        for a, b in zip(self.model.parameters(), self.twin.parameters(), strict=True):
            same(a, b)
            same(a.grad, b.grad)

    def job_applies_the_shared_model(self) -> None:
        ours, theirs = self.pair(self.choose.choice((2, 6)), 3)
        model = self.shared.model
        with fg.no_grad() if self.choose.random() < 0.5 else nullcontext():
            a, b = self.shared.jitted["applied"](model, ours), applied(model, theirs)
            same(a, b)
            same(self.shared.module(ours), model(theirs))
        if b.requires_grad:
            slopes = (fg.autograd.grad((r * r).sum(), x)[0] for r, x in ((a, ours), (b, theirs)))
            same(*slopes)

    def job_nests(self) -> None:
        ours, theirs = self.pair(3)
        a, b = self.shared.jitted["outer"](ours), theirs.exp() * 0.1 + ((theirs * 2).exp() * 0.1).sum()
        same(a, b)
        a.sum().backward()
        b.sum().backward()
        same(ours.grad, theirs.grad)

    def job_makes_a_function_of_its_own(self) -> None:
        number = self.choose.random()
        function = fg.jit(lambda x: (x * number).cos().sum())
        for _ in range(3):
            ours, theirs = self.pair(4)
            a, b = function(ours), (theirs * number).cos().sum()
            same(a, b)
            a.backward()
            b.backward()
            same(ours.grad, theirs.grad)


def play(rounds: Callable[[int], bool], seed: int = 0, jobs: int = JOBS) -> int:
    """Rounds while `rounds(number)`; how many calls compiled code answered. Raises what failed first."""
    failures: list[str] = []
    answered = number = 0
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        while rounds(number) and not failures:
            shared = Shared()
            barrier = threading.Barrier(THREADS)

            def work(first: int, shared: Shared = shared, barrier: threading.Barrier = barrier) -> None:
                try:
                    worker = Worker(shared, first)
                    barrier.wait()
                    worker.go(jobs)
                except BaseException:
                    failures.append(f"seed {first}: {traceback.format_exc()}")

            # Every other round compiles its kernels as if they had never been met.
            with kernel_cache.cold() if number % 2 else nullcontext():
                threads = [
                    threading.Thread(target=work, args=(seed + THREADS * number + i,), daemon=True)
                    for i in range(THREADS)
                ]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join(120)
                    assert not thread.is_alive(), "a thread waits for ever"
            answered += sum(f.stats.compiled_calls for f in shared.jitted.values())
            number += 1
    finally:
        sys.setswitchinterval(interval)
    assert not failures, failures[0]
    return answered


def test_eight_threads_get_what_eager_gives():
    assert play(lambda number: number < 2) > 200


def test_a_thread_that_meets_new_lengths_while_another_makes_room_for_them(monkeypatch: pytest.MonkeyPatch):
    jitted = fg.jit(lambda x: (x * 2).sum())
    jitted(fg.ones(3))
    others: list[Any] = []

    def asked_meanwhile(*args: Any) -> Family:
        monkeypatch.setattr(entries, "Family", Family)
        thread = threading.Thread(target=lambda: others.append(jitted(fg.ones(5))))
        thread.start()
        thread.join(60)
        return Family(*args)

    monkeypatch.setattr(entries, "Family", asked_meanwhile)
    assert jitted(fg.ones(4)).item() == 8
    assert [other.item() for other in others] == [10]
    # Both went into one family, which was told of both.
    (family,) = [e.family for e in jitted.entries.values() if e.family is not None]
    assert family.shapes == [(None,)]


def test_a_thread_that_runs_what_another_has_just_begun_to_compile(monkeypatch: pytest.MonkeyPatch):
    jitted = fg.jit(lambda x: (x * 2.0137).sin().sum())
    results = [jitted(x) for x in (fg.ones(4, requires_grad=True) for _ in range(6))]
    begin = kernel_cache.compile_kernels
    failures: list[BaseException] = []

    def derived() -> None:
        try:
            results[-1].backward()
        except BaseException as error:
            failures.append(error)

    def derived_meanwhile(kernels: Any) -> None:
        monkeypatch.setattr(kernel_cache, "compile_kernels", begin)
        thread = threading.Thread(target=derived)
        thread.start()
        thread.join(60)
        begin(kernels)

    with kernel_cache.cold():
        monkeypatch.setattr(kernel_cache, "compile_kernels", derived_meanwhile)
        results[-2].backward()
    assert kernel_cache.compile_kernels is begin, "the other thread had nothing to wait for"
    assert not failures, failures[0]


FUNCTIONS = """
def body(x, factor=1.0):
    if way == "deferred":
        log.append(x)
    y = model(x * factor)
    if way == "branches" and y.sum() > 0.0137:
        y = y * 2
    return (inner(y) if way == "nested" else y).sum()
"""


@pytest.mark.parametrize(
    "way", ["replay", "deferred", "joint", "branches", "nested", "numbers", "unfollowed"]
)
def test_functions_models_and_their_code_are_collectable(way: str):
    def make() -> list[weakref.ref[Any]]:
        name = f"<functions of {way}>"
        if way != "unfollowed":
            linecache.cache[name] = len(FUNCTIONS), None, FUNCTIONS.splitlines(keepends=True), name
        model, log = model_of(), []
        inner = fg.jit(lambda x: x.exp())
        namespace = {"way": way, "model": model, "inner": inner, "log": log}
        exec(compile(FUNCTIONS, name, "exec"), namespace)
        body: Any = namespace["body"]
        function = fg.jit(body)
        for number in range(12):
            x = fg.ones(2, 3) * (number % 2 * 2 - 1)
            loss = function(x, *([number * 0.1] if way == "numbers" else []))
            if way != "replay":
                loss.backward()
        assert function.stats.compiled_calls > 3, str(function.explain())
        kept = model, model[0].weight, function, inner, body, body.__code__, x, loss
        return [weakref.ref(value) for value in kept]

    references = make()
    gc.collect()
    assert [r() for r in references] == [None] * len(references)


if __name__ == "__main__":
    faulthandler.enable()
    seconds, first = (float(sys.argv[1]) if len(sys.argv) > 1 else 60.0), int((*sys.argv, 0, 0)[2])
    faulthandler.dump_traceback_later(seconds + 300, exit=True)
    end = time.monotonic() + seconds
    count = play(lambda number: time.monotonic() < end, first)
    print(f"{THREADS} threads, {seconds:.0f} s: all as eager, {count} calls answered by compiled code")
