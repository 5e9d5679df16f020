"""Attention as one node: the ops of `scaled_dot_product_attention` go in, what they attend to comes out.

    v0 = mul(q, 0.25)
    v1 = permute(k, dims=(0, 1, 3, 2))
    v2 = matmul(v0, v1)                    Attention(q, k, v, scale=0.25)
    v3 = softmax(v2, dim=3)
    v4 = matmul(v3, v)

With masks they stay what they are: a row of which all is masked is 0 in PyTorch, and NaN in ONNX.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fusegrad.tracer.export.onnx.builder import SINCE, Builder, Handle
from fusegrad.tracer.ir.graph import Equation, Graph, Value


class Attention(NamedTuple):
    """What a product gives. within: values that nothing else may take; turned: the key's transpose."""

    query: Value
    key: Value
    value: Value
    scale: float
    within: tuple[Value, ...]
    turned: Value


def attentions(graph: Graph, builder: Builder) -> dict[Value, Attention]:
    """By the value that it gives, each attention of a graph; none where the file's opset has no such node.

    The opset is not raised for it: older runtimes have the ops.
    """
    if builder.opset < SINCE["Attention"]:
        return {}
    makers = {e.output: e for e in graph.equations if len(e.outputs) == 1}
    users = graph.users()
    once = {v for v in makers if len(users.get(v, ())) == 1 and v not in graph.outputs}
    found = {}
    for value, equation in makers.items():
        attention = _attention(equation, makers)
        if attention is not None and once.issuperset(attention.within):
            alone = (attention.turned,) if attention.turned in once else ()
            found[value] = attention._replace(within=(*attention.within, *alone))
    return found


def _attention(product: Equation, makers: Mapping[Value, Equation]) -> Attention | None:
    """What a product is of attention by its operands, if it is."""

    def made_by(operand: object, name: str) -> Equation | None:
        maker = makers.get(operand) if isinstance(operand, Value) else None
        return maker if maker is not None and maker.op.name == name else None

    if product.op.name != "matmul" or product.output.dtype.char != "f":
        return None
    weights = made_by(product.inputs[0], "softmax")
    scores = made_by(weights.inputs[0], "matmul") if weights is not None else None
    turned = made_by(scores.inputs[1], "permute") if scores is not None else None
    if weights is None or scores is None or turned is None:
        return None
    if weights.params["dim"] != 3 or turned.params["dims"] != (0, 1, 3, 2):
        return None
    within: tuple[Value, ...] = (weights.output, scores.output)
    query, scale = scores.inputs[0], 1.0
    scaled = made_by(query, "mul")
    if scaled is not None and isinstance(scaled.inputs[1], float):
        query, scale = scaled.inputs
        within = (*within, scaled.output)
    key, value = turned.inputs[0], product.inputs[1]
    operands = (query, key, value)
    if not all(
        isinstance(v, Value) and len(v.shape) == 4 and v.dtype == product.output.dtype for v in operands
    ):
        return None
    if len({v.shape[:2] for v in operands}) > 1:
        return None
    return Attention(query, key, value, scale, within, turned.output)


def attended(attention: Attention, known: Mapping[Value, Handle]) -> Handle:
    """The node."""
    query, key, value = (known[v] for v in attention[:3])
    return query.node("Attention", key, value, scale=attention.scale)
