"""Calls that do not wait for the compiler longer than they may: eager answers, and says what takes long."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler import entries, learning
from fusegrad.compiler.base import background
from fusegrad.compiler.paths.tree import Tree
from fusegrad.tracer.record import allowance

NUMBERS = [*range(40)]


def wave(x: fg.Tensor, scale: float = 1.0) -> fg.Tensor:
    for number in NUMBERS:  # the line that most ops come from
        x = fg.sin(x) * 0.5 + number * 0.01
    return (x * scale).sum()


def branched(x: fg.Tensor) -> fg.Tensor:
    y = wave(x)
    return y * 2 if x[0] > 0 else y - 1


class Held:
    """The thread that works beside the program, which waits before it does anything. free(): let it."""

    def __init__(self) -> None:
        self._free = threading.Event()
        self.begun = threading.Event()
        self.threads: set[int] = set()

    def wait(self) -> None:
        self.threads.add(threading.get_ident())
        if background.here():
            self.begun.set()
            assert self._free.wait(60)

    def free(self) -> None:
        self._free.set()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    """Calls do not wait, and what is compiled beside the program is held."""
    found = Held()
    plan = entries.tree_with
    joint = Tree.joint_code
    monkeypatch.setattr(entries, "tree_with", lambda *given: (found.wait(), plan(*given))[1])
    monkeypatch.setattr(Tree, "joint_code", lambda *given: (found.wait(), joint(*given))[1])
    monkeypatch.setattr(allowance, "LONGEST", 0.0)  # recording takes no time
    fg.set_compile_budget(0)
    yield found
    found.free()
    background.worker.wait()


def leaf(seed: int = 0, sign: float = 1.0) -> fg.Tensor:
    values = np.random.default_rng(seed).uniform(0.1, 1, 7).astype("f4")
    return fg.tensor(sign * values, requires_grad=True)


def other() -> fg.Tensor:
    """What takes the other branch."""
    return leaf(1, -1.0)


def agree(function: Callable[..., Any], jitted: Any, x: fg.Tensor, *others: Any) -> None:
    """Value and gradient of a call are eager's."""
    twin = x.detach().clone().requires_grad_()
    x.grad = None
    found, wanted = jitted(x, *others), function(twin, *others)
    found.backward()
    wanted.backward()
    assert x.grad is not None and twin.grad is not None
    np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), 1e-5, 1e-6)
    np.testing.assert_allclose(x.grad.numpy(), twin.grad.numpy(), 1e-4, 1e-6)


def test_calls_are_eagers_until_the_compiler_is_done(held: Held, capsys: pytest.CaptureFixture[str]) -> None:
    jitted = fg.jit(wave)
    for number in range(4):
        agree(wave, jitted, leaf(number))
    assert (jitted.stats.eager_calls, jitted.stats.compiled_calls, jitted.stats.compiles) == (4, 0, 1)
    assert jitted.kernels().forward == []
    held.free()
    fg.wait_for_compilation()
    assert jitted.stats.compiled_calls == 0  # nobody takes it over but a call
    for number in range(12):
        agree(wave, jitted, leaf(number))
    assert (jitted.stats.eager_calls, jitted.stats.compiles) == (4, 1)
    said = capsys.readouterr().err
    assert re.search(
        r"compiling <jit wave> takes long, now .*? 12\d ops, 120 of them from test_budget.py:31; it goes on",
        said,
    )
    assert said.count("takes long") == 1


def test_one_program_for_value_and_gradients_is_made_beside_the_program_too(held: Held) -> None:
    jitted = fg.jit(wave)
    agree(wave, jitted, leaf())
    held.free()
    fg.wait_for_compilation()
    held.__init__()  # type: ignore[misc]
    for number in range(8):
        agree(wave, jitted, leaf(number))
    assert held.begun.wait(60) and jitted.kernels().joint == []
    assert "planning value and gradients at once of" in str(jitted.explain())
    held.free()
    fg.wait_for_compilation()
    for number in range(8):
        agree(wave, jitted, leaf(number))
    assert jitted.kernels().joint and jitted.stats.compiled_calls == 16


