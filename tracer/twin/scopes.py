"""Scopes: a function's syntax tree goes in; the names that it binds itself come out."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from fusegrad.tracer.twin.plain_loops import collected_lists
from fusegrad.tracer.twin.source import FunctionNode, Unsupported

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(slots=True)
class Scope:
    """One function, lambda or comprehension within the function that is rewritten.

    bound: the names of its own variables. captured: names that functions within it use. collected: those of
    lists that are only appended to and joined (see `plain_loops.py`).
    """

    parent: Scope | None
    bound: set[str]
    is_comprehension: bool = False
    first_parameter: str | None = None
    declared_global: set[str] = field(default_factory=set)
    captured: frozenset[str] = frozenset()
    collected: frozenset[str] = frozenset()

    def is_local(self, name: str) -> bool:
        """Whether the name is bound here or in a scope around, up to the function that is rewritten."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.declared_global:
                return False
            if name in scope.bound:
                return True
            scope = scope.parent
        return False

    def is_own(self, name: str) -> bool:
        """Whether the name is a variable of this scope, which no other function sees."""
        return name in self.bound and name not in self.captured

    def is_collected(self, name: str) -> bool:
        """Whether the name is a variable of this scope of a list that is only appended to and joined."""
        return name in self.collected and self.is_own(name)


def function_scope(node: FunctionNode, parent: Scope | None) -> Scope:
    """The scope of a function or lambda. Raises Unsupported if it writes a name of an outer scope."""
    arguments = node.args
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    first = (arguments.posonlyargs + arguments.args)[:1]
    parameters += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    collector = _Bindings()
    for statement in [node.body] if isinstance(node, ast.Lambda) else node.body:
        collector.visit(statement)
    for name, line in collector.nonlocals.items():
        if parent is None or not parent.is_local(name):
            raise Unsupported(f"it rebinds the outer variable `{name}`", line)
    for name in collector.globals.keys() & collector.bound:
        raise Unsupported(f"it rebinds the global `{name}`", collector.globals[name])
    bound = {a.arg for a in parameters} | (collector.bound - collector.nonlocals.keys())
    within = (n for n in ast.walk(node) if isinstance(n, _FUNCTIONS) and n is not node)
    captured = {n.id for function in within for n in ast.walk(function) if isinstance(n, ast.Name)}
    parameter = first[0].arg if first else None
    lists = [] if isinstance(node, ast.Lambda) else collected_lists(node.body)
    return Scope(
        parent, bound, False, parameter, set(collector.globals), frozenset(captured),
        frozenset(lists) - {a.arg for a in parameters},
    )  # fmt: skip


def comprehension_scope(generators: list[ast.comprehension], parent: Scope) -> Scope:
    """The scope of a comprehension: its loop variables."""
    bound = {n.id for g in generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
    return Scope(parent, bound, True)


class _Bindings(ast.NodeVisitor):
    """Names bound by the statements of one function, not of the functions within."""

    def __init__(self) -> None:
        self.bound: set[str] = set()
        self.globals: dict[str, int] = {}
        self.nonlocals: dict[str, int] = {}

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.bound.add(node.id)

    def visit_Global(self, node: ast.Global) -> None:
        self.globals.update(dict.fromkeys(node.names, node.lineno))

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self.nonlocals.update(dict.fromkeys(node.names, node.lineno))

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.bound.add(node.name)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.bound.add(node.name)
        for outer in [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.visit(outer)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for outer in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.visit(outer)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.bound.add(node.name)

    def _visit_comprehension(self, node: ast.AST) -> None:
        # Its loop variables are its own; a walrus within binds here.
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                self.bound.add(inner.target.id)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension
