"""Comprehensions: a function goes in; one comes out that says in loops what it puts into lists.

hs = [cell(x, w) for x in xs]    ->    hs = []
                                       for x_ in xs:
                                           hs.append(cell(x_, w))

So their rounds may be left out like those of others (`plain_loops.py`).
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from fusegrad.tracer.twin.source import FunctionNode

# What has names of its own, or goes on elsewhere.
_SCOPES = (
    ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr, ast.Yield,
    ast.YieldFrom, ast.Await,
)  # fmt: skip
_BLOCKS = ("body", "orelse")


def with_loops(function: FunctionNode) -> FunctionNode:
    """The function with loops in place of comprehensions that a variable gets; itself, if there are none.

    Where an error may be caught, it stays: a variable has what it had before, if that was raised within.
    """
    if isinstance(function, ast.Lambda) or any(isinstance(n, ast.Try) for n in ast.walk(function)):
        return function
    if not any(_is_simple(statement) for _, _, statement in _statements(function)):
        return function
    function = copy.deepcopy(function)
    outer = {n for s in ast.walk(function) if isinstance(s, (ast.Global, ast.Nonlocal)) for n in s.names}
    names = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
    for block, place, statement in reversed([*_statements(function)]):
        if _is_simple(statement):
            assert isinstance(statement, ast.Assign)
            if names_of(statement.targets[0]).isdisjoint(outer):
                block[place : place + 1] = _loop(statement, names)
    return function


def names_of(node: ast.AST) -> set[str]:
    """The names within a node."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _statements(node: ast.AST) -> Iterator[tuple[list[ast.stmt], int, ast.stmt]]:
    """The statements of a function, but for those of functions within: each with its block and its place."""
    for field in _BLOCKS:
        found = getattr(node, field, None)
        block: list[ast.stmt] = found if isinstance(found, list) else []
        for place, statement in enumerate(block):
            yield block, place, statement
            if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield from _statements(statement)


def _is_simple(statement: ast.stmt) -> bool:
    """Whether a variable gets a list of what one loop gives, each time the same expression."""
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.ListComp(elt=element, generators=[ast.comprehension(ifs=[], is_async=0) as over]),
        ):
            targets = over.target.elts if isinstance(over.target, ast.Tuple) else [over.target]
            parts = [n for part in (element, over.iter) for n in ast.walk(part)]
            plain = not any(isinstance(part, _SCOPES) for part in parts)
            return plain and all(isinstance(t, ast.Name) and t.id != name for t in targets)
    return False


def _loop(statement: ast.Assign, names: set[str]) -> list[ast.stmt]:
    """The loop in place of a comprehension. names: those that are taken."""
    (target,), made = statement.targets, statement.value
    assert isinstance(target, ast.Name) and isinstance(made, ast.ListComp)
    over, own = made.generators[0], dict[str, str]()
    for name in (*names_of(over.target), target.id):
        own[name] = f"{name}_"
        while own[name] in names:
            own[name] += "_"
    other = own.pop(target.id)
    for part in (over.target, made.elt):
        for node in (n for n in ast.walk(part) if isinstance(n, ast.Name)):
            node.id = own.get(node.id, node.id)
    # What the variable holds may be gone over.
    name = other if target.id in names_of(made) else target.id
    stored, loaded = ast.Name(id=name, ctx=ast.Store()), ast.Name(id=name, ctx=ast.Load())
    append = ast.Call(
        func=ast.Attribute(value=loaded, attr="append", ctx=ast.Load()), args=[made.elt], keywords=[]
    )
    found: list[ast.stmt] = [
        ast.Assign(targets=[stored], value=ast.List(elts=[], ctx=ast.Load())),
        ast.For(target=over.target, iter=over.iter, body=[ast.Expr(value=append)], orelse=[]),
    ]
    if name != target.id:
        found.append(ast.Assign(targets=[target], value=loaded))
    return [ast.fix_missing_locations(ast.copy_location(node, statement)) for node in found]
