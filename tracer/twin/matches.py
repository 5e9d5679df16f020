"""Match statements: a function goes in; one comes out that tests one condition after the other.

match x:                          if isinstance(x, Operator): ...
    case Operator(): ...    ->    elif (n := x, ) and n is not None: ...
    case n if n is not None: ...

Patterns that take their subject apart stay, and are refused later.
"""

from __future__ import annotations

import ast
import copy

from fusegrad.tracer.twin.source import FunctionNode


class IsInstance(ast.expr):
    """`isinstance(value, kind)`, whatever the program calls by that name."""

    _fields = ("value", "kind")
    value: ast.expr
    kind: ast.expr


def with_ifs(function: FunctionNode) -> FunctionNode:
    """The function with conditions in place of match statements that look at their subject as a whole."""
    if not any(isinstance(node, ast.Match) for node in ast.walk(function)):
        return function
    made: FunctionNode = _Conditions().visit(copy.deepcopy(function))
    return made


class _Conditions(ast.NodeTransformer):
    def __init__(self) -> None:
        self.subjects = 0

    def visit_Match(self, node: ast.Match) -> ast.stmt | list[ast.stmt]:
        self.generic_visit(node)
        parts = [part for case in node.cases for part in ast.walk(case.pattern)]
        if not all(_is_whole(part) for part in parts if isinstance(part, ast.pattern)):
            return node
        self.subjects += 1
        name = f"_fusegrad_subject_{self.subjects}"
        subject = ast.copy_location(ast.Name(id=name, ctx=ast.Load()), node.subject)
        keep = _assigned(name, node.subject)
        # What the variable holds would be taken for something that is still in use.
        let_go = _assigned(name, ast.copy_location(ast.Constant(value=None), node.subject))
        rest: list[ast.stmt] = [let_go]
        for case in reversed(node.cases):
            tests = _tests(case.pattern, subject) + ([] if case.guard is None else [case.guard])
            rest = [ast.If(test=_all(tests), body=[let_go, *case.body], orelse=rest)]
            rest = [ast.fix_missing_locations(ast.copy_location(made, case.pattern)) for made in rest]
        return [keep, *rest]


def _is_whole(pattern: ast.pattern) -> bool:
    """Whether a pattern does not take its subject apart."""
    if isinstance(pattern, ast.MatchClass):
        return not (pattern.patterns or pattern.kwd_patterns)
    return isinstance(pattern, (ast.MatchValue, ast.MatchSingleton, ast.MatchAs, ast.MatchOr))


def _assigned(name: str, value: ast.expr) -> ast.stmt:
    target = ast.Name(id=name, ctx=ast.Store())
    made = ast.copy_location(ast.Assign(targets=[target], value=value), value)
    return ast.fix_missing_locations(made)


def _tests(pattern: ast.pattern, subject: ast.expr) -> list[ast.expr]:
    """What must all be true, in this order; the last ones give names, and are."""
    found: list[ast.expr]
    match pattern:
        case ast.MatchValue():
            found = [ast.Compare(left=subject, ops=[ast.Eq()], comparators=[pattern.value])]
        case ast.MatchSingleton():
            constant = ast.Constant(value=pattern.value)
            found = [ast.Compare(left=subject, ops=[ast.Is()], comparators=[constant])]
        case ast.MatchClass():
            test = IsInstance()
            test.value, test.kind = subject, pattern.cls
            found = [test]
        case ast.MatchOr():
            ways = [_all(_tests(one, subject)) for one in pattern.patterns]
            found = [ast.BoolOp(op=ast.Or(), values=ways)]
        case ast.MatchAs():
            found = [] if pattern.pattern is None else _tests(pattern.pattern, subject)
            if pattern.name is not None:
                named = ast.NamedExpr(target=ast.Name(id=pattern.name, ctx=ast.Store()), value=subject)
                found = [*found, ast.Tuple(elts=[named], ctx=ast.Load())]
        case _:
            raise AssertionError(pattern)
    return [ast.fix_missing_locations(ast.copy_location(test, pattern)) for test in found]


def _all(tests: list[ast.expr]) -> ast.expr:
    match tests:
        case []:
            return ast.Constant(value=True)
        case [test]:
            return test
    return ast.BoolOp(op=ast.And(), values=tests)
