"""Scopes: a function's syntax tree goes in; the names that it binds itself come out."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from fusegrad.tracer.twin.collected_lists import CollectedLists, collected_lists
from fusegrad.tracer.twin.source import FunctionNode, Unsupported

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(slots=True)
class Scope:
    """One function, lambda or comprehension within the function that is rewritten.

    bound: the names of its own variables. captured: names that functions within it use. collected: those of
    lists that nobody else has until they are read. uses: how often its names are read. given: the variables
    that certainly have a value where the rewriting stands, unless they are among the `unset`. rebound: the
    globals, and the variables of functions around the one that is rewritten, that it assigns to.
    """

    parent: Scope | None
    bound: set[str]
    is_comprehension: bool = False
    first_parameter: str | None = None
    declared_global: set[str] = field(default_factory=set)
    captured: frozenset[str] = frozenset()
    collected: CollectedLists = field(default_factory=CollectedLists)
    uses: Counter[str] = field(default_factory=Counter)
    given: frozenset[str] = frozenset()
    unset: frozenset[str] = frozenset()
    rebound: frozenset[str] = frozenset()

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

    def has_value(self, name: str) -> bool:
        """Whether a variable of this scope certainly has a value where the rewriting stands."""
        return name in self.given and name not in self.unset

    def is_used_elsewhere(self, name: str, node: ast.AST) -> bool:
        """Whether a name is read outside of a node."""
        return self.uses[name] > uses(node)[name]

    def is_collected(self, name: str) -> bool:
        """Whether the name is a variable of a list that nobody else has until it is read, in this scope or in
        the one that a comprehension stands in.
        """
        scope = self
        while scope.is_comprehension and scope.parent is not None and name not in scope.bound:
            scope = scope.parent
        return name in scope.collected.names and scope.is_own(name)

    def is_only_joined(self, name: str) -> bool:
        """Whether such a list is read nowhere but by what joins its items."""
        return name in self.collected.joined


def function_scope(node: FunctionNode, parent: Scope | None) -> Scope:
    """The scope of a function or lambda. Raises Unsupported if it binds a name of an outer scope by
    something else than an assignment.
    """
    arguments = node.args
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    first = (arguments.posonlyargs + arguments.args)[:1]
    parameters += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    collector = _Bindings()
    for statement in [node.body] if isinstance(node, ast.Lambda) else node.body:
        collector.visit(statement)
    outer = {n: line for n, line in collector.nonlocals.items() if parent is None or not parent.is_local(n)}
    for name in (outer.keys() | collector.globals.keys()) & collector.otherwise:
        line = {**outer, **collector.globals}[name]
        raise Unsupported(f"it rebinds the outer variable `{name}` otherwise than by an assignment", line)
    rebound = (outer.keys() | collector.globals.keys()) & collector.bound
    bound = {a.arg for a in parameters} | (collector.bound - collector.nonlocals.keys() - rebound)
    within = (n for n in ast.walk(node) if isinstance(n, _FUNCTIONS) and n is not node)
    captured = {n.id for function in within for n in ast.walk(function) if isinstance(n, ast.Name)}
    parameter = first[0].arg if first else None
    lists = CollectedLists() if isinstance(node, ast.Lambda) else collected_lists(node.body)
    given = frozenset(a.arg for a in parameters)
    return Scope(
        parent, bound, False, parameter, set(collector.globals), frozenset(captured),
        lists._replace(names=lists.names - given), uses(node), given, frozenset(_unset(node)),
        frozenset(rebound),
    )  # fmt: skip


def uses(node: ast.AST) -> Counter[str]:
    """How often names are read within a node; one that is given a value by `:=` is read there."""
    names = (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
    changed = (n.target for n in ast.walk(node) if isinstance(n, (ast.AugAssign, ast.NamedExpr)))
    return Counter([*names, *(target.id for target in changed if isinstance(target, ast.Name))])


def given_by(statement: ast.stmt) -> frozenset[str]:
    """The names that certainly have a value where a statement has come to its end."""
    match statement:
        case ast.Assign(targets=targets):
            return _stored(*targets)
        case ast.AnnAssign(target=target, value=ast.expr()) | ast.AugAssign(target=target):
            return _stored(target)
        case ast.If(body=body, orelse=orelse):
            first, second = (frozenset[str]().union(*map(given_by, branch)) for branch in (body, orelse))
            return first & second
    return frozenset()


def _stored(*targets: ast.expr) -> frozenset[str]:
    names = (n for target in targets for n in ast.walk(target) if isinstance(n, ast.Name))
    return frozenset(n.id for n in names if isinstance(n.ctx, ast.Store))


def _unset(node: ast.AST) -> set[str]:
    """The names that statements within take their values from."""
    deleted = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Del)}
    return deleted | {n.name for n in ast.walk(node) if isinstance(n, ast.ExceptHandler) and n.name}


def comprehension_scope(generators: list[ast.comprehension], parent: Scope) -> Scope:
    """The scope of a comprehension: its loop variables."""
    bound = {n.id for g in generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
    return Scope(parent, bound, True)


class _Bindings(ast.NodeVisitor):
    """Names bound by the statements of one function, not of the functions within.

    otherwise: those that something else binds than an assignment, or deletes.
    """

    def __init__(self) -> None:
        self.bound: set[str] = set()
        self.otherwise: set[str] = set()
        self._assigned: set[ast.AST] = set()
        self.globals: dict[str, int] = {}
        self.nonlocals: dict[str, int] = {}

    def binds(self, name: str) -> None:
        """Something else than an assignment binds a name."""
        self.bound.add(name)
        self.otherwise.add(name)

    def visit_Name(self, node: ast.Name) -> None:
        if node in self._assigned:
            self.bound.add(node.id)
        elif not isinstance(node.ctx, ast.Load):
            self.binds(node.id)

    def _visit_assignment(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        self._assigned.update(
            n for t in targets for n in ast.walk(t) if isinstance(n, ast.Name) and _is_stored(n)
        )
        self.generic_visit(node)

    visit_Assign = visit_AnnAssign = visit_AugAssign = _visit_assignment

    def visit_Global(self, node: ast.Global) -> None:
        self.globals.update(dict.fromkeys(node.names, node.lineno))

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self.nonlocals.update(dict.fromkeys(node.names, node.lineno))

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.binds(node.name)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.binds(node.name)
        for outer in [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.visit(outer)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for outer in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.visit(outer)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.binds(node.name)

    def visit_alias(self, node: ast.alias) -> None:
        self.binds(node.asname or node.name.partition(".")[0])

    def _visit_comprehension(self, node: ast.AST) -> None:
        # Its loop variables are its own; a walrus within binds here.
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                self.binds(inner.target.id)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension


def _is_stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def names_stored(statements: Sequence[ast.stmt]) -> tuple[set[str], set[str]]:
    """The variables that statements assign; and those of them that they may read before."""
    assigned, read, read_first = set[str](), set[str](), set[str]()
    for statement in statements:
        names = [n for n in ast.walk(statement) if isinstance(n, ast.Name)]
        read |= {n.id for n in names if isinstance(n.ctx, ast.Load)}
        new = {n.id for n in names if isinstance(n.ctx, ast.Store)} - assigned
        read_first |= read & new
        assigned |= new
    return assigned, read_first
