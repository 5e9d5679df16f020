"""Makes steps of one case of a library's program when told to, and says how long they take.

    python stepper.py NAME CASE WAY STATES THREADS

NAME to STATES as in `worker.py`. It builds the case, warms up, and prints a line. For each line that comes, a
number of seconds, it makes steps for so long, and prints the seconds of each, of the clock (their median) and
of the processor (of all threads).
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WARM_STEPS, WARM_SECONDS = 30, 3.0


def main() -> None:
    name, title, way, states, threads = sys.argv[1:]
    sys.path.insert(0, str(Path(__file__).parents[1]))
    tell, sys.stdout = sys.stdout, sys.stderr  # what programs print is no answer
    import torch

    from libraries.worker import built

    torch.set_num_threads(int(threads))
    step = built(name, title, way, states).step
    if way == "compiled":
        from fusegrad import jit
        from fusegrad.compiler.base import background

        step = jit(step)
    end = time.perf_counter() + WARM_SECONDS
    steps = 0
    while steps < WARM_STEPS or time.perf_counter() < end:
        float(step())
        steps += 1
        if way == "compiled" and steps <= WARM_STEPS:
            background.worker.wait()
    print("ready", file=tell, flush=True)
    for line in sys.stdin:
        print(json.dumps(block(step, float(line))), file=tell, flush=True)


def block(step: Callable[[], Any], seconds: float) -> dict[str, float]:
    """How long a step takes, by so many seconds of them."""
    taken = []
    busy, now = time.process_time(), time.perf_counter()
    end = now + seconds
    while now < end:
        float(step())
        taken.append(time.perf_counter() - now)
        now += taken[-1]
    return {"clock": statistics.median(taken), "processor": (time.process_time() - busy) / len(taken)}


if __name__ == "__main__":
    main()