def test_another_path_is_compiled_while_the_first_answers(held: Held) -> None:
    jitted = fg.jit(branched)
    agree(branched, jitted, leaf())
    held.free()
    fg.wait_for_compilation()
    held.__init__()  # type: ignore[misc]
    agree(branched, jitted, leaf())
    for _ in range(3):
        agree(branched, jitted, other())
        agree(branched, jitted, leaf())
    assert (jitted.stats.compiled_calls, jitted.stats.eager_calls) == (4, 4)
    held.free()
    fg.wait_for_compilation()
    for _ in range(3):
        agree(branched, jitted, other())
        agree(branched, jitted, leaf())
    assert (jitted.stats.compiled_calls, jitted.stats.eager_calls) == (10, 4)


def test_eager_answers_what_was_put_off(held: Held) -> None:
    """Ops on large tensors wait for the compiled path, which is not there."""
    x = fg.linspace(-1, 1, 1 << 18)
    jitted = fg.jit(lambda x: wave(x) + fg.tanh(x))
    for _ in range(2):
        np.testing.assert_allclose(jitted(x).numpy(), (wave(x) + fg.tanh(x)).numpy(), 1e-4, 1e-4)
    assert jitted.stats.compiled_calls == 0


def test_short_functions_are_compiled_at_once(held: Held) -> None:
    fg.set_compile_budget(1)
    jitted = fg.jit(lambda x: x.sin() + 1)
    for _ in range(2):
        jitted(leaf())
    assert jitted.stats.compiled_calls == 1
    assert held.threads == {threading.get_ident()}


def test_other_functions_are_compiled_meanwhile(held: Held) -> None:
    """What works beside the program has no lock that calls wait for."""
    jitted, short = fg.jit(wave), fg.jit(lambda x: x.cos() * 3)
    jitted(leaf())
    assert held.begun.wait(60)
    fg.set_compile_budget(None)
    for _ in range(2):
        short(leaf())
    assert short.stats.compiled_calls == 1
    assert jitted.stats.compiled_calls == 0


