"""Two revisions of fusegrad beside each other: the distribution of their ratios.

`--tree PATH` runs both, interleaved program by program, each in processes of its own. `--against FILE`
compares with an earlier run's figures, each set against its own calibration: rougher.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from families.contenders import OURS
from families.report import drift, geometric_mean, problems, seconds_of, seconds_text

OLD, NEW = "old", "new"
SHARES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
LISTED = 15


def ratio_of(row: Mapping[str, Any]) -> float | None:
    """The old revision's time over the new one's: above 1 where the new one is faster."""
    old, new = seconds_of(row, OLD), seconds_of(row, NEW)
    return old / new if old and new else None


def line(name: str, row: Mapping[str, Any]) -> str:
    """A program that has just been run."""
    ratio, states = ratio_of(row), {label: found["status"] for label, found in row["contenders"].items()}
    if ratio is None:
        return f"{name}: {states}"
    old, new = row["contenders"][OLD], row["contenders"][NEW]
    times = f"{seconds_text(old['timing']['median'])} -> {seconds_text(new['timing']['median'])}"
    return (
        f"{name}: {ratio:.3f}; {times}; first call {old['first'] / new['first']:.2f}{differences(old, new)}"
    )


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """What else became other than it was: kernels, steps, the way of calls."""
    changed = [key for key in ("way", "kernels", "steps", "numpy") if old.get(key) != new.get(key)]
    return "".join(f"; {key} {old.get(key)} -> {new.get(key)}" for key in changed)


def show(rows: Mapping[str, Mapping[str, Any]], others: float | None) -> None:
    """The distribution over all programs and by family, those that changed most, and what went wrong."""
    ratios = {name: ratio for name, row in rows.items() if (ratio := ratio_of(row)) is not None}
    distribution(ratios, {name: row["family"] for name, row in rows.items()})
    both = [row["contenders"] for row in rows.values() if "first" in row["contenders"][OLD]]
    first = [found[OLD]["first"] / found[NEW]["first"] for found in both if "first" in found[NEW]]
    if first:
        print(f"first calls: old over new, geometric mean {geometric_mean(first):.3f}")
    changed = {n: differences(row["contenders"][OLD], row["contenders"][NEW]) for n, row in rows.items()}
    for name, text in changed.items():
        if text:
            print(f"  {name}{text}")
    if others is not None:
        print(f"other programs took {others:.0%} of the processors' time")
    print(
        f"the pace changed by more than 25% during {sum(drift(row) > 1.25 for row in rows.values())} programs"
    )
    for text in problems(rows):
        print(f"  {text}")


def show_against(rows: Mapping[str, Mapping[str, Any]], earlier: Mapping[str, Mapping[str, Any]]) -> None:
    """fusegrad's times beside an earlier run's, each over the calibration of its process."""
    ratios = {}
    for name, row in rows.items():
        new, old = seconds_of(row, OURS), seconds_of(earlier[name], OURS) if name in earlier else None
        if new and old:
            pace = row["contenders"][OURS]["calibration"] / earlier[name]["contenders"][OURS]["calibration"]
            ratios[name] = old / new * pace
    print("\nbeside the earlier run, by calibrated times")
    distribution(ratios, {name: row["family"] for name, row in rows.items()})


def distribution(ratios: Mapping[str, float], families: Mapping[str, str]) -> None:
    """Ratios of old to new: their mean and quantiles, the means of families, and the extremes by name."""
    if not ratios:
        print("no program was timed in both")
        return
    values = list(ratios.values())
    print(f"\nold over new, {len(values)} programs (above 1: the new one is faster)")
    print(f"geometric mean {geometric_mean(values):.3f}")
    quantiles = np.quantile(values, SHARES)
    print("  ".join(f"p{share * 100:g} {value:.3f}" for share, value in zip(SHARES, quantiles, strict=True)))
    for family in dict.fromkeys(families[name] for name in ratios):
        members = [ratio for name, ratio in ratios.items() if families[name] == family]
        print(
            f"  {family:14}{geometric_mean(members):.3f}  least {min(members):.3f}  most {max(members):.3f}"
        )
    ordered = sorted(ratios, key=lambda name: ratios[name])
    print("slower by most: " + ", ".join(f"{name} {ratios[name]:.2f}" for name in ordered[:LISTED]))
    print("faster by most: " + ", ".join(f"{name} {ratios[name]:.2f}" for name in ordered[::-1][:LISTED]))
