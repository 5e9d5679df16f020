"""The graph IR: what a run computed, as a frozen list of typed equations (ANF), and as typed Python.

A graph is a straight line. Where the run branched on data stands a `guard` equation: the value
that was seen must be seen again for what follows to hold. Constants and captured tensors are
inputs like the arguments; what they are bound to is kept beside the graph. The text is typed Python that runs
and parses back (`text.py`); it is the graph's identity.
"""

from __future__ import annotations

import functools
import itertools
import keyword
import os
import weakref
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.dtypes import DType
from fusegrad.eager.core.errors import source_line
from fusegrad.eager.core.op import REGISTRY, Op, TensorType
from fusegrad.eager.core.sizes import Symbol, has_symbols
from fusegrad.eager.lazy import cached_property
from fusegrad.eager.ops.shape.slicing import Slice

COMMENT_COLUMN = 72
MAX_HEAD = 110  # a longer signature has one input a line
RESERVED = {"inf", "nan", "True", "False", "None", "slice", "complex", "tuple"}


@dataclass(frozen=True, slots=True)
class Source:
    """The user's line that an equation comes from."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file.rsplit('/', 1)[-1]}:{self.line}"


def source_text(source: Source | None) -> str:
    """`train.py:41  if h.mean() > 10:`"""
    if source is None:
        return ""
    return f"{os.path.basename(source.file)}:{source.line}  {source_line(source.file, source.line)}"


_values: weakref.WeakValueDictionary[tuple[str, TensorType], Value] = weakref.WeakValueDictionary()


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False, init=False)
class Value:
    """A named, typed intermediate. Names are unique within a graph.

    Planning looks each value up hundreds of times. So there is one object for a name and a type, and sets and
    dicts ask for no more than which it is. What has sizes that are not numbers yet is equal to itself alone;
    so are, once in a while, values that two threads make at the same moment, which then share nothing.
    """

    name: str
    type: TensorType

    def __new__(cls, name: str, type: TensorType) -> Value:
        key = name, type
        is_known = not has_symbols(type.shape)
        found = _values.get(key) if is_known else None
        if found is None:
            found = object.__new__(cls)
            object.__setattr__(found, "name", name)
            object.__setattr__(found, "type", type)
            if is_known:
                _values[key] = found
        return found

    def __reduce__(self) -> Any:
        return Value, (self.name, self.type)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.type.dtype


class Guard(Op):
    """Asserts that a value is what the captured run saw. Params: `expected`, `kind`.

    kind "branch": Python went on because of this value, another value has its own continuation;
    kind "check": another value is an error that only eager can raise, so nothing continues.
    """

    family = "guard"

    def infer(self, types: Any, params: Any) -> tuple[TensorType, ...]:
        return ()


GUARD = Guard("guard", "x", None)

Operand = Any  # a Value or a Python number


@dataclass(frozen=True, slots=True)
class Equation:
    """`outputs = op(inputs, **params)`. Inputs are values or Python numbers."""

    op: Op
    inputs: tuple[Operand, ...]
    params: Mapping[str, Any]
    outputs: tuple[Value, ...]
    source: Source | None = field(default=None, compare=False)

    @property
    def output(self) -> Value:
        return self.outputs[0]

    def values(self) -> list[Value]:
        """The inputs that are values."""
        return [v for v in self.inputs if type(v) is Value]

    def key(self) -> tuple[Any, ...]:
        """What the equation computes, hashable; numbers by type and bits (1, 1.0 and -0.0 differ)."""
        inputs = tuple(v if isinstance(v, Value) else (type(v), repr(v)) for v in self.inputs)
        return (self.op.name, inputs, tuple(sorted((k, repr(v)) for k, v in self.params.items())))


@dataclass(frozen=True, eq=False)
class Graph:
    """Typed inputs, equations in order, outputs. Equal graphs print the same text."""

    inputs: tuple[Value, ...]
    equations: tuple[Equation, ...]
    outputs: tuple[Operand, ...]

    @cached_property
    def text(self) -> str:
        """The graph as typed Python, without the source comments: its identity."""
        return print_graph(self, sources=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return print_graph(self)

    def names(self) -> set[str]:
        """The names that are taken."""
        return {v.name for v in self.inputs} | {v.name for e in self.equations for v in e.outputs}

    def guards(self) -> list[Equation]:
        """The guards on data, in order."""
        return [e for e in self.equations if e.op is GUARD]

    def users(self) -> dict[Value, list[Equation]]:
        """For each value the equations that read it."""
        users: dict[Value, list[Equation]] = {}
        for equation in self.equations:
            for value in set(equation.values()):
                users.setdefault(value, []).append(equation)
        return users


class Subgraph:
    """A graph as a parameter of an equation; it prints as a function within the function.

    worked_out: what `once` methods gave, by method and arguments: it goes with the graph.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.worked_out: dict[Any, Any] = {}

    @property
    def name(self) -> str:
        """What its function is called: the same for the same graph."""
        return f"round_{zlib.crc32(self.graph.text.encode()):08x}"

    def __repr__(self) -> str:
        return self.graph.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Subgraph) and self.graph == other.graph

    def __hash__(self) -> int:
        return hash(self.graph)


