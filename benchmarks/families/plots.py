"""Plots of ratios, with the peer that was best: all families at once, and each with its programs by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from families.report import best_peer, by_family, ratio_of

COLORS = {"torch": "#c23b22", "torch.compile": "#7b3294", "jax": "#2b6cb0"}


def save_plots(rows: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw all families at once, and every one, into `folder`; gives the files."""
    import matplotlib

    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    found = [folder / "families.png"]
    draw_all(rows, found[0])
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


def draw_all(rows: Mapping[str, Any], path: Path) -> None:
    """A row of dots for each family, a dot for each program; the bar is the geometric mean."""
    from matplotlib import pyplot

    summaries = by_family(rows)
    ordered = sorted((f for f, s in summaries.items() if s["mean"]), key=lambda f: summaries[f]["mean"])
    figure, axes = pyplot.subplots(figsize=(9, 1.4 + 0.33 * len(ordered)), layout="constrained")
    for place, family in enumerate(ordered):
        members = [row for row in rows.values() if row["family"] == family and ratio_of(row)]
        colors = [COLORS[best_peer(row) or "torch"] for row in members]
        ratios = [ratio_of(row) for row in members]
        axes.scatter(ratios, [place] * len(ratios), s=16, c=colors, alpha=0.6, linewidths=0)
        axes.plot([summaries[family]["mean"]] * 2, [place - 0.32, place + 0.32], color="black", linewidth=2)
    axes.set_yticks(range(len(ordered)), ordered)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel("times as fast as the best peer: a dot is a program, a bar the mean of its family")
    for name in dict.fromkeys(best_peer(row) or "torch" for row in rows.values()):
        axes.scatter([], [], s=16, color=COLORS[name], label=name)
    figure.legend(fontsize=8, loc="outside lower center", ncols=3, title="best peer", title_fontsize=8)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
