"""Telling the user what takes long to record or to compile, so that nothing looks hung."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from fusegrad.compiler.base.background import Work
from fusegrad.tracer.ir.graph import Equation

# After so many seconds a line says what is being compiled. Graphs of fewer equations take less.
PATIENCE, LONG_GRAPH = 5.0, 200


@contextlib.contextmanager
def told_if_long(work: Work[Any]) -> Iterator[None]:
    """Inside, after `PATIENCE` seconds, a line on standard error says what is compiled for a call that waits:
    whose it is, how many ops there are, and which of the user's lines most of them come from.
    """
    if work.ops < LONG_GRAPH:
        yield
        return
    timer = threading.Timer(
        PATIENCE, lambda: tell(f"still compiling {work.title}: {work}; later calls need not")
    )
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def tell(what: str) -> None:
    """Say what takes long."""
    print(f"[fusegrad] {what}", file=sys.stderr)


def busiest_line(equations: Sequence[Equation]) -> tuple[str, int]:
    """The user's line that most equations come from, and how many these are."""
    lines = Counter(str(equation.source) for equation in equations if equation.source is not None)
    (line, count), *_ = lines.most_common(1) or [("", 0)]
    return line, count
