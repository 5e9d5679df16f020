"""The pipeline: a graph goes in; the steps of a program, kernels, products and ops of NumPy, come out."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fusegrad.compiler.base.solver_ops import Solver
from fusegrad.compiler.fuse.fusion import Fusion
from fusegrad.compiler.fuse.isomorphic_groups import Plans
from fusegrad.compiler.fuse.iteration_domain import Sources, is_creation
from fusegrad.compiler.fuse.steps import Step
from fusegrad.compiler.gemm import matmul, solvers
from fusegrad.compiler.gemm.matmul_kernel import PACKED_ROWS
from fusegrad.compiler.llvm.target import host
from fusegrad.compiler.lower.lowering import lower
from fusegrad.compiler.lower.merge_matmuls import gathered
from fusegrad.compiler.transform.vector_axis import least_work
from fusegrad.eager.core.families import Contraction, Layout, View, contiguous_layout
from fusegrad.eager.core.memory_order import interleave, strides_of
from fusegrad.eager.core.op import REGISTRY, Op
from fusegrad.eager.core.sizes import has_symbols
from fusegrad.tracer.ir.graph import Equation, Graph, Value
from fusegrad.tracer.ir.symbolic_sizes import likely

clone_op = REGISTRY["clone"]
# How many orders of dimensions are tried; those of five.
MOST_ORDERS = 120


class Division(NamedTuple):
    """A graph that is divided into steps.

    graph: as the steps compute it; its outputs stand for those of the graph that was given, in order.
    sources: where its values come from. checks: the values that must be true after a run.
    """

    graph: Graph
    sources: Sources
    steps: list[Step]
    checks: list[Value]


class Given(NamedTuple):
    """What there is to know of a graph that is divided.

    known: how its inputs lie. results, seen, apart: see `Program`. plans: what is known of groups of others.
    """

    known: Mapping[Value, Layout]
    results: Mapping[Value, Layout]
    seen: Mapping[Value, tuple[int, ...]]
    apart: Collection[Value]
    plans: Plans


def divided(graph: Graph, given: Given) -> Division:
    """The steps of a graph, their kernels built."""
    outputs, (known, results, seen, apart, plans) = graph.outputs, given
    graph, checks = lower(gathered(graph))
    now = list(zip(outputs, graph.outputs, strict=True))
    laid = {new: results[old] for old, new in now if old in results}
    graph = with_result_copies(graph, Sources(graph, known), laid, {new for old, new in now if old in apart})
    strides = {new: seen[old] for old, new in zip(outputs, graph.outputs, strict=True) if old in seen}
    _lay_out_for_views(graph, Sources(graph, known), strides, laid)
    graph = _copies_that_lie_otherwise(graph, laid)
    lying = {**known, **laid}
    graph = _with_copies(_separate_creations(graph), Sources(graph, lying))
    graph = _readable_operands(graph, Sources(graph, lying))
    graph = transposed_once(graph, Sources(graph, lying))
    sources = Sources(graph, lying)
    needed = [v for v in (*graph.outputs, *checks) if isinstance(v, Value)]
    fusion = Fusion(graph, sources, needed, plans, functools.partial(least_work, target=host()))
    steps = fusion.run()
    # Among what it repeats there are views.
    sources.producer.update(fusion.sources.producer)
    return Division(graph, sources, steps, checks)


def with_result_copies(
    graph: Graph, sources: Sources, results: dict[Value, Layout], apart: Collection[Value] = ()
) -> Graph:
    """Results get memory of their own: what lies in an input, or in another result, is copied.

    Of those in `apart`, the memory that they lie in, so that they have the strides that eager's have.
    """
    bases = [sources.base(v) for v in graph.outputs if isinstance(v, Value)]
    equations = list(graph.equations)
    outputs: list[Any] = []
    for value in graph.outputs:
        if isinstance(value, Value):
            base = sources.base(value)
            if base in graph.inputs or (
                base != value and bases.count(base) > 1 and not _between_others(value, graph.outputs, sources)
            ):
                chain = sources.resolve(value)[1] if value in apart else ()
                source = base if chain else value
                # Values are told apart by name, and several results may be views of one memory.
                copy = Value(f"{value.name}_result", source.type)
                equations.append(Equation(clone_op, (source,), {}, (copy,)))
                if value in results:
                    results[copy] = results.pop(value)
                for number, view in enumerate(chain):
                    seen = Value(f"{value.name}_result_view{number}", view.output.type)
                    equations.append(Equation(view.op, (copy, *view.inputs[1:]), view.params, (seen,)))
                    copy = seen
                value = copy
        outputs.append(value)
    return Graph(graph.inputs, tuple(equations), tuple(outputs))


def _between_others(value: Value, outputs: Iterable[Any], sources: Sources) -> bool:
    """Whether a result lies in the gaps of all others in its memory: as real parts do in those of imaginary
    ones.
    """
    base, own = sources.base(value), sources.layout(value)
    others = [v for v in outputs if isinstance(v, Value) and v is not value and sources.base(v) is base]
    layouts = [sources.layout(v) for v in others]
    if own is None or has_symbols(own) or not all(v.dtype == value.dtype for v in others):
        return False
    return all(
        other is not None
        and not has_symbols(other)
        and interleave(
            [s for at in (own, other) for s, n in zip(at.strides, at.shape, strict=True) if n != 1],
            other.offset - own.offset,
        )
        for other in layouts
    )


def _lay_out_for_views(
    graph: Graph, sources: Sources, seen: Mapping[Value, tuple[int, ...]], results: dict[Value, Layout]
) -> None:
    """What results are views of lies so that they have the strides that eager's have; adds to `results`."""
    for value, strides in seen.items():
        base, chain = sources.resolve(value)
        if chain and base not in graph.inputs and base not in results and not has_symbols(base.shape):
            layout = _laid_out_below(base.shape, [(e.op, e.params) for e in chain], strides)
            if layout is not None:
                results.pop(value, None)
                results[base] = layout


