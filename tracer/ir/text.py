"""Printed graphs read back: a graph's text goes in, the same graph or a function that runs it comes out."""

from __future__ import annotations

import ast
import io
import math
import operator
import re
import tokenize
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.op import REGISTRY, TensorType, bind, wrap
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.shape.slicing import Slice
from fusegrad.tracer.ir.branch import BRANCH, SIDE, Side
from fusegrad.tracer.ir.evaluation import check_guard
from fusegrad.tracer.ir.graph import GUARD, Equation, Graph, Source, Subgraph, Value
from fusegrad.tracer.ir.parsing import module_of
from fusegrad.tracer.ir.rolled import ROLLED, Body, all_rounds
from fusegrad.tracer.ir.tested import TESTED, rounds_while

_CONSTANTS = {"inf": math.inf, "nan": math.nan, "True": True, "False": False, "None": None}


_SIGNS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Div: operator.truediv,
}


def _literal(node: ast.expr, sizes: Mapping[str, Any]) -> Any:
    """The value of a literal as `literal_text` writes it, or of an expression in the open `sizes`."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.Name(id=name) if name in dtypes.FROM_SHORT:
            return dtypes.FROM_SHORT[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_literal(operand, sizes)
        case ast.Tuple(elts=items):
            return tuple(_literal(i, sizes) for i in items)
        case ast.Call(func=ast.Name(id="slice"), args=args):
            return Slice(*(_literal(a, sizes) for a in args))
        case ast.Call(func=ast.Name(id="complex"), args=args):
            return complex(*(_literal(a, sizes) for a in args))
        case ast.Attribute(value=ast.Name(id="size"), attr=name) if name in sizes:
            return sizes[name]
        case ast.BinOp(left=left, op=sign, right=right) if sizes and type(sign) in _SIGNS:
            return _SIGNS[type(sign)](_literal(left, sizes), _literal(right, sizes))
    raise SyntaxError(f"not a literal of the graph language: {ast.unparse(node)}")


def _type(node: ast.expr, sizes: Mapping[str, Any]) -> TensorType:
    """`f32[64, 10]` as a type."""
    if not (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)):
        raise SyntaxError(f"not a tensor type: {ast.unparse(node)}")
    shape = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return TensorType(tuple(_literal(n, sizes) for n in shape), dtypes.FROM_SHORT[node.value.id].numpy)


def python_text(text: str) -> str:
    """A printed graph as Python takes it: `f32[]` is no expression there, `f32[()]` is."""
    return _SCALAR_TYPE.sub(r"\1[()]", text)


_SCALAR_TYPE = re.compile(rf"\b({'|'.join(dtypes.FROM_SHORT)})\[\]")


def _comments(text: str) -> dict[int, str]:
    """The comment of each line that has one."""
    if "#" not in text:
        return {}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {t.start[0]: t.string.lstrip("# ") for t in tokens if t.type == tokenize.COMMENT}


def parse_graph(text: str, sizes: Mapping[str, Any] = MappingProxyType({})) -> Graph:
    """The graph that `print_graph` printed. Raises SyntaxError for anything else.

    sizes: those that are left open, by the names that they have in the text: `size.batch`.
    """
    text = python_text(text)
    module = module_of(text)
    (function,) = [n for n in module.body if isinstance(n, ast.FunctionDef)]
    return _graph_of(function, _comments(text), sizes)


def _graph_of(function: ast.FunctionDef, comments: dict[int, str], sizes: Mapping[str, Any]) -> Graph:
    """The graph that a printed function says. comments: by line."""
    values: dict[str, Value] = {}
    bodies: dict[str, Subgraph] = {}

    def define(name: str, annotation: ast.expr) -> Value:
        values[name] = Value(name, _type(annotation, sizes))
        return values[name]

    def operand(node: ast.expr) -> Any:
        return values[node.id] if isinstance(node, ast.Name) and node.id in values else _literal(node, sizes)

    def parameter(node: ast.expr) -> Any:
        return bodies[node.id] if isinstance(node, ast.Name) and node.id in bodies else _literal(node, sizes)

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
                equations.append(equation(call, (define(name, annotation),)))
            case ast.FunctionDef(name=name):
                kind = Side if name.startswith(SIDE) else Body
                bodies[name] = kind(_graph_of(statement, comments, sizes))
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
    names[ROLLED.name], names[TESTED.name], names[BRANCH.name] = _rounds, _tested_rounds, _side
    return {**names, **dtypes.FROM_SHORT, "inf": math.inf, "nan": math.nan, "guard": check_guard}


def _rounds(*tensors: Tensor, body: Callable[..., tuple[Any, ...]], **params: Any) -> Any:
    """A rolled loop whose round is a printed one, a function."""
    made = all_rounds(body, tensors, **params)
    return made[0] if len(made) == 1 else made


def _tested_rounds(
    *tensors: Tensor, body: Callable[..., tuple[Any, ...]], carried: int, most: int, keeps: bool, then: Any
) -> tuple[Tensor, ...]:
    """A loop that tests data, whose round is a printed one."""
    made, count = rounds_while(body, tensors, carried, most)
    return *made, wrap(np.array(count)), *(tensors if keeps else ())


def _side(test: Tensor, *tensors: Tensor, then: Callable[..., Any], otherwise: Callable[..., Any]) -> Any:
    """A branch whose sides are printed functions."""
    made = (then if test.array.item() else otherwise)(*tensors)
    return made[0] if len(made) == 1 else made


def _frozen(value: Any) -> Any:
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
