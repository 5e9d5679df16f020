"""Rewriting statements: a function's syntax tree goes in, one whose every statement calls hooks comes out."""

from __future__ import annotations

import ast

from fusegrad.tracer.twin.assignments import Assignments
from fusegrad.tracer.twin.expressions import (
    HOOKS,
    OPERATORS,
    Pattern,
    names_pattern,
)
from fusegrad.tracer.twin.induction import NumberPart
from fusegrad.tracer.twin.plain_loops import COUNTED, NotPlain, PlainLoop, Summary, plain_loop
from fusegrad.tracer.twin.rounds import counted, endless, rounds_to_their_end
from fusegrad.tracer.twin.scopes import given_by
from fusegrad.tracer.twin.source import Unsupported


class Rewriter(Assignments):
    """Rewrites a function; ``rewrite`` is the way in."""

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

    def statement_Expr(self, node: ast.Expr) -> list[ast.stmt]:
        if node in self.appends:
            return [self.at(node, ast.Expr(value=self.appended(node)))]
        return [self.at(node, ast.Expr(value=self.expression(node.value)))]

    def statement_Return(self, node: ast.Return) -> list[ast.stmt]:
        value = None if node.value is None else self.expression(node.value)
        return [*self.left(node), self.at(node, ast.Return(value=value))]

    def target(self, target: ast.expr) -> tuple[ast.expr, Pattern, list[ast.stmt]]:
        """A loop or with target: what to bind, how it unpacks, and stores that come first in the body."""
        pattern = names_pattern(target)
        if pattern is not None:
            return target, pattern, []
        name = self.temporary()
        stores = self.assign(target, self.load(name, target))
        return self.store(name, target), (), [*stores, *self.forget([name], target)]

    def statement_For(self, node: ast.For) -> list[ast.stmt]:
        body = rounds_to_their_end(node.body)
        # What follows if nothing has left the loop stands behind it.
        loop = ast.copy_location(ast.For(target=node.target, iter=node.iter, body=body, orelse=[]), node)
        try:
            plain = plain_loop(loop, self.scope)
            self.check_inner_loops(loop, plain)
        except NotPlain as refusal:
            return self.any_loop(node, refusal)
        items = self.rounds(node, names_pattern(node.target), plain.summary())
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
        self.numbers.update((node, (name, plain, use)) for node, use in plain.numbers.items())
        for counter, (step, part) in plain.recurring.items():
            self.steps[step] = name, plain.place_of(counter), part
        self.mixed.update(dict.fromkeys(plain.mixed, name))
        self.kept_numbers.update((node, (name, plain.targets.index(node.id))) for node in plain.kept)
        self.appends.update(plain.appends)
        self.parts.update(plain.parts)
        names = (name, *plain.carried)
        ended = self.hook("round_ended", node, *(self.load(n, node) for n in names), site=False)
        on: ast.stmt = ast.Expr(value=ended)
        if plain.carried:
            targets: list[ast.expr] = [self.store(n, node) for n in plain.carried]
            on = ast.Assign(targets=[self.at(node, ast.Tuple(elts=targets, ctx=ast.Store()))], value=ended)
        self.rounds_around.append(name)
        # What such a variable holds would be taken for something that is still in use.
        over = [self.keep(n, ast.Constant(value=None), node) for n in plain.over]
        body = [*self.statements(node.body), *over, self.at(node, on)]
        self.rounds_around.pop()
        rest = self.statements(orelse or [])
        loop = ast.For(target=node.target, iter=self.load(name, node.iter), body=body, orelse=rest)
        return [rounds, self.at(node, loop), *self.forget([name], node)]

    def rounds(
        self,
        node: ast.For,
        pattern: Pattern | None,
        summary: Summary,
    ) -> ast.expr:
        """What a plain loop iterates over; what gives several things at a time is taken apart."""
        match node.iter:
            case ast.Call(func=ast.Name(id=name) as function, args=args, keywords=[]) if name in _TOGETHER:
                if not any(isinstance(argument, ast.Starred) for argument in args):
                    given = [self.expression(function), *map(self.gone_over, args)]
                    return self.hook("rounds_of", node, pattern, summary, *given)
        return self.hook("rounds", node, self.gone_over(node.iter), pattern, summary)

    def expression(self, node: ast.expr) -> ast.expr:
        made = super().expression(node)
        if node in self.mixed:
            made = self.hook("mixed", node, made, self.load(self.mixed[node], node), site=False)
        if node in self.kept_numbers:
            rounds, place = self.kept_numbers[node]
            made = self.hook("kept_number", node, made, self.load(rounds, node), place, site=False)
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
        number: ast.expr = node.left
        if test.modulus is not None:
            assert isinstance(node.left, ast.BinOp)
            number = node.left.left
        modulus = None if test.modulus is None else self.expression(test.modulus)
        sides = self.expression(number), modulus, self.expression(node.comparators[0])
        follows = self.load(name, node), place, test.slope
        return self.hook("compare_number", node, OPERATORS[type(node.ops[0])], *sides, *follows)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if node not in self.numbers:
            return super().visit_BinOp(node)
        name, plain, use = self.numbers[node]

        def of(part: NumberPart | None) -> ast.expr:
            if part is None:
                return self.at(node, ast.Constant(value=None))
            place = plain.place_of(part.counter)
            now = [self.load(part.counter, node)] if place < COUNTED else []
            others = [*map(self.held, part.others.values())]
            given = [ast.Constant(value=place), part.function(), *now, *others]
            return self.at(node, ast.Tuple(elts=given, ctx=ast.Load()))

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
            number = self.load(target, node)
            return self.plain_loop(loop, plain, self.hook("counting", node, number, step, plain.summary()))
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

    def statement_Import(self, node: ast.Import) -> list[ast.stmt]:
        result = []
        for alias in node.names:
            top, *inner = alias.name.split(".")
            found = self.hook("imported", node, alias.name, (), 0)
            if alias.asname is not None:
                for name in inner:
                    found = self.hook("taken", node, found, name)
            result.append(self.keep(alias.asname or top, found, node))
        return result

    def statement_ImportFrom(self, node: ast.ImportFrom) -> list[ast.stmt]:
        module, names = self.temporary(), tuple(alias.name for alias in node.names)
        result = [self.keep(module, self.hook("imported", node, node.module or "", names, node.level), node)]
        for alias in node.names:
            found = self.hook("taken", node, self.load(module, node), alias.name)
            result.append(self.keep(alias.asname or alias.name, found, node))
        return [*result, *self.forget([module], node)]

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

    def statement_ClassDef(self, node: ast.ClassDef) -> list[ast.stmt]:
        """Runs as it is: runs that come by it are not replayed, others are."""
        if rebinding := [n for n in ast.walk(node) if isinstance(n, (ast.Global, ast.Nonlocal))]:
            raise Unsupported("it defines a class that rebinds outer variables", rebinding[0].lineno)
        return [self.at(node, ast.Expr(value=self.hook("not_followed", node, "defines a class"))), node]


# What gives numbers and rows together, or from the last one on.
_TOGETHER = frozenset({"enumerate", "zip", "reversed"})
_WORDS: dict[type, str] = {
    ast.AsyncFunctionDef: "an asynchronous function",
    ast.AsyncFor: "an asynchronous loop",
    ast.AsyncWith: "an asynchronous with",
    ast.TryStar: "an except* clause",
}


def _leaves(statements: list[ast.stmt]) -> bool:
    """Whether a finally clause could swallow an exception."""
    kinds = (ast.Return, ast.Break, ast.Continue)
    return any(isinstance(inner, kinds) for s in statements for inner in ast.walk(s))