def test_a_call_waits_for_as_long_as_it_may(held: Held) -> None:
    held.free()
    fg.set_compile_budget(1e-9)
    jitted, calls = fg.jit(wave), []
    wait = background.Work.wait

    def watched(self: Any, seconds: float | None = None) -> bool:
        calls.append(seconds)
        return wait(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(background.Work, "wait", watched)
        jitted(leaf())
    assert calls == [1e-9]
    agree(wave, jitted, leaf())
    assert jitted.stats.compiled_calls == 1


def test_bits_that_must_not_depend_on_the_clock_wait(held: Held) -> None:
    fg.use_deterministic_algorithms(True)
    try:
        jitted = fg.jit(wave)
        first, second = jitted(leaf()), jitted(leaf())
    finally:
        fg.use_deterministic_algorithms(False)
    assert jitted.stats.compiled_calls == 2 and fg.equal(first, second)
    assert held.threads <= {threading.get_ident()}


def test_what_is_required_to_replay_waits(held: Held) -> None:
    jitted = fg.jit(wave, require="replay")
    for _ in range(2):
        agree(wave, jitted, leaf())
    assert jitted.stats.compiled_calls == 1
    assert held.threads == {threading.get_ident()}


def test_no_bound_and_no_such_bound(held: Held) -> None:
    fg.set_compile_budget(None)
    assert fg.get_compile_budget() is None
    jitted = fg.jit(wave)
    jitted(leaf())
    assert held.threads == {threading.get_ident()}
    for seconds in (-1, float("nan")):
        with pytest.raises(ValueError, match="must be 0 or more"):
            fg.set_compile_budget(seconds)


def test_explain_says_what_is_compiled_beside_the_program(held: Held) -> None:
    jitted = fg.jit(wave)
    jitted(leaf())
    assert held.begun.wait(60)
    assert re.search(
        r"compiled beside the program for .* s, and calls go on without: planning", str(jitted.explain())
    )
    (entry,) = jitted.explain().as_dict()["entries"]
    assert entry["compiling"]["most"] == 120 and entry["compiling"]["line"] == "test_budget.py:31"
    held.free()
    fg.wait_for_compilation()
    assert "done, for the next call" in str(jitted.explain())
    jitted(leaf())
    assert jitted.explain().as_dict()["entries"][0]["compiling"] is None


def test_a_fault_of_the_compiler_is_one_beside_the_program(
    held: Held, monkeypatch: pytest.MonkeyPatch, faults_are_covered: None
) -> None:
    def broken(*given: Any) -> Any:
        raise KeyError("planted")

    monkeypatch.setattr(entries, "tree_with", broken)
    jitted = fg.jit(wave)
    for _ in range(2):
        agree(wave, jitted, leaf())
        fg.wait_for_compilation()
    assert "the compiler failed: KeyError: 'planted'" in str(jitted.explain())
    monkeypatch.setenv("FUSEGRAD_FAULTS", "raise")
    jitted.clear()
    jitted(leaf())
    assert jitted.at_work is not None and jitted.at_work.wait(60)
    with pytest.raises(KeyError, match="planted"):
        jitted(leaf())
    jitted.clear()
    jitted(leaf())
    with pytest.raises(KeyError, match="planted"):
        fg.wait_for_compilation()


def test_what_was_planned_for_another_default_dtype_is_not_taken(held: Held) -> None:
    jitted = fg.jit(wave)
    jitted(leaf())
    assert held.begun.wait(60)
    fg.set_default_dtype(fg.float64)
    fg.set_default_dtype(fg.float32)
    held.free()
    fg.wait_for_compilation()
    agree(wave, jitted, leaf())
    assert jitted.stats.compiled_calls == 0 and jitted.stats.compiles == 2


def test_two_functions_and_several_threads(held: Held) -> None:
    functions = [lambda x: wave(x) * 2, lambda x: wave(x * 0.5)]
    jitted = [fg.jit(function) for function in functions]
    wrong: list[Exception] = []

    def work() -> None:
        try:
            for number in range(20):
                for function, compiled in zip(functions, jitted, strict=True):
                    agree(function, compiled, leaf(number))
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    held.free()
    for thread in threads:
        thread.join()
    fg.wait_for_compilation()
    assert not wrong
    for function, compiled in zip(functions, jitted, strict=True):
        agree(function, compiled, leaf())
        before = compiled.stats.compiled_calls
        agree(function, compiled, leaf())
        assert compiled.stats.compiled_calls == before + 1


def test_what_is_forgotten_is_not_taken_over(held: Held) -> None:
    jitted = fg.jit(wave)
    jitted(leaf())
    jitted.clear()
    held.free()
    fg.wait_for_compilation()
    agree(wave, jitted, leaf())
    assert jitted.stats.compiled_calls == 0 and jitted.stats.compiles == 2


def test_garbage_is_collected_once_nobody_waits(held: Held) -> None:
    seen = []
    wait = background.Work.wait

    def watched(self: Any, seconds: float | None = None) -> bool:
        seen.append(gc.isenabled())
        return wait(self, seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(background.Work, "wait", watched)
        fg.jit(wave)(leaf())
    assert seen == [False] and gc.isenabled()


# Recording.


def stepped(x: fg.Tensor) -> fg.Tensor:
    """Writes, views, random numbers, a backward and a step of an optimizer."""
    fg.manual_seed(5)
    weight = fg.ones(7, requires_grad=True)
    optimizer = fg.optim.Adam([weight], lr=0.1)
    table = fg.zeros(3, 7)
    for row in range(3):
        table[row] = fg.sin(x.detach()) * (row + fg.rand(7))
    table[1:].mul_(0.5)
    loss = (table * weight).sum() + table.T[2].sum()
    loss.backward()
    optimizer.step()
    if loss > 0:
        x = x * weight.detach()
    total = x
    for number in range(200):
        total = total * 0.99 + x * number
    parts = [total[:3], total[3:]]
    return fg.cat(parts).sum() + loss.detach()


@pytest.mark.parametrize("recorded", [*range(0, 60, 3), 100, 200, 300])
def test_a_run_that_takes_too_long_to_record_goes_on_in_eager(
    recorded: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fg.set_compile_budget(1)
    left = [recorded]

    def clock() -> float:
        left[0] -= 1
        return 0.0 if left[0] >= 0 else -1e9 * left[0]

    monkeypatch.setattr(allowance, "LONGEST", float("inf"))
    monkeypatch.setattr(allowance.time, "perf_counter", clock)
    jitted = fg.jit(stepped)
    for number in range(3):
        agree(stepped, jitted, leaf(number))
    said = capsys.readouterr().err
    assert ("recording" in said) == (recorded < 600)
    if "recording" in said:
        assert said.count("recording <jit stepped> takes longer than 1 s") == 1
        assert jitted.stats.compiles == 0 or jitted.stats.compiled_calls
        (entry,) = jitted.explain().as_dict()["entries"]
        assert entry["given_up"] == learning.LONG
        assert entry["reasons"][-1]["kind"] == "long"


def test_what_takes_long_to_record_is_not_recorded_for_every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    fg.set_compile_budget(0)
    recorded = []
    capture = fg.jit.__globals__["capture"]
    monkeypatch.setitem(
        fg.jit.__globals__, "capture", lambda *given, **more: (recorded.append(1), capture(*given, **more))[1]
    )
    jitted = fg.jit(lambda x, y: (x * y).sum())
    for size in range(1, 12):
        for dtype in (fg.float32, fg.float64):
            jitted(fg.ones(size, dtype=dtype), fg.ones(size, 1))
    assert len(recorded) <= learning.LONG_RUNS


def test_computing_is_not_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two ops the function may do what it likes; and ops may take long."""
    now = [0.0]

    def clock() -> float:
        now[0] += 10.0
        return now[0]

    monkeypatch.setattr(allowance.time, "perf_counter", clock)
    fg.set_compile_budget(4)
    jitted = fg.jit(wave)
    jitted(leaf())
    fg.wait_for_compilation()
    jitted(leaf())
    assert jitted.stats.compiled_calls == 1


# Deferred runs.


def test_stretches_are_compiled_in_pieces(capsys: pytest.CaptureFixture[str]) -> None:
    log: list[float] = []

    def noisy(x: fg.Tensor) -> fg.Tensor:
        for op in (fg.sin, fg.cos, fg.tanh):
            for _ in range(5):
                x = op(x) + 1
            log.insert(99, float(x.sum()))
        return x

    jitted = fg.jit(noisy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allowance, "LONGEST", 0.0)
        fg.set_compile_budget(0)
        compiled = []
        for number in range(5):
            x = leaf(number).detach()
            np.testing.assert_allclose(jitted(x).numpy(), noisy(x).numpy(), 1e-5, 1e-6)
            compiled.append(jitted.stats.compiles)
    pieces = np.diff([0, *compiled])
    assert max(pieces) == 1 and sum(pieces) == 3
    said = capsys.readouterr().err
    assert said.count("stretches of its ops, up to /") == 1


# Processes.


BEGINS = f"""
import sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
import os, signal, threading, time
import fusegrad as fg
from test_budget import *

allowance.LONGEST = 0.0
fg.set_compile_budget(0)
"""


@pytest.fixture
def in_process(tmp_path: Path) -> Callable[[str], str]:
    """Runs a program, with functions of this file, in a process of its own; gives what it prints."""

    def run(program: str) -> str:
        file = tmp_path / "program.py"
        file.write_text(BEGINS + textwrap.dedent(program))
        done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


LONG = """
@fg.jit
def long(x):
    return sum((wave(x, 1.0 + number) for number in range(10)), fg.zeros(()))

long(leaf())
assert long.at_work is not None
"""


@pytest.mark.parametrize("seconds", [0.0, 0.3, 0.6])
def test_the_process_ends_while_something_is_compiled(
    seconds: float, in_process: Callable[[str], str]
) -> None:
    assert in_process(f"{LONG}\ntime.sleep({seconds})\nprint('over')") == "over\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_compiles_anew_what_the_parent_was_compiling(in_process: Callable[[str], str]) -> None:
    program = """
for seconds in (0.0, 0.2, 0.4):
    time.sleep(seconds)
    child = os.fork()
    if not child:
        signal.alarm(100)
        fg.set_compile_budget(None)
        for _ in range(2):
            agree(long.__wrapped__, long, leaf())
        os._exit(0 if long.stats.compiled_calls else 3)
    assert os.waitpid(child, 0)[1] == 0
fg.wait_for_compilation()
agree(long.__wrapped__, long, leaf())
print(long.stats.compiled_calls, long.stats.compiles)
"""
    assert in_process(LONG + program) == "1 1\n"


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signals to threads here")
def test_an_interrupt_ends_the_waiting_and_not_the_work(in_process: Callable[[str], str]) -> None:
    program = """
goes_on, plan = threading.Event(), entries.tree_with

def held(*given):
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    assert goes_on.wait(60)
    return plan(*given)

entries.tree_with = held
background.OPS_PER_SECOND = 0.01
fg.set_compile_budget(100)
jitted = fg.jit(wave)
try:
    jitted(leaf())
except KeyboardInterrupt:
    print("interrupted")
agree(wave, jitted, leaf())
print(jitted.stats.compiled_calls)
goes_on.set()
fg.wait_for_compilation()
agree(wave, jitted, leaf())
print(jitted.stats.compiled_calls)
"""
    assert in_process(program) == "interrupted\n0\n1\n"