Method = TypeVar("Method", bound=Callable[..., Any])


def once(method: Method) -> Method:
    """Have a method of a `Subgraph` give what it gave before, of the same arguments."""

    @functools.wraps(method)
    def found(self: Subgraph, *given: Any) -> Any:
        key = method, given
        if key not in self.worked_out:
            self.worked_out[key] = method(self, *given)
        return self.worked_out[key]

    return found  # type: ignore[return-value]


class GraphError(AssertionError):
    """A graph that breaks the IR's rules; always a bug in a pass."""


def check(graph: Graph) -> Graph:
    """Re-run the shape and dtype rules over `graph` and give it back.

    Raises GraphError for a value used before its equation, a name given twice, or a type that
    differs from what the op's rule says.
    """
    known: dict[str, Value] = {}

    def define(value: Value) -> None:
        if value.name in known:
            raise GraphError(f"{value.name} is defined twice")
        known[value.name] = value

    def use(value: Any, where: str) -> None:
        if isinstance(value, Value) and known.get(value.name) != value:
            raise GraphError(f"{where} uses {value.name}: {value.type}, which is not defined so before it")

    for value in graph.inputs:
        define(value)
    for equation in graph.equations:
        for operand in equation.inputs:
            use(operand, equation.op.name)
        types = [v.type if isinstance(v, Value) else v for v in equation.inputs]
        inferred = equation.op.infer(types, dict(equation.params))
        expected = (inferred,) if isinstance(inferred, TensorType) else tuple(inferred)
        if expected != tuple(v.type for v in equation.outputs):
            raise GraphError(
                f"{equation.op.name} gives {expected}, the graph says {[v.type for v in equation.outputs]}"
            )
        for value in equation.outputs:
            define(value)
    for operand in graph.outputs:
        use(operand, "the output")
    return graph


def ancestors(equations: Sequence[Equation], values: Iterable[Value]) -> set[Value]:
    """The values, and all that they are computed from."""
    found = set(values)
    for equation in reversed(equations):
        if not found.isdisjoint(equation.outputs):
            found.update(equation.values())
    return found


def free_values(equations: Iterable[Equation], results: Iterable[Any] = ()) -> list[Value]:
    """The values that equations read, and that results are, but for those that the equations make."""
    equations = [*equations]
    made = {v for e in equations for v in e.outputs}
    read = (*(v for e in equations for v in e.values()), *(v for v in results if isinstance(v, Value)))
    return [v for v in dict.fromkeys(read) if v not in made]


def renamed(graph: Graph) -> Graph:
    """The graph with its intermediates named v0, v1, ... in order; inputs keep their names."""
    taken = {v.name for v in graph.inputs}
    names: dict[Value, Value] = {v: v for v in graph.inputs}
    fresh = (n for n in (f"v{i}" for i in itertools.count()) if n not in taken)

    def change(operand: Any) -> Any:
        return names[operand] if isinstance(operand, Value) else operand

    equations = []
    for equation in graph.equations:
        inputs = tuple(change(v) for v in equation.inputs)
        outputs = tuple(Value(next(fresh), v.type) for v in equation.outputs)
        names.update(zip(equation.outputs, outputs, strict=True))
        equations.append(Equation(equation.op, inputs, equation.params, outputs, equation.source))
    return Graph(graph.inputs, tuple(equations), tuple(change(v) for v in graph.outputs))


# ---------------------------------------------------------------------------------- text


def type_text(type_: TensorType) -> str:
    """`f32[64, 10]`."""
    return f"{dtypes.FROM_NUMPY[type_.dtype].short}[{', '.join(map(str, type_.shape))}]"


