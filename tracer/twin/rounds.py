"""Rounds: a loop goes in; one comes out whose rounds each run to their end, or leave it by `break`.

while i < n:            for i in <i, i + 1, ...>:
    if i == 3:              if i < n: pass
        continue    ->      else: break
    h = f(h)                if i == 3: pass
    i += 1                  else: h = f(h)

And what a branch gives a name first, it gives it before: `if (x := f(h)) < 1:`.
"""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Sequence


def rounds_to_their_end(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Statements of a round that do the same, of the kinds that plain loops have."""
    return without_continue(names_given_before(statements))


def names_given_before(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Statements that do the same, where a `:=` that a branch begins with stands before it."""
    found: list[ast.stmt] = []
    for statement in statements:
        if isinstance(statement, ast.If):
            given, test = _without_names(statement.test)
            body, orelse = map(names_given_before, (statement.body, statement.orelse))
            found += given
            statement = ast.copy_location(ast.If(test=test, body=body, orelse=orelse), statement)
        found.append(statement)
    return found


# By the kind of an expression, what it evaluates first.
_FIRST: dict[type, str] = {
    ast.Compare: "left", ast.BinOp: "left", ast.UnaryOp: "operand", ast.BoolOp: "values", ast.Call: "func",
    ast.Attribute: "value", ast.Subscript: "value",
}  # fmt: skip


def _without_names(node: ast.expr) -> tuple[list[ast.stmt], ast.expr]:
    """What an expression gives a name before all else, as statements, and the expression without that."""
    if isinstance(node, ast.NamedExpr):
        given, value = _without_names(node.value)
        assigned = ast.copy_location(ast.Assign(targets=[node.target], value=value), node)
        return [*given, assigned], ast.copy_location(ast.Name(id=node.target.id, ctx=ast.Load()), node)
    if type(node) not in _FIRST:
        return [], node
    field = _FIRST[type(node)]
    part = getattr(node, field)
    given, first = _without_names(part[0] if isinstance(part, list) else part)
    if not given:
        return [], node
    changed = copy.copy(node)
    setattr(changed, field, [first, *part[1:]] if isinstance(part, list) else first)
    return given, changed


def without_continue(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Statements that do the same, where what comes behind a branch that goes on with the next round is in
    the other one. A `continue` elsewhere stays.
    """
    for i, statement in enumerate(statements):
        before, rest = [*statements[:i]], [*statements[i + 1 :]]
        if isinstance(statement, ast.Continue):
            return before
        if isinstance(statement, ast.If):
            body, orelse = statement.body, statement.orelse
            if isinstance(body[-1], ast.Continue):
                return [*before, _branches(statement, body[:-1], [*orelse, *rest])]
            if orelse and isinstance(orelse[-1], ast.Continue):
                return [*before, _branches(statement, [*body, *rest], orelse[:-1])]
    return [*statements]


def _branches(origin: ast.If, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> ast.If:
    first = without_continue(body) or [ast.copy_location(ast.Pass(), origin)]
    return ast.copy_location(ast.If(test=origin.test, body=first, orelse=without_continue(orelse)), origin)


def counted(loop: ast.While) -> tuple[ast.For, ast.Constant] | None:
    """A `for` loop in place of one that counts a variable up in the end of each round, without what gives the
    numbers, and by how much it counts; None for another one.
    """
    match loop:
        case ast.While(
            test=ast.Compare(),
            body=[
                *body,
                ast.AugAssign(target=ast.Name(id=name) as target, op=ast.Add(), value=ast.Constant() as step),
            ],
            orelse=[],
        ) if type(step.value) is int and step.value > 0:
            pass
        case _:
            return None
    nodes = [n for statement in (*body, ast.Expr(value=loop.test)) for n in ast.walk(statement)]
    stores = (n for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load))
    if any(n.id == name for n in stores) or any(isinstance(n, ast.Continue) for n in nodes):
        return None

    def at(node: ast.stmt) -> ast.stmt:
        return ast.copy_location(node, loop.test)

    test = at(ast.If(test=loop.test, body=[at(ast.Pass())], orelse=[at(ast.Break())]))
    found = ast.For(
        target=ast.copy_location(ast.Name(id=name, ctx=ast.Store()), target),
        iter=step,
        body=names_given_before([test, *body]),
        orelse=[],
    )
    return ast.copy_location(found, loop), step


def endless(loop: ast.While) -> ast.For:
    """A `for` loop over nothing in particular in place of a `while`, which tests at the beginning of each
    round."""
    at = functools.partial(ast.copy_location, old_node=loop.test)
    test = at(ast.If(test=loop.test, body=[at(ast.Pass())], orelse=[at(ast.Break())]))
    body = rounds_to_their_end([test, *loop.body])
    target = ast.copy_location(ast.Tuple(elts=[], ctx=ast.Store()), loop)
    nothing = at(ast.Constant(value=None))
    return ast.copy_location(ast.For(target=target, iter=nothing, body=body, orelse=loop.orelse), loop)