def _laid_out_below(
    shape: tuple[int, ...], views: Sequence[tuple[Any, Mapping[str, Any]]], strides: tuple[int, ...]
) -> Layout | None:
    """How what lies in memory must lie for views to have these strides; None if in row-major order, or if no
    order of its dimensions does.
    """
    for order in itertools.islice(itertools.permutations(range(len(shape))), MOST_ORDERS):
        layout: Layout | None = Layout(shape, strides_of(shape, order, 1))
        base = layout
        for op, params in views:
            layout = None if layout is None else op.layout(layout, **params)
        if layout is not None and all(
            a == b for a, b, n in zip(layout.strides, strides, layout.shape, strict=True) if n != 1
        ):
            return None if base == contiguous_layout(shape) else base
    return None


def _separate_creations(graph: Graph) -> Graph:
    """Each view of a constant or range gets one of its own, so that it can run along other axes.

    `arange(n) - arange(n)[:, None]` reads one range along both axes of the result.
    """
    made = {e.output: e for e in graph.equations if is_creation(e)}
    equations: list[Equation] = []
    for equation in graph.equations:
        source = equation.inputs[0] if equation.inputs else None
        if isinstance(equation.op, View) and source in made:
            own = Value(f"{equation.output.name}_source", source.type)
            equations.append(Equation(made[source].op, (), made[source].params, (own,), equation.source))
            equation = Equation(equation.op, (own,), equation.params, equation.outputs, equation.source)
        equations.append(equation)
    return Graph(graph.inputs, tuple(equations), graph.outputs)


def _with_copies(graph: Graph, layouts: Sources) -> Graph:
    """A copy in front of every reshape that strides cannot say (of a transposed array, say)."""
    equations: list[Equation] = []
    copies: dict[Value, Value] = {}
    for equation in graph.equations:
        if isinstance(equation.op, View) and layouts.layout(equation.output) is None:
            operand = equation.inputs[0]
            if layouts.layout(operand) is not None:
                if operand not in copies:
                    copies[operand] = Value(f"{equation.output.name}_copy", operand.type)
                    copying = Equation(clone_op, (operand,), {}, (copies[operand],), equation.source)
                    equations.append(copying)
                inputs = (copies[operand],)
                equation = Equation(equation.op, inputs, equation.params, equation.outputs, equation.source)
        equations.append(equation)
    if not copies:
        return graph
    following = Graph(graph.inputs, tuple(equations), graph.outputs)
    return _with_copies(following, Sources(following, layouts.layouts))


