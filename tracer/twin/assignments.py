"""Rewriting assignments: what stores goes in; statements with hooks come out, in the order of Python."""

from __future__ import annotations

import ast

from fusegrad.tracer.twin.expressions import OPERATORS, Expressions, names_pattern, parts_for_names
from fusegrad.tracer.twin.induction import NumberPart, NumberUse
from fusegrad.tracer.twin.plain_loops import PlainLoop, Row, Test
from fusegrad.tracer.twin.sites import SiteTable
from fusegrad.tracer.twin.source import Unsupported


class Assignments(Expressions):
    """Rewrites what stores into variables, attributes and items.

    rows, written, read_back, tests, numbers, steps, mixed, kept_numbers, offsets, appends, parts: the nodes
    in plain loops that are more than their like elsewhere (see `plain_loops.py`), and the variable that has
    the rounds, is appended to or written.
    """

    def __init__(self, free: tuple[str, ...], class_name: str | None, sites: SiteTable) -> None:
        super().__init__(free, class_name, sites)
        self.rows: dict[ast.expr, tuple[str, int, Row]] = {}
        self.written: dict[ast.expr, tuple[str, int, Row]] = {}
        self.tests: dict[ast.expr, tuple[str, int, Test]] = {}
        self.read_back: set[ast.expr] = set()
        self.numbers: dict[ast.expr, tuple[str, PlainLoop, NumberUse]] = {}
        self.steps: dict[ast.stmt, tuple[str, int, NumberPart]] = {}
        self.mixed: dict[ast.expr, str] = {}
        self.kept_numbers: dict[ast.expr, tuple[str, int]] = {}
        self.offsets: dict[ast.expr, str] = {}
        self.appends: dict[ast.Expr, str] = {}
        self.parts: dict[ast.expr, str] = {}
        self.rounds_around: list[str] = []  # of the loops around, the innermost last

    def rolling(self, node: ast.AST) -> ast.expr:
        """The rounds of the innermost loop around of which some may be left out."""
        names = [self.load(name, node) for name in reversed(self.rounds_around)]
        return names[0] if len(names) == 1 else self.hook("rolling", node, *names, site=False)

    def statement_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        parts = parts_for_names(node)
        rebinds = any(map(self.rebinds, node.targets))
        if parts is not None and not rebinds:
            names = node.targets[0].elts  # type: ignore[attr-defined]
            given = [self.given_to(name, part) for name, part in zip(names, parts, strict=True)]
            value: ast.expr = self.at(node.value, ast.Tuple(elts=given, ctx=ast.Load()))
            return [self.at(node, ast.Assign(targets=node.targets, value=value))]
        value = self.stepped(node, self.given_to(node.targets[0], node.value))
        if all(isinstance(target, ast.Name) for target in node.targets) and not rebinds:
            return [self.at(node, ast.Assign(targets=node.targets, value=value))]
        if len(node.targets) == 1:
            return self.assign(node.targets[0], value)
        name = self.temporary()
        result = [self.at(node, ast.Assign(targets=[self.store(name, node)], value=value))]
        for target in node.targets:
            result += self.assign(target, self.load(name, target))
        return result + self.forget([name], node)

    def stepped(self, node: ast.Assign | ast.AugAssign, value: ast.expr) -> ast.expr:
        """What a variable gets, and how it follows from what that was, of a number that recurs."""
        if node not in self.steps:
            return value
        name, place, part = self.steps[node]
        others = [*map(self.held, part.others.values())]
        given = self.load(part.counter, node), self.load(name, node), place, part.function(), *others
        return self.hook("stepped", node, value, *given, site=False)

    def held(self, node: ast.expr) -> ast.expr:
        """What a variable holds, or an attribute of its own; None for an attribute that is computed."""
        if not isinstance(node, ast.Attribute):
            return self.expression(node)
        return self.hook("held", node, self.held(node.value), self.mangle(node.attr))

    def given_to(self, target: ast.expr, node: ast.expr) -> ast.expr:
        """What a target is given; a list that a round writes out is its own."""
        value = self.expression(node)
        if self.rounds_around and isinstance(node, ast.List) and self.is_collected(target):
            return self.hook("made_in_round", node, value, self.rolling(node), site=False)
        return value

    def assign(self, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        """Store a rewritten value into any target, with the order of evaluation that Python has."""
        if isinstance(target, ast.Name) and self.rebinds(target):
            is_global = target.id in self.scope.declared_global
            hook = self.hook("store_variable", target, value, self.mangle(target.id), is_global)
            return [self.at(target, ast.Expr(value=hook))]
        if isinstance(target, ast.Name):
            return [self.at(target, ast.Assign(targets=[target], value=value))]
        if isinstance(target, ast.Attribute):
            owner = self.expression(target.value)
            hook = self.hook("store_attribute", target, value, owner, self.mangle(target.attr))
        elif isinstance(target, ast.Subscript):
            stored = value, self.expression(target.value), self.index(target.slice)
            if target in self.parts:
                made = self.hook("store_part", target, *stored, self.rolling(target))
                return [self.keep(self.parts[target], made, target)]
            if target in self.written:
                name, place, row = self.written[target]
                hook = self.hook("store_row", target, *stored, self.load(name, target), place, row.slopes)
            else:
                hook = self.hook("store_item", target, *stored)
        else:
            assert isinstance(target, (ast.Tuple, ast.List))
            return self.unpack(target, value)
        return [self.at(target, ast.Expr(value=hook))]

    def rebinds(self, target: ast.expr) -> bool:
        """Whether a target has a global, or a variable of a function around the one that is rewritten."""
        names = (n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        return not self.scope.rebound.isdisjoint(names)

    def unpack(self, target: ast.Tuple | ast.List, value: ast.expr) -> list[ast.stmt]:
        pattern = None if self.rebinds(target) else names_pattern(target)
        if pattern is not None:
            unpacked = self.hook("unpacked", target, value, pattern)
            return [self.at(target, ast.Assign(targets=[target], value=unpacked))]
        names, targets, stores = [], [], []
        for element in target.elts:
            name = self.temporary()
            names.append(name)
            kept = self.load(name, element)
            if isinstance(element, ast.Starred):
                targets.append(
                    self.at(element, ast.Starred(value=self.store(name, element), ctx=ast.Store()))
                )
                stores += self.assign(element.value, self.local(element, kept))
            else:
                targets.append(self.store(name, element))
                stores += self.assign(element, kept)
        names_only = self.at(target, ast.Tuple(elts=targets, ctx=ast.Store()))
        first = self.at(target, ast.Assign(targets=[names_only], value=self.iterable(target, value, ())))
        return [first, *stores, *self.forget(names, target)]

    def statement_AnnAssign(self, node: ast.AnnAssign) -> list[ast.stmt]:
        if node.value is None:
            if not isinstance(node.target, ast.Name):
                raise Unsupported("it annotates an attribute or an item", node.lineno)
            # Only declares the name as local, which a branch that is never taken does, too.
            never = ast.Assign(targets=[node.target], value=ast.Constant(value=None))
            test = ast.Constant(value=False)
            return [self.at(node, ast.If(test=test, body=[self.at(node, never)], orelse=[]))]
        return self.assign(node.target, self.expression(node.value))

    def statement_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        target, operator = node.target, OPERATORS[type(node.op)]
        if isinstance(target, ast.Name) and self.rebinds(target):
            before, value = self.expression(self.load(target.id, target)), self.expression(node.value)
            return self.assign(target, self.hook("inplace", node, operator, before, value))
        if isinstance(target, ast.Name):
            old: ast.expr = self.load(target.id, target)
            value = self.expression(node.value)
            if self.rounds_around:
                value = self.hook("inplace_in_round", node, operator, old, value, self.rolling(node))
                value = self.stepped(node, value)
            else:
                value = self.hook("inplace", node, operator, old, value)
            return [self.at(node, ast.Assign(targets=[target], value=value))]
        if isinstance(target, ast.Subscript) and target in self.parts:
            return self.change_part(node, target)
        names = [self.temporary()]
        result = [self.keep(names[0], self.expression(target.value), target)]
        owner = self.load(names[0], target)
        if isinstance(target, ast.Attribute):
            name = self.mangle(target.attr)
            kind = "counted_attribute" if operator in ("+", "-") else "attribute"
            old = self.hook(kind, target, owner, name)
            value = self.hook("inplace", node, operator, old, self.expression(node.value))
            stored: ast.expr = self.hook("store_" + kind, target, value, owner, name)
        else:
            assert isinstance(target, ast.Subscript)
            names.append(self.temporary())
            result.append(self.keep(names[1], self.index(target.slice), target))
            key = self.load(names[1], target)
            stored = self.change_item(node, target, owner, key)
        return [*result, self.at(node, ast.Expr(value=stored)), *self.forget(names, node)]

    def change_part(self, node: ast.AugAssign, target: ast.Subscript) -> list[ast.stmt]:
        """`u[key] += ...` of a variable `u`, which another tensor may stand for then."""
        key, value, name = self.temporary(), self.temporary(), self.parts[target]
        result = [self.keep(key, self.index(target.slice), target)]
        result.append(self.keep(value, self.expression(node.value), target))
        given = (self.load(n, target) for n in (value, name, key))
        made = self.hook("change_part", node, OPERATORS[type(node.op)], *given, self.rolling(node))
        return [*result, self.keep(name, made, node), *self.forget([key, value], node)]

    def change_item(
        self, node: ast.AugAssign, target: ast.Subscript, owner: ast.expr, key: ast.expr
    ) -> ast.expr:
        """The end of `owner[key] += ...`."""
        operator = OPERATORS[type(node.op)]
        if target not in self.written:
            old = self.hook("item", target, owner, key)
            value = self.hook("inplace", node, operator, old, self.expression(node.value))
            return self.hook("store_item", target, value, owner, key)
        rounds, place, row = self.written[target]
        follows = self.load(rounds, target), place, row.slopes
        old = self.hook("row", target, owner, key, *follows, True)
        changed = self.hook(
            "inplace_row", node, operator, old, self.expression(node.value), owner, key, *follows
        )
        return self.hook("store_row", target, changed, owner, key, *follows)

    def statement_Delete(self, node: ast.Delete) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for target in _flattened(node.targets):
            if isinstance(target, ast.Name):
                result.append(self.at(node, ast.Delete(targets=[target])))
            elif isinstance(target, ast.Attribute):
                owner = self.expression(target.value)
                hook = self.hook("delete_attribute", target, owner, self.mangle(target.attr))
                result.append(self.at(node, ast.Expr(value=hook)))
            else:
                assert isinstance(target, ast.Subscript)
                owner, index = self.expression(target.value), self.index(target.slice)
                hook = self.hook("delete_item", target, owner, index)
                result.append(self.at(node, ast.Expr(value=hook)))
        return result


def _flattened(targets: list[ast.expr]) -> list[ast.expr]:
    flat: list[ast.expr] = []
    for target in targets:
        flat += _flattened(target.elts) if isinstance(target, (ast.Tuple, ast.List)) else [target]
    return flat
