"""What `import fusegrad` costs over `import numpy`, each in fresh processes, in turn.

python benchmarks/import_time.py [--json FILE] [--quick]
"""

from __future__ import annotations

import subprocess
import sys

import harness

from fusegrad.compiler.compare.measure import Timing, seconds_text, timing_of
from fusegrad.compiler.compare.terminal import installed, print_table

MODULES = ("numpy", "fusegrad", "torch", "jax")
GOAL = 2.0  # times what numpy takes
PROGRAM = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"


def import_seconds(module: str) -> float:
    """Seconds that importing `module` takes in a process of its own."""
    command = [sys.executable, "-c", PROGRAM.format(module)]
    done = subprocess.run(command, env=harness.environment(), capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    options = harness.options("time the imports")
    modules = [m for m in MODULES if installed(m)]
    samples: dict[str, list[float]] = {m: [] for m in modules}
    for turn in range((options.repeat or 15) + 1):
        for module in modules:
            seconds = import_seconds(module)
            if turn:  # the first round fills the file cache
                samples[module].append(seconds)
    timings: dict[str, Timing] = {m: timing_of(found) for m, found in samples.items()}
    times = {m: timings[m].median / timings["numpy"].median for m in modules}
    rows = [[m, seconds_text(timings[m].median), f"{times[m]:.2f}"] for m in modules]
    verdict = "within" if times["fusegrad"] <= GOAL else "ABOVE"
    note = f"fusegrad is {verdict} its goal of {GOAL} times numpy"
    print_table("import, in a fresh process", ["", "seconds", "times numpy"], rows, [note])
    figures = {m: {**timings[m].as_dict(), "times_numpy": times[m]} for m in modules}
    harness.save(options.json, {"benchmark": "import_time", "goal_times_numpy": GOAL, "modules": figures})


if __name__ == "__main__":
    main()
