"""Signal handlers that use autograd themselves, wherever they come: no gradient is lost, or counted twice."""

from __future__ import annotations

import contextlib
import functools
import gc
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fusegrad as fg
from fusegrad.eager.autograd import accumulation
from fusegrad.eager.core.handlers import Guarded, in_charge
from fusegrad.eager.core.state import Interpreter, in_modes, in_state, modes, state
from fusegrad.tracer.ir import evaluation

if not hasattr(signal, "setitimer"):
    pytest.skip("no timers here", allow_module_level=True)

# Each gives a leaf, what is called again and again, and what one call adds to each element of the gradient.
Program = Callable[[], tuple[Any, Callable[[], Any], float]]
PROGRAMS: dict[str, Program] = {}


def program(make: Program) -> Program:
    PROGRAMS[make.__name__] = make
    return make


def leaf(*shape: int) -> Any:
    return fg.ones(shape or (5,), requires_grad=True)


@program
def chain():
    w = leaf()

    def once():
        y = w
        for _ in range(10):
            y = y * 1.0 + 0.0
        (y * 2).sum().backward()

    return w, once, 2


@program
def many_ways():
    w = leaf()
    return w, lambda: sum(((w * 1.0).sum() for _ in range(10)), fg.zeros(())).backward(), 10


@program
def parts():
    w = leaf()
    return w, lambda: sum((w[i].sum() for i in range(5)), fg.zeros(())).backward(), 1


@program
def twice():
    w = leaf()

    def once():
        loss = (w * w.detach()).sum()
        loss.backward(retain_graph=True)
        loss.backward()

    return w, once, 2


@program
def under_hooks():
    w = leaf()
    w.register_hook(lambda g: g * 1)
    w.register_post_accumulate_grad_hook(lambda p: None)
    return w, lambda: (w * 1.0 + w * 2.0).sum().backward(), 3


@program
def on_the_graph():
    w = leaf()
    return w, lambda: (w * w).sum().backward(create_graph=True), 2


@program
def one_gradient_for_two():
    w, v = leaf(), leaf()
    return v, lambda: (w + v * 2).sum().backward(), 2


@program
def loss_replayed():
    w, x = leaf(), fg.ones(5)
    loss = fg.jit(lambda x: (x * w * 2).sum())
    return w, lambda: loss(x).backward(), 2


@program
def step_replayed():
    w, x = leaf(), fg.ones(5)

    @fg.jit
    def step(x):
        (x * w * 3).sum().backward()

    return w, lambda: step(x), 3


@program
def step_recorded():
    w, x = leaf(), fg.ones(5)

    def step(x):
        (x * w * 3).sum().backward()

    return w, lambda: fg.jit(step)(x), 3


@program
def loss_recorded():
    w, x = leaf(), fg.ones(5)
    return w, lambda: fg.jit(lambda x: (x * w * 3).sum())(x).backward(), 3


@program
def put_off():
    w, x = leaf(600, 600), fg.ones(600, 600)
    return w, lambda: fg.jit(lambda x: (x * w * 3).sum())(x).backward(), 3


def added_up(x, w):
    for _ in range(200):
        x = x + w
    return x.sum()


@program
def rolled():
    w, x = leaf(), fg.ones(5)
    return w, lambda: fg.jit(lambda x: added_up(x, w))(x).backward(), 200


@program
def deferred():
    w, x, lines = leaf(), fg.ones(5), []

    @fg.jit
    def step(x):
        lines.insert(99, 1)
        y = x * w
        lines.insert(99, y.sum().item())
        (y * 3).sum().backward()

    return w, lambda: step(x), 3


class Handler:
    """Does some work, also in the middle of its own; counts how often it was done.

    It comes again some time after it has begun and ended: however slow the machine is, what it interrupts
    gets on.
    """

    def __init__(self, work: Callable[[], Any], again: float) -> None:
        self.work, self.again, self.count, self.depth = work, again, 0, 0
        self.errors: list[Exception] = []

    def __call__(self, *_: Any) -> None:
        if self.depth == 2:
            return
        signal.setitimer(signal.ITIMER_REAL, self.again)
        self.depth += 1
        try:
            with fg.enable_grad():  # it may come where gradients are off
                self.work()
            self.count += 1
        except Exception as error:
            self.errors.append(error)
        finally:
            self.depth -= 1
            signal.setitimer(signal.ITIMER_REAL, self.again)


