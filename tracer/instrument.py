"""Twins: a user's function rewritten so that every read, call and effect goes through a hook.

``x * self.scale`` becomes ``hooks.binary("*", x, hooks.attribute(self, "scale", 0), 1)``. A twin shares
the original's globals, closure cells, defaults, file name and line numbers, and does what the original
does; the hooks (``fusegrad.tracer.hooks``) only watch. What the rewriting does not understand it refuses
with Unsupported, and the original runs instead.
"""

from __future__ import annotations

import __future__

import ast
import weakref
from types import CellType, CodeType, FunctionType
from typing import Any

from fusegrad.tracer.hooks import Hooks, SiteTable
from fusegrad.tracer.scopes import COMPREHENSIONS, Scope, comprehension_scope, function_scope
from fusegrad.tracer.source import Located, Unsupported, locate

HOOKS = "__fusegrad_hooks__"
FRAME_DEPENDENT = frozenset({"locals", "vars", "dir", "eval", "exec"})
OPERATORS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.USub: "-", ast.UAdd: "+", ast.Invert: "~",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


def instrument(function: FunctionType) -> FunctionType:
    """The twin of a function, with the same cells, globals and defaults.

    Raises Unsupported, with a sentence and perhaps a line, if there cannot be one.
    """
    code, sites = _twin_code(function.__code__)
    cells: dict[str, Any] = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[HOOKS] = CellType(Hooks(function, sites))
    closure = tuple(cells[name] for name in code.co_freevars)
    twin = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    twin.__kwdefaults__, twin.__qualname__ = function.__kwdefaults__, function.__qualname__
    twin.__module__, twin.__doc__ = function.__module__, function.__doc__
    return twin


def is_twin_code(code: CodeType) -> bool:
    """Whether the code has hooks in it."""
    return HOOKS in code.co_freevars or HOOKS in code.co_cellvars


# By identity, not equality: equal code objects from two files would share file names and sites.
_cache: dict[int, tuple[weakref.ref, CodeType | Unsupported, SiteTable | None]] = {}


def _twin_code(code: CodeType) -> tuple[CodeType, SiteTable]:
    entry = _cache.get(id(code))
    if entry is None or entry[0]() is not code:
        try:
            found: tuple[Any, Any] = _rewrite(code)
        except Unsupported as refusal:
            found = refusal, None
        except RecursionError:
            found = Unsupported("its expressions are nested too deeply"), None
        entry = (weakref.ref(code, lambda _, key=id(code): _cache.pop(key, None)), *found)
        _cache[id(code)] = entry
    if isinstance(entry[1], Unsupported):
        raise Unsupported(entry[1].reason, entry[1].line)
    assert entry[2] is not None
    return entry[1], entry[2]


def _rewrite(code: CodeType) -> tuple[CodeType, SiteTable]:
    if is_twin_code(code):
        raise Unsupported("it was made by a recorded run")
    located = locate(code)
    sites = SiteTable(code.co_filename, located.lines)
    root = Rewriter(code.co_freevars, located.class_name, sites).rewrite(located.node)
    compiled = compile(
        _module_around(root, code.co_freevars, located),
        code.co_filename,
        "exec",
        flags=code.co_flags & __future__.annotations.compiler_flag,
        dont_inherit=True,
    )
    return _find(compiled, code).replace(co_qualname=code.co_qualname), sites


def _module_around(root: ast.stmt, free: tuple[str, ...], located: Located) -> ast.Module:
    """``def outer(<free variables>, hooks): [class C:] <root>``: makes the names free, and mangled as in C."""
    body: list[ast.stmt] = [root]
    if located.class_name is not None:
        body = [ast.ClassDef(name=located.class_name, bases=[], keywords=[], body=body, decorator_list=[])]
    names = [ast.arg(arg=name) for name in (*(n for n in free if n != "__class__"), HOOKS)]
    if "__class__" in free and located.class_name is None:
        names.append(ast.arg(arg="__class__"))
    arguments = ast.arguments(posonlyargs=[], args=names, kwonlyargs=[], kw_defaults=[], defaults=[])
    outer = ast.FunctionDef(name="outer", args=arguments, body=body, decorator_list=[])
    module = ast.Module([outer], [])
    for node in ast.walk(module):  # 3.12 and later
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and "type_params" in node._fields:
            node.type_params = getattr(node, "type_params", [])
    return ast.fix_missing_locations(module)


