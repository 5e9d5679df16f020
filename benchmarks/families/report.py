"""What a run found, for people: the table of families, the worst programs, and what went wrong."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from families.contenders import OURS, PEERS

Record = Mapping[str, Any]  # a run's JSON, or one program in it
WORST = 20
DRIFT = 1.25  # calibrations of a program's contenders that lie further apart make its ratio doubtful


def seconds_of(row: Record, name: str) -> float | None:
    """The steady time of a contender, where it has one that counts."""
    found = row["contenders"].get(name, {})
    return found["timing"]["median"] if found.get("status") == "ok" and "timing" in found else None


def best_peer(row: Record) -> str | None:
    """The fastest of torch, torch.compile and JAX."""
    times = {name: seconds for name in PEERS if (seconds := seconds_of(row, name)) is not None}
    return min(times, key=lambda name: times[name]) if times else None


def ratio_of(row: Record) -> float | None:
    """The time of the best peer over fusegrad's."""
    ours, peer = seconds_of(row, OURS), best_peer(row)
    theirs = seconds_of(row, peer) if peer else None
    return theirs / ours if ours and theirs else None


def calibrated_ratio(row: Record) -> float | None:
    """The ratio with each time set against the calibration of its own process."""
    ratio, peer = ratio_of(row), best_peer(row)
    if ratio is None or peer is None:
        return None
    found = row["contenders"]
    return ratio * found[OURS]["calibration"] / found[peer]["calibration"]


def drift(row: Record) -> float:
    """How far the calibrations of a program's contenders lie apart: 1 where the machine stood still."""
    times = [found["calibration"] for found in row["contenders"].values() if "calibration" in found]
    return max(times) / min(times) if times else 1.0


def geometric_mean(values: Iterable[float]) -> float | None:
    """Of some numbers.

    >>> geometric_mean([1.0, 4.0])
    2.0
    """
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else None


def summary(rows: Mapping[str, Record]) -> dict[str, Any]:
    """Of some programs: the mean of their ratios, the share above 1, and how many have none."""
    ratios = [ratio for row in rows.values() if (ratio := ratio_of(row)) is not None]
    found: dict[str, Any] = {"programs": len(rows), "without": len(rows) - len(ratios)}
    if ratios:
        found |= {
            "mean": geometric_mean(ratios),
            "above_1": sum(ratio > 1 for ratio in ratios) / len(ratios),
            "p10": float(np.quantile(ratios, 0.10)),
            "p1": float(np.quantile(ratios, 0.01)),
            "least": min(ratios),
        }
    return found


def by_family(rows: Mapping[str, Record]) -> dict[str, dict[str, Any]]:
    """The summary of each family, in the order of the list."""
    families = list(dict.fromkeys(row["family"] for row in rows.values()))
    chosen = {family: {n: row for n, row in rows.items() if row["family"] == family} for family in families}
    return {family: summary(members) for family, members in chosen.items()}


def overall(rows: Mapping[str, Record]) -> dict[str, Any]:
    """All programs, and the mean over the means of families, in which each counts the same."""
    means = [found["mean"] for found in by_family(rows).values() if "mean" in found]
    return {**summary(rows), "mean_over_families": geometric_mean(means)}


def limit_of(row: Record, limits: Record | None) -> dict[str, Any] | None:
    """The bound of the machine that stands in a program's way, its seconds, and its share of our time."""
    if limits is None or "bytes" not in row:
        return None
    import limits as measured_limits  # benchmarks/limits.py

    double = row["dtype"] == "float64"
    fields = {"bytes": row["bytes"], "working_set": row["bytes"], "flops": row.get("flops", 0)}
    bound = measured_limits.limit_of(SimpleNamespace(**fields, double=double, nodes=0), limits)  # type: ignore[arg-type]
    ours = seconds_of(row, OURS)
    return {**bound, "fraction": bound["seconds"] / ours if ours else None}


# Text.


def line(name: str, row: Record) -> str:
    """A program that has just been run."""
    cells = []
    for contender, found in row["contenders"].items():
        seconds = seconds_of(row, contender)
        cells.append(f"{contender} {seconds_text(seconds) if seconds else found.get('status')}")
    ratio = ratio_of(row)
    return f"{name}: {f'{ratio:.2f}; ' if ratio else ''}{', '.join(cells)}"


