"""Python code that cannot look at the world: what a function changes before or after, it does not see.

    def cycle(batches):
        while True:
            for batch in batches:
                yield batch

Of a generator whose source says no more than this, over lists, tuples and their kin, it is known that it
only hands on what those hold. So a replay, which asks for items before it changes anything, may ask in its
place. Of `lambda epoch: 0.9**epoch` it is known that it makes a number of numbers. So a replay, which steps
schedules when all else is done, may step one that calls this.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, GeneratorType
from typing import Any

import numpy as np

from fusegrad.tracer.observe import stores, variables
from fusegrad.tracer.observe.lookup import MISSING
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.observe.symbols import NUMBERS
from fusegrad.tracer.twin.sites import Site
from fusegrad.tracer.twin.source import FunctionNode, Unsupported, locate

# What a function may do that no such iterator hears of. Items of lists and dicts, which they go over, count.
_UNSEEN = frozenset(
    {
        stores.CHANGE, variables.REBIND, "prints", "writes into a tensor in place",
        "sets an option of an optimizer", "steps a learning rate schedule",
    }
)  # fmt: skip
_HELD = frozenset({list, tuple, range, str, type(iter([])), type(iter(())), type(iter(range(1)))})


class Blind:
    """What is known of a code. over: the parameters that it goes over, if it hands on what these hold, and no
    more; free: the variables from outside that it reads, if it computes numbers of numbers, and no more.
    """

    def __init__(self, code: CodeType) -> None:
        self.over: frozenset[str] | None = None
        self.free: frozenset[str] | None = None
        try:
            node = locate(code).node
        except Unsupported:
            return
        assigned = {
            n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)
        }
        arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        parameters = {argument.arg for argument in arguments}
        if isinstance(node, ast.FunctionDef):
            self.over = _gathered(_gone_over(node.body, parameters - assigned))
        if not (node.args.vararg or node.args.kwarg):
            self.free = _gathered(_computed(node, parameters | assigned))

    @staticmethod
    def of(code: CodeType) -> Blind:
        if code not in _known:
            _known[code] = Blind(code)
        return _known[code]


_known: dict[CodeType, Blind] = {}


def _gathered(names: Iterator[str]) -> frozenset[str] | None:
    try:
        return frozenset(names)
    except Unsupported:
        return None


# ---------------------------------------------------------------------------------- iterators


def hears_of(iterator: Any, change: str) -> bool:
    """Whether an iterator may act by what a function has changed."""
    unseen = change in _UNSEEN or change.startswith("draws random numbers")
    return not (unseen and _only_hands_on(iterator))


def _only_hands_on(iterator: Any) -> bool:
    if type(iterator) is not GeneratorType:
        return type(iterator) in _HELD
    frame, over = iterator.gi_frame, Blind.of(iterator.gi_code).over
    return frame is not None and over is not None and all(map(_only_hands_on, map(frame.f_locals.get, over)))


def _gone_over(body: Iterable[ast.stmt], parameters: set[str]) -> Iterator[str]:
    """What statements go over. Raises Unsupported for those that do more than to hand on what it holds."""
    for statement in body:
        match statement:
            case ast.Pass() | ast.Break() | ast.Continue() | ast.Expr(value=ast.Constant()):
                pass
            case ast.While(test=ast.Constant()):
                yield from _gone_over([*statement.body, *statement.orelse], parameters)
            case ast.For(target=ast.Name(), iter=ast.Name(id=name)) if name in parameters:
                yield name
                yield from _gone_over([*statement.body, *statement.orelse], parameters)
            case ast.Expr(value=ast.YieldFrom(value=ast.Name(id=name))) if name in parameters:
                yield name
            case ast.Expr(value=ast.Yield(value=given)) if given is None or _only_moves(given):
                pass
            case _:
                raise Unsupported("it does something", statement.lineno)


def _only_moves(node: ast.expr) -> bool:
    """Whether an expression is made of variables and constants, alone or put into tuples and lists."""
    if isinstance(node, (ast.Tuple, ast.List)):
        return all(map(_only_moves, node.elts))
    return isinstance(node, (ast.Name, ast.Constant))


# ---------------------------------------------------------------------------------- functions of numbers

_STATEMENTS = (ast.Return, ast.Assign, ast.AugAssign, ast.If, ast.Pass, ast.Expr)
_EXPRESSIONS = (
    ast.Constant, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.Attribute,
    ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context,
)  # fmt: skip
_OF_NUMBERS = (abs, min, max, round, pow, float, int, bool)


def only_computes(function: Any) -> bool:
    """Whether a function makes a number of numbers, by operators and by functions of `math` and NumPy's."""
    if type(function) is not FunctionType or function.__defaults__ or function.__kwdefaults__:
        return False
    free = Blind.of(function.__code__).free
    return free is not None and all(_leads_to_numbers(function, name) for name in free)


def guard(observer: Observer, function: FunctionType, site: Site) -> None:
    """Note the function, and what it reads from outside."""
    observer.read_function(function, site)
    for name in sorted({path.partition(".")[0] for path in Blind.of(function.__code__).free or ()}):
        read = observer.read_cell if name in function.__code__.co_freevars else observer.read_global
        read(function, name, _found(function, name), site)


def _computed(node: FunctionNode, own: set[str]) -> Iterator[str]:
    """The variables from outside that a function reads, with the attributes that it asks modules for. Raises
    Unsupported for a function that does more than to compute numbers of numbers.
    """
    if isinstance(node, ast.FunctionDef) and node.decorator_list:
        raise Unsupported("it is decorated", node.lineno)
    waiting: list[ast.AST] = [*(node.body if isinstance(node, ast.FunctionDef) else [node.body])]
    while waiting:
        part = waiting.pop()
        match part:
            case ast.Name(id=name):
                if name not in own:
                    yield name
                continue
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name not in own:
                yield f"{name}.{attribute}"
                continue
            case ast.Attribute() | ast.Call(keywords=[_, *_]):
                raise Unsupported("it does something", node.lineno)
            case ast.Assign(targets=[ast.Name()]) | ast.AugAssign(target=ast.Name()):
                pass
            case ast.Assign() | ast.AugAssign():
                raise Unsupported("it does something", node.lineno)
            case ast.Call(func=ast.Name(id=name)) if name in own:
                raise Unsupported("it calls what it is given", node.lineno)
        if not isinstance(part, (*_STATEMENTS, *_EXPRESSIONS)):
            raise Unsupported("it does something", node.lineno)
        waiting += ast.iter_child_nodes(part)


def _leads_to_numbers(function: FunctionType, path: str) -> bool:
    name, _, attribute = path.partition(".")
    found = _found(function, name)
    if attribute:
        found = vars(found).get(attribute) if found is math or found is np else MISSING
    if isinstance(found, np.ufunc):
        return getattr(np, found.__name__, None) is found
    return type(found) in NUMBERS or any(found is each for each in (*_OF_NUMBERS, *vars(math).values()))


def _found(function: FunctionType, name: str) -> Any:
    """What a variable from outside holds."""
    names, cells = function.__code__.co_freevars, function.__closure__ or ()
    if name in names:
        try:
            return cells[names.index(name)].cell_contents
        except ValueError:
            return MISSING
    owner: Any = function
    return function.__globals__.get(name, owner.__builtins__.get(name, MISSING))
