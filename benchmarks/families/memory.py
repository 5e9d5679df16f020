"""What a process holds, and the most that it held, as Linux counts it; 0 elsewhere.

A program's peak is the high-water mark of the process during one steady call, over what it held before
the program's inputs were made. So it has the inputs, what the library keeps for the program (compiled
code, buffers), and the call's own temporaries; freed memory is given back before both readings. It is
exact to about a megabyte, and means little below that.
"""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path


def status(field: str) -> int:
    """Bytes that Linux reports for this process under a name."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(field)), 0)


def held() -> int:
    """Bytes that are in memory now."""
    return status("VmRSS")


def peak() -> int:
    """The most bytes that were in memory since `forget_peak`."""
    return status("VmHWM")


def forget_peak() -> None:
    """Have the mark start anew at what is held now."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def give_back() -> None:
    """Collect garbage, and give what the C library keeps for later back to the system."""
    gc.collect()
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    except (OSError, AttributeError):
        return