def _find(compiled: CodeType, original: CodeType) -> CodeType:
    """The code of the root function, inside ``outer`` and perhaps a class."""
    for constant in compiled.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_name == original.co_name and constant.co_firstlineno == original.co_firstlineno:
                if constant.co_name != "outer" or HOOKS in constant.co_freevars:
                    return constant
            try:
                return _find(constant, original)
            except Unsupported:
                continue
    raise Unsupported("its twin could not be compiled")


class Rewriter:
    """Rewrites one function, statement by statement; ``scope`` is where the current node stands."""

    def __init__(self, free: tuple[str, ...], class_name: str | None, sites: SiteTable):
        self.free, self.class_name, self.sites = frozenset(free), class_name, sites
        self.scope: Scope = None  # type: ignore[assignment]
        self.temporaries = 0
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
        return ast.fix_missing_locations(ast.copy_location(node, origin))

    def hook(self, name: str, origin: ast.AST, *arguments: Any, site: bool = True) -> ast.Call:
        """A call of one hook; strings, numbers and None among the arguments become constants."""
        values = [a if isinstance(a, ast.AST) else self.at(origin, ast.Constant(value=a)) for a in arguments]
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

    def forget(self, names: list[str], origin: ast.AST) -> list[ast.stmt]:
        targets = [ast.Name(id=name, ctx=ast.Del()) for name in names]
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
        body = self.statements(node.body)
        entry = self.entry(node)
        if entry is not None:
            has_docstring = isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)
            body.insert(1 if has_docstring else 0, self.at(node, ast.Expr(value=entry)))
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
        names = [a.arg for a in (node.args.vararg, node.args.kwarg) if a is not None]
        if not names:
            return None
        return self.hook("entry", node.args.vararg or node.args.kwarg, *(self.load(n, node) for n in names), site=False)

    # ------------------------------------------------------------------------------ expressions

    def expression(self, node: ast.expr) -> ast.expr:
        """The expression with its hooks; evaluation order and scopes stay as they are."""
        method = getattr(self, "visit_" + type(node).__name__, None)
        if method is None:
            raise Unsupported(f"it contains a construct that is not followed ({type(node).__name__})", node.lineno)
        return method(node)

    def expressions(self, nodes: list) -> list:
        return [self.expression(node) for node in nodes]

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        name = self.mangle(node.id)
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
                self.at(e, ast.Starred(value=self.hook("iterate", e, self.expression(e.value)), ctx=ast.Load()))
                if isinstance(e, ast.Starred)
                else self.index(e)
                for e in node.elts
            ]
            return self.at(node, ast.Tuple(elts=elements, ctx=ast.Load()))
        return self.expression(node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        arguments = [self.element(a) for a in node.args]
        keywords = []
        for keyword in node.keywords:
            value = self.expression(keyword.value)
            if keyword.arg is None:
                value = self.hook("mapping", keyword.value, value)
            keywords.append(ast.copy_location(ast.keyword(arg=keyword.arg, value=value), keyword))
        if isinstance(node.func, ast.Attribute):
            owner = self.expression(node.func.value)
            function: ast.expr = self.hook("method", node, owner, self.mangle(node.func.attr))
        else:
            function = self.hook("callee", node, self.expression(node.func))
        is_super = isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args
        if is_super and "__class__" in self.free:
            if self.scope.is_comprehension or self.scope.first_parameter is None:
                raise Unsupported("it calls super() where there is no first parameter", node.lineno)
            names = ("__class__", self.scope.first_parameter)
            arguments = [self.load(name, node) for name in names]
        return self.at(node, ast.Call(func=function, args=arguments, keywords=keywords))

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
        return self.at(node, ast.JoinedStr(values=self.expressions(node.values)))

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.expr:
        value = self.hook("formatted", node.value, self.expression(node.value))
        spec = None if node.format_spec is None else self.expression(node.format_spec)
        return self.at(node, ast.FormattedValue(value=value, conversion=node.conversion, format_spec=spec))

    def visit_Tuple(self, node: ast.Tuple | ast.List | ast.Set) -> ast.expr:
        if isinstance(node, ast.Tuple) and all(isinstance(e, ast.Constant) for e in node.elts):
            return node
        fields = {} if isinstance(node, ast.Set) else {"ctx": ast.Load()}
        return self.local(node, type(node)(elts=[self.element(e) for e in node.elts], **fields))

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
        return self.local(node, self.lambda_in_place(node, self.bare_arguments(node.args, keep_defaults=True)))

    def visit_Yield(self, node: ast.Yield) -> ast.expr:
        value = None if node.value is None else self.expression(node.value)
        return self.at(node, ast.Yield(value=value))

    def visit_YieldFrom(self, node: ast.YieldFrom) -> ast.expr:
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
            depth = _names_depth(generator.target)
            if depth is None:
                raise Unsupported("a comprehension assigns to more than names", node.lineno)
            iterable = self.iterable(generator.iter, iterable, depth)
            generators.append(
                ast.comprehension(target=generator.target, iter=iterable, ifs=tests, is_async=0)
            )
        parts = {n: self.expression(getattr(node, n)) for n in ("elt", "key", "value") if hasattr(node, n)}
        self.scope = scope
        return self.local(node, type(node)(**parts, generators=generators))

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension

    def iterable(self, origin: ast.expr, value: ast.expr, depth: int) -> ast.expr:
        """What a loop iterates over; with ``depth``, each item is unpacked that deep."""
        if depth == 0:
            return self.hook("iterate", origin, value)
        return self.hook("iterate_unpacked", origin, value, depth)

    # ------------------------------------------------------------------------------ statements

    def statements(self, nodes: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        for node in nodes:
            method = getattr(self, "statement_" + type(node).__name__, None)
            if method is None:
                what = _WORDS.get(type(node), f"a statement that is not followed ({type(node).__name__})")
                raise Unsupported(f"it contains {what}", node.lineno)
            result.extend(method(node))
        return result

    def statement_Pass(self, node: ast.stmt) -> list[ast.stmt]:
        return [node]

    statement_Break = statement_Continue = statement_Global = statement_Nonlocal = statement_Pass

    def statement_Expr(self, node: ast.Expr) -> list[ast.stmt]:
        return [self.at(node, ast.Expr(value=self.expression(node.value)))]

    def statement_Return(self, node: ast.Return) -> list[ast.stmt]:
        value = None if node.value is None else self.expression(node.value)
        return [self.at(node, ast.Return(value=value))]

    def statement_Assign(self, node: ast.Assign) -> list[ast.stmt]:
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
            owner = self.expression(target.value)
            hook = self.hook("store_item", target, value, owner, self.index(target.slice))
        else:
            assert isinstance(target, (ast.Tuple, ast.List))
            return self.unpack(target, value)
        return [self.at(target, ast.Expr(value=hook))]

    def unpack(self, target: ast.Tuple | ast.List, value: ast.expr) -> list[ast.stmt]:
        depth = _names_depth(target)
        if depth is not None:
            return [self.at(target, ast.Assign(targets=[target], value=self.iterable(target, value, depth)))]
        names, targets, stores = [], [], []
        for element in target.elts:
            name = self.temporary()
            names.append(name)
            kept = self.load(name, element)
            if isinstance(element, ast.Starred):
                targets.append(self.at(element, ast.Starred(value=self.store(name, element), ctx=ast.Store())))
                stores += self.assign(element.value, self.local(element, kept))
            else:
                targets.append(self.store(name, element))
                stores += self.assign(element, kept)
        unpacked = self.at(target, ast.Tuple(elts=targets, ctx=ast.Store()))
        first = self.at(target, ast.Assign(targets=[unpacked], value=self.iterable(target, value, 1)))
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
            old = self.load(target.id, target)
            value = self.hook("inplace", node, operator, old, self.expression(node.value))
            return [self.at(node, ast.Assign(targets=[target], value=value))]
        names = [self.temporary()]
        result = [self.keep(names[0], self.expression(target.value), target)]
        if isinstance(target, ast.Attribute):
            key: Any = self.mangle(target.attr)
            kind = "attribute"
        else:
            assert isinstance(target, ast.Subscript)
            names.append(self.temporary())
            result.append(self.keep(names[1], self.index(target.slice), target))
            key, kind = self.load(names[1], target), "item"
        old = self.hook(kind, target, self.load(names[0], target), key)
        value = self.hook("inplace", node, operator, old, self.expression(node.value))
        key = key if kind == "attribute" else self.load(names[1], target)
        stored = self.hook("store_" + kind, target, value, self.load(names[0], target), key)
        return [*result, self.at(node, ast.Expr(value=stored)), *self.forget(names, node)]

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
                owner, index = self.expression(target.value), self.index(target.slice)
                hook = self.hook("delete_item", target, owner, index)
                result.append(self.at(node, ast.Expr(value=hook)))
        return result

    def target(self, target: ast.expr) -> tuple[ast.expr, int, list[ast.stmt]]:
        """A loop or with target: what to bind, how deep to unpack, and stores that come first in the body."""
        depth = _names_depth(target)
        if depth is not None:
            return target, depth, []
        name = self.temporary()
        stores = self.assign(target, self.load(name, target))
        return self.store(name, target), 0, [*stores, *self.forget([name], target)]

    def statement_For(self, node: ast.For) -> list[ast.stmt]:
        iterable = self.expression(node.iter)
        target, depth, stores = self.target(node.target)
        iterable = self.iterable(node.iter, iterable, depth)
        body, orelse = [*stores, *self.statements(node.body)], self.statements(node.orelse)
        return [self.at(node, ast.For(target=target, iter=iterable, body=body, orelse=orelse))]

    def statement_While(self, node: ast.While) -> list[ast.stmt]:
        body, orelse = self.statements(node.body), self.statements(node.orelse)
        return [self.at(node, ast.While(test=self.test(node.test), body=body, orelse=orelse))]

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
        body = [*stores, *self.statements(node.body)]
        return [self.at(node, ast.With(items=items, body=body))]

    def statement_Try(self, node: ast.Try) -> list[ast.stmt]:
        if _leaves(node.finalbody):
            raise Unsupported("a finally clause returns, breaks or continues", node.finalbody[0].lineno)
        handlers = []
        for handler in node.handlers:
            kind = None if handler.type is None else self.expression(handler.type)
            caught = self.at(handler, ast.Expr(value=self.hook("caught", handler)))
            body = [caught, *self.statements(handler.body)]
            handlers.append(self.at(handler, ast.ExceptHandler(type=kind, name=handler.name, body=body)))
        body, orelse = self.statements(node.body), self.statements(node.orelse)
        finalbody = self.statements(node.finalbody)
        rewritten = ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=finalbody)
        return [self.at(node, rewritten)]

    def statement_Raise(self, node: ast.Raise) -> list[ast.stmt]:
        exception = None if node.exc is None else self.hook("raised", node, self.expression(node.exc))
        cause = None if node.cause is None else self.expression(node.cause)
        return [self.at(node, ast.Raise(exc=exception, cause=cause))]

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


def _names_depth(target: ast.expr) -> int | None:
    """0 for a name, 1 for a tuple of names and so on; None if there are other targets."""
    if isinstance(target, ast.Name):
        return 0
    if isinstance(target, (ast.Tuple, ast.List)):
        depths = [_names_depth(element) for element in target.elts]
        return None if None in depths else 1 + max([d for d in depths if d is not None], default=0)
    return None


def _flattened(targets: list[ast.expr]) -> list[ast.expr]:
    flat: list[ast.expr] = []
    for target in targets:
        flat += _flattened(target.elts) if isinstance(target, (ast.Tuple, ast.List)) else [target]
    return flat


def _leaves(statements: list[ast.stmt]) -> bool:
    """Whether a finally clause could swallow an exception."""
    kinds = (ast.Return, ast.Break, ast.Continue)
    return any(isinstance(inner, kinds) for s in statements for inner in ast.walk(s))


__all__ = ["COMPREHENSIONS", "HOOKS", "Rewriter", "instrument", "is_twin_code"]
