"""Match statements: a function goes in; one comes out that tests one condition after the other.

match x:                          if (parts := taken_apart(x)) is not None and isinstance(parts[0], A): ...
    case [A(), y]: ...      ->    elif (n := x, ) and n is not None: ...
    case n if n is not None: ...

As in CPython, variables are assigned once all of a pattern fits, and before its guard is asked.
"""

from __future__ import annotations

import ast
import copy
from typing import Any, TypeVar

from fusegrad.tracer.twin.source import FunctionNode

Node = TypeVar("Node", ast.stmt, ast.expr)


class TakenApart(ast.expr):
    """The parts, as a tuple, that a hook finds in a subject; None if that is of another kind."""

    _fields = ("hook", "arguments")
    hook: str
    arguments: list[ast.expr]


def with_ifs(function: FunctionNode) -> FunctionNode:
    """The function with conditions in place of match statements."""
    if not any(isinstance(node, ast.Match) for node in ast.walk(function)):
        return function
    made: FunctionNode = _Conditions().visit(copy.deepcopy(function))
    return made


class _Conditions(ast.NodeTransformer):
    def __init__(self) -> None:
        self.names: list[str] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        return node  # which runs as it is

    def visit_Match(self, node: ast.Match) -> list[ast.stmt]:
        self.generic_visit(node)
        before = len(self.names)
        subject = self.new_name()
        keep = ast.Assign(targets=[_stored(subject.id)], value=node.subject)
        tests = []
        for case in node.cases:
            captured: dict[str, ast.Name] = {}
            found = self.tests(case.pattern, subject, captured)
            assigned = [_assigned(name, value) for name, value in captured.items()]
            guard = [] if case.guard is None else [case.guard]
            tests.append(_all([*found, *_together(assigned), *guard]))
        # What these variables hold would be taken for something that is still in use.
        used: list[ast.expr] = [_stored(name) for name in self.names[before:]]
        let_go: ast.stmt = _at(node.subject, ast.Assign(targets=used, value=_constant(None)))
        rest = [let_go]
        for case, test in zip(reversed(node.cases), reversed(tests), strict=True):
            rest = [_at(case.pattern, ast.If(test=test, body=[let_go, *case.body], orelse=rest))]
        return [_at(node.subject, keep), *rest]

    def tests(self, pattern: ast.pattern, subject: ast.Name, captured: dict[str, ast.Name]) -> list[ast.expr]:
        """What must all be true, in this order. captured: gets the variables that the pattern names."""
        found: list[ast.expr]
        match pattern:
            case ast.MatchValue(value=value):
                found = [ast.Compare(left=subject, ops=[ast.Eq()], comparators=[value])]
            case ast.MatchSingleton(value=value):
                found = [ast.Compare(left=subject, ops=[ast.Is()], comparators=[_constant(value)])]
            case ast.MatchAs(pattern=inner, name=name):
                found = [] if inner is None else self.tests(inner, subject, captured)
                if name is not None:
                    captured[name] = subject
            case ast.MatchOr(patterns=patterns):
                found = [ast.BoolOp(op=ast.Or(), values=self.ways(patterns, subject, captured))]
            case ast.MatchSequence(patterns=patterns):
                found = self.sequence(patterns, subject, captured)
            case ast.MatchMapping(keys=keys, patterns=patterns, rest=rest):
                wanted = ast.Tuple(elts=keys, ctx=ast.Load())
                all_parts = [*patterns, ast.MatchAs(name=rest)]
                constants = [wanted, _constant(rest is not None)]
                found = self.parts("parts_of_mapping", subject, constants, all_parts, captured)
            case ast.MatchClass(cls=kind, patterns=first, kwd_attrs=names, kwd_patterns=by_name):
                constants = [kind, _constant(len(first)), _constant(tuple(names))]
                found = self.parts("parts_of_object", subject, constants, [*first, *by_name], captured)
            case _:
                raise AssertionError(pattern)
        return [_at(pattern, test) for test in found]

    def ways(
        self, patterns: list[ast.pattern], subject: ast.Name, captured: dict[str, ast.Name]
    ) -> list[ast.expr]:
        """The ways to fit: what they name, which is the same in each, is kept in one place."""
        kept: dict[str, ast.Name] = {}
        found = []
        for pattern in patterns:
            of_way: dict[str, ast.Name] = {}
            tests = self.tests(pattern, subject, of_way)
            for name in of_way:
                kept.setdefault(name, self.new_name())
            assigned = [_assigned(kept[name].id, value) for name, value in of_way.items()]
            found.append(_all([*tests, *_together(assigned)]))
        captured |= kept
        return found

    def sequence(
        self, patterns: list[ast.pattern], subject: ast.Name, captured: dict[str, ast.Name]
    ) -> list[ast.expr]:
        star = next((i for i, pattern in enumerate(patterns) if isinstance(pattern, ast.MatchStar)), None)
        counts = (len(patterns), None) if star is None else (star, len(patterns) - star - 1)
        # As CPython has it: all are unpacked, unless none is asked for, or nobody asks for those between.
        unpacks = not all(map(_fits_all, patterns)) and (star is None or not _fits_all(patterns[star]))
        constants: list[ast.expr] = [_constant(value) for value in (*counts, unpacks)]
        if unpacks:
            return self.parts("parts_of_sequence", subject, constants, patterns, captured)
        found = self.parts("parts_of_sequence", subject, constants, [], captured)
        for place, pattern in enumerate(patterns):
            from_start = star is None or place < star
            item = TakenApart()
            item.hook = "item_of_sequence"
            item.arguments = [subject, _constant(place if from_start else place - len(patterns))]
            found += self.part(item, pattern, captured)
        return found

    def parts(
        self,
        hook: str,
        subject: ast.Name,
        constants: list[ast.expr],
        patterns: list[ast.pattern],
        captured: dict[str, ast.Name],
    ) -> list[ast.expr]:
        """That the hook finds parts, and that each fits its pattern."""
        apart = TakenApart()
        apart.hook, apart.arguments = hook, [subject, *constants]
        taken: ast.expr = apart
        every = subject
        if not all(map(_fits_all, patterns)):
            every = self.new_name()
            taken = _assigned(every.id, taken)
        none = _constant(None)
        found: list[ast.expr] = [ast.Compare(left=taken, ops=[ast.IsNot()], comparators=[none])]
        for place, pattern in enumerate(patterns):
            item = ast.Subscript(value=every, slice=_constant(place), ctx=ast.Load())
            found += self.part(item, pattern, captured)
        return found

    def part(self, value: ast.expr, pattern: ast.pattern, captured: dict[str, ast.Name]) -> list[ast.expr]:
        """That one part fits its pattern."""
        if _fits_all(pattern):
            return []
        part = self.new_name()
        kept = _together([_assigned(part.id, value)])
        if isinstance(pattern, ast.MatchStar):
            pattern = ast.MatchAs(name=pattern.name)
        return [*kept, *self.tests(pattern, part, captured)]

    def new_name(self) -> ast.Name:
        self.names.append(f"_fusegrad_subject_{len(self.names) + 1}")
        return ast.Name(id=self.names[-1], ctx=ast.Load())


def _fits_all(pattern: ast.pattern) -> bool:
    """Whether it asks for nothing, and names nothing."""
    return isinstance(pattern, (ast.MatchAs, ast.MatchStar)) and (
        pattern.name is None and getattr(pattern, "pattern", None) is None
    )


def _constant(value: Any) -> ast.Constant:
    return ast.Constant(value=value)


def _stored(name: str) -> ast.Name:
    return ast.Name(id=name, ctx=ast.Store())


def _assigned(name: str, value: ast.expr) -> ast.expr:
    return ast.NamedExpr(target=_stored(name), value=value)


def _together(expressions: list[ast.expr]) -> list[ast.expr]:
    """One that is true, once all are evaluated; none if there are none."""
    return [ast.Tuple(elts=expressions, ctx=ast.Load())] if expressions else []


def _at(origin: ast.AST, node: Node) -> Node:
    return ast.fix_missing_locations(ast.copy_location(node, origin))


def _all(tests: list[ast.expr]) -> ast.expr:
    match tests:
        case []:
            return _constant(True)
        case [test]:
            return test
    return ast.BoolOp(op=ast.And(), values=tests)