@pytest.fixture
def alarms() -> Iterator[Callable[..., None]]:
    """Sets the handler of the alarm, and when it comes."""
    assert threading.current_thread() is threading.main_thread()
    previous = signal.getsignal(signal.SIGALRM)

    def begin(handler: Any, seconds: float) -> None:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, seconds)

    yield begin
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, previous)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_a_handler_adds_is_added_once(name: str, deterministic: bool, alarms: Callable[..., None]):
    fg.use_deterministic_algorithms(deterministic)
    try:
        w, once, each = PROGRAMS[name]()
        own, other = leaf(7), fg.jit(lambda z: (z * z).sum())
        handler = Handler(lambda: ((w * 1.0).sum() + (own * 3).sum() + other(own * 1.0)).backward(), 0.0003)
        calls, end = 0, time.monotonic() + 60
        alarms(handler, 0.0003)
        while (handler.count < 30 or calls < 10) and time.monotonic() < end:
            once()
            calls += 1
        handler.again = 0  # one may be about to come
        signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        fg.use_deterministic_algorithms(False)
    assert not handler.errors and handler.count >= 30 and calls >= 10
    assert fg.equal(w.grad, fg.full_like(w, calls * each + handler.count))
    assert fg.equal(own.grad, fg.full_like(own, 5 * handler.count))
    before = w.grad.clone()
    once()
    assert fg.equal(w.grad, before + each)


class Came(Exception):
    """What a handler raises."""


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.usefixtures("faults_are_covered")
def test_what_a_handler_raises_comes_out_and_leaves_nothing_half_done(
    name: str, alarms: Callable[..., None], monkeypatch: pytest.MonkeyPatch
):
    armed, raised, unraisable = False, [], []

    def raises(*_: Any) -> None:
        if armed:
            raised.append(1)
            raise Came

    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)  # where Python can raise nothing
    rng = random.Random(name)
    w, once, each = PROGRAMS[name]()
    least = most = caught = 0
    for _ in range(100):
        try:
            alarms(raises, rng.uniform(1e-5, 1e-3))
            armed = True
            once()
            armed = False
            least += each
        except Came:
            armed = False
            caught += 1
        most += each
        assert state.interpreter is None and fg.is_grad_enabled()
        assert len(raised) == caught + len(unraisable)
    known = 0 if w.grad is None else w.grad.detach().min().item()
    assert least <= known <= most
    w.grad = None
    once()
    assert fg.equal(w.grad, fg.full_like(w, each))


