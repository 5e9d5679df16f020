"""What becomes of memory that arrays have left."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

LOOP = """
import resource
import fusegrad as fg
fg.set_eager_kernels(False)

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def step(x):
    for _ in range(4):
        x = (x + 1) * (x - 1)

x = fg.ones(1 << 18)
for _ in range(3):
    step(x)
before = faults()
for _ in range(50):
    step(x)
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators keep what they want")
def test_what_arrays_leave_is_used_again() -> None:
    # Fifty steps write twelve arrays of 256 pages each.
    done = subprocess.run([sys.executable, "-c", LOOP], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 256
