"""`compare`: eager against compiled, and against torch and JAX: times, differences, kernels, memory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fusegrad.compiler.compare import terminal
from fusegrad.compiler.compare.contenders import (
    Arrays,
    Case,
    Contender,
    compiled_contender,
    eager_contender,
    restored,
)
from fusegrad.compiler.compare.measure import (
    MOST_SAMPLES,
    Timing,
    bytes_text,
    interleaved,
    peak_bytes,
    seconds_text,
    timed,
)
from fusegrad.compiler.compare.peers import Peers, check_peers, peer_contenders
from fusegrad.eager.core.settings import budget
from fusegrad.tracer.export.files import write_whole

# How far results may lie apart, relative to the largest element of the same array: what the
# order of a long sum may change, by the bytes of an element.
TOLERANCE = {2: 2e-2, 4: 2e-4, 8: 1e-9}

GRADIENTS = "value and gradients"


@dataclass(frozen=True)
class Difference:
    """How far a contender's results and gradients lie from eager's.

    absolute: the largest difference of two elements. relative: the largest difference divided by
    the largest element of the same array. agrees: within the tolerance, with equal shapes and
    with NaN and infinities in the same places.
    """

    absolute: float
    relative: float
    agrees: bool


@dataclass(frozen=True)
class Column:
    """What was measured of one contender. `gradients` is None where the function has none."""

    name: str
    first_call: float
    forward: Timing
    gradients: Timing | None
    difference: Difference | None
    memory_bytes: int | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """The time that counts: of value and gradients where there are any."""
        return (self.gradients or self.forward).median


@dataclass(frozen=True)
class Comparison:
    """What `compare` found: printable, and as data by `as_dict` and `save_json`."""

    function: str
    arguments: str
    columns: tuple[Column, ...]
    notes: tuple[str, ...]

    def __getitem__(self, name: str) -> Column:
        """The column of a contender: "eager", "compiled", "torch", ..."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    @property
    def speedup(self) -> float:
        """How many times faster than eager the compiled function is."""
        return self["eager"].seconds / self["compiled"].seconds

    @property
    def agree(self) -> bool:
        """Whether all contenders computed the same, within the tolerance."""
        return all(c.difference is None or c.difference.agrees for c in self.columns)

    def __repr__(self) -> str:
        return f"<comparison of {self.function}: compiled {self.speedup:.3g} times as fast as eager>"

    def __str__(self) -> str:
        return terminal.table_text(*self._table())

    def show(self) -> None:
        """Print the table, by rich where it is installed."""
        terminal.print_table(*self._table())

    def _table(self) -> tuple[str, list[str], list[list[str]], list[str]]:
        header = ["", *(c.name for c in self.columns)]
        return f"{self.function}({self.arguments})", header, _rows(self.columns), list(self.notes)

    def as_dict(self) -> dict[str, Any]:
        """All figures, in seconds and bytes, ready for JSON."""
        return {
            "function": self.function,
            "arguments": self.arguments,
            "speedup": self.speedup,
            "agree": self.agree,
            "columns": {c.name: _column_dict(c) for c in self.columns},
            "notes": list(self.notes),
        }

    def save_json(self, path: str | os.PathLike[str]) -> None:
        """Write `as_dict` to `path`, whole or not at all. Raises ExportError where that cannot be."""
        data = json.dumps(self.as_dict(), indent=2, ensure_ascii=False) + "\n"
        write_whole(os.fspath(path), data.encode(), "compare")

    def save_plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the times as bars. Raises ExportError without matplotlib or where it cannot be written."""
        groups = {"forward": {c.name: c.forward.median for c in self.columns}}
        if self["eager"].gradients is not None:
            groups[GRADIENTS] = {c.name: c.seconds for c in self.columns}
        terminal.save_bars(terminal.check_plot(path), f"{self.function}: time of a call", groups)


def _column_dict(column: Column) -> dict[str, Any]:
    return {
        "first_call": column.first_call,
        "forward": column.forward.as_dict(),
        "gradients": column.gradients.as_dict() if column.gradients else None,
        "difference": vars(column.difference) if column.difference else None,
        "memory_bytes": column.memory_bytes,
        **column.facts,
    }


# The table.


def _rows(columns: tuple[Column, ...]) -> list[list[str]]:
    """The table's lines: a title and a cell per column; "–" where nothing is known."""

    def row(title: str, cell: Callable[[Column], str | None]) -> list[str]:
        return [title, *(cell(column) or "–" for column in columns)]

    eager = columns[0]
    rows = [
        row("first call", lambda c: seconds_text(c.first_call)),
        row("forward", lambda c: seconds_text(c.forward.median)),
        row("  times as fast as eager", lambda c: f"{eager.forward.median / c.forward.median:.3g}×"),
    ]
    if eager.gradients is not None:
        rows += [
            row(GRADIENTS, lambda c: seconds_text(c.seconds)),
            row("  times as fast as eager", lambda c: f"{eager.seconds / c.seconds:.3g}×"),
        ]
    return [
        *rows,
        row("largest difference from eager", lambda c: _difference_cell(c, "absolute")),
        row("  relative to the largest element", lambda c: _difference_cell(c, "relative")),
        row("kernels, forward + backward", _kernels_cell),
        row("matrix products", lambda c: str(c.facts["products"]) if "products" in c.facts else None),
        row("memory", lambda c: bytes_text(c.memory_bytes) if c.memory_bytes is not None else None),
    ]


