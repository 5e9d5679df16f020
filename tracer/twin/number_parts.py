"""Number parts: an expression of a round goes in; how it follows from the round's number comes out.

`lr / (1 + t)` is `lambda t, lr: lr / (1 + t)` of the number and of what is the same for all rounds. Python
evaluates it in the rounds that run, as ever; for those that are left out the function is asked.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

# What is called of numbers alone, if that is what these names stand for.
MODULE, FUNCTIONS = "math", ("min", "max", "abs", "float", "int")
_DOT = "\u00b7"  # in the names of what attributes hold
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)


class NumberPart(NamedTuple):
    """An expression that follows from the number of the round.

    counter: what that is called. body: the expression, of that and of `others`, by what these are called in
    it: variables that rounds do not assign, and attributes.
    """

    counter: str
    body: ast.expr
    others: dict[str, ast.expr]

    def function(self) -> ast.Lambda:
        """The function of the number and of the others."""
        names = [ast.arg(arg=name) for name in (self.counter, *self.others)]
        arguments = ast.arguments(posonlyargs=[], args=names, kwonlyargs=[], kw_defaults=[], defaults=[])
        return ast.Lambda(args=arguments, body=copy.deepcopy(self.body))


class NumberUse(NamedTuple):
    """An operator with such parts on its sides, or on one.

    leaves: whether what it gives goes elsewhere than to another one.
    """

    parts: tuple[NumberPart | None, NumberPart | None]
    leaves: bool


def recurrences(
    loop: ast.For, targets: Collection[str], assigned: Collection[str]
) -> dict[str, tuple[ast.stmt, NumberPart]]:
    """The variables that each round changes once, by what they were alone: `t += dt`, `rate = rate * 0.9`;
    each with the statement, and how the next value follows from the last one.
    """
    stores = Counter(
        n.id for n in ast.walk(loop) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)
    )
    found: dict[str, tuple[ast.stmt, NumberPart]] = {}
    for statement in loop.body:
        match statement:
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=given):
                before = ast.copy_location(ast.Name(id=name, ctx=ast.Load()), statement)
                value: ast.expr = ast.copy_location(ast.BinOp(left=before, op=op, right=given), statement)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case _:
                continue
        if stores[name] == 1 and name not in targets:
            part = number_part(value, [name], {*assigned, *targets} - {name}, {})
            if part is not None:
                found[name] = statement, part
    return found


def number_part(
    node: ast.expr, targets: Collection[str], assigned: Collection[str], known: Mapping[str, NumberPart]
) -> NumberPart | None:
    """How an expression follows from the number of the round; None if it does not.

    assigned: the variables that rounds assign. known: by the variable, the parts that the round has assigned.
    """
    others: dict[str, ast.expr] = {}
    counters: set[str] = set()

    def written(node: ast.expr) -> ast.expr | None:
        match node:
            case ast.Constant(value=value) if type(value) in (int, float):
                return node
            case ast.Name(id=name) if name in known:
                counters.add(known[name].counter)
                others.update(known[name].others)
                return known[name].body
            case ast.Name(id=name) if name in targets:
                counters.add(name)
                return node
            case ast.Name(id=name) if name not in assigned and not name.startswith("__"):
                others[name] = node
                return node
            case ast.Attribute() if (owner := _owner(node)) is not None:
                if owner.id in (*assigned, *targets, *known) or owner.id.startswith("__"):
                    return None
                name = ast.unparse(node).replace(".", _DOT)
                others[name] = node
                return ast.copy_location(ast.Name(id=name, ctx=ast.Load()), node)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as op, operand=operand):
                inner = written(operand)
                return None if inner is None else ast.copy_location(ast.UnaryOp(op=op, operand=inner), node)
            case ast.Call(func=function, args=args, keywords=[]) if called(node):
                given = [x for argument in args if (x := written(argument)) is not None]
                called_of = _name_of(function)
                if called_of.id not in assigned and len(given) == len(args):
                    others[called_of.id] = called_of
                    return ast.copy_location(ast.Call(func=function, args=given, keywords=[]), node)
            case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _ARITHMETIC):
                first, second = written(left), written(right)
                if first is not None and second is not None:
                    return ast.copy_location(ast.BinOp(left=first, op=op, right=second), node)
        return None

    body = written(node)
    if body is None or len(counters) != 1:
        return None
    return NumberPart(counters.pop(), body, others)


def called(node: ast.expr) -> bool:
    """Whether an expression calls a function that is known to be one of numbers, by its name."""
    match node:
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in FUNCTIONS:
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name)), keywords=[]) if name == MODULE:
            return True
    return False


def _name_of(function: ast.expr) -> ast.Name:
    name = function.value if isinstance(function, ast.Attribute) else function
    assert isinstance(name, ast.Name)
    return name


def _owner(node: ast.Attribute) -> ast.Name | None:
    """The variable that an attribute belongs to, or the object that has it: `self` of `self.options.rate`."""
    owner = node.value
    while isinstance(owner, ast.Attribute):
        owner = owner.value
    return owner if isinstance(owner, ast.Name) else None
