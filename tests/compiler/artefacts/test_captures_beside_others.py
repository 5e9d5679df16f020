"""Kept runs that are found by several threads at once, by forked processes, and by those beside a thread."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import os, sys, threading
import numpy as np
import fusegrad as fg
from fusegrad.compiler import jit as door

fg.manual_seed(0)
net = fg.nn.Sequential(fg.nn.Linear(16, 32), fg.nn.Tanh(), fg.nn.Linear(32, 3))

def loss(x, y):
    return fg.nn.functional.cross_entropy(net(x), y)

def branching(x, k):
    return (x * k).tanh().sum() if x.sum() > 0 else (x - k).exp().sum()

jitted = fg.jit(loss), fg.jit(branching)
ones, labels = fg.ones(8, 16), fg.arange(8) % 3

def answers(loss, branching):
    found = []
    for x in (ones, -ones, ones * 2):
        x = x.clone().requires_grad_()
        value = loss(x, labels)
        found += [value, *fg.autograd.grad(value, [x, net[0].weight])]
        value = branching(x, 3.0)
        found += [value, *fg.autograd.grad(value, [x])]
    return [one.detach().numpy() for one in found]

def are_right(found):
    return all(np.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(found, answers(loss, branching)))

if sys.argv[1] == "forks":
    door.capture = None  # whoever recorded a run would fail; a thread may, while another one reads
failed = []

def work():
    try:
        if not are_right(answers(*jitted)):
            failed.append("other values")
    except BaseException as error:
        failed.append(repr(error))

def in_child():
    work()
    os._exit(len(failed))

threads = [threading.Thread(target=work) for _ in range(int("threads" in sys.argv[1]) * 3)]
for thread in threads:
    thread.start()
children = []
for _ in range(int("forks" in sys.argv[1]) * 3):
    children.append(os.fork())
    if not children[-1]:
        in_child()
work()
for thread in threads:
    thread.join()
for child in children:
    if os.waitpid(child, 0)[1]:
        failed.append("a child")
print(failed, [any(entry.recalled for entry in f.entries.values()) for f in jitted])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks processes")
@pytest.mark.parametrize("beside", ["threads", "forks", "threads and forks"])
def test_kept_runs_are_found_beside_others(beside: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    said = []
    for how in ("alone", beside):
        command = [sys.executable, str(program), how]
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert not run.returncode, run.stderr
        said.append(run.stdout.strip())
    assert said == ["[] [False, False]", "[] [True, True]"]
