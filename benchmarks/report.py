"""What the suite found, for people: the tables, what went wrong, and the plots."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from contenders import CONTENDERS, OURS, PEERS
from harness import machine_text

from fusegrad.compiler.compare.measure import seconds_text
from fusegrad.compiler.compare.terminal import installed, print_table
from fusegrad.tracer.export.files import write_whole

Record = Mapping[str, Any]  # the suite's JSON, or one workload in it

BUSY = 0.03  # the share of the processors' time that others may take in a run that is worth keeping

COLORS = {
    "fusegrad": "#d9822b",
    "fusegrad-backward": "#e5a663",
    "eager": "#e8c39e",
    "torch": "#c23b22",
    "torch.compile": "#7b3294",
    "jax": "#2b6cb0",
    "numba": "#7f8c8d",
}


def seconds_of(row: Record, name: str) -> float | None:
    """The steady time of a contender in a row, where there is one that counts."""
    found = row["contenders"].get(name, {})
    return found["timing"]["median"] if found.get("status") == "ok" else None


def best_peer(row: Record) -> str | None:
    """The fastest of those that the ratio is about."""
    times = {name: seconds for name in PEERS if (seconds := seconds_of(row, name)) is not None}
    return min(times, key=lambda name: times[name]) if times else None


def ratio_of(row: Record) -> float | None:
    """The time of the best peer over fusegrad's."""
    ours, peer = seconds_of(row, OURS), best_peer(row)
    if ours is None or peer is None:
        return None
    theirs = seconds_of(row, peer)
    assert theirs is not None
    return theirs / ours


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """Of the values that are known.

    >>> geometric_mean([1.0, 4.0, None])
    2.0
    """
    logs = [math.log(value) for value in values if value is not None]
    return math.exp(sum(logs) / len(logs)) if logs else None


def problems(record: Record) -> list[str]:
    """What makes the run a failure: a contender that differs, or a workload that fusegrad did not finish."""
    found = []
    for row in record["workloads"].values():
        for name, figures in row["contenders"].items():
            if figures["status"] == "DIFFERS":
                apart = f"{figures['difference']:.2g} of the largest element"
                found.append(f"{row['title']}: {name} DIFFERS from eager by {apart}")
            elif name == OURS and figures["status"] != "ok":
                found.append(
                    f"{row['title']}: fusegrad has no time: {figures.get('note', figures['status'])}"
                )
    return found


# Tables.


def show(record: Record, earlier: Record | None = None) -> None:
    """Print the steady times, the comparison with an earlier run, and the first calls."""
    if record["workloads"]:
        show_steady(record)
        if earlier is not None:
            show_change(record, earlier)
        show_first_calls(record)


def line(row: Record) -> str:
    """A row that has just been measured, while the others run."""
    ours, ratio = seconds_of(row, OURS), row["ratio"]
    text = f"{row['title']}: {seconds_text(ours) if ours else 'no time'}"
    return text + (f", {ratio:.2f} times as fast as {row['best_peer']}" if ratio else "")


def columns_of(record: Record) -> list[str]:
    """The contenders that appear in any row, in their order."""
    rows = record["workloads"].values()
    return [name for name in CONTENDERS if any(name in row["contenders"] for row in rows)]


def show_steady(record: Record) -> None:
    """The main table: times, the ratio to the best peer, the limit, and the way of fusegrad's calls."""
    names = columns_of(record)
    rows = []
    for row in record["workloads"].values():
        ratio, limit = row["ratio"], row["limit"]
        bound = f"{limit['kind']} {limit['fraction']:.0%}" if limit.get("fraction") else "–"
        rows.append(
            [
                row["title"],
                *(_time_cell(row, name) for name in names),
                f"{ratio:.2f}" if ratio else "–",
                f"{row['target']:g}" + (" ok" if ratio and ratio >= row["target"] else ""),
                bound,
                row["contenders"].get(OURS, {}).get("way", "–"),
            ]
        )
    notes = ["ratio: time of the best of torch, torch.compile and JAX over fusegrad's; goal: to reach"]
    notes.append("limit: what the machine allows (memory, flops, call) as a share of fusegrad's time")
    if record["geometric_mean"]:
        notes.append(f"geometric mean of the ratios: {record['geometric_mean']:.2f}")
    if record["quick"]:
        notes.append("a quick run of few samples: times are rough")
    if record["others"] is not None:
        busy = " BUSY: such times are worth little" if record["others"] > BUSY else ""
        notes.append(f"other programs took {record['others']:.0%} of the processors' time meanwhile{busy}")
    notes += [*_remarks(record), *problems(record)]
    header = ["value and gradients", *names, "ratio", "goal", "limit", "way"]
    print_table("steady time of a call", header, rows, notes)


def _time_cell(row: Record, name: str) -> str:
    found = row["contenders"].get(name)
    if found is None:
        return "–"
    if "timing" not in found:
        return found["status"]
    text = seconds_text(found["timing"]["median"])
    return text if found["status"] == "ok" else f"{text} {found['status']}"


