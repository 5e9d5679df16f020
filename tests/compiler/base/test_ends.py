"""Processes end, whatever is compiled beside them, and whenever LLVM was loaded."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

LATE = """
import threading
import fusegrad as fg
from fusegrad.compiler.base.background import Work, Worker
from fusegrad.compiler.base.lock import compiling

worker, begun = Worker(aside=False), threading.Event()

def late(work):
    begun.set()
    threading.main_thread().join(0.5)
    with compiling:
        print("compiled")

def load():
    from fusegrad.compiler.llvm import llvm_jit
    llvm_jit.compile_module("define i32 @f() { ret i32 1 }", ["f"])
"""
ORDERS = {
    "LLVM is loaded before": "load(); worker.ask(Work(late, 'late')); begun.wait()",
    "LLVM is loaded meanwhile": "worker.ask(Work(late, 'late')); begun.wait(); load()",
    "LLVM is not loaded": "worker.ask(Work(late, 'late')); begun.wait()",
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("cache", ["0", "1"])
def test_a_process_ends_when_what_is_compiled_beside_it_is(order: str, cache: str, tmp_path: object) -> None:
    """LLVM's end takes the lock of compiling for good, so workers that want it once more come before."""
    env = {"FUSEGRAD_CACHE": "0" if cache == "0" else str(tmp_path), "PATH": ""}
    program = [sys.executable, "-c", f"{LATE}\n{ORDERS[order]}"]
    done = subprocess.run(program, env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "compiled\n"), done.stderr


FORKED = """
import logging, os, threading
import fusegrad as fg
from fusegrad.compiler.base.lock import compiling
from fusegrad.compiler.llvm import llvm_jit

begun = threading.Event()

def compile():
    with compiling:
        begun.set()
        threading.Event().wait(0.5)
        logging.getLogger("late")  # as modules do that are imported now
        llvm_jit.compile_module("define i32 @f() { ret i32 1 }", ["f"])

thread = threading.Thread(target=compile)
thread.start()
begun.wait()
child = os.fork()
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
thread.join()
print("forked")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("first", ["import logging", "import fusegrad"])
def test_a_process_forks_while_what_is_compiled_loads_llvm(first: str) -> None:
    """Who forks must not wait for the compiler with a lock in hand that an import of the compiler's takes."""
    program = [sys.executable, "-c", f"{first}\n{FORKED}"]
    done = subprocess.run(program, env={"FUSEGRAD_CACHE": "0"}, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "forked\n"), done.stderr
