"""Graphs as text: typed Python that runs, and that parses back to the same graph."""

from __future__ import annotations

import ast
import io
import keyword
import math
import re
import tokenize
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.dtypes import DType
from fusegrad.eager.core.errors import source_line
from fusegrad.eager.core.op import REGISTRY, TensorType, bind
from fusegrad.eager.core.sizes import Symbol
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.shape.slicing import Slice
from fusegrad.tracer.ir.graph import GUARD, Equation, Graph, Source, Value
from fusegrad.tracer.ir.rolled import Body, repeated

COMMENT_COLUMN = 72
MAX_HEAD = 110  # a longer signature has one input a line


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
    if isinstance(value, Body):
        return f"round_{zlib.crc32(value.graph.text.encode()):08x}"
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


def print_graph(graph: Graph, sources: bool = True, name: str = "graph", source_text: bool = False) -> str:
    """The whole graph as a Python function; each line ends with the user's file and line.

    source_text: guards also show the user's source line, `# train.py:42  if h.mean() > 10:`.
    """
    inputs = ", ".join(f"{v.name}: {type_text(v.type)}" for v in graph.inputs)
    results = [type_text(v.type) if isinstance(v, Value) else type(v).__name__ for v in graph.outputs]
    head = f"def {name}({inputs}) -> tuple[{', '.join(results) or '()'}]:"
    if len(head) > MAX_HEAD and graph.inputs:
        head = head.replace(inputs, "\n    " + inputs.replace("], ", "],\n    ") + ",\n", 1)
    lines = head.split("\n")
    bodies = (p for e in graph.equations for p in e.params.values() if isinstance(p, Body))
    for body in dict.fromkeys(bodies):
        text = print_graph(body.graph, sources, literal_text(body), source_text)
        lines += [f"    {line}" for line in text.split("\n")]
    for equation in graph.equations:
        line = "    " + equation_text(equation)
        if sources and equation.source is not None:
            said = source_line(equation.source.file, equation.source.line) if equation.op is GUARD else ""
            comment = f"{equation.source}  {said}" if source_text and said else str(equation.source)
            line = f"{line:<{COMMENT_COLUMN}}  # {comment}"
        lines.append(line)
    outputs = [_operand(v) for v in graph.outputs]
    lines.append(f"    return ({', '.join(outputs)}{',' if len(outputs) == 1 else ''})")
    return "\n".join(lines)


def identifier(name: str, taken: set[str]) -> str:
    """A Python name for a value that is not in `taken` and hides no op or dtype."""
    base = "".join(c if f"x{c}".isidentifier() else "_" for c in name)
    if not base.isidentifier() or keyword.iskeyword(base):
        base = f"x_{base}"
    if base in REGISTRY or base in dtypes.FROM_SHORT or base in _RESERVED:
        base += "_"
    result, number = base, 1
    while result in taken:
        number += 1
        result = f"{base}_{number}"
    return result


# Reading it back.

_CONSTANTS = {"inf": math.inf, "nan": math.nan, "True": True, "False": False, "None": None}
_RESERVED = {*_CONSTANTS, "slice", "complex", "tuple"}


def _literal(node: ast.expr) -> Any:
    """The value of a literal as `literal_text` writes it."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.Name(id=name) if name in dtypes.FROM_SHORT:
            return dtypes.FROM_SHORT[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_literal(operand)
        case ast.Tuple(elts=items):
            return tuple(_literal(i) for i in items)
        case ast.Call(func=ast.Name(id="slice"), args=args):
            return Slice(*(_literal(a) for a in args))
        case ast.Call(func=ast.Name(id="complex"), args=args):
            return complex(*(_literal(a) for a in args))
    raise SyntaxError(f"not a literal of the graph language: {ast.unparse(node)}")


def _type(node: ast.expr) -> TensorType:
    """`f32[64, 10]` as a type."""
    if not (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)):
        raise SyntaxError(f"not a tensor type: {ast.unparse(node)}")
    sizes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return TensorType(tuple(_literal(s) for s in sizes), dtypes.FROM_SHORT[node.value.id].numpy)


def python_text(text: str) -> str:
    """A printed graph as Python takes it: `f32[]` is no expression there, `f32[()]` is."""
    return _SCALAR_TYPE.sub(r"\1[()]", text)


_SCALAR_TYPE = re.compile(rf"\b({'|'.join(dtypes.FROM_SHORT)})\[\]")


def _comments(text: str) -> dict[int, str]:
    """The comment of each line that has one."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {t.start[0]: t.string.lstrip("# ") for t in tokens if t.type == tokenize.COMMENT}


def parse_graph(text: str) -> Graph:
    """The graph that `print_graph` printed. Raises SyntaxError for anything else."""
    text = python_text(text)
    module = ast.parse(text)
    (function,) = [n for n in module.body if isinstance(n, ast.FunctionDef)]
    return _graph_of(function, _comments(text))


