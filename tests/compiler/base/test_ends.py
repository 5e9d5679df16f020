"""Processes end, whatever is compiled beside them, and whenever LLVM was loaded."""

from __future__ import annotations

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