def literal_text(value: Any) -> str:
    """A number or parameter as Python; inf and nan by name, dtypes by their short name.

    Raises TypeError for what the graph language has no literal for: the text is the graph's
    identity, so nothing may be written that does not say the whole value.
    """
    if isinstance(value, DType):
        return value.short
    if isinstance(value, complex):
        return f"complex({literal_text(value.real)}, {literal_text(value.imag)})"
    if isinstance(value, tuple) and not isinstance(value, Slice):
        return f"({', '.join(literal_text(v) for v in value)}{',' if len(value) == 1 else ''})"
    if isinstance(value, Subgraph):
        return value.name
    if value is None or isinstance(value, (bool, str, Slice, Symbol)):
        return repr(value)
    if isinstance(value, (int, float)):  # of a subclass too: NumPy's float64, an enumeration's member
        return repr(int(value) if isinstance(value, int) else float(value))
    raise TypeError(f"the graph language has no literal for {type(value).__name__} {value!r}")


def _operand(value: Any) -> str:
    return value.name if isinstance(value, Value) else literal_text(value)


def equation_text(equation: Equation) -> str:
    """One line: `v0: f32[64, 10] = matmul(x, w)`."""
    arguments = [_operand(v) for v in equation.inputs]
    arguments += [f"{k}={literal_text(v)}" for k, v in equation.params.items()]
    call = f"{equation.op.name}({', '.join(arguments)})"
    if not equation.outputs:
        return call
    if len(equation.outputs) == 1:
        return f"{equation.output.name}: {type_text(equation.output.type)} = {call}"
    # Python allows no annotated tuple targets: the types of several outputs stand before them.
    declared = "; ".join(f"{v.name}: {type_text(v.type)}" for v in equation.outputs)
    return f"{declared}; {', '.join(v.name for v in equation.outputs)} = {call}"


def print_graph(graph: Graph, sources: bool = True, name: str = "graph", with_text: bool = False) -> str:
    """The whole graph as a Python function; each line ends with the user's file and line.

    with_text: guards also show the user's source line, `# train.py:42  if h.mean() > 10:`.
    """
    inputs = ", ".join(f"{v.name}: {type_text(v.type)}" for v in graph.inputs)
    results = [type_text(v.type) if isinstance(v, Value) else type(v).__name__ for v in graph.outputs]
    head = f"def {name}({inputs}) -> tuple[{', '.join(results) or '()'}]:"
    if len(head) > MAX_HEAD and graph.inputs:
        head = head.replace(inputs, "\n    " + inputs.replace("], ", "],\n    ") + ",\n", 1)
    lines = head.split("\n")
    bodies = (p for e in graph.equations for p in e.params.values() if isinstance(p, Subgraph))
    for body in dict.fromkeys(bodies):
        text = print_graph(body.graph, sources, literal_text(body), with_text)
        lines += [f"    {line}" for line in text.split("\n")]
    for equation in graph.equations:
        line = "    " + equation_text(equation)
        if sources and equation.source is not None:
            said = source_line(equation.source.file, equation.source.line) if equation.op is GUARD else ""
            comment = f"{equation.source}  {said}" if with_text and said else str(equation.source)
            line = f"{line:<{COMMENT_COLUMN}}  # {one_line(comment)}"
        lines.append(line)
    outputs = [_operand(v) for v in graph.outputs]
    lines.append(f"    return ({', '.join(outputs)}{',' if len(outputs) == 1 else ''})")
    return "\n".join(lines)


def one_line(text: str) -> str:
    """`text`, such as the name of a file, without what would end a comment or cannot be written."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def inlined(
    graph: Graph, operands: Sequence[Any], new: Callable[[Value], Value]
) -> tuple[list[Equation], list[Any]]:
    """The equations of a graph that takes these, and what it gives. new: gives values for its own."""
    known: dict[Any, Any] = dict(zip(graph.inputs, operands, strict=True))
    equations = []
    for equation in graph.equations:
        inputs = tuple([known.get(x, x) if isinstance(x, Value) else x for x in equation.inputs])
        outputs = tuple(map(new, equation.outputs))
        known.update(zip(equation.outputs, outputs, strict=True))
        equations.append(replace(equation, inputs=inputs, outputs=outputs))
    return equations, [known[v] for v in graph.outputs]


def identifier(name: str, taken: set[str]) -> str:
    """A Python name for a value that is not in `taken` and hides no op or dtype."""
    base = "".join(c if f"x{c}".isidentifier() else "_" for c in name)
    if not base.isidentifier() or keyword.iskeyword(base):
        base = f"x_{base}"
    if base in REGISTRY or base in dtypes.FROM_SHORT or base in RESERVED:
        base += "_"
    result, number = base, 1
    while result in taken:
        number += 1
        result = f"{base}_{number}"
    return result


def array_type(array: np.ndarray) -> TensorType:
    """The type of a NumPy array."""
    return TensorType(array.shape, array.dtype)