def _graph_of(function: ast.FunctionDef, comments: dict[int, str]) -> Graph:
    """The graph that a printed function says. comments: by line."""
    values: dict[str, Value] = {}
    bodies: dict[str, Body] = {}

    def define(name: str, annotation: ast.expr) -> Value:
        values[name] = Value(name, _type(annotation))
        return values[name]

    def operand(node: ast.expr) -> Any:
        return values[node.id] if isinstance(node, ast.Name) and node.id in values else _literal(node)

    def parameter(node: ast.expr) -> Any:
        return bodies[node.id] if isinstance(node, ast.Name) and node.id in bodies else _literal(node)

    def equation(call: ast.expr, outputs: tuple[Value, ...]) -> Equation:
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in REGISTRY):
            raise SyntaxError(f"not an equation: {ast.unparse(call)}")
        params = {k.arg or "": parameter(k.value) for k in call.keywords}
        inputs = tuple(operand(a) for a in call.args)
        return Equation(REGISTRY[call.func.id], inputs, params, outputs, _source(comments.get(call.lineno)))

    inputs = tuple(define(a.arg, a.annotation) for a in function.args.args if a.annotation is not None)
    equations = []
    outputs: tuple[Any, ...] = ()
    for statement in function.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=None):
                define(name, annotation)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=ast.expr() as call):
                types = _type(annotation)
                equations.append(equation(call, (Value(name, types),)))
                define(name, annotation)
            case ast.FunctionDef(name=name):
                bodies[name] = Body(_graph_of(statement, comments))
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=call):
                made = tuple(values[t.id] for t in targets if isinstance(t, ast.Name))
                equations.append(equation(call, made))
            case ast.Expr(value=call):
                equations.append(equation(call, ()))
            case ast.Return(value=ast.Tuple(elts=items)):
                outputs = tuple(operand(i) for i in items)
            case _:
                raise SyntaxError(f"not a statement of the graph language: {ast.unparse(statement)}")
    return Graph(inputs, tuple(equations), outputs)


def _source(comment: str | None) -> Source | None:
    found = _SOURCE.match(comment or "")
    return Source(found[1], int(found[2])) if found else None


_SOURCE = re.compile(r"(.+?):(\d+)(?:  |$)")


# Running it.


class GuardFailed(RuntimeError):
    """A printed graph was run on data that takes another path than the one it was captured on."""


def _guard(value: Tensor, expected: Any, kind: str) -> None:
    seen = value.array.item()
    if type(seen) is not type(expected) or repr(seen) != repr(expected):
        raise GuardFailed(f"the graph was captured where this value was {expected!r}; here it is {seen!r}")


def namespace() -> dict[str, Any]:
    """The names that a printed graph uses, bound so that running it runs the ops."""

    def runner(name: str) -> Callable[..., Any]:
        op = REGISTRY[name]

        def run(*args: Any, **params: Any) -> Any:
            made = bind(op, args, {k: _frozen(v) for k, v in params.items()})
            # An op of several results may have one of them here, which the text assigns as such.
            return made[0] if type(made) is tuple and len(made) == 1 else made

        return run

    names: dict[str, Any] = {name: runner(name) for name in REGISTRY if REGISTRY[name] is not GUARD}
    return {**names, **dtypes.FROM_SHORT, "inf": math.inf, "nan": math.nan, "guard": _guard}


class _Round(NamedTuple):
    """A printed body as a function, in place of a `Body`."""

    function: Callable[..., tuple[Any, ...]]

    def repeat(self, tensors: Sequence[Tensor], rounds: int) -> tuple[Any, ...]:
        return repeated(self.function, tensors, rounds)


def _frozen(value: Any) -> Any:
    if isinstance(value, FunctionType):
        return _Round(value)
    if isinstance(value, slice):
        return Slice(value.start, value.stop, value.step)
    return (
        tuple(_frozen(v) for v in value)
        if isinstance(value, tuple) and not isinstance(value, Slice)
        else value
    )


def load(text: str) -> Callable[..., tuple[Any, ...]]:
    """A printed graph as a function that runs it eagerly, op by op.

    >>> import fusegrad as fg
    >>> text = "def graph(x: f32[2]) -> tuple[f32[2]]:\\n    v0: f32[2] = mul(x, 2.0)\\n    return (v0,)"
    >>> double = load(text)
    >>> double(fg.tensor([1.0, 2.0]))
    (tensor([2., 4.]),)
    """
    names = namespace()
    flags = __import__("__future__").annotations.compiler_flag
    exec(compile(python_text(text), "<graph>", "exec", flags, dont_inherit=True), names)
    (function,) = [
        v
        for k, v in names.items()
        if callable(v) and getattr(v, "__code__", None) and v.__code__.co_filename == "<graph>"
    ]
    return function


def evaluate_graph(
    graph: Graph,
    arguments: Mapping[Value, Any] | list[Any] | tuple[Any, ...],
    tracked: Collection[Value] | None = None,
) -> tuple[Any, ...]:
    """Run the graph's equations through `bind` on `arguments` (tensors, in the order of the inputs).

    The result is eager's own: gradients are recorded, doors open. tracked: the values that may need
    gradients; others were made without any (None: all may). Raises GuardFailed where the data take
    another path.
    """
    known: dict[Value, Any] = dict(zip(graph.inputs, arguments, strict=True))
    for equation in graph.equations:
        args = tuple(known[v] if isinstance(v, Value) else v for v in equation.inputs)
        if equation.op is GUARD:
            _guard(args[0], **equation.params)
            continue
        result = bind(equation.op, args, dict(equation.params))
        for value, made in zip(equation.outputs, result if type(result) is tuple else (result,), strict=True):
            free = tracked is None or value in tracked or not made.needs_grad
            known[value] = made if free else made.detach()
    return tuple(known[v] if isinstance(v, Value) else v for v in graph.outputs)


def array_type(array: np.ndarray) -> TensorType:
    """The type of a NumPy array."""
    return TensorType(array.shape, array.dtype)
