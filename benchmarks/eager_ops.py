"""Eager ops on large arrays, and the layers of networks, beside torch eager: in one process, in turns.

python benchmarks/eager_ops.py [--only NAME ...] [--side N] [--busy] [--seconds N] [--json FILE] [--quick]

Both are warm: fusegrad's eager kernels are there. Ratios are torch's time over ours, 1 is torch's speed;
results, and gradients, agree. On a machine that others use, threads wait for each other: with `--busy` either
library has one, of which the time on the processor counts.
"""

from __future__ import annotations

import fnmatch
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import harness
import numpy as np
from eager_cases import Case, cases

import fusegrad
from fusegrad.compiler.compare.measure import (
    LEAST_SAMPLES,
    Call,
    Timing,
    interleaved,
    seconds_text,
    timing_of,
)
from fusegrad.compiler.compare.terminal import print_table
from fusegrad.compiler.eager_kernels import ELEMENTS, FEW

WORST = 10  # so many of the slowest are shown


def call_of(lib: Any, case: Case) -> Callable[[], list[Any]]:
    """What a library does in one call: it gives the result, and the gradients that are wanted."""
    functional, arrays = lib.nn.functional, case.arrays()
    tensors = [lib.from_numpy(array) for array in arrays]
    if not case.derived:
        return lambda: [case.run(lib, functional, *tensors)]
    leaves = [t.requires_grad_(True) for t, a in zip(tensors, arrays, strict=True) if a.dtype.kind == "f"]
    shape = tuple(case.run(lib, functional, *tensors).shape)
    given = lib.from_numpy(np.random.default_rng(1).standard_normal(shape).astype(np.float32))

    def call() -> list[Any]:
        for leaf in leaves:
            leaf.grad = None
        result = case.run(lib, functional, *tensors)
        result.backward(given)
        return [result, *(leaf.grad for leaf in leaves)]

    return call


def check(case: Case, ours: list[Any], theirs: list[Any]) -> None:
    """Raise AssertionError where results differ by more than rounding."""
    for a, b in zip(ours, theirs, strict=True):
        expected = b.detach().numpy()
        scale = float(np.abs(expected).max()) if expected.dtype.kind == "f" else 0.0
        np.testing.assert_allclose(a.detach().numpy(), expected, 1e-3, 1e-4 * scale, err_msg=case.title)


def measured(case: Case, lib: Any, repeat: int | None, seconds: float, busy: bool) -> dict[str, Any]:
    """The figures of a case, beside `lib`."""
    calls = {"fusegrad": call_of(fusegrad, case), "torch": call_of(lib, case)}
    elements = max(array.size for array in case.arrays())
    enough = max(FEW, ELEMENTS // elements) + 1
    for _ in range(2):  # what the first kernels hand on may be asked for anew
        for _ in range(enough):
            ours = calls["fusegrad"]()
        fusegrad.wait_for_eager_kernels()
    check(case, ours, calls["torch"]())
    timings = processor_time(calls, seconds) if busy else interleaved(calls, repeat, seconds)
    check(case, calls["fusegrad"](), calls["torch"]())
    return {
        "family": case.family,
        "timings": {library: t.as_dict() for library, t in timings.items()},
        "ratio": timings["torch"].median / timings["fusegrad"].median,
    }


def processor_time(calls: Mapping[str, Call], seconds: float) -> dict[str, Timing]:
    """Seconds that this thread has a processor in a call; calls are in turn."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    while any(len(s) < LEAST_SAMPLES for s in samples.values()) or time.perf_counter() < end:
        for name, call in calls.items():
            start = time.thread_time()
            call()
            samples[name].append(time.thread_time() - start)
    return {name: timing_of(s) for name, s in samples.items()}


def show(figures: dict[str, Any]) -> None:
    """The table, with the mean of each family, and the slowest."""
    rows = []
    for title, found in figures.items():
        times = [seconds_text(found["timings"][library]["median"]) for library in ("fusegrad", "torch")]
        rows.append([title, *times, f"{found['ratio']:.2f}"])
    families: dict[str, list[float]] = {}
    for found in figures.values():
        families.setdefault(found["family"], []).append(found["ratio"])
        families.setdefault("all", []).append(found["ratio"])
    rows += [
        [f"MEAN of {family}", "", "", f"{statistics.geometric_mean(r)}"[:4]] for family, r in families.items()
    ]
    slowest = sorted(figures, key=lambda title: figures[title]["ratio"])[:WORST]
    notes = ["ratios: torch's time over ours; means are geometric"]
    notes += ["the slowest: " + "; ".join(f"{title} {figures[title]['ratio']:.2f}" for title in slowest)]
    print_table("eager beside torch eager", ["", "fusegrad", "torch", "ratio"], rows, notes)


def main() -> None:
    parser = harness.parser("time eager ops on large arrays beside torch")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="those whose titles are like one of these")
    parser.add_argument("--side", type=int, metavar="N", help="ops alone, on matrices of N rows and columns")
    parser.add_argument("--busy", action="store_true", help="time on the processor of one thread")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each of them")
    options = harness.parsed(parser)
    import torch

    if options.busy:
        fusegrad.set_num_threads(1)
    torch.set_num_threads(fusegrad.get_num_threads())
    given = cases()
    if options.side is not None:
        given = [smaller for c in given if (smaller := c.of_side(options.side)) is not None]
    chosen = [c for c in given if any(fnmatch.fnmatch(c.title, name) for name in options.only or ["*"])]
    quiet, figures = harness.Quiet(), {}
    for case in chosen[:: len(chosen) // 3] if options.quick else chosen:
        found = figures[case.title] = measured(case, torch, options.repeat, options.seconds, options.busy)
        print(f"{case.title}: {found['ratio']:.2f}", flush=True)
    show(figures)
    others = quiet.taken_by_others()
    if others is not None:
        print(f"other programs took {others:.0%} of the processors")
    harness.save(
        options.json, {"benchmark": "eager_ops", "others": others, "busy": options.busy, "cases": figures}
    )


if __name__ == "__main__":
    main()
