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
from fusegrad.compiler.llvm import llvm_jit

emit, at_work = llvm_jit._emit, threading.Event()

def slow(*given):
    begun.append(1)
    at_work.set()
    time.sleep(0.5)
    made = emit(*given)
    done.append(1)
    return made

llvm_jit._emit = slow
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
