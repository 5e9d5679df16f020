"""Times of the libraries' steps: those that replay, warm, beside PyTorch's own.

Each step has two processes, one with PyTorch and one with fusegrad, which take turns: a block of steps here,
then one there, while the other waits.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from libraries import runs, venvs

STEPPER = Path(__file__).with_name("stepper.py")
WAYS = "torch", "compiled"
BLOCKS, SECONDS, THREADS = 11, 0.25, 1  # of so small steps two threads are slower in PyTorch


def run(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each step of a library that replays, by the runs so far, and what it takes in both ways."""
    so_far = json.loads((venvs.FOLDER / f"{name}.json").read_text())
    yield from ((row.case, _measured(name, row.case)) for row in runs.rows(name, so_far) if row.replays())


def _measured(name: str, case: str) -> dict[str, dict[str, float]]:
    """The median of blocks, and the least time of the processor, in seconds a step."""
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    with ExitStack() as ends:
        states = ends.enter_context(tempfile.TemporaryDirectory())
        steppers = {way: ends.enter_context(_stepping(name, case, way, states)) for way in WAYS}
        for _ in range(BLOCKS):
            for way, stepper in steppers.items():
                print(SECONDS, file=stepper.stdin, flush=True)
                found[way].append(json.loads(_line(stepper)))
    return {
        way: {
            "clock": statistics.median(block["clock"] for block in blocks),
            "processor": min(block["processor"] for block in blocks),
        }
        for way, blocks in found.items()
    }


@contextmanager
def _stepping(name: str, case: str, way: str, states: str) -> Iterator[subprocess.Popen[str]]:
    """A process that makes steps when told to, once it is warm."""
    command = runs.command(name, way, STEPPER, name, case, way, states, str(THREADS))
    with (venvs.FOLDER / f"{name}.{way}.times.log").open("a") as log:
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command, cwd=states, env=runs.environment(way), stdin=pipe, stdout=pipe, stderr=log, text=True
        ) as process:
            _line(process)
            yield process
            assert process.stdin is not None
            process.stdin.close()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"{' '.join(map(str, process.args))} ended with {process.wait()}; see its log")  # type: ignore[arg-type]
    return line


HEAD = f"""
## Times of steps

`python -m libraries --times`: each step that replays, warm, in a process with PyTorch, as it is, and in one
with fusegrad, under `jit`, of {THREADS} thread each. They take turns, {BLOCKS} times {SECONDS} seconds.
Of the clock the median, of the processor the least; ratios say how many times as long PyTorch takes.
"""


def ratios(times: dict[str, Any], kind: str) -> dict[tuple[str, str], float]:
    """PyTorch's time by ours, of each step."""
    return {
        (name, case): told["torch"][kind] / told["compiled"][kind]
        for name, cases in times.items()
        for case, told in cases.items()
    }


def summary(times: dict[str, Any]) -> str:
    told = []
    for kind in ("clock", "processor"):
        found = list(ratios(times, kind).values())
        mean = math.exp(statistics.fmean(map(math.log, found)))
        below = sum(ratio < 0.7 for ratio in found)
        told.append(
            f"by the {kind} {mean:.2f} on average (geometric), {min(found):.2f} the least, {below} below 0.7"
        )
    return f"Of {len(found)} steps: {'; '.join(told)}."


def table(times: dict[str, Any]) -> Sequence[str]:
    """A row for each step."""
    heads = ["library", "step", "PyTorch, ms", "fusegrad, ms", "ratio", "of the processor"]
    lines = ["| " + " | ".join(heads) + " |", "| --- | --- | ---: | ---: | ---: | ---: |"]
    by_clock, by_processor = ratios(times, "clock"), ratios(times, "processor")
    for name, case in by_clock:
        told = times[name][case]
        cells = [name, case, *(f"{told[way]['clock'] * 1e3:.3f}" for way in WAYS)]
        cells += [f"{found[name, case]:.2f}" for found in (by_clock, by_processor)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines
