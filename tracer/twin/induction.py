"""Induction variables: a loop goes in; how its expressions follow from the number of the round comes out.

A subscript, or a comparison, follows it evenly, by a slope: `x[n - 1 - t]`, `t % 100 == 0`. An expression
follows by a function: `lr / (1 + t)` is `lambda t, lr: lr / (1 + t)` of the number and of what is the same
for all rounds. Python evaluates it in the rounds that run, as ever; the function is asked for those left
out. And of some variables it is known that rounds do nothing with them but count them up.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

from fusegrad.tracer.twin.scopes import uses

# What is called of numbers alone, if that is what these names stand for.
MODULE, FUNCTIONS = "math", ("min", "max", "abs", "float", "int")
_DOT = "\u00b7"  # in the names of what attributes hold
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)


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


# Functions of the number.


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


# What is counted up.


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
