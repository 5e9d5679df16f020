"""The forms of a library's function: each holds for some sizes, and a call takes the first that does.

    f32[batch, 8] -> f32[batch]     form 0: not (-128+batch) <= 0       sums in blocks
                                    form 1: (-128+batch) <= 0
                                    form 2: batch == 1

What is compiled with open sizes notes what it asked of them (`tracer/ir/symbolic_sizes.py`). Sizes of 1 are
numbers: where there are some, nothing is known of open ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from fusegrad.compiler.library.parts import Part, part
from fusegrad.compiler.library.plan import Functions
from fusegrad.eager.core.op import EXPLAINED, TensorType
from fusegrad.eager.core.sizes import has_symbols
from fusegrad.tracer.export.files import ExportError
from fusegrad.tracer.export.open_sizes import OpenSizes
from fusegrad.tracer.export.program import Program
from fusegrad.tracer.ir.graph import Equation, Graph, GraphError, Subgraph, Value, check
from fusegrad.tracer.ir.symbolic_sizes import Sizes, Values, likely

# A function has so many forms, and these sizes are looked at.
MOST_FORMS = 12
LOOKED_AT = [*range(1, 18), 31, 32, 33, 63, 64, 65, 100, 128, 129, 255, 256, 1000, 1024, 1 << 16, 1 << 22]


class Form(NamedTuple):
    """A function for some sizes.

    sizes: the names of the open ones in expressions. holds: what must be true of them.
    """

    sizes: list[str]
    holds: tuple[str, ...]
    part: Part


class Native(NamedTuple):
    """An exported function as native code.

    ranges: of each open size the least and the largest. texts: LLVM IR of the functions that pieces call.
    """

    ranges: Sequence[tuple[int, int]]
    arguments: int
    forms: list[Form]
    texts: list[str]

    @property
    def results(self) -> tuple[Value, ...]:
        """Those that a call gives."""
        return self.forms[0].part.outputs


def native(program: Program) -> Native:
    """How a library computes what was captured. Raises ExportError for what it cannot."""
    functions, count = Functions(), len(program.arguments)
    if program.open is None:
        form = Form([], (), part(program.name, program.graph, functions))
        return Native([], count, [form], functions.texts())
    forms, conditions = list[Form](), list[Callable[[Sequence[int]], bool]]()
    for given in _looked_at(program.open):
        if len(forms) < MOST_FORMS and not any(holds(given) for holds in conditions):
            try:
                found = _form(program, program.open, given, functions)
            except ExportError:
                if not forms:
                    raise
                continue  # such as for images so large that NumPy's convolution is taken
            if found is not None:
                forms.append(found[0])
                conditions.append(found[1])
    return Native(program.open.ranges, count, forms, functions.texts())


def _looked_at(known: OpenSizes) -> Iterator[tuple[int, ...]]:
    """Sizes that there may be: the examples', the least ones, and others."""
    hints = tuple(known.sizes.hints.values())
    yield hints
    for size in LOOKED_AT:
        yield from itertools.product(
            *(
                dict.fromkeys((min(max(least, size), most), hint, least))
                for hint, (least, most) in zip(hints, known.ranges, strict=True)
            )
        )


def _form(
    program: Program, known: OpenSizes, given: tuple[int, ...], functions: Functions
) -> tuple[Form, Callable[[Sequence[int]], bool]] | None:
    """The form for these sizes and others, and what says whether it holds; None where there can be none."""
    sizes = Sizes([max(2, size) for size in given])
    ones = [size < 2 for size in given]
    now: list[Any] = [1 if one else n for one, n in zip(ones, sizes.dims, strict=True)]
    graph = resized(program.graph, known.sizes.values(now))
    if not _is_possible(graph):
        return None
    sizes.begin()
    for name, one in zip(sizes.names, ones, strict=True):
        if one:
            sizes.guard(f"{name} == 1")
    try:
        check(graph)  # the rules of shapes ask for sizes, too
    except (GraphError, *EXPLAINED):
        return None
    made = part(program.name, graph, functions)
    form = Form(sizes.names, tuple(sizes.guards or ()), made)
    holds = sizes.close()

    def condition(given: Sequence[int]) -> bool:
        try:
            return holds(*given)
        except ZeroDivisionError:
            return False

    return form, condition


def _is_possible(graph: Graph) -> bool:
    """Whether there are such sizes; nothing is known of open ones that may come to 0."""
    made = (*graph.inputs, *(v for equation in graph.equations for v in equation.outputs))
    return all(likely(n) >= has_symbols((n,)) for value in made for n in value.shape)


def resized(graph: Graph, values: Values) -> Graph:
    """The graph with others for its open sizes: numbers, or expressions in those of another `Sizes`."""
    known: dict[Any, Any] = {}

    def other(value: Value) -> Value:
        known[value] = Value(value.name, TensorType(values.of(value.shape), value.dtype))
        made: Value = known[value]
        return made

    def param(value: Any) -> Any:
        if isinstance(value, Subgraph):
            return type(value)(resized(value.graph, values))
        return values.of(value)

    inputs = tuple(map(other, graph.inputs))
    equations = []
    for e in graph.equations:
        operands = tuple([known[x] if isinstance(x, Value) else values.of(x) for x in e.inputs])
        params = {name: param(value) for name, value in e.params.items()}
        equations.append(Equation(e.op, operands, params, tuple(map(other, e.outputs)), e.source))
    outputs = tuple([known[x] if isinstance(x, Value) else values.of(x) for x in graph.outputs])
    return Graph(inputs, tuple(equations), outputs)
