"""Number parts: an expression of a round goes in; how it follows from the round's number comes out.

`lr / (1 + t)` is `lambda t, lr: lr / (1 + t)` of the number and of what is the same for all rounds. Python
evaluates it in the rounds that run, as ever; for those that are left out the function is asked.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Mapping
from typing import NamedTuple

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)


class NumberPart(NamedTuple):
    """An expression that follows from the number of the round.

    counter: what that is called. body: the expression, of that and of `others`, which rounds do not assign.
    """

    counter: str
    body: ast.expr
    others: tuple[str, ...]

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


def number_part(
    node: ast.expr, targets: Collection[str], assigned: Collection[str], known: Mapping[str, NumberPart]
) -> NumberPart | None:
    """How an expression follows from the number of the round; None if it does not.

    assigned: the variables that rounds assign. known: by the variable, the parts that the round has assigned.
    """
    others: dict[str, None] = {}
    counters: set[str] = set()

    def written(node: ast.expr) -> ast.expr | None:
        match node:
            case ast.Constant(value=value) if type(value) in (int, float):
                return node
            case ast.Name(id=name) if name in known:
                counters.add(known[name].counter)
                others.update(dict.fromkeys(known[name].others))
                return known[name].body
            case ast.Name(id=name) if name in targets:
                counters.add(name)
                return node
            case ast.Name(id=name) if name not in assigned and not name.startswith("__"):
                others[name] = None
                return node
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as op, operand=operand):
                inner = written(operand)
                return None if inner is None else ast.copy_location(ast.UnaryOp(op=op, operand=inner), node)
            case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _ARITHMETIC):
                first, second = written(left), written(right)
                if first is not None and second is not None:
                    return ast.copy_location(ast.BinOp(left=first, op=op, right=second), node)
        return None

    body = written(node)
    if body is None or len(counters) != 1:
        return None
    return NumberPart(counters.pop(), body, tuple(others))
