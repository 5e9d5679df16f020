"""First calls of long programs, value and gradients, as multiples of eager's run in the same process.

Each program runs in a process of its own, without anything kept from others, and then in another one, which
finds the machine code that the first has left ("warm"). Shown are how long a call waited for LLVM, the
slowest of the next five calls, in which what comes again is compiled at once, and the sixth.

python benchmarks/first_calls.py [--only NAME:LENGTH ...] [--bound SECONDS] [--json FILE] [--quick]
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import harness
from long_programs import LENGTHS, PROGRAMS

from fusegrad.compiler.compare.measure import seconds_text
from fusegrad.compiler.compare.terminal import print_table

GOAL = 60.0  # times eager's run
EAGER_SAMPLES = 3
QUICK = (("straight", 100), ("lstm", 4), ("euler", 50))


def call(function: Any, arguments: list[Any]) -> tuple[float, list[Any]]:
    """Seconds of a call with its backward, and its value and gradients."""
    for argument in arguments:
        argument.grad = None
    started = time.perf_counter()
    value = function(*arguments)
    value.backward()
    seconds = time.perf_counter() - started
    return seconds, [value.detach().numpy(), *(a.grad.numpy().copy() for a in arguments)]


def measured(name: str, length: int) -> dict[str, Any]:
    """The figures of one program, in this process."""
    import numpy as np

    import fusegrad as fg
    from fusegrad.compiler.llvm.llvm_jit import Statistics

    sys.setrecursionlimit(100_000)
    function, arguments = PROGRAMS[name](fg, length)
    call(*PROGRAMS[name](fg, 4))
    eager = [call(function, arguments) for _ in range(EAGER_SAMPLES)]
    warm = fg.jit(lambda x: (x * 2).sum())
    call(warm, arguments[:1])  # what is loaded when anything is compiled
    compiled = fg.jit(function)
    llvm = Statistics.seconds
    calls = [call(compiled, arguments) for _ in range(6)]
    for got, expected in zip(calls[-1][1], eager[0][1], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)
    return {
        "eager": statistics.median(seconds for seconds, _ in eager),
        "calls": [seconds for seconds, _ in calls],
        "llvm": Statistics.seconds - llvm,
        "replayed": compiled.stats.compiled_calls,
        "kernels": len({bound.kernel.digest for some in vars(compiled.kernels()).values() for bound in some}),
    }


def cold_and_warm(name: str, length: int, bound: float) -> dict[str, Any] | None:
    """The figures of one program from a fresh process, and the first call of the next one; None where
    a process takes longer than `bound` seconds.
    """
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = (in_own_process(name, length, bound, cache) for _ in range(2))
    return {**cold, "warm": warm["calls"][0]} if cold and warm else None


def in_own_process(name: str, length: int, bound: float, cache: str) -> dict[str, Any] | None:
    """The figures of one program from a process that finds what this folder has."""
    command = [sys.executable, __file__, "--one", f"{name}:{length}"]
    try:
        done = subprocess.run(
            command,
            env=harness.environment(FUSEGRAD_CACHE=cache),
            capture_output=True,
            text=True,
            timeout=bound,
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        raise SystemExit(f"{name}:{length} failed\n{done.stderr}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def row(name: str, length: int, found: dict[str, Any] | None) -> list[str]:
    """A line of the table."""
    label = f"{name}, {length:,}"
    if found is None:
        return [label, *["-"] * 4, "not within the bound", *["-"] * 3]
    first, *later = found["calls"]
    times = [seconds_text(found["eager"]), seconds_text(first), f"{first / found['eager']:.0f}"]
    times.append(f"{seconds_text(found['warm'])} ({found['warm'] / first:.2f})")
    slowest = f"{max(later) / found['eager']:.1f}"
    steady = f"{later[-1] / found['eager']:.2f}"
    return [label, *times, seconds_text(found["llvm"]), slowest, steady, str(found["kernels"])]


def main() -> None:
    parser = harness.parser("time first calls of long programs")
    parser.add_argument("--only", nargs="+", metavar="NAME:LENGTH", help="these programs alone")
    parser.add_argument("--bound", type=float, default=120.0, metavar="SECONDS", help="of each process")
    parser.add_argument("--one", metavar="NAME:LENGTH", help="one program in this process; prints JSON")
    options = harness.parsed(parser)
    if options.one:
        name, length = options.one.split(":")
        print(json.dumps(measured(name, int(length))))
        return
    chosen = [(n, int(k)) for n, k in (text.split(":") for text in options.only or ())]
    figures: dict[str, Any] = {}
    rows = []
    for name, length in chosen or (QUICK if options.quick else LENGTHS):
        found = figures[f"{name}:{length}"] = cold_and_warm(name, length, options.bound)
        rows.append(row(name, length, found))
        print(*rows[-1], sep="  ", flush=True)
    heads = [
        "",
        "eager",
        "first call",
        "times eager",
        "warm (of cold)",
        "LLVM",
        "slowest of the next 5",
        "sixth",
        "kernels",
    ]
    print_table("first calls of long programs", heads, rows, [f"the goal is {GOAL:.0f} times eager's run"])
    harness.save(options.json, {"benchmark": "first_calls", "goal_times_eager": GOAL, "programs": figures})


if __name__ == "__main__":
    main()
