"""Counters: a loop goes in; which of its variables its rounds do nothing with but count them up comes out."""

from __future__ import annotations

import ast
from collections.abc import Collection

from fusegrad.tracer.twin.scopes import uses
from fusegrad.tracer.twin.slopes import Test, test_of


def changed_by_some(loop: ast.For) -> set[str]:
    """The variables that some rounds count up, or change otherwise by what they were, and some may not."""
    changes = (n for n in ast.walk(loop) if isinstance(n, ast.AugAssign) and n not in loop.body)
    return {n.target.id for n in changes if isinstance(n.target, ast.Name)}


def counts_of(loop: ast.For, name: str, assigned: Collection[str]) -> dict[ast.Compare, Test] | None:
    """The comparisons of a variable that the rounds of a loop do nothing else with but count it up; None if
    they do.
    """
    steps = [n for n in ast.walk(loop) if _step(n, name)]
    once: list[ast.AST] = [n for n in ast.walk(loop) if isinstance(n, (ast.Return, ast.Raise))]
    once += [n.msg for n in ast.walk(loop) if isinstance(n, ast.Assert) and n.msg is not None]
    found: dict[ast.Compare, Test] = {}
    for node in ast.walk(loop):
        if isinstance(node, ast.Compare):
            others = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} - {name}
            test = test_of(node, [name])
            if test is not None and test.modulus is None and others.isdisjoint(assigned):
                found[node] = test
    times = sum(uses(node)[name] for node in (*found, *once))
    once_each = len(steps) == 1 and steps[0] in loop.body
    written = sum(uses(step)[name] for step in steps)
    if not steps or uses(loop)[name] != written + times or (found and not once_each):
        return None
    growth = _step(steps[0], name) if found else 0
    return {node: test._replace(slope=test.slope * growth) for node, test in found.items()}


def _step(node: ast.AST, name: str) -> int:
    """The whole number that a statement adds to a variable; 0 for another one."""
    match node:
        case ast.AugAssign(target=ast.Name(id=target), op=ast.Add(), value=ast.Constant(value=int() as step)):
            pass
        case ast.Assign(
            targets=[ast.Name(id=target)],
            value=ast.BinOp(left=ast.Name(id=left), op=ast.Add(), right=ast.Constant(value=int() as step)),
        ) if left == target:
            pass
        case _:
            return 0
    return step if target == name and type(step) is int else 0