def _difference_cell(column: Column, kind: str) -> str | None:
    if column.difference is None:
        return None
    value = f"{getattr(column.difference, kind):.2g}"
    return value if column.difference.agrees else f"{value} DIFFERS"


def _kernels_cell(column: Column) -> str | None:
    facts = column.facts
    return f"{facts['forward_kernels']} + {facts['backward_kernels']}" if "forward_kernels" in facts else None


# Measuring.


def compare(
    function: Callable[..., Any],
    *args: Any,
    peers: Peers | None = None,
    plot: str | os.PathLike[str] | None = None,
    repeat: int | None = None,
    show: bool = True,
    **kwargs: Any,
) -> Comparison:
    """Time `function(*args, **kwargs)` eagerly and compiled, and say how far the results lie apart.

    function: plain or jitted; a method or module too. Gradients are taken with respect to every
    tensor with `requires_grad` that it reaches. peers: the same function for "torch",
    "torch.compile" or "jax", each called with the arguments converted; those that are not installed
    are left out. plot: save a bar chart there (.png, .svg, .pdf). repeat: samples of each call; None
    takes as many as fit in about two seconds. show: print the table.

    Times are medians of interleaved samples. The first call includes recording and compiling (not
    importing). Memory is the temporaries and results of a call with gradients: what NumPy held at
    most for eager, what was planned for compiled. Tensors, gradients and the random state are left
    as they were.

    Raises ExportError, before anything is timed, for a plot that cannot be saved; ValueError for
    unknown peers and for no repeats; and whatever the function raises.

    >>> import fusegrad as fg
    >>> x = fg.ones(100, requires_grad=True)
    >>> found = fg.compare(lambda x: (x.sin() * x).sum(), x, repeat=2, show=False)
    >>> found.agree, found["compiled"].facts["forward_kernels"]
    (True, 1)
    """
    if repeat is not None and repeat < 1:
        raise ValueError(f"compare: repeat must be at least 1, got {repeat}")
    if plot is not None:
        plot = terminal.check_plot(plot)
    case = Case(function, args, kwargs)
    check_peers(peers or {}, case)
    notes: list[str] = []
    with ExitStack() as cleanup:
        cleanup.enter_context(restored(case))
        cleanup.enter_context(budget.unbounded())
        contenders = [eager_contender(case), compiled_contender(case)]
        contenders += peer_contenders(peers or {}, case, cleanup, notes)
        columns = _measured(case, contenders, repeat, notes)
    found = Comparison(case.name, case.describe(), tuple(columns), tuple(notes))
    if plot is not None:
        found.save_plot(plot)
    if show:
        found.show()
    return found


