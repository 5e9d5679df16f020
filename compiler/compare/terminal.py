"""What a comparison looks like: tables, progress bars and plots, with or without the extras.

Rich draws tables and bars where it is installed; plain text has the same content. Matplotlib
draws the plots.
"""

from __future__ import annotations

import importlib.util
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TextIO

from fusegrad.compiler.compare.measure import seconds_text
from fusegrad.tracer.export.files import ExportError, check_target, write_whole

Rows = Sequence[Sequence[str]]

PLOT_SUFFIXES = (".png", ".svg", ".pdf")


def installed(package: str) -> bool:
    """Whether `package` can be imported, without importing it."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


# Tables.


def table_text(title: str, header: Sequence[str], rows: Rows, notes: Sequence[str] = ()) -> str:
    """A table as plain text: the first column to the left, the others to the right.

    >>> print(table_text("sizes", ["", "a", "bc"], [["first", "1", "22"]], ["all in mm"]))
    sizes
    <BLANKLINE>
           a  bc
    ------------
    first  1  22
    <BLANKLINE>
    all in mm
    """
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        return "  ".join(cells).rstrip()

    rule = "-" * (sum(widths) + 2 * len(widths) - 2)
    parts = [title, "", line(header), rule, *map(line, rows)]
    return "\n".join([*parts, *(["", *notes] if notes else [])])


def print_table(
    title: str, header: Sequence[str], rows: Rows, notes: Sequence[str] = (), file: TextIO | None = None
) -> None:
    """Print a table on `file` (standard output), by rich where it is installed."""
    file = file or sys.stdout
    if not installed("rich"):
        print(table_text(title, header, rows, notes), file=file)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for i, name in enumerate(header):
        table.add_column(Text(name), justify="right" if i else "left", no_wrap=True)
    for row in rows:
        table.add_row(*[Text(cell, style="bold red" if "DIFFERS" in cell else "") for cell in row])
    # A pipe has no width: let the table have what it needs rather than fold its cells.
    console = Console(file=file, width=None if file.isatty() else 200, highlight=False)
    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(table)
    for note in notes:
        console.print(Text(note), soft_wrap=True)


# Progress.


@contextmanager
def progress(title: str, total: int, file: TextIO | None = None) -> Iterator[Callable[[], None]]:
    """A progress bar of `total` steps; gives the function that makes one step.

    By rich or tqdm, whichever is installed; silent where `file` (standard error) is no terminal.
    """
    file = file or sys.stderr
    if not file.isatty():
        yield lambda: None
    elif installed("rich"):
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(file=file), transient=True) as bar:
            task = bar.add_task(title, total=total)
            yield lambda: bar.advance(task)
    elif installed("tqdm"):
        from tqdm import tqdm

        with tqdm(total=total, desc=title, file=file, leave=False) as counter:

            def step() -> None:
                counter.update()

            yield step
    else:
        yield lambda: None


# Plots.


def check_plot(path: str | os.PathLike[str]) -> str:
    """Whether a plot can be saved at `path`, asked before any work is done for it; gives the path.

    Raises ExportError that names the path, or the extra to install.
    """
    target = os.fspath(path)
    if not target.lower().endswith(PLOT_SUFFIXES):
        raise ExportError(f"compare: the plot {target} must end in one of {', '.join(PLOT_SUFFIXES)}")
    check_target(target, "compare")
    if not installed("matplotlib"):
        raise ExportError(
            f"compare: the plot {target} needs matplotlib; install it with: pip install 'fusegrad[plot]'"
        )
    return target


def save_bars(path: str, title: str, groups: Mapping[str, Mapping[str, float]]) -> None:
    """Save a bar chart of seconds: one panel per group, one bar per contender.

    Raises ExportError where the file cannot be written; nothing half-written is left.
    """
    from matplotlib.figure import Figure

    height = 1.1 + 0.45 * max(len(bars) for bars in groups.values())
    figure = Figure(figsize=(4.6 * len(groups), height), layout="constrained")
    for number, (name, bars) in enumerate(groups.items()):
        axes = figure.add_subplot(1, len(groups), number + 1)
        positions = range(len(bars))
        colors = ["#d9822b" if bar == "compiled" else "#8da0b3" for bar in bars]
        drawn = axes.barh(positions, list(bars.values()), color=colors)
        axes.bar_label(drawn, [seconds_text(value) for value in bars.values()], padding=4)
        axes.set_yticks(positions, list(bars))
        axes.invert_yaxis()
        axes.set_xlim(0, 1.25 * max(bars.values()))
        axes.set_xticks([])
        axes.spines[["top", "right", "bottom"]].set_visible(False)
        axes.set_title(name, loc="left", fontsize=10)
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    data = io.BytesIO()
    figure.savefig(data, format=os.path.splitext(path)[1][1:].lower(), dpi=150)
    write_whole(path, data.getvalue(), "compare")
