"""Fault drills: an exception at any op, anywhere in the compiler, in a program without memory, and an
interrupt at any point. Afterwards nothing is left behind, and the next calls are eager's.

A drill runs a jitted program in a world of its own for some calls, lets the next one fail at a chosen
point, and then compares further calls with the same program run eagerly in a copy of the world as the
fault left it.
The tests take some of the points; `python tests/compiler/test_faults.py [STEP]` takes every STEP-th (1).
"""

from __future__ import annotations

import copy
import inspect
import itertools
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.codegen import kernel_cache
from fusegrad.compiler.deferred import interpreter
from fusegrad.compiler.placement import memory_plan
from fusegrad.compiler.runtime import allocator
from fusegrad.eager.core import state as states
from fusegrad.eager.core.op import REGISTRY
from fusegrad.eager.core.state import state
from fusegrad.tracer.observe import observer

pytestmark = pytest.mark.usefixtures("faults_are_covered")


class Fault(Exception):
    """What a drill injects; nobody knows it, so nobody may catch it by its type."""


# The worlds and the programs.


class World:
    """What the programs read and write."""

    def __init__(self) -> None:
        fg.manual_seed(3)
        self.model = fg.nn.Sequential(fg.nn.Linear(3, 4), fg.nn.Tanh(), fg.nn.Linear(4, 1))
        self.optimizer = fg.optim.Adam(self.model.parameters(), lr=0.1)
        self.weight = fg.randn(3, 2).requires_grad_()
        self.total = fg.zeros(2)
        self.log: list[Any] = []

    def leaves(self) -> list[fg.Tensor]:
        return [self.weight, *self.model.parameters()]

    def copied(self) -> World:
        """A world apart, in the same state."""
        twin = copy.deepcopy(self)
        for mine, theirs in zip(self.leaves(), twin.leaves(), strict=True):
            theirs.grad = None if mine.grad is None else mine.grad.clone()
        return twin

    def seen(self) -> list[np.ndarray]:
        """The values of everything in it."""
        moments = [s[k] for s in self.optimizer.state.values() for k in ("exp_avg", "exp_avg_sq")]
        tensors = [*self.leaves(), *(t.grad for t in self.leaves()), self.total, *moments]
        return [np.zeros(0) if t is None else t.detach().numpy().copy() for t in tensors]


def branched(w: World, x: fg.Tensor) -> fg.Tensor:
    """Both sides of a branch, each derived from outside."""
    y = (x @ w.weight).tanh()
    y = y * 2 if x.sum() > 0 else (y - 1).softmax(0).cumsum(0)
    return (y * y).mean()


def noisy(w: World, x: fg.Tensor) -> fg.Tensor:
    """A body that cannot be skipped: it appends, catches, and writes in place."""
    w.log.insert(99, "begins")
    y = (x @ w.weight).exp()
    try:
        if y.sum() > 10.0137:
            raise ValueError("large")
        w.log.insert(99, y.detach())
    except ValueError as error:
        w.log.insert(99, str(error))
    with fg.no_grad():
        w.total.add_(y.sum(0) * 0.1).clamp_(max=5)
    return ((y + w.total) * 0.5).log().mean()


def stepped(w: World, x: fg.Tensor) -> fg.Tensor:
    """A whole step: backward and the optimizer are inside."""
    w.optimizer.zero_grad()
    loss = ((w.model(x) - 0.3) ** 2).mean()
    loss.backward()
    w.optimizer.step()
    return loss.detach()


def twice(w: World, x: fg.Tensor) -> fg.Tensor:
    """A derivative inside, derived again from outside."""
    y = ((x @ w.weight).sin() * 2).sum()
    (slope,) = fg.autograd.grad(y, w.weight, create_graph=True)
    return (slope * slope).sum() + y


PROGRAMS: list[Callable[[World, fg.Tensor], fg.Tensor]] = [branched, noisy, stepped, twice]
# The call that fails: one that is recorded, one of the other branch, replays or deferred calls, one that
# compiles forward and backward together.
FAILING = (0, 1, 3, 7)


def call(function: Callable[..., fg.Tensor], world: World, number: int) -> np.ndarray:
    """The call of a number, and the backward of its result."""
    x = fg.tensor(np.random.default_rng(number % 2).normal(size=(5, 3)).astype("f4") + 2 * (number % 2) - 1)
    result = function(world, x)
    if result.requires_grad:
        result.backward()
    return result.detach().numpy().copy()


def same(a: np.ndarray, b: np.ndarray) -> None:
    np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)


# Points of failure. Each context manager yields a function that says whether it has happened.


