"""Timing calls fairly: calibrated, interleaved, medians; and the memory that a call takes.

Nothing here knows fusegrad; `compare` and the benchmarks measure everybody with it.
"""

from __future__ import annotations

import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

Call = Callable[[], Any]

# A sample is long enough for the clock and for the scheduler's hiccups to average out. Calls that do
# not count come before it, for longer than anybody's idle threads spin (OpenBLAS's some 25 ms,
# OpenMP's 10): on few cores they slow down whoever runs next up to a hundredfold.
SAMPLE_SECONDS = 0.01
WARM_SECONDS = 0.06
LEAST_SAMPLES = 5
MOST_SAMPLES = 50


@dataclass(frozen=True)
class Timing:
    """Seconds a call took: the median of the samples and the middle half of them.

    samples: how many were taken; loops: how many calls each of them averages.
    """

    median: float
    low: float
    high: float
    samples: int
    loops: int

    def as_dict(self) -> dict[str, Any]:
        """The fields, ready for JSON."""
        return asdict(self)


def timing_of(samples: Sequence[float], loops: int = 1) -> Timing:
    """Summarise samples, each the seconds of one call.

    >>> timing_of([3.0, 1.0, 2.0]).median
    2.0
    """
    low, high = samples[0], samples[0]
    if len(samples) > 1:
        low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Timing(statistics.median(samples), low, high, len(samples), loops)


def timed(call: Call) -> tuple[float, Any]:
    """Seconds that one call takes, and what it returns.

    >>> seconds, result = timed(lambda: 7)
    >>> result
    7
    """
    started = time.perf_counter()
    result = call()
    return time.perf_counter() - started, result


def calibrated_loops(call: Call, least: float = SAMPLE_SECONDS) -> int:
    """How many calls in a row take at least `least` seconds."""
    _settle(call)
    loops = 1
    while True:
        seconds = _run(call, loops)
        if seconds >= least:
            return loops
        # Aim past the goal, but never grow more than tenfold on one short, noisy sample.
        loops = max(loops + 1, min(10 * loops, int(1.2 * loops * least / max(seconds, 1e-9))))


def interleaved(
    calls: Mapping[str, Call],
    repeat: int | None = None,
    seconds: float = 2.0,
    step: Callable[[], None] = lambda: None,
) -> dict[str, Timing]:
    """Time all `calls` in turn, round after round, so that what disturbs one disturbs all.

    repeat: rounds, each of which takes one sample of every call; None takes as many as fit in
    about `seconds` (at least 5, at most 50). step: called after each sample, for a progress bar.

    >>> sorted(interleaved({"a": lambda: None, "b": lambda: sum(range(9))}, repeat=2))
    ['a', 'b']
    """
    for call in calls.values():
        call()
    with _no_collection():
        loops = {name: calibrated_loops(call) for name, call in calls.items()}
        samples: dict[str, list[float]] = {name: [] for name in calls}
        names = list(calls)
        started = time.perf_counter()
        for turn in range(MOST_SAMPLES if repeat is None else repeat):
            # A round starts with another contender each time: nobody always follows the same one.
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                _settle(calls[name])
                samples[name].append(_run(calls[name], loops[name]) / loops[name])
                step()
            if repeat is None and turn + 1 >= LEAST_SAMPLES and time.perf_counter() - started > seconds:
                break
    return {name: timing_of(samples[name], loops[name]) for name in calls}


def _settle(call: Call) -> None:
    """Calls that do not count, until this contender is warm and others' threads have come to rest."""
    warm = time.perf_counter() + WARM_SECONDS
    call()
    while time.perf_counter() < warm:
        call()


def _run(call: Call, loops: int) -> float:
    """Seconds that `loops` calls take together."""
    started = time.perf_counter()
    for _ in range(loops):
        call()
    return time.perf_counter() - started


@contextmanager
def _no_collection() -> Iterator[None]:
    """No garbage collection inside: it would hit whoever happens to run."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def peak_bytes(call: Call) -> int:
    """The most memory that Python and NumPy held at once for one call.

    >>> peak_bytes(lambda: bytearray(1 << 20)) >= 1 << 20
    True
    """
    if tracemalloc.is_tracing():  # somebody else's; leave it running
        return _peak_now(call)
    tracemalloc.start()
    try:
        return _peak_now(call)
    finally:
        tracemalloc.stop()


def _peak_now(call: Call) -> int:
    gc.collect()
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    call()
    return tracemalloc.get_traced_memory()[1] - before


def seconds_text(seconds: float) -> str:
    """Three digits with a unit.

    >>> seconds_text(0.0001234), seconds_text(2.5), seconds_text(3.2e-8)
    ('123 µs', '2.5 s', '32 ns')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= 0.9995 * size:
            return f"{_three_digits(seconds / size)} {unit}"
    return f"{_three_digits(seconds / 1e-9)} ns"


def bytes_text(count: int) -> str:
    """Three digits with a unit.

    >>> bytes_text(512), bytes_text(1 << 20)
    ('512 B', '1 MiB')
    """
    amount, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if amount < 1000:
            break
        amount, unit = amount / 1024, larger
    return f"{_three_digits(amount)} {unit}"


def _three_digits(value: float) -> str:
    """`1234.5` as "1,234", `12.345` as "12.3", `2.5` as "2.5"."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
