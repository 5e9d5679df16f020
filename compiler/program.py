"""An executable graph: divided into kernels, products and ops of NumPy, and compiled.

It may have been made with sizes left open (`compiler/sizes.py`); then `at` gives programs with sizes,
which share everything but their places in memory (`compiler/placement.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from fusegrad.compiler import debug, native, products
from fusegrad.compiler.blueprint import Blueprint
from fusegrad.compiler.domain import Sources, is_creation
from fusegrad.compiler.fusion import Fusion, with_copies
from fusegrad.compiler.gathering import gathered
from fusegrad.compiler.lowering import lower
from fusegrad.compiler.placement import PLAIN, Placed, Plain, copied, viewed as viewed, with_sizes
from fusegrad.compiler.sizes import OPEN_TEXT, Fixed, Values, likely
from fusegrad.compiler.tiled_products import PACKED_ROWS
from fusegrad.eager.families import Contraction, Layout, View, contiguous_layout
from fusegrad.eager.op import REGISTRY
from fusegrad.eager.sizes import has_symbols
from fusegrad.tracer.graph import Equation, Graph, Value

clone_op, detach_op = REGISTRY["clone"], REGISTRY["detach"]


class Program:
    """Runs a graph on arrays.

    graph: optimised, without composite ops. layouts: how the inputs lie. results: the layouts (in
    elements) that outputs must have where they are not row-major. apart: outputs that are views with gaps
    in the memory of something else, and stay that. into: outputs that are put into the
    memory of an input, whose values nobody else needs. The constructor divides the
    graph into steps; `finish` places them in memory and compiles.
    """

    def __init__(
        self,
        graph: Graph,
        layouts: dict[Value, Layout] | None = None,
        results: dict[Value, Layout] | None = None,
        into: dict[Value, Value] | None = None,
        apart: Collection[Value] = (),
    ) -> None:
        self.into = into or {}
        known = {v: (layouts or {}).get(v) or contiguous_layout(v.shape) for v in graph.inputs}
        self.given = {v for e in graph.equations for v in e.outputs}
        outputs = graph.outputs
        graph, self.checks = lower(gathered(graph))
        now = list(zip(outputs, graph.outputs, strict=True))
        results = {new: results[old] for old, new in now if results and old in results}
        apart = {new for old, new in now if old in apart}
        graph = with_result_copies(graph, Sources(graph, known), results, apart)
        graph = with_copies(_separate_creations(graph), Sources(graph, known))
        graph = _readable_products(graph, Sources(graph, known))
        graph = _transposed_once(graph, Sources(graph, known))
        self.graph = graph
        self.sources = Sources(graph, {**known, **results})
        self.outputs = [v for v in dict.fromkeys(graph.outputs) if isinstance(v, Value)]
        fusion = Fusion(graph, self.sources, [*self.outputs, *self.checks])
        self.steps = fusion.run()
        # Among what it repeats there are views.
        self.sources.producer.update(fusion.sources.producer)
        self.kernels = [s.kernel for s in self.steps if s.kernel is not None]
        self._sizes: Values | Plain = PLAIN
        self._placed: Placed | None = None

    def stored(self) -> list[Value]:
        """The values that the steps put in memory, whether they are asked for or not."""
        values = dict.fromkeys(self.sources.base(v) for v in self.outputs)
        for step in self.steps:
            if step.kernel is not None:
                values.update(dict.fromkeys(a.value for a in step.kernel.outputs))
            else:
                values.update(dict.fromkeys(step.made))
        return [v for v in values if v in self.given]

    def finish(self, extra: Iterable[Value] = (), unread: Collection[Value] = ()) -> Program:
        """Compile. extra: stored values that later stretches read; unread: outputs that nobody does."""
        needed = [*(v for v in self.outputs if v not in unread), *self.checks, *extra]
        self.blueprint = Blueprint(self.graph.inputs, self.steps, self.sources, needed, self.into)
        self.arrays = self.blueprint.arrays
        # What is computed in its place in a whole is not put there by another step.
        self.steps = self.blueprint.steps
        self.kernels = [s.kernel for s in self.steps if s.kernel is not None]
        products.share_pool()
        kernels = [k.kernel for k in self.kernels]
        if any(OPEN_TEXT in kernel.text for kernel in kernels):
            raise Fixed("a kernel has a size in its text")
        native.compile_kernels(kernels)
        if not self._has_open_sizes():
            self.placed()
        debug.show(2, "graph", lambda: str(self.graph))
        return self

    def _has_open_sizes(self) -> bool:
        values = [*self.graph.inputs, *(v for e in self.graph.equations for v in e.outputs)]
        params = [p for e in self.graph.equations for p in e.params.values()]
        return any(has_symbols(v.shape) for v in values) or has_symbols(tuple(params))

    def at(self, sizes: Values) -> Program:
        """The program with its open sizes put in."""
        made = copied(self)
        made._sizes, made._placed = sizes, None
        return made

    # Running.

    def placed(self) -> Placed:
        """The program in memory, where it is put when it is first asked for."""
        if self._placed is None:
            self._placed = Placed(self.blueprint, self._sizes)
        return self._placed

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The arrays of all values that have one, in the order of `arrays`; inputs come first.

        Raises IndexError where an index lies outside of what it indexes, and what NumPy's ops raise.
        """
        arrays = (self._placed or self.placed()).run(inputs)
        for check in self.checks:
            if not arrays[self.arrays[check]]:
                raise IndexError("an index is out of range; the eager function says which")
        return arrays

    def locate(self, value: Value) -> tuple[int, tuple[Any, ...]]:
        """Where `run`'s arrays hold a value: an index, and the views to apply."""
        base, chain = self.sources.resolve(value)
        # For an array, `detach` is nothing.
        views = [equation for equation in chain if equation.op is not detach_op]
        return self.arrays[base], with_sizes(views, self._sizes)

    # Telling.

    def describe(self) -> list[str]:
        """One line per step: what it computes and how large it is."""
        batches = self._placed.batches if self._placed is not None else []
        apart = {number for batch in batches for number in range(batch.first, batch.last)}
        lines = []
        for number, step in enumerate(self.steps):
            ops = [e.op.name for e in step.equations]
            names = ", ".join(ops[:8]) + (f" and {len(ops) - 8} more" if len(ops) > 8 else "")
            title = {
                "kernel": "fused kernel",
                "loops": "loop nest",
                "product": "matrix product",
                "opaque": "NumPy",
            }[step.kind]
            sizes = ", ".join(str(list(self._sizes.of(v.shape))) for v in step.made[-1:])
            lines.append(f"{title}: {names} -> {sizes}{', entry by entry' if number in apart else ''}")
        return lines

    def memory_bytes(self) -> int:
        """Bytes of temporaries and results of one call."""
        return self.placed().memory_bytes()


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
            if base in graph.inputs or (base != value and bases.count(base) > 1):
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


