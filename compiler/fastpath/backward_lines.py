"""The plain backward of a shortcut's node as a straight Python function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusegrad.compiler.base import debug
from fusegrad.compiler.fastpath.native_node import intact
from fusegrad.compiler.fastpath.python_writer import Source, TooDifficult
from fusegrad.compiler.paths.autograd_node import in_rows
from fusegrad.compiler.paths.segments import Joint, Segment


def written_derivative(leaf: Segment, joint: Joint | None) -> Any:
    """`CompiledNode.apply` for a plain backward from all results of `leaf`; None where it is not written."""
    try:
        source = Source()
        source.constants |= {"leaf": leaf, "usage": leaf.usage}
        # Otherwise a backward goes through eager's ops.
        source.unless("state.interpreter is None and not state.grad_enabled")
        if joint is not None:
            _write_ready(source, leaf, len(joint.gradients))
        else:
            _write_backward(source, leaf)
        text = source.text("node, gradients")
        debug.show(2, "derivative", lambda: text)
        return source.function(text, "derivative")
    except TooDifficult:
        return None


def _write_start(source: Source, leaf: Segment, filled: bool) -> None:
    """Lines that leave where the long way has to look closer. filled: what the node's `filled` must be."""
    assert leaf.path is not None
    source.unless(f"{source.constant('intact', intact(filled))}(node)")
    seeds = "".join(f"seed{i}, " for i in range(len(leaf.path.seeds)))
    source.lines.append(f"{seeds} = gradients")
    source.unless(" and ".join(f"seed{i} is not None" for i in range(len(leaf.path.seeds))))


def note_freed(source: Source, leaf: Segment) -> None:
    """A line that notes what the backward goes through."""
    assert leaf.path is not None
    kept = leaf.path.kept_behind
    behind = kept[0] if len(kept) == 1 else frozenset().union(*kept)
    source.lines.append(f"node.freeing = {source.constant('behind', behind)}")


def _write_end(source: Source, gradients: Sequence[str]) -> None:
    source.lines.append(f"return [{', '.join(map(source.tensor, gradients))}]")


def _write_ready(source: Source, leaf: Segment, count: int) -> None:
    """The gradients came along with the result."""
    _write_start(source, leaf, filled=False)
    source.unless("node.ready is not None and seed0.array.item() == 1")
    gradients = [f"gradient{i}" for i in range(count)]
    source.lines.append(f"{''.join(f'{g}, ' for g in gradients)} = node.ready")
    source.lines += ["node.ready = None", "usage.derived += 1"]
    note_freed(source, leaf)
    _write_end(source, gradients)


def _write_backward(source: Source, leaf: Segment) -> None:
    """The gradients are computed."""
    inputs = write_inputs(source, leaf)
    assert leaf.backward is not None
    arrays = source.run(leaf.backward, inputs, places=leaf.gradient_places)
    note_freed(source, leaf)
    _write_end(source, source.apart(arrays, leaf.gradient_places, {*range(len(inputs))}))


def write_inputs(source: Source, leaf: Segment) -> list[str]:
    """Lines that leave where the long way has to look closer, and find what the backward program takes."""
    if leaf.backward is None or (leaf.path is not None and leaf.path.derives_alone):
        raise TooDifficult
    _write_start(source, leaf, filled=True)
    source.unless(f"leaf.backward is {source.constant('backward', leaf.backward)}")
    source.constants["in_rows"] = in_rows
    source.lines.append("leaves, kept = node.leaves, node.environment")
    inputs = []
    for kind, reference in leaf.backward_inputs:
        if kind == "argument":
            inputs.append(f"leaves[{reference}].array")
        elif kind == "kept":
            inputs.append(f"kept[{reference}]")
        elif kind == "constant":
            inputs.append(source.constant("array", reference))
        elif kind == "seed":
            name = f"array{reference}"
            source.lines.append(f"{name} = in_rows(seed{reference}.array)")
            inputs.append(name)
        else:
            inputs.append(source.outside(reference))
    return inputs
