"""Collected lists: a function goes in; the variables of lists that only rounds and joins see come out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

# What joins the items of a list.
JOINS = frozenset({"stack", "cat", "concat", "concatenate"})


class CollectedLists(NamedTuple):
    """The variables of a function that only hold lists which are written out where they get them, and are
    appended to. joined: those of lists that are read nowhere but by what joins their items.
    """

    names: frozenset[str] = frozenset()
    joined: frozenset[str] = frozenset()


def collected_lists(body: list[ast.stmt]) -> CollectedLists:
    """The variables of a function with such lists."""
    fine: set[int] = set()
    begun: set[str] = set()
    appended: set[str] = set()
    for node in (n for statement in body for n in ast.walk(statement)):
        for name in _begun(node):
            begun.add(name.id)
            fine.add(id(name))
        joined = joined_list(node)
        if joined is not None and joined.key is None:
            fine.add(id(joined.name))
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name() as owner, attr="append"))):
                appended.add(owner.id)
                fine.add(id(owner))
    names = (n for statement in body for n in ast.walk(statement) if isinstance(n, ast.Name))
    others = [n for n in names if id(n) not in fine]
    found = (begun & appended) - {n.id for n in others if not isinstance(n.ctx, ast.Load)}
    return CollectedLists(frozenset(found), frozenset(found - {n.id for n in others}))


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


class Joined(NamedTuple):
    """The variable that a call joins the items of, and which slice of them."""

    name: ast.Name
    key: ast.Slice | None


def joined_list(node: ast.AST) -> Joined | None:
    """What a call joins."""
    match node:
        case ast.Call(func=ast.Attribute(attr=function) | ast.Name(id=function), args=[first, *_]) if (
            function in JOINS
        ):
            match first:
                case ast.Name():
                    return Joined(first, None)
                case ast.Subscript(value=ast.Name() as name, slice=ast.Slice() as key):
                    return Joined(name, key)
    return None
