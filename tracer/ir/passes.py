"""Passes: a graph goes in, an equivalent one with less to compute comes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusegrad.eager.core.abstract import interpreted
from fusegrad.eager.core.dtypes import is_half
from fusegrad.eager.core.families import Composite
from fusegrad.eager.ops.shape.slicing import Slice
from fusegrad.tracer.ir.differentiate import Builder
from fusegrad.tracer.ir.graph import GUARD, Equation, Graph, Value, check
from fusegrad.tracer.ir.rolled import ROLLED, pruned

# Whether every pass re-runs the shape and dtype rules over its result; on in the tests.
CHECK = False


def checked(function: Callable[..., Graph]) -> Callable[..., Graph]:
    """A pass whose results are checked where `CHECK` says so."""

    def run(graph: Graph, *options: Any) -> Graph:
        result = function(graph, *options)
        return check(result) if CHECK else result

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return run


def _substituted(graph: Graph, equations: list[Equation], same: dict[Value, Any]) -> Graph:
    """A graph of `equations` with the outputs replaced as `same` says."""
    outputs = tuple(same.get(v, v) if isinstance(v, Value) else v for v in graph.outputs)
    return Graph(graph.inputs, tuple(equations), outputs)


def _rewired(equation: Equation, same: dict[Value, Any]) -> Equation:
    """The equation with its inputs replaced as `same` says."""
    if not any(v in same for v in equation.values()):
        return equation
    inputs = tuple(same.get(v, v) if isinstance(v, Value) else v for v in equation.inputs)
    return Equation(equation.op, inputs, equation.params, equation.outputs, equation.source)


@checked
def dead_code(graph: Graph) -> Graph:
    """Without equations that neither an output nor a guard needs; of loops without what nobody needs."""
    needed = {v for v in graph.outputs if isinstance(v, Value)}
    kept: list[Equation] = []
    for equation in reversed(graph.equations):
        if equation.op is GUARD or any(v in needed for v in equation.outputs):
            if equation.op is ROLLED:
                equation = pruned(equation, needed)
            kept.append(equation)
            needed.update(equation.values())
    return Graph(graph.inputs, tuple(reversed(kept)), graph.outputs)


@checked
def common_subexpressions(graph: Graph) -> Graph:
    """Each computation once: later equations with the same op, inputs and parameters are dropped."""
    seen: dict[Any, Equation] = {}
    same: dict[Value, Any] = {}
    kept = []
    returned = {v for v in graph.outputs if isinstance(v, Value)}
    for original in graph.equations:
        equation = _rewired(original, same)
        earlier = None if equation.op.family == "random" else seen.get(equation.key())
        # Two results that the program returns separately must stay two memories.
        if earlier is not None and not (set(equation.outputs) & returned):
            same.update(zip(equation.outputs, earlier.outputs, strict=True))
            continue
        seen.setdefault(equation.key(), equation)
        kept.append(equation)
    return _substituted(graph, kept, same)


@checked
def decompose(graph: Graph, whole: Callable[[Equation], bool] = lambda equation: False) -> Graph:
    """With composite ops expressed through primitive ones, by their declarations. whole: which are left."""
    if not any(_taken_apart(equation) and not whole(equation) for equation in graph.equations):
        return graph
    names = graph.names()
    builder = Builder(names, "c")
    same: dict[Value, Any] = {}
    result: list[Equation] = []
    for original in graph.equations:
        equation = _rewired(original, same)
        op = equation.op
        if not (isinstance(op, Composite) and _taken_apart(equation)) or whole(equation):
            result.append(equation)
            continue
        builder.equations, builder.source = [], equation.source
        args = [builder.tensor(v) for v in equation.inputs]
        made = interpreted(builder, op.decompose, *args, **equation.params)
        outputs = made if isinstance(made, tuple) else (made,)
        result += builder.equations
        same.update(zip(equation.outputs, (builder.value(t) for t in outputs), strict=True))
    flat = _substituted(graph, result, same)
    return decompose(flat, whole)


def _taken_apart(equation: Equation) -> bool:
    """A composite op; on half types it is rounded once, in the end, and so stays whole."""
    return isinstance(equation.op, Composite) and not any(is_half(v.dtype) for v in equation.values())


@checked
def simplify(graph: Graph) -> Graph:
    """Without equations that change nothing: views and casts to what is already there.

    No rewrite may change a NaN, an infinity or the sign of a zero, so `x * 1`, `x + 0` and
    `x * 0` stay as they are.
    """
    same: dict[Value, Any] = {}
    kept = []
    returned = {v for v in graph.outputs if isinstance(v, Value)}
    for original in graph.equations:
        equation = _rewired(original, same)
        source = _identity(equation)
        if source is not None and equation.output not in returned:
            same[equation.output] = source
        else:
            kept.append(equation)
    return _substituted(graph, kept, same)


def same_write(one: Equation, other: Equation) -> bool:
    """Whether two writes give the same place the same."""
    sources = one.inputs[1:]
    return (
        one.op is other.op
        and one.params == other.params
        and not one.params.get("accumulate")
        and sources == other.inputs[1:]
        and all(isinstance(source, Value) for source in sources)
    )


@checked
def written_once(graph: Graph) -> Graph:
    """Without writes of what was written there just before: `x[i] += y` puts the part back that it changed
    in its place.
    """
    same: dict[Value, Any] = {}
    makers: dict[Value, Equation] = {}
    kept = []
    returned = {v for v in graph.outputs if isinstance(v, Value)}
    for original in graph.equations:
        equation = _rewired(original, same)
        if equation.op.name in ("put", "assign"):
            into = equation.inputs[0]
            before = makers.get(into) if isinstance(into, Value) else None
            again = before is not None and same_write(before, equation)
            if again and not (into in returned and equation.output in returned):
                same[equation.output] = into
                continue
            makers[equation.output] = equation
        kept.append(equation)
    return _substituted(graph, kept, same)


def _identity(equation: Equation) -> Value | None:
    """The input that the equation's output equals in every element, if there is one."""
    name = equation.op.name
    if name in ("clone", "detach", "handed_on", "handed_on_kept"):
        return equation.inputs[0]
    if name in ("rewritten", "overwritten"):
        return equation.inputs[1]
    if name in ("getitem", "assign") and _is_whole(equation):
        return equation.inputs[-1]
    unchanged = len(equation.outputs) == 1 and equation.inputs and isinstance(equation.inputs[0], Value)
    if (
        unchanged
        and name in ("reshape", "expand", "cast")
        and equation.inputs[0].type == equation.output.type
    ):
        return equation.inputs[0]
    if unchanged and name == "pow_number" and equation.inputs[0].type == equation.output.type:
        # The gradient of a square asks for it.
        return equation.inputs[0] if equation.params["exponent"] == 1 else None
    if (
        unchanged
        and name == "permute"
        and equation.params["dims"] == tuple(range(len(equation.output.shape)))
    ):
        return equation.inputs[0]
    return None


def _is_whole(equation: Equation) -> bool:
    """Whether all is read, or written, as it is."""
    *_, source = equation.inputs
    if not isinstance(source, Value) or source.type != equation.output.type:
        return False
    index = equation.params["index"]
    return len(index) == len(source.shape) and all(
        isinstance(entry, Slice) and entry == Slice(0, n, 1)
        for entry, n in zip(index, source.shape, strict=True)
    )


PASSES = (decompose, simplify, common_subexpressions, written_once, dead_code)


def optimise(graph: Graph) -> Graph:
    """All passes in order."""
    for run in PASSES:
        graph = run(graph)
    return graph