@contextmanager
def at_op(number: int, error: type[BaseException]) -> Iterator[Callable[[], bool]]:
    """The op with this number in the order of evaluation fails."""
    count = itertools.count()
    happened = []

    def failing(op: Any) -> Callable[..., Any]:
        evaluate = op.evaluate

        def run(args: Any, params: Any) -> Any:
            if not happened and next(count) == number:
                happened.append(op)
                raise error(op.name)
            return evaluate(args, params)

        return run

    # Once bfloat16 was used, ops have an `evaluate` of their own already.
    with pytest.MonkeyPatch.context() as patch:
        for op in REGISTRY.values():
            patch.setitem(vars(op), "evaluate", failing(op))
            patch.setitem(vars(op), "run", None)  # natively not all of them are asked
        yield lambda: bool(happened)


@contextmanager
def at_use(number: int, owner: Any, name: str) -> Iterator[Callable[[], bool]]:
    """The use of `owner.name` with this number finds no memory."""
    count = itertools.count()
    happened = []
    found = getattr(owner, name)

    def run(*args: Any, **kwargs: Any) -> Any:
        if not happened and next(count) == number:
            happened.append(name)
            raise MemoryError
        return found(*args, **kwargs)

    setattr(owner, name, run)
    try:
        yield lambda: bool(happened)
    finally:
        if isinstance(owner, allocator.Pool):
            delattr(owner, name)
        else:
            setattr(owner, name, found)


# A point in the code: the file, the function's name and line, the instruction, and the event.
Point = tuple[str, str, int, int, str]


def point_of(frame: types.FrameType, event: str) -> Point | None:
    """Where Python can be interrupted: at the start of a function, and when a C function has returned."""
    if event not in ("call", "c_return"):
        return None
    code = frame.f_code
    if event == "call" and code.co_flags & inspect.CO_GENERATOR and frame.f_lasti > 10:
        return None  # a generator that is closed looks like this, too, and is not interrupted
    return code.co_filename, code.co_name, code.co_firstlineno, frame.f_lasti, event


def points_of(run: Callable[[], Any]) -> list[Point]:
    """All points that a run comes by, in order."""
    found: dict[Point, None] = {}

    def note(frame: types.FrameType, event: str, argument: Any) -> None:
        point = point_of(frame, event)
        if point is not None:
            found.setdefault(point)

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    # The programs' own lines are Python's business, and so are `with` blocks of theirs.
    return [p for p in found if p[0] not in (__file__, states.__file__)]


@contextmanager
def at_point(point: Point, error: type[BaseException]) -> Iterator[Callable[[], bool]]:
    """`error` is raised when the run comes to `point` for the first time; kernels compile as if new."""
    happened = []

    def check(frame: types.FrameType, event: str, argument: Any) -> None:
        if not happened and frame.f_code.co_name == point[1] and point_of(frame, event) == point:
            happened.append(point)
            sys.setprofile(None)
            raise error

    with kernel_cache.cold():
        sys.setprofile(check)
        try:
            yield lambda: bool(happened)
        finally:
            sys.setprofile(None)


# The drill.


class Drill:
    """A jitted program in its world, some calls old."""

    def __init__(self, program_: Callable[..., fg.Tensor], calls: int, way: str = "") -> None:
        self.program, self.calls = program_, calls
        self.jitted = fg.jit(types.FunctionType(program_.__code__, globals(), program_.__name__))
        self.world = World()
        for number in range(calls):
            call(self.jitted, self.world, number)
        if way == "eager":
            for entry in self.jitted.entries.values():
                entry.plan.choice = "eager"

    def failing(self, fault: Any) -> BaseException | None:
        """Make the next call with `fault`, a context manager, and check what it leaves; gives its error."""
        before = self.world.copied()
        error: BaseException | None = None
        with fault as happened:
            try:
                call(self.jitted, self.world, self.calls)
            except (Fault, MemoryError, KeyboardInterrupt) as raised:
                error = raised
        self.happened = happened()
        self.check_nothing_is_left()
        replays = not any(e.given_up or e.reasons for e in self.jitted.entries.values()) and self.calls > 1
        if error is not None and replays and self.program is stepped:
            self.check_all_or_none(before)
        del before
        self.check_next_calls()
        return error

    def check_nothing_is_left(self) -> None:
        assert state.interpreter is None and state.grad_enabled and state.saved_hooks is None
        assert observer.current.observer is None

    def check_all_or_none(self, before: World) -> None:
        """A replayed step has written everything or nothing."""
        after = before.copied()
        call(self.program, after, self.calls)
        now = self.world.seen()
        unchanged = [np.array_equal(a, b) for a, b in zip(now, before.seen(), strict=True)]
        if not all(unchanged):
            for a, b in zip(now, after.seen(), strict=True):
                same(a, b)

    def check_next_calls(self) -> None:
        """Further calls, also from another thread, which finds all locks free, are eager's."""
        reference = self.world.copied()
        problems: list[BaseException] = []

        def go(numbers: range) -> None:
            try:
                for number in numbers:
                    same(call(self.jitted, self.world, number), call(self.program, reference, number))
                    for a, b in zip(self.world.seen(), reference.seen(), strict=True):
                        same(a, b)
                    assert len(self.world.log) == len(reference.log)
            except BaseException as error:
                problems.append(error)

        first = self.calls
        thread = threading.Thread(target=go, args=(range(first, first + 4),), daemon=True)
        thread.start()
        thread.join(60)
        assert not thread.is_alive(), "a lock was left taken"
        go(range(first + 4, first + 6))
        if problems:
            raise problems[0]


