"""Forks, ends and interrupts while something is compiled beside the program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

BEGINS = f"""
import atexit, sys

begun, done = [], []
atexit.register(lambda: print("over", len(begun) - len(done)))  # comes last
sys.path.insert(0, {str(Path(__file__).parents[2] / "helpers")!r})
import os, signal, threading, time
import fusegrad as fg
from budget import *
from fusegrad.compiler import entries
from fusegrad.tracer.record import allowance

allowance.LONGEST = 0.0
fg.set_compile_budget(0)
# A shell has what it runs beside it ignore interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
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


def test_the_process_ends_while_something_is_planned(in_process: Callable[[str], str]) -> None:
    assert in_process(LONG) == "over 0\n"


def test_the_process_ends_while_llvm_is_at_work(in_process: Callable[[str], str]) -> None:
    """It ends once LLVM has left what it has begun with, and begins with nothing else."""
    program = """
from fusegrad.compiler.llvm import llvm_work

emit, at_work = llvm_work._emit, threading.Event()

def slow(*given):
    begun.append(1)
    at_work.set()
    time.sleep(0.5)
    made = emit(*given)
    done.append(1)
    return made

llvm_work._emit = slow
"""
    assert in_process(program + LONG + "assert at_work.wait(60)") == "over 0\n"


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
    assert in_process(LONG + program) == "1 1\nover 0\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_may_be_forked_in_the_middle_of_any_function(in_process: Callable[[str], str]) -> None:
    """The thread that compiles is held in functions that it calls, each time later, until a child is forked:
    whatever lock it has then, also one of Python's own, would be taken in the child for ever.
    """
    program = """
held, forked, run = threading.Event(), threading.Event(), background.Work.run

def hold(frame, event, argument):
    if event == "call":
        hold.calls += 1
        # Each function once that Python's library calls, or LLVM's or Numba's, and some of all.
        ours, callers = ("fusegrad" in f.f_globals["__name__"] for f in (frame, frame.f_back))
        if ours and not callers and frame.f_code not in hold.seen or hold.calls > hold.next:
            hold.seen.add(frame.f_code)
            hold.next = 3 * hold.calls + 100
            forked.clear()
            held.set()
            forked.wait(1)  # it may have what a fork waits for

def profiled(work):
    sys.setprofile(hold)
    run(work)

hold.calls, hold.next, hold.seen = 0, 0, set()
background.Work.run = profiled

@fg.jit
def jitted(x):
    table = (x[:, None] @ x[None]).softmax(1)
    for row in range(100):
        x = x * 0.9 + table[0]
    return wave(x, 1.5) + (table.cumsum(0) @ x).logsumexp(0)

plain = lambda x: wave(x, 1.5).softmax(0)  # a child is to be over soon
jitted(leaf())
forks = 0
while not jitted.at_work.over:
    if held.wait(0.1):
        held.clear()
        child = os.fork()
        if not child:
            signal.alarm(60)
            background.Work.run = run
            fg.set_compile_budget(None)
            own = fg.jit(plain)
            for _ in range(2):
                agree(plain, own, leaf())
            os._exit(0 if own.stats.compiled_calls else 3)
        forked.set()
        assert os.waitpid(child, 0)[1] == 0, (hold.calls, forks)
        forks += 1
assert forks > 8, forks
"""
    assert in_process("from fusegrad.compiler.base import background\n" + program) == "over 0\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_may_be_forked_while_an_object_of_llvmlite_goes(in_process: Callable[[str], str]) -> None:
    """Its lock is taken then, in whichever thread that is."""
    program = """
from llvmlite.binding import ffi, parse_assembly

fg.jit(lambda x: x + 1)(fg.ones(3))
at_work, over = threading.Event(), []

def goes():
    while not over:
        with ffi.lib._lock:
            at_work.set()
            time.sleep(0.05)
        time.sleep(0.01)

thread = threading.Thread(target=goes, daemon=True)
thread.start()
assert at_work.wait(60)
for number in range(3):
    child = os.fork()
    if not child:
        signal.alarm(20)
        parse_assembly("")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, number
over.append(1)
thread.join()
"""
    assert in_process(program) == "over 0\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_may_be_forked_while_the_compiler_is_loaded(tmp_path: Path) -> None:
    """Eager has asked for kernels, and the thread that loads what makes them is held in the middle of it: the
    child can use `jit`, which needs the same modules, and gets kernels of its own.
    """
    program = """
import os, signal, sys, threading
import fusegrad as fg

loading, forked = threading.Event(), threading.Event()

class Holding:
    def find_spec(self, name, path=None, target=None):
        if name == "fusegrad.compiler.fuse" and threading.current_thread() is not threading.main_thread():
            loading.set()
            forked.wait(1)

sys.meta_path.insert(0, Holding())
fg.eager.core.large.answers.begin()
assert loading.wait(60)
for late in (False, True):
    child = os.fork()
    if not child:
        signal.alarm(60)
        assert fg.jit(lambda x: x * 2)(fg.ones(3)).tolist() == [2, 2, 2]
        fg.wait_for_compilation()
        os._exit(0 if fg.eager.core.large.answers.kernels is not None else 3)
    forked.set()
    assert os.waitpid(child, 0)[1] == 0, late
    fg.wait_for_compilation()
"""
    file = tmp_path / "program.py"
    file.write_text(program)
    subprocess.run([sys.executable, str(file)], check=True, timeout=120)


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
    assert in_process(program) == "interrupted\n0\n1\nover 0\n"
