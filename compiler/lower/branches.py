"""Loops that test data: of a branch kernels compute both sides, and take what the test chooses.

What rounds hand on is copied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusegrad.compiler.lower.rewriter import Rewriter
from fusegrad.tracer.ir import passes
from fusegrad.tracer.ir.branch import Side
from fusegrad.tracer.ir.graph import Value


def _branch(b: Rewriter, test: Value, *tensors: Value, then: Side, otherwise: Side) -> tuple[Value, ...]:
    one, other = (b.written_out(passes.optimise(side.graph), tensors) for side in (then, otherwise))
    chosen = zip(one, other, strict=True)
    return tuple([x if x == y else b.op("where", test, x, y) for x, y in chosen])


RULES: dict[str, Callable[..., Any]] = {"branch": _branch, "handed_on": lambda b, x, node: b.op("clone", x)}