@pytest.fixture(autouse=True)
def always_deferred(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which way is faster must not decide what is tested."""
    monkeypatch.setattr(interpreter.Plan, "note", lambda *_: None)


# Each op, and each piece of memory.


def drill_numbered(make: Callable[[int], Any], *setting: Any) -> int:
    """Let the things that `make` counts fail, each in a drill of its own; how many there were."""
    for number in itertools.count():
        drill = Drill(*setting)
        drill.failing(make(number))
        if not drill.happened:
            return number
    raise AssertionError


SETTINGS = [*((p, calls, "") for p in PROGRAMS for calls in FAILING), (noisy, 3, "eager")]


def named(value: Any) -> str:
    return getattr(value, "__name__", None) or str(value)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("program_, calls, way", SETTINGS, ids=named)
def test_an_exception_at_any_op(program_: Any, calls: int, way: str):
    count = drill_numbered(lambda n: at_op(n, Fault), program_, calls, way)
    assert count > (10 if calls == 0 or way else 0)


def test_ops_that_know_bfloat16_fail_too():
    fg.tensor(1.0, dtype=fg.bfloat16)
    assert drill_numbered(lambda n: at_op(n, Fault), branched, 0) > 10


@pytest.mark.one_in(4)
@pytest.mark.parametrize("program_, calls, way", SETTINGS, ids=named)
def test_no_memory_for_an_op_or_a_compiled_program(
    program_: Any, calls: int, way: str, monkeypatch: pytest.MonkeyPatch
):
    # What native code makes itself is in `test_making.py`.
    monkeypatch.setattr(memory_plan, "MOST_WORK", -1)
    drill_numbered(lambda n: at_op(2 * n + 1, MemoryError), program_, calls, way)
    drill_numbered(lambda n: at_use(n, memory_plan, "aligned_bytes"), program_, calls, way)
    arrays = drill_numbered(lambda n: at_use(n, memory_plan, "small_array"), program_, calls, way)
    drill_numbered(lambda n: at_use(n, allocator.pool, "array"), program_, calls, way)
    assert arrays or calls < 3 or way


# Anywhere.


def drill_points(
    error: type[BaseException], setting: Any, every: int = 0, first: int = 0
) -> tuple[int, list[str]]:
    """Let a call fail at every `every`-th point that it comes by; how often it did, and what went wrong.

    every: 0 for so many that it takes a few seconds at most.
    """
    trial = Drill(*setting)
    with kernel_cache.cold():
        points = points_of(lambda: call(trial.jitted, trial.world, trial.calls))
    every = every or (197 if len(points) > 600 else 41 if len(points) > 200 else 5)
    happened, problems = 0, []
    for point in points[first % every :: every]:
        drill = Drill(*setting)
        unraisable: list[Any] = []
        previous, sys.unraisablehook = sys.unraisablehook, unraisable.append
        try:
            raised = drill.failing(at_point(point, error))
            happened += drill.happened
            # Python itself cannot raise what comes up in a finalizer.
            if error is KeyboardInterrupt and drill.happened and raised is None and not unraisable:
                problems.append(f"{setting}: {point}: the interrupt was swallowed")
        except AssertionError as problem:
            problems.append(f"{setting}: {point}: {problem}")
            state.interpreter, state.grad_enabled, observer.current.observer = None, True, None
        finally:
            sys.unraisablehook = previous
    return happened, problems


@pytest.mark.one_in(4)
@pytest.mark.parametrize("error", [Fault, KeyboardInterrupt], ids=named)
@pytest.mark.parametrize("place", range(len(SETTINGS)))
def test_a_fault_or_an_interrupt_anywhere(error: type[BaseException], place: int):
    happened, problems = drill_points(error, SETTINGS[place], first=7 * place)
    assert happened >= 2 and not problems, "\n".join(problems)


if __name__ == "__main__":
    interpreter.Plan.note = lambda *_: None  # type: ignore[method-assign]
    step = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    for kind, each in itertools.product((KeyboardInterrupt, Fault), SETTINGS):
        total, texts = drill_points(kind, each, step)
        print("\n".join([*texts, f"{kind.__name__} {named(each[0])} {each[1:]}: {total} points"]), flush=True)
