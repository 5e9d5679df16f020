"""How much memory a training step takes for each example, beyond the process, the weights and the code.

In: the step of a contender, in a process of its own, which has run it. Out: by how much the peak of that is
higher with eight times as many examples, divided by how many more there are.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

MORE = 8


def peak() -> int:
    """The most bytes that this process has had in memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def bytes_for_each(program: str, width: int, contender: str, examples: int) -> float:
    """Bytes of memory for each example more."""
    main = Path(__file__).resolve().parent.parent / "structures.py"
    peaks = []
    for times in (1, MORE):
        command = [sys.executable, str(main), "--alone", program, str(width), contender, str(times)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout.split()[-1]))
    return (peaks[1] - peaks[0]) / (examples * (MORE - 1))
