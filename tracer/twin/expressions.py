"""Rewriting expressions: a syntax tree goes in, one with calls of hooks comes out. ``x * self.scale`` becomes
``hooks.binary("*", x, hooks.attribute(self, "scale", 0), 1)``, with the same order of evaluation.
"""

from __future__ import annotations

import ast
from typing import Any

from fusegrad.tracer.twin.collected_lists import Joined, joined_list
from fusegrad.tracer.twin.matches import TakenApart
from fusegrad.tracer.twin.scopes import Scope, comprehension_scope, function_scope
from fusegrad.tracer.twin.sites import SiteTable
from fusegrad.tracer.twin.source import Unsupported
from fusegrad.tracer.twin.unfailing import part

Pattern = tuple[Any, ...]  # of tuples like itself; see `names_pattern`

HOOKS = "__fusegrad_hooks__"
WAITS = "_fusegrad_waits"  # a variable of functions that yield within a try or with statement
FRAME_DEPENDENT = frozenset({"locals", "vars", "dir", "eval", "exec"})
OPERATORS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.USub: "-", ast.UAdd: "+", ast.Invert: "~",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


class Expressions:
    """Rewrites one function, statement by statement; ``scope`` is where the current node stands."""

    def __init__(self, free: tuple[str, ...], class_name: str | None, sites: SiteTable):
        self.free, self.class_name, self.sites = frozenset(free), class_name, sites
        self.scope: Scope = None  # type: ignore[assignment]
        self.temporaries = 0
        self.cleanups = 0  # try and with statements around
        self.waits = False  # whether this function yields within one
        self.handling = False  # whether an except clause of this function is around
        self.in_iterable = 0  # a walrus is a syntax error in a comprehension's iterable

    def rewrite(self, node: ast.AST) -> ast.stmt:
        """The root: without decorators, defaults and annotations, which the twin gets as values."""
        if isinstance(node, ast.AsyncFunctionDef):
            raise Unsupported("it is asynchronous", node.lineno)
        assert isinstance(node, (ast.FunctionDef, ast.Lambda))
        # Nothing at the root is evaluated again: the code alone is used, defaults come from the original.
        args = self.bare_arguments(node.args, keep_defaults=False)
        if isinstance(node, ast.Lambda):
            return self.at(node, ast.Expr(value=self.lambda_in_place(node, args)))
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        root = self.function_in_place(node, args)
        # The first line of a function's code is that of its first decorator.
        marks = [] if first == node.lineno else [self.at(node, ast.Constant(value=None))]
        for mark in marks:
            mark.lineno = mark.end_lineno = first
        root.decorator_list = marks
        return root

    # ------------------------------------------------------------------------------ helpers

    def at(self, origin: ast.AST, node: Any) -> Any:
        """Give a new node, and what has no position within it, the position of the original."""
        ast.copy_location(node, origin)
        pending = [node]
        while pending:
            for child in ast.iter_child_nodes(pending.pop()):
                if "lineno" not in child._attributes:
                    pending.append(child)
                elif not hasattr(child, "lineno"):
                    pending.append(ast.copy_location(child, origin))
                # What has a position has it from here, or from the user's file, and so has all within it.
        return node

    def hook(self, name: str, origin: ast.AST, *arguments: Any, site: bool = True) -> ast.Call:
        """A call of one hook; strings, numbers and None among the arguments become constants."""
        values: list[ast.expr] = [
            a if isinstance(a, ast.expr) else self.at(origin, ast.Constant(value=a)) for a in arguments
        ]
        if site:
            values.append(self.at(origin, ast.Constant(value=self.sites.add(origin))))
        function = ast.Attribute(value=ast.Name(id=HOOKS, ctx=ast.Load()), attr=name, ctx=ast.Load())
        return self.at(origin, ast.Call(func=function, args=values, keywords=[]))

    def mangle(self, name: str) -> str:
        """A private name as the compiler writes it inside a class."""
        if self.class_name is None or not name.startswith("__") or name.endswith("__") or "." in name:
            return name
        stripped = self.class_name.lstrip("_")
        return f"_{stripped}{name}" if stripped else name

    def temporary(self) -> str:
        self.temporaries += 1
        return f"_fusegrad_{self.temporaries}"

    def load(self, name: str, origin: ast.AST) -> ast.Name:
        return self.at(origin, ast.Name(id=name, ctx=ast.Load()))

    def store(self, name: str, origin: ast.AST) -> ast.Name:
        return self.at(origin, ast.Name(id=name, ctx=ast.Store()))

    def keep(self, name: str, value: ast.expr, origin: ast.AST) -> ast.stmt:
        return self.at(origin, ast.Assign(targets=[self.store(name, origin)], value=value))

    def forget(self, names: list[str], origin: ast.AST) -> list[ast.stmt]:
        targets: list[ast.expr] = [ast.Name(id=name, ctx=ast.Del()) for name in names]
        return [self.at(origin, ast.Delete(targets=targets))] if names else []

    # ------------------------------------------------------------------------------ functions

    def bare_arguments(self, args: ast.arguments, keep_defaults: bool) -> ast.arguments:
        """The parameters; defaults rewritten in the scope around, or left out."""

        def bare(argument: ast.arg) -> ast.arg:
            return ast.copy_location(ast.arg(arg=argument.arg), argument)

        return ast.arguments(
            posonlyargs=[bare(a) for a in args.posonlyargs],
            args=[bare(a) for a in args.args],
            vararg=bare(args.vararg) if args.vararg else None,
            kwonlyargs=[bare(a) for a in args.kwonlyargs],
            kw_defaults=[
                self.expression(default) if keep_defaults and default is not None else None
                for default in args.kw_defaults
            ],
            kwarg=bare(args.kwarg) if args.kwarg else None,
            defaults=[self.expression(default) for default in args.defaults] if keep_defaults else [],
        )

    def function_in_place(self, node: ast.FunctionDef, args: ast.arguments) -> ast.FunctionDef:
        """The definition with its body rewritten, without decorators and annotations."""
        outer, self.scope = self.scope, function_scope(node, self.scope)
        around = self.handling, self.cleanups, self.waits
        self.handling, self.cleanups, self.waits = False, 0, False
        body = self.statements(node.body)
        head = node.body[0]
        first = int(isinstance(head, ast.Expr) and isinstance(head.value, ast.Constant))
        entry = self.entry(node)
        if entry is not None:
            body.insert(first, self.at(node, ast.Expr(value=entry)))
        if self.waits:
            body.insert(first, self.keep(WAITS, self.at(node, ast.Constant(value=None)), node))
        self.handling, self.cleanups, self.waits = around
        self.scope = outer
        return self.at(node, ast.FunctionDef(name=node.name, args=args, body=body, decorator_list=[]))

    def lambda_in_place(self, node: ast.Lambda, args: ast.arguments) -> ast.Lambda:
        outer, self.scope = self.scope, function_scope(node, self.scope)
        body = self.expression(node.body)
        entry = self.entry(node)
        if entry is not None:  # the hook returns None
            body = self.at(node.body, ast.BoolOp(op=ast.Or(), values=[entry, body]))
        self.scope = outer
        return self.at(node, ast.Lambda(args=args, body=body))

    def entry(self, node: ast.FunctionDef | ast.Lambda) -> ast.Call | None:
        """``*args`` and ``**kwargs`` are new containers of this call: say so."""
        starred = [a for a in (node.args.vararg, node.args.kwarg) if a is not None]
        if not starred:
            return None
        return self.hook("entry", starred[0], *(self.load(a.arg, node) for a in starred), site=False)

    # ------------------------------------------------------------------------------ expressions

    def expression(self, node: ast.expr) -> ast.expr:
        """The expression with its hooks; evaluation order and scopes stay as they are."""
        method = getattr(self, "visit_" + type(node).__name__, None)
        if method is None:
            raise Unsupported(
                f"it contains a construct that is not followed ({type(node).__name__})", node.lineno
            )
        return method(node)

    def expressions(self, nodes: list) -> list:
        return [self.expression(node) for node in nodes]

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        name = self.mangle(node.id)
        if self.scope.is_collected(node.id):
            return self.hook("complete", node, node, site=False)
        if self.scope.is_local(node.id):
            return node
        if name in self.free:
            return self.hook("cell", node, name, node)
        if name in FRAME_DEPENDENT:
            raise Unsupported(f"it uses `{name}`, which depends on the frame", node.lineno)
        return self.hook("global_", node, name, node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return self.hook("attribute", node, self.expression(node.value), self.mangle(node.attr))

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        return self.hook("item", node, self.expression(node.value), self.index(node.slice))

    def index(self, node: ast.expr) -> ast.expr:
        """A subscript's index; slices become calls, since only a subscript may contain them."""
        if isinstance(node, ast.Slice):
            parts = [None if p is None else self.expression(p) for p in (node.lower, node.upper, node.step)]
            return self.hook("slice", node, *parts, site=False)
        if isinstance(node, ast.Tuple):
            elements = [
                self.at(
                    e, ast.Starred(value=self.hook("iterate", e, self.expression(e.value)), ctx=ast.Load())
                )
                if isinstance(e, ast.Starred)
                else self.index(e)
                for e in node.elts
            ]
            return self.at(node, ast.Tuple(elts=elements, ctx=ast.Load()))
        return self.expression(node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        joined = self.joined(node)
        arguments = [self.element(a) for a in (node.args if joined is None else node.args[1:])]
        keywords = []
        for keyword in node.keywords:
            value: ast.expr
            match keyword:
                case ast.keyword(arg=None, value=ast.Attribute(value=owner, attr="__dict__")):
                    value = self.hook("keywords", keyword.value, self.expression(owner))
                case ast.keyword(arg=None):
                    value = self.hook("mapping", keyword.value, self.expression(keyword.value))
                case _:
                    value = self.expression(keyword.value)
            keywords.append(ast.copy_location(ast.keyword(arg=keyword.arg, value=value), keyword))
        if joined is not None:
            is_part = joined.key is not None
            called = self.expression(node.func)
            function: ast.expr = self.hook("join", node, called, joined.name, is_part)
            key = None if joined.key is None else self.index(joined.key)
            first = joined.name if key is None else self.hook("part", node.args[0], joined.name, key)
            arguments.insert(0, first)
        elif isinstance(node.func, ast.Attribute):
            value = node.func.value
            alone = node.func.attr == "append" and isinstance(value, ast.Name)
            # Who appends to a list sees nothing of it.
            owner = value if alone and self.is_collected(value) else self.expression(value)
            function = self.hook("method", node, owner, self.mangle(node.func.attr))
        else:
            function = self.hook("callee", node, self.expression(node.func))
        is_super = isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args
        if is_super and "__class__" in self.free:
            if self.scope.is_comprehension or self.scope.first_parameter is None:
                raise Unsupported("it calls super() where there is no first parameter", node.lineno)
            names = ("__class__", self.scope.first_parameter)
            arguments = [self.load(name, node) for name in names]
        return self.at(node, ast.Call(func=function, args=arguments, keywords=keywords))

    def joined(self, node: ast.Call) -> Joined | None:
        """What a call joins the items of, if that is a list that nobody else has."""
        joined = joined_list(node)
        return joined if joined is not None and self.scope.is_collected(joined.name.id) else None

    def is_collected(self, node: ast.expr) -> bool:
        """Whether this is the variable of a list that nobody else has."""
        return isinstance(node, ast.Name) and self.scope.is_collected(node.id)

    def element(self, node: ast.expr) -> ast.expr:
        """An element of a display or an argument of a call, perhaps starred."""
        if isinstance(node, ast.Starred):
            value = self.hook("iterate", node, self.expression(node.value))
            return self.at(node, ast.Starred(value=value, ctx=ast.Load()))
        return self.expression(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant):
            return node
        left, right = self.expression(node.left), self.expression(node.right)
        return self.hook("binary", node, OPERATORS[type(node.op)], left, right)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.op, ast.Not):
            return self.at(node, ast.UnaryOp(op=ast.Not(), operand=self.test(node.operand)))
        if isinstance(node.operand, ast.Constant):
            return node
        return self.hook("unary", node, OPERATORS[type(node.op)], self.expression(node.operand))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """``a and b`` as a value: ``b if truth(t := a) else t``, so that truth is asked for once."""
        result = self.expression(node.values[-1])
        for operand in reversed(node.values[:-1]):
            name, assigned = self.kept(operand, self.expression(operand))
            test = self.hook("truth", operand, assigned)
            kept = self.load(name, operand)
            body, orelse = (result, kept) if isinstance(node.op, ast.And) else (kept, result)
            result = self.at(node, ast.IfExp(test=test, body=body, orelse=orelse))
        return result

    def kept(self, origin: ast.expr, value: ast.expr) -> tuple[str, ast.expr]:
        """A walrus that keeps a value for a second use: its name and the expression."""
        if self.in_iterable:
            raise Unsupported("a comprehension iterates over a chained or boolean expression", origin.lineno)
        name = self.temporary()
        return name, self.at(origin, ast.NamedExpr(target=self.store(name, origin), value=value))

    def test(self, node: ast.expr) -> ast.expr:
        """An expression of which only the truth matters."""
        if isinstance(node, ast.BoolOp):
            return self.at(node, ast.BoolOp(op=node.op, values=[self.test(v) for v in node.values]))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.visit_UnaryOp(node)
        if isinstance(node, ast.Constant):
            return node
        return self.hook("truth", node, self.expression(node))

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        left = self.expression(node.left)
        if len(node.ops) == 1:
            return self.comparison(node, node.ops[0], left, self.expression(node.comparators[0]))
        # a < b < c is (a < b) and (b < c) with b evaluated once: keep the middles.
        links: list[tuple[ast.cmpop, ast.expr, ast.expr]] = []
        for operator, comparator in zip(node.ops[:-1], node.comparators[:-1], strict=True):
            name, assigned = self.kept(comparator, self.expression(comparator))
            links.append((operator, left, assigned))
            left = self.load(name, comparator)
        links.append((node.ops[-1], left, self.expression(node.comparators[-1])))
        values = [self.comparison(node, *link) for link in links]
        result = values[-1]
        for value in reversed(values[:-1]):
            name, assigned = self.kept(node, value)
            test = self.hook("truth", node, assigned)
            result = self.at(node, ast.IfExp(test=test, body=result, orelse=self.load(name, node)))
        return result

    def comparison(self, node: ast.expr, operator: ast.cmpop, left: ast.expr, right: ast.expr) -> ast.expr:
        if isinstance(operator, (ast.Is, ast.IsNot)):
            return self.hook("identity", node, left, right, isinstance(operator, ast.IsNot))
        if isinstance(operator, (ast.In, ast.NotIn)):
            return self.hook("contains", node, left, right, isinstance(operator, ast.NotIn))
        return self.hook("compare", node, OPERATORS[type(operator)], left, right)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        test, body, orelse = self.test(node.test), self.expression(node.body), self.expression(node.orelse)
        return self.at(node, ast.IfExp(test=test, body=body, orelse=orelse))

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        return self.at(node, ast.NamedExpr(target=node.target, value=self.expression(node.value)))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        parts = [ast.Constant(part(x.value)) if isinstance(x, ast.Constant) else x for x in node.values]
        return self.hook("joined", node, *self.expressions(parts), site=False)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.expr:
        spec = "" if node.format_spec is None else self.expression(node.format_spec)
        return self.hook("formatted", node.value, self.expression(node.value), node.conversion, spec)

    def visit_TakenApart(self, node: TakenApart) -> ast.expr:
        return self.hook(node.hook, node, *self.expressions(node.arguments))

    def visit_Tuple(self, node: ast.Tuple | ast.List | ast.Set) -> ast.expr:
        if isinstance(node, ast.Tuple) and all(isinstance(e, ast.Constant) for e in node.elts):
            return node
        elements = [self.element(e) for e in node.elts]
        if isinstance(node, ast.Set):
            return self.local(node, ast.Set(elts=elements))
        return self.local(node, type(node)(elts=elements, ctx=ast.Load()))

    visit_List = visit_Set = visit_Tuple

    def visit_Dict(self, node: ast.Dict) -> ast.expr:
        keys, values = [], []
        for key, value in zip(node.keys, node.values, strict=True):
            keys.append(None if key is None else self.expression(key))
            rewritten = self.expression(value)
            values.append(self.hook("mapping", value, rewritten) if key is None else rewritten)
        return self.local(node, ast.Dict(keys=keys, values=values))

    def local(self, origin: ast.expr, node: ast.expr) -> ast.expr:
        """A new object of the run."""
        return self.hook("local", origin, self.at(origin, node))

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        return self.local(
            node, self.lambda_in_place(node, self.bare_arguments(node.args, keep_defaults=True))
        )

    def visit_Yield(self, node: ast.Yield) -> ast.expr:
        self.waits |= self.cleanups > 0
        value = None if node.value is None else self.expression(node.value)
        return self.at(node, ast.Yield(value=value))

    def visit_YieldFrom(self, node: ast.YieldFrom) -> ast.expr:
        self.waits |= self.cleanups > 0
        return self.at(node, ast.YieldFrom(value=self.hook("iterate", node, self.expression(node.value))))

    def _visit_comprehension(self, node: Any) -> ast.expr:
        scope, generators = self.scope, []
        inner = comprehension_scope(node.generators, scope)
        for position, generator in enumerate(node.generators):
            if generator.is_async:
                raise Unsupported("it contains an asynchronous comprehension", node.lineno)
            # The first iterable belongs to the scope around the comprehension.
            self.scope = scope if position == 0 else inner
            self.in_iterable += 1
            iterable = self.expression(generator.iter)
            self.in_iterable -= 1
            self.scope = inner
            tests = [self.test(t) for t in generator.ifs]
            pattern = names_pattern(generator.target)
            if pattern is None:
                raise Unsupported("a comprehension assigns to more than names", node.lineno)
            iterable = self.iterable(generator.iter, iterable, pattern)
            generators.append(
                ast.comprehension(target=generator.target, iter=iterable, ifs=tests, is_async=0)
            )
        parts = {n: self.expression(getattr(node, n)) for n in ("elt", "key", "value") if hasattr(node, n)}
        self.scope = scope
        return self.local(node, type(node)(**parts, generators=generators))

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension

    def gone_over(self, node: ast.expr) -> ast.expr:
        """What a plain loop goes over; what `zip` does may be left to the loop."""
        match node:
            case ast.Call(func=ast.Name(id="zip") as function, args=args, keywords=keywords):
                words = [(word.arg, getattr(word.value, "value", None)) for word in keywords]
                starred = any(isinstance(argument, ast.Starred) for argument in args)
                if words in ([], [("strict", True)], [("strict", False)]) and not starred:
                    strict = words == [("strict", True)]
                    return self.hook("zipped", node, strict, *self.expressions([function, *args]))
        return self.expression(node)

    def iterable(self, origin: ast.expr, value: ast.expr, pattern: Pattern) -> ast.expr:
        """What a loop iterates over, each item of which is unpacked by ``pattern``."""
        if not pattern:
            return self.hook("iterate", origin, value)
        return self.hook("iterate_unpacked", origin, value, pattern)

    # ------------------------------------------------------------------------------ statements

    def statements(self, nodes: list[ast.stmt]) -> list[ast.stmt]:
        """Statements with hooks; see ``fusegrad.tracer.twin.rewrite``."""
        raise NotImplementedError


def names_pattern(target: ast.expr) -> Pattern | None:
    """How a target of names unpacks: () for a name, the patterns of its items for a tuple.

    None if there are other targets.
    """
    if isinstance(target, ast.Name):
        return ()
    if isinstance(target, (ast.Tuple, ast.List)) and target.elts:
        patterns = [names_pattern(element) for element in target.elts]
        return None if None in patterns else tuple(patterns)
    return None


def parts_for_names(node: ast.Assign) -> list[ast.expr] | None:
    """What variables get where they are given the parts of a tuple that stands there, which nobody gets to
    see: `a, b = b, a`.
    """
    target, *others = node.targets
    if others or not isinstance(target, ast.Tuple) or not isinstance(node.value, ast.Tuple):
        return None
    names = all(isinstance(name, ast.Name) for name in target.elts)
    starred = any(isinstance(part, ast.Starred) for part in node.value.elts)
    return node.value.elts if names and not starred and len(target.elts) == len(node.value.elts) else None
