"""Telling the user what takes long to compile, so that nothing looks hung."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import Counter
from collections.abc import Iterator

from fusegrad.tracer.ir.graph import Graph

# After so many seconds a line says what is being compiled. Graphs of fewer equations take less.
PATIENCE, LONG_GRAPH = 5.0, 200


@contextlib.contextmanager
def told_if_long(name: str, graph: Graph) -> Iterator[None]:
    """Inside, after `PATIENCE` seconds, a line on standard error says what is compiled: `name`, how many ops
    there are, and which of the user's lines most of them come from.
    """
    if len(graph.equations) < LONG_GRAPH:
        yield
        return
    timer = threading.Timer(PATIENCE, lambda: print(_said(name, graph), file=sys.stderr))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _said(name: str, graph: Graph) -> str:
    lines = Counter(str(equation.source) for equation in graph.equations if equation.source is not None)
    (line, count), *_ = lines.most_common(1) or [("unknown lines", 0)]
    return (
        f"[fusegrad] still compiling {name}: {len(graph.equations):,} ops, {count:,} of them from {line}; "
        "later calls need not"
    )
