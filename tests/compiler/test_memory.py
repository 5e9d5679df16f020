"""What becomes of memory that arrays have left."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

LOOP = """
import resource
import numpy as np
import fusegrad as fg
fg.jit(lambda x: x)

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def step():
    arrays = [np.ones(1 << 18, np.float32) for _ in range(8)]

for _ in range(3):
    step()
before = faults()
for _ in range(50):
    step()
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators keep what they want")
def test_what_arrays_leave_is_used_again():
    # Fifty steps write eight arrays of 256 pages each.
    done = subprocess.run([sys.executable, "-c", LOOP], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 256