class Comes:
    """A handler that raises at one of the places where Python calls handlers: when a function of Python's is
    entered, or one of C's has returned.
    """

    def __init__(self) -> None:
        self.seen, self.place = 0, 0

    def __call__(self, frame: Any, event: str, _: Any) -> None:
        if event in ("call", "c_return"):
            self.seen += 1
            if self.seen == self.place:
                raise Came

    def within(self, function: Callable[[], Any], place: int) -> int:
        """Call `function`; the number of places. place: where to raise, from 1 on; 0: nowhere."""
        self.seen, self.place = 0, place
        sys.setprofile(self)
        try:
            function()
        except Came:
            pass
        finally:
            sys.setprofile(None)
        return self.seen


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.usefixtures("faults_are_covered")
def test_wherever_a_handler_raises_nobody_stays_in_charge(
    name: str, alarms: Callable[..., None], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # where Python can raise nothing
    rng, comes, before = random.Random(name), Comes(), modes()
    alarms(comes, 60)
    w, once, each = PROGRAMS[name]()
    places = comes.within(once, 0)
    for _ in range(60):
        comes.within(once, rng.randint(1, places))
        assert state.interpreter is None and modes() == before
        w.grad = None
        once()
        assert fg.equal(w.grad, fg.full_like(w, each))


def stays_in_charge(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Who is in charge after a handler has raised between what puts somebody aside and what is done then."""

    class Entered(in_state):
        def __enter__(self) -> None:
            super().__enter__()
            raise Came

    monkeypatch.setattr(evaluation, "in_state", Entered)
    recorder = Interpreter()
    before, state.interpreter = state.interpreter, recorder
    try:
        with in_modes(modes()), pytest.raises(Came) as came, evaluation.alone():
            pass
    finally:
        state.interpreter = before
    del came  # with it goes what the exception has left half way through
    gc.collect()
    left, state.interpreter = state.interpreter, None
    return left


def test_what_is_left_half_way_through_puts_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stays_in_charge(monkeypatch) is None


def test_a_generator_that_puts_back_later_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def generated() -> Iterator[None]:
        before, state.interpreter = state.interpreter, None
        try:
            yield
        finally:
            state.interpreter = before

    class Interrupted:
        def __init__(self) -> None:
            self.inner = generated()

        def __enter__(self) -> None:
            self.inner.__enter__()
            raise Came

        def __exit__(self, *exception: object) -> None:
            raise AssertionError("it was never entered")

    monkeypatch.setattr(evaluation, "alone", Interrupted)
    assert stays_in_charge(monkeypatch) is not None


def handlers() -> dict[str, Any]:
    class Callable_:
        def __call__(self, *_: Any) -> None: ...

        def method(self, *_: Any) -> None: ...

    def function(*_: Any) -> None: ...

    return {
        "function": function,
        "method": Callable_().method,
        "object": Callable_(),
        "partial": functools.partial(function, 1),
    }


@pytest.fixture
def none_so_far() -> Iterator[None]:
    """No handlers but those of Python: PyTorch leaves one where it has had processes read data."""
    theirs = (signal.SIG_DFL, signal.SIG_IGN, signal.default_int_handler, None)
    found = {n: h for n in signal.valid_signals() if (h := signal.getsignal(n)) not in theirs}
    for number in found:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in found.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("kind", handlers())
@pytest.mark.usefixtures("none_so_far")
def test_handlers_of_all_kinds_are_known(kind: str, alarms: Callable[..., None]):
    assert not isinstance(in_charge(Interpreter()), Guarded)
    alarms(handlers()[kind], 60)
    assert isinstance(in_charge(Interpreter()), Guarded)


def test_loops_are_rolled_where_there_are_handlers(alarms: Callable[..., None]):
    alarms(lambda *_: None, 60)
    loop = fg.jit(added_up)
    assert loop(fg.ones(5), leaf()).item() == 5 * 201
    assert "rounds of a loop" in str(loop.explain()), loop.explain()


def test_a_handler_that_writes_is_in_time(alarms: Callable[..., None]):
    """Ops that wait take what was there when they were asked for."""
    x, seen = fg.ones(3), []

    def writes(*_: Any) -> None:
        x.mul_(2)

    @fg.jit
    def open_run():
        seen.insert(99, 1)
        y = x + 1
        signal.raise_signal(signal.SIGALRM)
        return y * 1

    alarms(writes, 60)
    found = [open_run().tolist()[0] for _ in range(6)]
    assert found == [2, 3, 5, 9, 17, 33] and open_run.stats.compiled_calls >= 2


def comes_between(monkeypatch: pytest.MonkeyPatch) -> float:
    """The gradient of a leaf, 2, where a handler adds 5 after the last look at `.grad`."""
    w, calls, wrap = leaf(1), [], accumulation.wrap

    def wrapped(array: Any) -> Any:
        if not calls:
            calls.append(1)
            with fg.enable_grad():
                (w * 5).sum().backward()
        return wrap(array)

    monkeypatch.setattr(accumulation, "wrap", wrapped)
    (w * 2).sum().backward()
    return w.grad.item()


def test_what_a_handler_adds_just_before_a_gradient_is_set_is_kept(monkeypatch: pytest.MonkeyPatch):
    assert comes_between(monkeypatch) == 7


def test_a_gradient_that_is_set_without_another_look_is_found(monkeypatch: pytest.MonkeyPatch):
    def replaced(tensor: Any, known: Any, version: int, gradient: Any) -> bool:
        tensor.gradient = gradient
        return True

    monkeypatch.setattr(accumulation, "replaced_gradient", replaced)
    assert comes_between(monkeypatch) == 2
