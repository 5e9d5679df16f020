"""Collected lists: a function goes in; the variables of lists that only rounds and joins see come out."""

from __future__ import annotations

import ast
from collections.abc import Iterator

# What joins the items of a list.
JOINS = frozenset({"stack", "cat", "concat", "concatenate"})


def collected_lists(body: list[ast.stmt]) -> set[str]:
    """The variables of a function that hold lists which are written out, appended to, and joined: nobody else
    sees such a list.
    """
    fine: set[int] = set()
    begun: set[str] = set()
    for node in (n for statement in body for n in ast.walk(statement)):
        for name in _begun(node):
            begun.add(name.id)
            fine.add(id(name))
        joined = joined_list(node)
        if joined is not None:
            fine.add(id(joined))
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name() as owner, attr="append"))):
                fine.add(id(owner))
    names = (n for statement in body for n in ast.walk(statement) if isinstance(n, ast.Name))
    return begun - {n.id for n in names if id(n) not in fine}


def _begun(node: ast.AST) -> Iterator[ast.Name]:
    """The variables that a statement gives new lists."""
    match node:
        case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=value):
            pairs = [(target, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = [*zip(target.elts, value.elts, strict=False)]
            for name, given in pairs:
                if isinstance(name, ast.Name) and isinstance(given, ast.List):
                    yield name


def joined_list(node: ast.AST) -> ast.Name | None:
    """The variable that a call joins the items of."""
    match node:
        case ast.Call(
            func=ast.Attribute(attr=function) | ast.Name(id=function), args=[ast.Name() as name, *_]
        ) if function in JOINS:
            return name
    return None