def _readable_products(graph: Graph, sources: Sources) -> Graph:
    """A copy in front of matrix operands that BLAS cannot read as they lie."""
    equations = []
    for equation in graph.equations:
        if isinstance(equation.op, Contraction):
            inputs = list(equation.inputs)
            for i, operand in enumerate(inputs):
                layout = sources.layout(operand)
                if layout is not None and not products.readable(layout):
                    copy = Value(f"{equation.output.name}_operand{i}", operand.type)
                    equations.append(Equation(clone_op, (operand,), {}, (copy,), equation.source))
                    inputs[i] = copy
            equation = Equation(
                equation.op, tuple(inputs), equation.params, equation.outputs, equation.source
            )
        equations.append(equation)
    return Graph(graph.inputs, tuple(equations), graph.outputs)


# Where products of few rows each, of so many together, have a right operand that lies transposed, it pays to
# turn it over once: with more rows each does so itself.
TURNED_ROWS, FEW_ROWS = 200, PACKED_ROWS


def _transposed_once(graph: Graph, sources: Sources) -> Graph:
    """A copy of what many rows are multiplied with that lies transposed: the weights, on the way back."""
    readers: dict[tuple[Value, Layout], list[int]] = {}
    rows: Counter[tuple[Value, Layout]] = Counter()
    for number, equation in enumerate(graph.equations):
        if isinstance(equation.op, Contraction):
            left, right = equation.values()
            lies, layout = sources.layout(left), sources.layout(right)
            if lies is None or layout is None or not products.can_be_turned(layout):
                continue
            if likely(products.rows_of(lies, layout)) <= FEW_ROWS:
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
