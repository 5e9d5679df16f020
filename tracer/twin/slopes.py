"""Slopes: a subscript or a comparison of a loop goes in; how it follows from the round's number comes out."""

from __future__ import annotations

import ast
from typing import NamedTuple


class Row(NamedTuple):
    """A subscript that follows the round.

    slopes: by how much each of its indices grows with the counter. offsets: the parts of those that do not
    depend on it, and must be whole numbers; others: the indices that do not.
    """

    counter: str
    slopes: tuple[int, ...]
    offsets: list[ast.expr]
    others: list[ast.expr]


class Test(NamedTuple):
    """A comparison that follows the round: by how much its left side grows with the counter, less the right.

    offsets: the parts that do not depend on it, and must be whole numbers. modulus: what the left side is
    divided by, where the remainder is compared: `t % 100 == 0`.
    """

    counter: str
    slope: int
    offsets: list[ast.expr]
    modulus: ast.expr | None = None


def _counter(parts: list[ast.expr], targets: list[str]) -> str | None:
    """The one target that expressions use; None for none or several."""
    used = {n.id for part in parts for n in ast.walk(part) if isinstance(n, ast.Name)} & {*targets}
    return used.pop() if len(used) == 1 else None


def test_of(node: ast.Compare, targets: list[str]) -> Test | None:
    """How a comparison follows the round; None if it does not, or not evenly."""
    if len(node.ops) > 1 or not isinstance(node.ops[0], _ORDERS):
        return None
    counter, offsets = _counter([node], targets), list[ast.expr]()
    if counter is None:
        return None
    number, modulus, other = node.left, None, node.comparators[0]
    if isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Mod):
        number, modulus = node.left.left, node.left.right
        if _asks(modulus, counter) or _asks(other, counter):
            return None
        _slope(modulus, counter, offsets)
    left, right = (_slope(side, counter, offsets) for side in (number, other))
    return None if left is None or right is None else Test(counter, left - right, offsets, modulus)


def with_comparison(test: ast.expr, targets: list[str]) -> ast.expr:
    """`if t % 10:` and `if not t % 10:` with the comparison that they stand for."""
    is_not = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    number = test.operand if isinstance(test, ast.UnaryOp) else test
    if not isinstance(number, ast.BinOp) or not isinstance(number.op, ast.Mod):
        return test
    if _counter([number.left], targets) is None or (number is not test and not is_not):
        return test
    zero = ast.copy_location(ast.Constant(value=0), test)
    orders: list[ast.cmpop] = [ast.Eq() if is_not else ast.NotEq()]
    return ast.copy_location(ast.Compare(left=number, ops=orders, comparators=[zero]), test)


_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


def row_of(node: ast.Subscript, targets: list[str]) -> Row | None:
    """How a subscript follows the round; None if it does not, or not evenly."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    counter = _counter(parts, targets)
    if counter is None:
        return None
    row = Row(counter, (), [], [])
    found = [_part_slope(part, counter, row.offsets) if _asks(part, counter) else 0 for part in parts]
    slopes = [slope for slope in found if slope is not None]
    if len(slopes) < len(found):
        return None
    row.others.extend(part for part in parts if not _asks(part, counter))
    return row._replace(slopes=tuple(slopes))


def _asks(node: ast.AST, counter: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == counter for n in ast.walk(node))


def _part_slope(part: ast.expr, counter: str, offsets: list[ast.expr]) -> int | None:
    """By how much an index grows with the counter, or a window moves; None if it does not do so evenly."""
    match part:
        case ast.Slice(lower=ast.expr() as lower, upper=ast.expr() as upper, step=None):
            slope = _slope(lower, counter, offsets)
            return slope if _slope(upper, counter, offsets) == slope else None
        case ast.Slice():
            return None
    return _slope(part, counter, offsets)


def _slope(node: ast.expr, counter: str, offsets: list[ast.expr]) -> int | None:
    """By how much an index grows with the counter; None if it does not do so evenly."""
    if not _asks(node, counter):
        if not isinstance(node, ast.Constant) or type(node.value) is not int:
            offsets.append(node)
        return 0
    match node:
        case ast.Name():
            return 1
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            slope = _slope(operand, counter, offsets)
            return None if slope is None else -slope
        case (
            ast.BinOp(op=ast.Mult(), left=ast.Constant(value=int() as factor), right=operand)
            | ast.BinOp(op=ast.Mult(), left=operand, right=ast.Constant(value=int() as factor))
        ):
            slope = _slope(operand, counter, offsets)
            return None if slope is None else factor * slope
        case ast.BinOp(op=ast.Add() | ast.Sub() as op, left=left, right=right):
            slopes = [_slope(part, counter, offsets) for part in (left, right)]
            first, second = slopes
            if first is None or second is None:
                return None
            return first + second if isinstance(op, ast.Add) else first - second
    return None
