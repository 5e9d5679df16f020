"""What the suite does in processes of their own; leaves its figures in a file.

python benchmarks/contend.py '{"task": "steady", "key": "rosenbrock", ...}' FILE
"""

# Fusegrad and the libraries are imported inside the functions: first calls and imports are timed here.
from __future__ import annotations

import importlib
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

Figures = dict[str, dict[str, Any]]  # by contender

# The first calls of fusegrad go different ways (recorded, compiled apart, compiled at once), and a
# program that changes its state must keep agreeing: so many calls are compared.
COMPARED = 4
FIRST_CALLS, FIRST_SECONDS = 10, 5.0
SETTLED = 3  # a call is part of the warm-up if it takes so many times as long as the fastest


def first_calls(key: str, name: str, package: str) -> dict[str, Any]:
    """Seconds of the import, of the first call, and of the calls until it is as fast as it gets (`ready`).

    The inputs are made before the first call; the library does nothing else before it. Of fusegrad's first
    call also the ops that it recorded (`ops`), and the share of the time that it waited for LLVM (`llvm`).
    """
    started = time.perf_counter()
    importlib.import_module(package)
    imported = time.perf_counter() - started
    from contenders import contender, recorded
    from workloads import BY_KEY

    made = contender(BY_KEY[key], name)
    before = _seconds_of_llvm()
    seconds: list[float] = []
    work: dict[str, float] = {}
    while len(seconds) < FIRST_CALLS and sum(seconds) < FIRST_SECONDS:
        started = time.perf_counter()
        made.call()
        seconds.append(time.perf_counter() - started)
        if made.jitted and not work:
            work = {"ops": recorded(made), "llvm": (_seconds_of_llvm() - before) / seconds[0]}
    slow = [place for place, taken in enumerate(seconds) if taken > SETTLED * min(seconds)]
    ready = sum(seconds[: slow[-1] + 1]) if slow else seconds[0]
    return {"import": imported, "first": seconds[0], "ready": ready, "calls": seconds, **work}


def _seconds_of_llvm() -> float:
    """How long fusegrad has waited for machine code in this process, without loading its compiler."""
    machine_code = sys.modules.get("fusegrad.compiler.llvm.llvm_jit")
    return machine_code.Statistics.seconds if machine_code else 0.0


def steady(key: str, names: list[str], repeat: int | None, seconds: float) -> Figures:
    """Whether each contender agrees with eager, and its time in turn with the others'."""
    from contenders import OURS, REFERENCE, as_arrays, contender, way_of
    from workloads import BY_KEY

    from fusegrad.compiler.compare.measure import interleaved

    workload = BY_KEY[key]
    reference = contender(workload, REFERENCE)
    expected = [as_arrays(reference.call()) for _ in range(COMPARED)]
    found, made = agreement(workload, names, expected)
    calls = {name: candidate.call for name, candidate in made.items()}
    for name, timing in (interleaved(calls, repeat, seconds) if calls else {}).items():
        found[name]["timing"] = timing.as_dict()
    if OURS in made:
        found[OURS]["way"] = way_of(made[OURS])
    if not workload.changes_state:
        # Once more, by now in the way in which the timed calls were answered.
        for name, candidate in made.items():
            if found[name]["status"] == "ok":
                found[name] |= compared(expected[:1], [as_arrays(candidate.call())])
    return found


def agreement(workload: Any, names: list[str], expected: list[list[Any]]) -> tuple[Figures, dict[str, Any]]:
    """The status of each contender after its first calls, and those that ran."""
    from contenders import as_arrays, contender

    found: Figures = {}
    made = {}
    for name in names:
        try:
            candidate = contender(workload, name)
            found[name] = compared(expected, [as_arrays(candidate.call()) for _ in range(COMPARED)])
            made[name] = candidate
        except Exception as error:  # a peer may be unable to run a workload: the table says so
            found[name] = {"status": "failed", "note": one_line(error)}
    return found, made


def compared(expected: list[list[Any]], results: list[list[Any]]) -> dict[str, Any]:
    """The largest difference over several calls, each given as arrays."""
    from fusegrad.compiler.compare.compare import difference_of

    pairs = zip(expected, results, strict=True)
    differences = [difference_of((ours, []), (theirs, [])) for ours, theirs in pairs]
    worst = max(differences, key=lambda found: (not found.agrees, found.relative))
    return {"status": "ok" if worst.agrees else "DIFFERS", "difference": worst.relative}


def one_line(error: BaseException) -> str:
    """An error as its type and the first line of what it says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return ": ".join(itertools.chain([type(error).__name__], lines[:1]))[:200]


TASKS = {
    "first": first_calls,
    "steady": steady,
    "limits": lambda **options: importlib.import_module("limits").measured(**options),
    "one_pool": lambda **options: importlib.import_module("one_pool").measured(**options),
}


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    figures = TASKS[options.pop("task")](**options)
    Path(sys.argv[2]).write_text(json.dumps(figures))
