"""What is imported when."""

from __future__ import annotations

import subprocess
import sys

FIRST_RUN = """
import sys
import fusegrad as fg
from fusegrad.tracer.capture.api import capture

def train(x, weight, optimizer):
    loss = (fg.tanh(x * weight) ** 2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item() > 0

weight = fg.ones(3, requires_grad=True)
optimizer = fg.optim.Adam([weight])
before = set(sys.modules)
capture(train, (fg.ones(3), weight, optimizer))
print(sorted(name for name in set(sys.modules) - before if name.startswith("fusegrad.tracer")))
"""


def test_a_recorded_run_imports_nothing_of_the_tracer():
    done = subprocess.run([sys.executable, "-c", FIRST_RUN], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
