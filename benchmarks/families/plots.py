"""A plot for each family: the ratio of every program, with the peer that was best."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from families.report import best_peer, by_family, ratio_of

COLORS = {"torch": "#c23b22", "torch.compile": "#7b3294", "jax": "#2b6cb0"}


def save_plots(rows: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw every family into `folder`; gives the files."""
    import matplotlib

    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for family, summary in by_family(rows).items():
        members = {name: row for name, row in rows.items() if row["family"] == family and ratio_of(row)}
        if members:
            found.append(folder / f"{family}.png")
            draw(family, summary, members, found[-1])
    return found


def draw(family: str, summary: Mapping[str, Any], members: Mapping[str, Any], path: Path) -> None:
    """One family, the slowest program at the bottom; right of the line we are faster than the best peer."""
    from matplotlib import pyplot

    ordered = sorted(members.items(), key=lambda item: ratio_of(item[1]) or 0.0)
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.2 * len(ordered)), layout="constrained")
    for place, (_, row) in enumerate(ordered):
        color = COLORS[best_peer(row) or "torch"]
        axes.plot([1, ratio_of(row)], [place, place], color=color, linewidth=1)
        axes.plot(ratio_of(row), place, "o", color=color, markersize=4)
    axes.set_yticks(range(len(ordered)), [name.removeprefix(f"{family}/") for name, _ in ordered], fontsize=6)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlabel("time of the best peer over fusegrad's")
    axes.set_title(f"{family}: geometric mean {summary['mean']:.2f}, {summary['above_1']:.0%} above 1")
    for name, color in COLORS.items():
        axes.plot([], [], "o", color=color, label=name, markersize=4)
    figure.legend(fontsize=7, loc="outside lower center", ncols=3, title="best peer", title_fontsize=7)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