def _measured(case: Case, contenders: list[Contender], repeat: int | None, notes: list[str]) -> list[Column]:
    """Take all figures of all contenders."""
    rounds = MOST_SAMPLES if repeat is None else repeat
    kinds = 2 if case.leaves else 1
    with terminal.progress(f"comparing {case.name}", len(contenders) * (1 + kinds * rounds)) as step:
        first, arrays = {}, {}
        for contender in contenders:
            first[contender.name] = timed(contender.prepare)[0]
            arrays[contender.name] = contender.arrays()
            step()
        memory = {"eager": peak_bytes(contenders[0].both or contenders[0].forward)}
        forward = interleaved({c.name: c.forward for c in contenders}, repeat, step=step)
        both = {c.name: c.both for c in contenders if c.both is not None}
        gradients = interleaved(both, repeat, step=step) if case.leaves else {}
    columns = []
    for contender in contenders:
        name, facts = contender.name, dict(contender.facts)
        memory_bytes = facts.pop("memory_bytes", memory.get(name))
        difference = None if name == "eager" else difference_of(arrays["eager"], arrays[name])
        columns.append(
            Column(name, first[name], forward[name], gradients.get(name), difference, memory_bytes, facts)
        )
    notes += _notes(case, columns)
    return columns


def _notes(case: Case, columns: list[Column]) -> list[str]:
    """What a reader of the table must know."""
    notes = []
    facts = columns[1].facts
    if not case.leaves:
        notes.append("no tensor requires gradients: forward only")
    if not facts["ran_compiled"]:
        notes.append(f"compiled ran eagerly:\n{facts['explanation']}")
    elif facts["numpy_steps"]:
        notes.append(f"compiled lets NumPy run {facts['numpy_steps']} steps; see explain()")
    for column in columns:
        if column.difference is not None and not column.difference.agrees:
            notes.append(f"{column.name} DIFFERS from eager by more than rounding")
    return notes


def difference_of(expected: tuple[Arrays, Arrays], found: tuple[Arrays, Arrays]) -> Difference:
    """How far results and gradients lie from the expected ones.

    >>> difference_of(([np.array([1.0, 2.0])], []), ([np.array([1.0, 2.5])], []))
    Difference(absolute=0.5, relative=0.25, agrees=False)
    """
    ours, theirs = [*expected[0], *expected[1]], [*found[0], *found[1]]
    agrees = len(ours) == len(theirs) and all(a.shape == b.shape for a, b in zip(ours, theirs, strict=True))
    if not agrees:
        return Difference(float("inf"), float("inf"), False)
    absolute = relative = 0.0
    for a, b in zip(ours, theirs, strict=True):
        exact = a.dtype.kind not in "fc"
        tolerance = 0.0 if exact else TOLERANCE.get(a.real.dtype.itemsize, 1e-9)
        apart, largest = _apart(a, b)
        ratio = apart / largest if largest else apart
        absolute, relative = max(absolute, apart), max(relative, ratio)
        agrees &= ratio <= tolerance
    return Difference(absolute, relative, agrees)


def _apart(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """The largest difference of two arrays, and the largest finite element of the first."""
    if not a.size:
        return 0.0, 0.0
    kind = np.complex128 if a.dtype.kind == "c" else np.float64
    a, b = a.astype(kind), b.astype(kind)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    finite = np.isfinite(a)
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(a - b))
    # An infinity or a NaN against anything else is as far apart as can be.
    apart = np.where(np.isnan(apart), np.inf, apart)
    return float(apart.max()), float(np.abs(a[finite]).max()) if finite.any() else 0.0