def _readable_operands(graph: Graph, sources: Sources) -> Graph:
    """A copy in front of operands of products and linear algebra that native code cannot read as they lie."""
    equations = []
    for equation in graph.equations:
        if isinstance(equation.op, (Contraction, Solver)):
            inputs = list(equation.inputs)
            layouts = [sources.layout(v) for v in inputs]
            for i, operand in enumerate(inputs):
                if not _is_read(equation.op, layouts, i):
                    copy = Value(f"{equation.output.name}_operand{i}", operand.type)
                    equations.append(Equation(clone_op, (operand,), {}, (copy,), equation.source))
                    inputs[i] = copy
            equation = Equation(
                equation.op, tuple(inputs), equation.params, equation.outputs, equation.source
            )
        equations.append(equation)
    return Graph(graph.inputs, tuple(equations), graph.outputs)


def _is_read(op: Op, layouts: Sequence[Layout | None], index: int) -> bool:
    """Whether native code reads an operand as it lies."""
    if isinstance(op, Solver):
        return solvers.reads(op, layouts, index)
    layout = layouts[index]
    return layout is None or matmul.readable(layout)


def _copies_that_lie_otherwise(graph: Graph, results: Mapping[Value, Layout]) -> Graph:
    """A copy behind what products and linear algebra give if it is to lie otherwise: they write row-major."""
    equations: list[Equation] = []
    for equation in graph.equations:
        writes_rows = isinstance(equation.op, (Contraction, Solver))
        if writes_rows and any(v in results for v in equation.outputs):
            own = [Value(f"{v.name}_rows", v.type) if v in results else v for v in equation.outputs]
            pairs = list(zip(own, equation.outputs, strict=True))
            equation = Equation(equation.op, equation.inputs, equation.params, tuple(own), equation.source)
            copies = [Equation(clone_op, (a,), {}, (b,), equation.source) for a, b in pairs if a != b]
            equations += [equation, *copies]
        else:
            equations.append(equation)
    return Graph(graph.inputs, tuple(equations), graph.outputs)


# Where products of few rows each, of so many together, have a right operand that lies transposed, it pays to
# turn it over once: with more rows each does so itself.
TURNED_ROWS, FEW_ROWS = 200, PACKED_ROWS


def transposed_once(graph: Graph, sources: Sources) -> Graph:
    """A copy of what many rows are multiplied with that lies transposed: the weights, on the way back."""
    readers: dict[tuple[Value, Layout], list[int]] = {}
    rows: Counter[tuple[Value, Layout]] = Counter()
    for number, equation in enumerate(graph.equations):
        if isinstance(equation.op, Contraction):
            left, right = equation.values()
            lies, layout = sources.layout(left), sources.layout(right)
            if lies is None or layout is None or not matmul.can_be_turned(layout):
                continue
            if likely(matmul.rows_of(lies, layout)) <= FEW_ROWS:
                key = sources.base(right), layout
                readers.setdefault(key, []).append(number)
                rows[key] += likely(math.prod(left.shape[:-1]))
    first = {numbers[0]: numbers for key, numbers in readers.items() if rows[key] >= TURNED_ROWS}
    copies: dict[int, Value] = {}  # by the number of the product that reads it
    equations = []
    for number, equation in enumerate(graph.equations):
        if number in first:
            copy = Value(f"{equation.output.name}_turned", equation.inputs[1].type)
            equations.append(Equation(clone_op, (equation.inputs[1],), {}, (copy,), equation.source))
            copies.update(dict.fromkeys(first[number], copy))
        if number in copies:
            inputs = equation.inputs[0], copies[number]
            equation = Equation(equation.op, inputs, equation.params, equation.outputs, equation.source)
        equations.append(equation)
    return Graph(graph.inputs, tuple(equations), graph.outputs)
