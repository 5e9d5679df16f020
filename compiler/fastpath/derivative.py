"""The backward of a leaf as a straight Python function."""

from __future__ import annotations

from typing import Any

from fusegrad.compiler.base import debug
from fusegrad.compiler.call_plan.expressions import Name
from fusegrad.compiler.call_plan.python_writer import Writer
from fusegrad.compiler.call_plan.steps import Unpack
from fusegrad.compiler.paths.backward_plan import derivation
from fusegrad.compiler.paths.segments import MISSED, Segment


def written_derivative(leaf: Segment) -> Any:
    """`leaf`'s backward plan written out, from a node and the gradients of all results."""
    plan = derivation(leaf)
    assert leaf.path is not None
    writer = Writer(MISSED)
    seeds = tuple(f"seed{number}" for number in range(len(leaf.path.derivative.seeds)))
    writer.write([Unpack(seeds, Name("gradients")), *plan.steps])
    writer.returns(plan.result)
    text = writer.text("node, gradients")
    debug.show(2, "derivative", lambda: text)
    return writer.function(text, "derivative")
