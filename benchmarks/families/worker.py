"""A process that runs the programs of one contender, told what to do line by line.

python benchmarks/families/worker.py NAME [--tree PATH]

It reads commands as JSON from its standard input and answers each with a line of JSON on what was its
standard output; what programs print goes to standard error. Imports and a first small compilation happen
before the first program, so that first calls are timed without them. Only the public face of fusegrad is
imported: a worker runs older checkouts too (`--tree`).
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import sys
import time
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np  # noqa: E402

from families import agreement, contenders  # noqa: E402
from families.declare import TRAINING  # noqa: E402
from families.memory import forget_peak, give_back, held, peak  # noqa: E402

SAMPLE_SECONDS = 0.002  # a sample is so many calls that it takes this long
WARM_SECONDS = 0.04  # calls that do not count: others' idle threads come to rest meanwhile
FEWEST, MOST = 3, 40  # samples of one measurement
GENERATOR = np.random.default_rng(0)
FIELD, SQUARE = GENERATOR.standard_normal(20_000), GENERATOR.standard_normal((64, 64))


def calibration() -> float:
    """Seconds of a fixed piece of NumPy's work on one core: how fast the machine is right now."""
    times = []
    for _ in range(3):
        started = time.perf_counter()
        for _ in range(10):
            np.tanh(FIELD)
            SQUARE @ SQUARE
        times.append(time.perf_counter() - started)
    return min(times)


class Worker:
    """The program that is being run, and what may be asked of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.made: contenders.Contender | None = None
        self.base = 0

    def prepare(
        self, program: str, expected: str | None, save: str | None, dtype: str | None
    ) -> dict[str, Any]:
        """Build a program and make its first calls: their seconds, and whether they agree.

        expected: a file of results to agree with. save: where to leave these results, for others.
        """
        from families.catalogue import program_called

        chosen = program_called(program)
        self.made = None
        give_back()
        found: dict[str, Any] = {"calibration": calibration()}
        self.base = held()
        self.made = contenders.contender(chosen, self.name, dtype)
        results, seconds = [], []
        for _ in range(agreement.COMPARED):
            started = time.perf_counter()
            result = self.made.call()
            seconds.append(time.perf_counter() - started)
            results.append(contenders.as_arrays([result, list(self.made.state)]))
        found |= {"calls": seconds, "first": seconds[0], "status": "ok"}
        if save is not None:
            kept = results if chosen.kind == TRAINING else results[:1]
            Path(save).write_bytes(pickle.dumps(kept))
        if expected is not None:
            found |= agreement.verdict(chosen, pickle.loads(Path(expected).read_bytes()), results)
        found["bytes"] = sum(a.nbytes for a in (*self.made.inputs, *results[0]))
        return found

    def count(self) -> dict[str, Any]:
        """The floating-point operations of one call, as torch's eager computes it."""
        from families.counting import operations

        assert self.made is not None
        return {"flops": operations(self.made.call)}

    def measure(self, seconds: float) -> dict[str, Any]:
        """The median of samples that take about so many seconds together, and the middle half of them."""
        assert self.made is not None
        call = self.made.call
        gc.collect()
        gc.disable()
        try:
            samples = sampled(call, seconds)
        finally:
            gc.enable()
        low, median, high = np.quantile(samples, [0.25, 0.5, 0.75])
        return {"median": median, "low": low, "high": high, "samples": len(samples)}

    def finish(self, compare: bool = True, expected: str | None = None, program: str = "") -> dict[str, Any]:
        """Peak memory, once more whether the results agree, and how fusegrad answered; then forget it all."""
        from families.catalogue import program_called

        assert self.made is not None
        give_back()
        forget_peak()
        before = ways(self.made.jitted)
        results = contenders.found_by(self.made)
        found: dict[str, Any] = {"peak_bytes": max(0, peak() - self.base)}
        if self.made.jitted is not None:
            found |= explained(self.made.jitted, before)
        chosen = program_called(program)
        if expected is not None and chosen.kind != TRAINING:
            last = agreement.verdict(chosen, pickle.loads(Path(expected).read_bytes()), [results])
            if last["status"] != "ok":
                found |= {**last, "differing_calls": ["after timing"]}
        self.made = None
        gc.collect()
        return found


def sampled(call: Any, seconds: float) -> list[float]:
    """Seconds of a call, in samples of as many calls as fill one."""
    started, calls = time.perf_counter(), 0
    while calls < 2 or time.perf_counter() - started < WARM_SECONDS:
        call()
        calls += 1
        if time.perf_counter() - started > seconds:
            break
    once = (time.perf_counter() - started) / calls
    loops = max(1, round(SAMPLE_SECONDS / once))
    samples: list[float] = []
    end = time.perf_counter() + seconds
    while len(samples) < FEWEST or (time.perf_counter() < end and len(samples) < MOST):
        started = time.perf_counter()
        for _ in range(loops):
            call()
        samples.append((time.perf_counter() - started) / loops)
    return samples


# What fusegrad tells.


def ways(jitted: Any) -> dict[str, int]:
    """How many calls went each way so far."""
    if jitted is None:
        return {}
    counts = {"replay": 0, "deferred": 0, "eager": jitted.stats.eager_calls}
    for entry in jitted.explain().as_dict()["entries"]:
        counts["replay"] += sum(path["calls"] for path in entry["paths"])
        counts["deferred"] += entry["deferred"]["compiled_calls"]
    return counts


def explained(jitted: Any, before: dict[str, int]) -> dict[str, Any]:
    """The way of the last call, the steps of the path that answers most, and why others do not."""
    after = ways(jitted)
    way = " + ".join(name for name in after if after[name] > before[name]) or "eager"
    entries = jitted.explain().as_dict()["entries"]
    paths = [path for entry in entries for path in entry["paths"]]
    most = max(paths, key=lambda path: path["calls"], default=None)
    steps = [step for part in ("forward", "backward", "joint") for step in most[part]] if most else []
    reasons = [reason["reason"] for entry in entries for reason in entry["reasons"]]
    reasons += [entry["given_up"] for entry in entries if entry["given_up"]]
    reasons += [entry["deferred"]["choice"] for entry in entries if entry["deferred"]["choice"]]
    count = {"kernels": sum("fused kernel" in step for step in steps), "steps": len(steps)}
    count["numpy"] = sum(step.startswith("NumPy") for step in steps)
    return {
        "way": way,
        **count,
        "compiles": jitted.stats.compiles,
        "explanation": steps[:30],
        "reasons": reasons[:3],
    }


def one_line(error: BaseException) -> str:
    """An error as its type and the first line of what it says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return ": ".join([type(error).__name__, *lines[:1]])[:300]


def serve(worker: Worker, commands: Any, answers: Any) -> None:
    """Answer every line until there are no more."""
    for line in commands:
        command = json.loads(line)
        try:
            found = getattr(worker, command.pop("do"))(**command)
        except Exception as error:  # a library that cannot run a program is a finding
            found = {"status": "failed", "note": one_line(error)}
            worker.made = None
        answers.write(json.dumps(found) + "\n")
        answers.flush()


def main(arguments: list[str]) -> None:
    """Import the library, say so, and serve."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    name = arguments[0]
    if "--tree" in arguments:
        from families.trees import use

        use(Path(arguments[arguments.index("--tree") + 1]))
    started = time.perf_counter()
    contenders.warm_up(name)
    answers.write(json.dumps({"ready": time.perf_counter() - started}) + "\n")
    answers.flush()
    serve(Worker(name), sys.stdin, answers)


if __name__ == "__main__":
    main(sys.argv[1:])
