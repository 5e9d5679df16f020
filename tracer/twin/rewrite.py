"""Rewriting statements: a function's syntax tree goes in, one whose every statement calls hooks comes out."""

from __future__ import annotations

import ast

from fusegrad.tracer.twin.expressions import (
    HOOKS,
    OPERATORS,
    Expressions,
    Pattern,
    names_pattern,
    parts_for_names,
)
from fusegrad.tracer.twin.number_parts import NumberPart, NumberUse
from fusegrad.tracer.twin.plain_loops import COUNTED, NotPlain, PlainLoop, Row, Test, Tested, plain_loop
from fusegrad.tracer.twin.rounds import counted, endless, without_continue
from fusegrad.tracer.twin.scopes import given_by
from fusegrad.tracer.twin.sites import SiteTable
from fusegrad.tracer.twin.source import Unsupported


class Rewriter(Expressions):
    """Rewrites a function; ``rewrite`` is the way in.

    rows, written, read_back, tests, numbers, mixed, offsets, appends: the nodes in plain loops that are more
    than their like elsewhere (see `plain_loops.py`), and the variable that has the rounds.
    """

    def __init__(self, free: tuple[str, ...], class_name: str | None, sites: SiteTable) -> None:
        super().__init__(free, class_name, sites)
        self.rows: dict[ast.expr, tuple[str, int, Row]] = {}
        self.written: dict[ast.expr, tuple[str, int, Row]] = {}
        self.tests: dict[ast.expr, tuple[str, int, Test]] = {}
        self.read_back: set[ast.expr] = set()
        self.numbers: dict[ast.expr, tuple[str, list[str], NumberUse]] = {}
        self.mixed: dict[ast.expr, str] = {}
        self.offsets: dict[ast.expr, str] = {}
        self.appends: dict[ast.Expr, str] = {}
        self.rounds_around: list[str] = []  # of the loops around, the innermost last

    def statements(self, nodes: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        given = self.scope.given
        for node in nodes:
            method = getattr(self, "statement_" + type(node).__name__, None)
            if method is None:
                what = _WORDS.get(type(node), f"a statement that is not followed ({type(node).__name__})")
                raise Unsupported(f"it contains {what}", node.lineno)
            result.extend(method(node))
            self.scope.given |= given_by(node)
        self.scope.given = given
        return result

    def statement_Pass(self, node: ast.stmt) -> list[ast.stmt]:
        return [node]

    statement_Continue = statement_Global = statement_Nonlocal = statement_Pass

    def statement_Break(self, node: ast.Break) -> list[ast.stmt]:
        return [*self.left(node), node]

    def left(self, node: ast.stmt) -> list[ast.stmt]:
        """What a statement does first that leaves a plain loop."""
        if not self.rounds_around:
            return []
        left = self.hook("rounds_left", node, self.load(self.rounds_around[-1], node), site=False)
        return [self.at(node, ast.Expr(value=left))]

    def rolling(self, node: ast.AST) -> ast.expr:
        """The rounds of the innermost loop around of which some may be left out."""
        names = [self.load(name, node) for name in reversed(self.rounds_around)]
        return names[0] if len(names) == 1 else self.hook("rolling", node, *names, site=False)

    def statement_Expr(self, node: ast.Expr) -> list[ast.stmt]:
        if node in self.appends:
            return [self.at(node, ast.Expr(value=self.appended(node)))]
        return [self.at(node, ast.Expr(value=self.expression(node.value)))]

    def statement_Return(self, node: ast.Return) -> list[ast.stmt]:
        value = None if node.value is None else self.expression(node.value)
        return [*self.left(node), self.at(node, ast.Return(value=value))]

    def statement_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        parts = parts_for_names(node)
        if parts is not None:
            value: ast.expr = self.at(node.value, ast.Tuple(elts=self.expressions(parts), ctx=ast.Load()))
            return [self.at(node, ast.Assign(targets=node.targets, value=value))]
        value = self.expression(node.value)
        if all(isinstance(target, ast.Name) for target in node.targets):
            return [self.at(node, ast.Assign(targets=node.targets, value=value))]
        if len(node.targets) == 1:
            return self.assign(node.targets[0], value)
        name = self.temporary()
        result = [self.at(node, ast.Assign(targets=[self.store(name, node)], value=value))]
        for target in node.targets:
            result += self.assign(target, self.load(name, target))
        return result + self.forget([name], node)

    def assign(self, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        """Store a rewritten value into any target, with the order of evaluation that Python has."""
        if isinstance(target, ast.Name):
            return [self.at(target, ast.Assign(targets=[target], value=value))]
        if isinstance(target, ast.Attribute):
            owner = self.expression(target.value)
            hook = self.hook("store_attribute", target, value, owner, self.mangle(target.attr))
        elif isinstance(target, ast.Subscript):
            stored = value, self.expression(target.value), self.index(target.slice)
            if target in self.written:
                name, place, row = self.written[target]
                hook = self.hook("store_row", target, *stored, self.load(name, target), place, row.slopes)
            else:
                hook = self.hook("store_item", target, *stored)
        else:
            assert isinstance(target, (ast.Tuple, ast.List))
            return self.unpack(target, value)
        return [self.at(target, ast.Expr(value=hook))]

    def unpack(self, target: ast.Tuple | ast.List, value: ast.expr) -> list[ast.stmt]:
        pattern = names_pattern(target)
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
        if isinstance(target, ast.Name):
            old: ast.expr = self.load(target.id, target)
            value = self.expression(node.value)
            if self.rounds_around:
                value = self.hook("inplace_in_round", node, operator, old, value, self.rolling(node))
            else:
                value = self.hook("inplace", node, operator, old, value)
            return [self.at(node, ast.Assign(targets=[target], value=value))]
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

    def keep(self, name: str, value: ast.expr, origin: ast.AST) -> ast.stmt:
        return self.at(origin, ast.Assign(targets=[self.store(name, origin)], value=value))

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

    def target(self, target: ast.expr) -> tuple[ast.expr, Pattern, list[ast.stmt]]:
        """A loop or with target: what to bind, how it unpacks, and stores that come first in the body."""
        pattern = names_pattern(target)
        if pattern is not None:
            return target, pattern, []
        name = self.temporary()
        stores = self.assign(target, self.load(name, target))
        return self.store(name, target), (), [*stores, *self.forget([name], target)]

    def statement_For(self, node: ast.For) -> list[ast.stmt]:
        body = without_continue(node.body)
        # What follows if nothing has left the loop stands behind it.
        loop = ast.copy_location(ast.For(target=node.target, iter=node.iter, body=body, orelse=[]), node)
        try:
            plain = plain_loop(loop, self.scope)
            self.check_inner_loops(loop, plain)
        except NotPlain as refusal:
            return self.any_loop(node, refusal)
        used = tuple([plain.used.get(target, 0) for target in plain.targets])
        tested = plain.tested()
        items = self.rounds(node, names_pattern(node.target), used, tested)
        return self.plain_loop(loop, plain, items, node.orelse)

    def check_inner_loops(self, loop: ast.For, plain: PlainLoop) -> None:
        """Raise NotPlain where something follows from the numbers of the rounds of two loops."""
        follows = plain.follows()
        for inner in (n for statement in loop.body for n in ast.walk(statement) if isinstance(n, ast.For)):
            if not follows.isdisjoint(self.following(inner)):
                raise NotPlain("its rounds use their number in a loop of their own", inner.lineno)

    def following(self, loop: ast.For) -> set[ast.AST]:
        """What follows from the number of the round, if a loop is plain."""
        try:
            return plain_loop(loop, self.scope).follows()
        except NotPlain:
            return set()

    def any_loop(self, node: ast.For, refusal: NotPlain) -> list[ast.stmt]:
        """A loop of which every round runs."""
        iterable = self.expression(node.iter)
        target, pattern, stores = self.target(node.target)
        iterable = self.iterable(node.iter, iterable, pattern)
        iterable = self.hook("not_plain", node, iterable, refusal.reason, refusal.line)
        body, orelse = [*stores, *self.statements(node.body)], self.statements(node.orelse)
        return [self.at(node, ast.For(target=target, iter=iterable, body=body, orelse=orelse))]

    def plain_loop(
        self, node: ast.For, plain: PlainLoop, items: ast.expr, orelse: list[ast.stmt] | None = None
    ) -> list[ast.stmt]:
        """A loop of which some rounds may be left out, over these items. orelse: see `ast.For`."""
        name = self.temporary()
        rounds = self.keep(name, items, node.iter)
        written = {subscript.value.id for subscript in plain.written if isinstance(subscript.value, ast.Name)}
        for subscript in plain.rows:
            if isinstance(subscript.value, ast.Name) and subscript.value.id in written:
                self.read_back.add(subscript)
        for found, into in ((plain.rows, self.rows), (plain.written, self.written)):
            for subscript, row in found.items():
                into[subscript] = name, plain.targets.index(row.counter), row
                self.offsets.update(dict.fromkeys(row.offsets, name))
        for comparison, test in plain.tests.items():
            self.tests[comparison] = name, plain.targets.index(test.counter), test
            self.offsets.update(dict.fromkeys(test.offsets, name))
        for comparison, test in plain.counts.items():
            self.tests[comparison] = name, COUNTED, test
            self.offsets.update(dict.fromkeys(test.offsets, name))
        self.numbers.update((node, (name, plain.targets, use)) for node, use in plain.numbers.items())
        self.mixed.update(dict.fromkeys(plain.mixed, name))
        self.appends.update(plain.appends)
        names = (name, *plain.carried)
        ended = self.hook("round_ended", node, *(self.load(n, node) for n in names), site=False)
        on: ast.stmt = ast.Expr(value=ended)
        if plain.carried:
            targets: list[ast.expr] = [self.store(n, node) for n in plain.carried]
            on = ast.Assign(targets=[self.at(node, ast.Tuple(elts=targets, ctx=ast.Store()))], value=ended)
        self.rounds_around.append(name)
        body = [*self.statements(node.body), self.at(node, on)]
        self.rounds_around.pop()
        rest = self.statements(orelse or [])
        loop = ast.For(target=node.target, iter=self.load(name, node.iter), body=body, orelse=rest)
        return [rounds, self.at(node, loop), *self.forget([name], node)]

    def rounds(
        self,
        node: ast.For,
        pattern: Pattern | None,
        used: tuple[int, ...],
        tested: Tested | None,
    ) -> ast.expr:
        """What a plain loop iterates over; what gives several things at a time is taken apart."""
        match node.iter:
            case ast.Call(func=ast.Name(id=name) as function, args=args, keywords=[]) if name in _TOGETHER:
                if not any(isinstance(argument, ast.Starred) for argument in args):
                    given = [self.expression(function), *self.expressions(args)]
                    return self.hook("rounds_of", node, pattern, used, tested, *given)
        return self.hook("rounds", node, self.expression(node.iter), pattern, used, tested)

    def expression(self, node: ast.expr) -> ast.expr:
        made = super().expression(node)
        if node in self.mixed:
            made = self.hook("mixed", node, made, self.load(self.mixed[node], node), site=False)
        if node not in self.offsets:
            return made
        return self.hook("offset", node, made, self.load(self.offsets[node], node), site=False)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if self.is_collected(node.value) and node not in self.rows:
            rounds = self.rolling(node) if self.rounds_around else None
            return self.hook("listed", node, node.value, self.index(node.slice), rounds)
        if node not in self.rows:
            return super().visit_Subscript(node)
        name, place, row = self.rows[node]
        found = self.expression(node.value), self.index(node.slice), self.load(name, node)
        return self.hook("row", node, *found, place, row.slopes, node in self.read_back)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if node not in self.tests:
            return super().visit_Compare(node)
        name, place, test = self.tests[node]
        symbol, right = OPERATORS[type(node.ops[0])], node.comparators[0]
        follows = self.load(name, node), place, test.slope
        if test.modulus is not None:
            assert isinstance(node.left, ast.BinOp)
            sides = self.expressions([node.left.left, test.modulus, right])
            return self.hook("compare_remainder", node, symbol, *sides, *follows)
        sides = self.expressions([node.left, right])
        return self.hook("compare_number", node, symbol, *sides, *follows)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if node not in self.numbers:
            return super().visit_BinOp(node)
        name, targets, use = self.numbers[node]

        def of(part: NumberPart | None) -> ast.expr:
            if part is None:
                return self.at(node, ast.Constant(value=None))
            place = ast.Constant(value=targets.index(part.counter))
            others = self.expressions([self.load(other, node) for other in part.others])
            return self.at(node, ast.Tuple(elts=[place, part.function(), *others], ctx=ast.Load()))

        sides = self.expression(node.left), self.expression(node.right)
        given = self.load(name, node), of(use.parts[0]), of(use.parts[1]), use.leaves
        return self.hook("binary_of_number", node, OPERATORS[type(node.op)], *sides, *given)

    def appended(self, node: ast.Expr) -> ast.expr:
        """The statement that appends what a round leaves to a list."""
        assert isinstance(node.value, ast.Call)
        owner = self.appends[node]
        value = self.expression(node.value.args[0])
        seen = not self.scope.is_only_joined(owner)
        return self.hook("append", node, self.load(owner, node), value, self.rolling(node), seen)

    def statement_While(self, node: ast.While) -> list[ast.stmt]:
        found = counted(node)
        if found is not None:
            loop, step = found
            try:
                plain = plain_loop(loop, self.scope)
            except NotPlain:
                return self.any_while(node)
            (target,) = plain.targets
            number, used = self.load(target, node), plain.used.get(target, 0)
            return self.plain_loop(
                loop, plain, self.hook("counting", node, number, step, used, plain.tested())
            )
        try:
            loop = endless(node)
            plain = plain_loop(loop, self.scope)
        except NotPlain:
            return self.any_while(node)
        loop.target = self.store(self.temporary(), node)
        return self.plain_loop(loop, plain, self.hook("tested_rounds", node, plain.tested()))

    def any_while(self, node: ast.While) -> list[ast.stmt]:
        """A loop of which every round runs."""
        name = self.temporary()
        begins = self.keep(name, self.hook("while_begins", node), node)
        goes_on = self.hook("while_goes_on", node, self.load(name, node), site=False)
        test = self.at(node.test, ast.BoolOp(op=ast.And(), values=[self.test(node.test), goes_on]))
        body, orelse = self.statements(node.body), self.statements(node.orelse)
        loop = self.at(node, ast.While(test=test, body=body, orelse=orelse))
        return [begins, loop, *self.forget([name], node)]

    def statement_If(self, node: ast.If) -> list[ast.stmt]:
        test = self.test(node.test)
        body, orelse = self.statements(node.body), self.statements(node.orelse)
        return [self.at(node, ast.If(test=test, body=body, orelse=orelse))]

    def statement_With(self, node: ast.With) -> list[ast.stmt]:
        items, stores = [], []
        for item in node.items:
            manager = self.hook("context", item.context_expr, self.expression(item.context_expr))
            variable = None
            if item.optional_vars is not None:
                if not isinstance(item.optional_vars, ast.Name) and item is not node.items[-1]:
                    raise Unsupported("a with statement unpacks before its last item", node.lineno)
                if isinstance(item.optional_vars, ast.Name):
                    variable = item.optional_vars
                else:
                    name = self.temporary()
                    variable = self.store(name, item.optional_vars)
                    stores = self.assign(item.optional_vars, self.load(name, item.optional_vars))
                    stores += self.forget([name], item.optional_vars)
            items.append(ast.withitem(context_expr=manager, optional_vars=variable))
        self.cleanups += 1
        body = [*stores, *self.statements(node.body)]
        self.cleanups -= 1
        return [self.at(node, ast.With(items=items, body=body))]

    def statement_Try(self, node: ast.Try) -> list[ast.stmt]:
        if _leaves(node.finalbody):
            raise Unsupported("a finally clause returns, breaks or continues", node.finalbody[0].lineno)
        handlers = []
        self.cleanups += 1
        for handler in node.handlers:
            kind = None if handler.type is None else self.expression(handler.type)
            caught = self.at(handler, ast.Expr(value=self.hook("caught", handler)))
            handling, self.handling = self.handling, True
            body = [caught, *self.statements(handler.body)]
            self.handling = handling
            handlers.append(self.at(handler, ast.ExceptHandler(type=kind, name=handler.name, body=body)))
        body, orelse = self.statements(node.body), self.statements(node.orelse)
        finalbody = self.statements(node.finalbody)
        self.cleanups -= 1
        rewritten = ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=finalbody)
        return [self.at(node, rewritten)]

    def statement_Raise(self, node: ast.Raise) -> list[ast.stmt]:
        if node.exc is None and not self.handling:
            raise Unsupported("it raises again what its caller may be handling", node.lineno)
        exception = None if node.exc is None else self.hook("raised", node, self.expression(node.exc))
        cause = None if node.cause is None else self.expression(node.cause)
        return [*self.left(node), self.at(node, ast.Raise(exc=exception, cause=cause))]

    def statement_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        message = None if node.msg is None else self.expression(node.msg)
        return [self.at(node, ast.Assert(test=self.test(node.test), msg=message))]

    def statement_FunctionDef(self, node: ast.FunctionDef) -> list[ast.stmt]:
        if getattr(node, "type_params", None):
            raise Unsupported("it defines a generic function", node.lineno)
        decorators = [self.hook("callee", d, self.expression(d)) for d in node.decorator_list]
        args = self.bare_arguments(node.args, keep_defaults=True)
        definition = self.function_in_place(node, args)
        # Annotations are evaluated as ever; no one can read them without being seen.
        originals = {a.arg: a.annotation for a in ast.walk(node.args) if isinstance(a, ast.arg)}
        for argument in ast.walk(args):
            if isinstance(argument, ast.arg):
                argument.annotation = originals.get(argument.arg)
        definition.returns = node.returns
        local = ast.Attribute(value=ast.Name(id=HOOKS, ctx=ast.Load()), attr="new_function", ctx=ast.Load())
        definition.decorator_list = [*decorators, self.at(node, local)]
        return [self.at(node, definition)]


# What gives numbers and rows together, or from the last one on.
_TOGETHER = frozenset({"enumerate", "zip", "reversed"})
_WORDS: dict[type, str] = {
    ast.ClassDef: "a class definition",
    ast.Import: "an import",
    ast.ImportFrom: "an import",
    ast.Match: "a match statement",
    ast.AsyncFunctionDef: "an asynchronous function",
    ast.AsyncFor: "an asynchronous loop",
    ast.AsyncWith: "an asynchronous with",
    ast.TryStar: "an except* clause",
}


def _flattened(targets: list[ast.expr]) -> list[ast.expr]:
    flat: list[ast.expr] = []
    for target in targets:
        flat += _flattened(target.elts) if isinstance(target, (ast.Tuple, ast.List)) else [target]
    return flat


def _leaves(statements: list[ast.stmt]) -> bool:
    """Whether a finally clause could swallow an exception."""
    kinds = (ast.Return, ast.Break, ast.Continue)
    return any(isinstance(inner, kinds) for s in statements for inner in ast.walk(s))