def show(rows: Mapping[str, Record], title: str, others: float | None = None) -> None:
    """The families, all of them, the worst, the failures, and the slow first calls."""
    print(f"\n{title}\n")
    print(f"{'family':14}{'programs':>9}{'mean':>8}{'above 1':>9}{'p10':>7}{'p1':>7}{'without':>9}")
    for family, found in by_family(rows).items():
        print(family_line(family, found))
    total = overall(rows)
    print(family_line("all", total))
    if total["mean_over_families"]:
        print(f"geometric mean over families: {total['mean_over_families']:.3f}")
    if others is not None:
        print(f"other programs took {others:.0%} of the processors' time")
    doubtful = [name for name, row in rows.items() if drift(row) > DRIFT]
    print(f"the machine's pace changed by more than {DRIFT - 1:.0%} during {len(doubtful)} programs")
    show_worst(rows)
    show_problems(rows)
    show_first_calls(rows)


def family_line(name: str, found: Record) -> str:
    """A row of the table."""
    text = f"{name:14}{found['programs']:>9}"
    if "mean" in found:
        text += f"{found['mean']:>8.2f}{found['above_1']:>9.0%}{found['p10']:>7.2f}{found['p1']:>7.2f}"
    else:
        text += f"{'–':>8}{'–':>9}{'–':>7}{'–':>7}"
    return text + f"{found['without']:>9}"


def worst(rows: Mapping[str, Record], count: int = WORST) -> list[tuple[str, Record]]:
    """The programs with the smallest ratios."""
    known = [(name, row) for name, row in rows.items() if ratio_of(row) is not None]
    return sorted(known, key=lambda item: ratio_of(item[1]) or 0.0)[:count]


def show_worst(rows: Mapping[str, Record]) -> None:
    """By name, with kernel counts, the limit, memory beside the peers', and fusegrad's explanation."""
    chosen = worst(rows)
    if chosen:
        print(f"\nthe worst {len(chosen)}")
    for name, row in chosen:
        ours, peer = row["contenders"][OURS], best_peer(row)
        assert peer is not None
        theirs, limit = row["contenders"][peer], row.get("limit")
        times = [seconds_text(found["timing"]["median"]) for found in (ours, theirs)]
        print(f"  {ratio_of(row):.2f} (calibrated {calibrated_ratio(row):.2f})  {name}")
        print(
            f"       {times[0]}, {peer} {times[1]};"
            f" {ours.get('way', '–')}, {ours.get('kernels', 0)} kernels of {ours.get('steps', 0)} steps,"
            f" {ours.get('numpy', 0)} by NumPy; memory {megabytes(ours)}, {peer}'s {megabytes(theirs)}"
            + (f"; limit {limit['kind']}, at {limit['fraction']:.0%}" if limit and limit["fraction"] else "")
        )
        for text in (*ours.get("reasons", ()), *ours.get("explanation", ())[:3]):
            print(f"       {text[:150]}")


def show_problems(rows: Mapping[str, Record]) -> None:
    """Every contender that failed, differed or took too long."""
    found = problems(rows)
    print(f"\n{len(found)} problems")
    for text in found:
        print(f"  {text}")


def problems(rows: Mapping[str, Record]) -> list[str]:
    """In words: which contender of which program, and what."""
    found = []
    for name, row in rows.items():
        if "reference" in row:
            found.append(f"{name}: the reference: {row['reference']}")
        for contender, figures in row["contenders"].items():
            if figures["status"] == "DIFFERS":
                calls = ", ".join(map(str, figures["differing_calls"]))
                found.append(f"{name}: {contender} DIFFERS by {figures['difference']:.2g} at call {calls}")
            elif figures["status"] != "ok":
                found.append(f"{name}: {contender} {figures['status']}: {figures.get('note', '')}")
    return found


def show_first_calls(rows: Mapping[str, Record]) -> None:
    """Medians of first calls, and fusegrad's slowest."""
    names = dict.fromkeys(name for row in rows.values() for name in row["contenders"])
    print("\nfirst calls, without imports")
    for name in names:
        times = [
            row["contenders"][name]["first"]
            for row in rows.values()
            if "first" in row["contenders"].get(name, {})
        ]
        if times:
            print(
                f"  {name:14} median {seconds_text(float(np.median(times)))}, most {seconds_text(max(times))}"
            )
    ours = [
        (row["contenders"][OURS]["first"], n)
        for n, row in rows.items()
        if "first" in row["contenders"].get(OURS, {})
    ]
    for seconds, name in sorted(ours, reverse=True)[:5]:
        print(f"  {seconds_text(seconds):>8}  {name}")


def megabytes(found: Record) -> str:
    """A contender's peak memory."""
    return f"{found['peak_bytes'] / 2**20:.1f} MB" if "peak_bytes" in found else "–"


def seconds_text(seconds: float) -> str:
    """Three digits with a unit.

    >>> seconds_text(0.0001234), seconds_text(2.5)
    ('123 µs', '2.5 s')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= 0.9995 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"
