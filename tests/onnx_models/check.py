"""One model: it is exported with an open batch, and its file is run at several sizes beside eager."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime

import fusegrad as fg
from fusegrad.tracer.export.files import ExportError
from fusegrad.tracer.export.program import difference
from fusegrad.utils._pytree import tree_leaves

BATCHES = (1, 3, 5)  # none of which is the example's, which is 2
# What makes a function or a model, and arguments for a batch size.
Model = tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]


def check(make: Callable[[], Model]) -> Counter[str]:
    """The kinds of nodes in the file. Raises ExportError or AssertionError where it is none, or differs."""
    fg.manual_seed(0)
    function, draw = make()
    if isinstance(function, fg.nn.Module):
        function.eval()
    file = io.BytesIO()
    shapes = [_open(one, other) for one, other in zip(draw(2), draw(3), strict=True)]
    fg.onnx.export(function, draw(2), file, dynamic_shapes=shapes)
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    for batch in BATCHES:
        agree(session, function, draw(batch))
    return Counter(node.op_type for node in nodes(onnx.load_from_string(file.getvalue()).graph))


def _open(one: Any, other: Any) -> dict[int, str] | None:
    """The axes of an argument that follow the batch."""
    if not isinstance(one, fg.Tensor):
        return None
    pairs = enumerate(zip(one.shape, other.shape, strict=True))
    return {axis: "batch" for axis, (here, there) in pairs if here != there}


def agree(session: Any, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Assert that a file gives eager's results for these arguments."""
    tensors = [leaf for leaf in tree_leaves(args) if isinstance(leaf, fg.Tensor)]
    feeds = {i.name: t.numpy() for i, t in zip(session.get_inputs(), tensors, strict=True)}
    found = session.run(None, feeds)
    with fg.no_grad():
        expected = [leaf for leaf in tree_leaves(function(*args)) if leaf is not None]
    for one, other in zip(found, expected, strict=True):
        wanted = other.numpy() if isinstance(other, fg.Tensor) else np.asarray(other, one.dtype)
        assert one.dtype == wanted.dtype and one.shape == wanted.shape
        assert difference(one, wanted) is None, difference(one, wanted)


def nodes(graph: Any) -> Iterator[Any]:
    """The nodes of a graph, and of those within it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes(attribute.g)


__all__ = ["BATCHES", "ExportError", "Model", "agree", "check", "nodes"]