def _remarks(record: Record) -> list[str]:
    """Why contenders have no times."""
    return [
        f"{row['title']}: {name}: {found['note']}"
        for row in record["workloads"].values()
        for name, found in row["contenders"].items()
        if "note" in found and name != OURS
    ]


def show_first_calls(record: Record) -> None:
    """The first call in a fresh process, and for fusegrad the calls until it is as fast as it gets, and what
    the first had to do.
    """
    names = columns_of(record)
    rows = []
    for row in record["workloads"].values():
        figures = {name: row["contenders"].get(name, {}).get("first_call") for name in names}
        ours = figures.get(OURS)
        cells = [seconds_text(found["first"]) if found else "–" for found in figures.values()]
        rows.append([row["title"], *cells, *_work_cells(ours)])
    if any(cell != "–" for row in rows for cell in row[1:]):
        notes = ["in a fresh process without caches, after the import"]
        notes.append("until steady: all calls up to the last slow one of fusegrad's")
        notes.append(
            "ops: that its first call recorded; LLVM: the share of the time that it waited for machine"
        )
        notes.append(
            "code. The rest is Python: running the body, recording and planning, and the call itself"
        )
        print_table("first call", ["", *names, "until steady", "ops", "LLVM"], rows, notes)


def _work_cells(found: Record | None) -> list[str]:
    """Of fusegrad's first calls: seconds until steady, ops recorded, the share of waiting for LLVM."""
    if found is None:
        return ["–"] * 3
    return [seconds_text(found["ready"]), f"{found['ops']:,}", f"{found['llvm']:.0%}"]


def show_change(record: Record, earlier: Record) -> None:
    """Fusegrad's times and ratios beside those of an earlier run."""
    rows, changes = [], []
    for key, row in record["workloads"].items():
        before = earlier["workloads"].get(key)
        now, then = seconds_of(row, OURS), seconds_of(before, OURS) if before else None
        if before is None or now is None or then is None:
            continue
        changes.append(then / now)
        ratios = [f"{ratio:.2f}" if ratio else "–" for ratio in (before["ratio"], row["ratio"])]
        rows.append([row["title"], seconds_text(then), seconds_text(now), f"{then / now:.2f}", *ratios])
    notes = [f"against the run of {earlier['time'][:16]} on {machine_text(earlier['machine'])}"]
    mean = geometric_mean(changes)
    if mean:
        notes.append(f"geometric mean: {mean:.2f} times as fast as before")
    header = ["fusegrad", "before", "now", "times as fast", "ratio before", "ratio now"]
    print_table("against an earlier run", header, rows, notes)


# Plots.


def save_plots(record: Record, path: Path) -> list[Path]:
    """Save both plots next to the JSON at `path`; nothing without matplotlib."""
    if not installed("matplotlib") or not record["workloads"]:
        return []
    mark = " (quick run: rough)" if record["quick"] else ""

    def relative(row: Record, name: str) -> float | None:
        seconds, ours = seconds_of(row, name), seconds_of(row, OURS)
        return seconds / ours if seconds and ours else None

    def first(row: Record, name: str) -> float | None:
        found = row["contenders"].get(name, {}).get("first_call")
        return found["first"] if found else None

    steady, cold = path.with_suffix(".png"), path.with_name(f"{path.stem}_first_call.png")
    machine = machine_text(record["machine"])
    title = f"Time of value and gradients, fusegrad = 1{mark}"
    _save_dots(record, steady, title, f"times fusegrad's · {machine}", relative, goals=True)
    if any(first(row, name) for row in record["workloads"].values() for name in CONTENDERS):
        _save_dots(record, cold, f"First call, cold process{mark}", f"seconds · {machine}", first)
        return [steady, cold]
    return [steady]


def _save_dots(
    record: Record,
    path: Path,
    title: str,
    label: str,
    value: Callable[[Record, str], float | None],
    goals: bool = False,
) -> None:
    """One line a workload, one dot a contender, on a logarithmic axis; `goals` draws ratios to reach."""
    from matplotlib.figure import Figure

    rows = list(record["workloads"].values())
    figure = Figure(figsize=(10, 1.6 + 0.3 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    for name in columns_of(record):
        dots = [(found, place) for place, row in enumerate(rows) if (found := value(row, name)) is not None]
        if dots:
            axes.scatter(*zip(*dots, strict=True), color=COLORS[name], label=name, s=36, zorder=3)
    if goals:
        targets = [row["target"] for row in rows]
        axes.scatter(targets, range(len(rows)), marker="|", color="black", s=90, label="ratio to reach")
    axes.set_xscale("log")
    axes.set_yticks(range(len(rows)), [row["title"] for row in rows])
    axes.invert_yaxis()
    axes.grid(axis="x", color="#dddddd")
    axes.grid(axis="y", color="#eeeeee")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_xlabel(label)
    axes.set_title(title, loc="left", fontweight="bold")
    figure.legend(loc="outside lower center", ncols=7, frameon=False)
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=130)
    write_whole(str(path), data.getvalue(), "benchmark")
