"""Prints of each program whether its step is replayed, and what a step takes beside torch's eager."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import fusegrad as fg
from programs import runs

WARM, TIMED = 12, 5


def milliseconds(step: Callable[..., Any], batch: Callable[[int], Any]) -> float:
    """What a step takes at best, with arguments made before."""
    for i in range(WARM):
        step(*batch(i))
    best = float("inf")
    for i in range(TIMED):
        arguments = batch(WARM + i)
        start = time.perf_counter()
        step(*arguments)
        best = min(best, time.perf_counter() - start)
    return 1000 * best


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m programs", description=__doc__)
    parser.add_argument("programs", nargs="*", default=runs.NAMES)
    parser.add_argument("--explain", action="store_true", help="say why a step is not replayed")
    given = parser.parse_args()
    replayed = 0
    for name in given.programs:
        step, batch = runs.loaded(name, "fusegrad").steps()
        jitted = fg.jit(step)
        fg.manual_seed(0)
        ours = milliseconds(jitted, batch)
        is_replayed = runs.is_replayed(jitted, batch, WARM + TIMED)
        replayed += is_replayed
        theirs = milliseconds(*runs.loaded(name, "torch").steps())
        word = "replayed" if is_replayed else "not replayed"
        print(f"{name:30} {word:13} {ours:8.3f} ms  torch {theirs:8.3f} ms", flush=True)
        if given.explain and not is_replayed:
            print(jitted.explain())
    print(f"{replayed} of {len(given.programs)} are replayed")


if __name__ == "__main__":
    main()
