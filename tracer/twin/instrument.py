"""Twins: a user's function goes in; one that does the same, through hooks that can watch it, comes out.

``x * self.scale`` becomes ``hooks.binary("*", x, hooks.attribute(self, "scale", 0), 1)``. A twin shares
the original's globals, closure cells, defaults, file name and line numbers, and does what the original
does; the hooks, which whoever asks for a twin gives, only watch. What the rewriting does not understand it
refuses with Unsupported, and the original runs instead.
"""

from __future__ import annotations
import __future__

import ast
import functools
import inspect
import weakref
from collections.abc import Callable
from types import CellType, CodeType, FunctionType
from typing import Any

from fusegrad.eager.core.interpreter import rebound
from fusegrad.tracer.twin.comprehensions import with_loops
from fusegrad.tracer.twin.expressions import HOOKS
from fusegrad.tracer.twin.matches import with_ifs
from fusegrad.tracer.twin.rewrite import Rewriter
from fusegrad.tracer.twin.sites import SiteTable
from fusegrad.tracer.twin.source import Located, Unsupported, locate

ROOT = "__fusegrad_root__"


def instrument(function: FunctionType, hooks: Callable[[FunctionType, SiteTable], object]) -> FunctionType:
    """The twin of a function, with the same cells, globals and defaults.

    hooks: makes the object whose methods the twin calls, from the function and the places of its hooks.

    Raises Unsupported, with a sentence and perhaps a line, if there cannot be one.
    """
    code, sites = _twin_code(function.__code__)
    cells: dict[str, Any] = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[HOOKS] = CellType(hooks(function, sites))
    closure = tuple(cells[name] for name in code.co_freevars)
    twin = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    twin.__kwdefaults__, twin.__qualname__ = function.__kwdefaults__, function.__qualname__
    twin.__module__, twin.__doc__ = function.__module__, function.__doc__
    return twin


def is_twin_code(code: CodeType) -> bool:
    """Whether the code has hooks in it."""
    return HOOKS in code.co_freevars or HOOKS in code.co_cellvars


@functools.lru_cache(4096)
def keeps_to_itself(code: CodeType) -> bool:
    """Whether calls of it run to their end, and rebind no variable of a function around it."""
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return False
    return not rebound(code)


# By identity, not equality: equal code objects from two files would share file names and sites.
_cache: dict[int, tuple[weakref.ref, CodeType | Unsupported, SiteTable | None]] = {}


def _twin_code(code: CodeType) -> tuple[CodeType, SiteTable]:
    entry = _cache.get(id(code))
    if entry is None or entry[0]() is not code:
        try:
            found: tuple[Any, Any] = _rewrite(code)
        except Unsupported as refusal:
            # Not the exception itself: its traceback holds the frames of all callers.
            found = Unsupported(refusal.reason, refusal.line), None
        except RecursionError:
            found = Unsupported("its expressions are nested too deeply"), None
        key, drop = id(code), _cache.pop  # bound: the module may be torn down when the code dies
        entry = (weakref.ref(code, lambda _: drop(key, None)), *found)
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
    root = Rewriter(code.co_freevars, located.class_name, sites).rewrite(with_loops(with_ifs(located.node)))
    compiled = compile(
        _module_around(root, code.co_freevars, located),
        code.co_filename,
        "exec",
        flags=code.co_flags & __future__.annotations.compiler_flag,
        dont_inherit=True,
    )
    return _find(compiled, code), sites


def _module_around(root: ast.stmt, free: tuple[str, ...], located: Located) -> ast.Module:
    """``def outer(<free variables>, hooks): [class C:] <root>``: the names are free, mangled as in C."""
    # Neither the function's own name nor the class's may be bound by `outer`: they mean what they meant.
    if isinstance(root, ast.FunctionDef):
        root.name = ROOT
    body: list[ast.stmt] = [root]
    if located.class_name is not None:
        body = [ast.ClassDef(name=located.class_name, bases=[], keywords=[], body=body, decorator_list=[])]
        if located.class_name not in free:
            body.insert(0, ast.Global(names=[located.class_name]))
    names = [ast.arg(arg=name) for name in (*(n for n in free if n != "__class__"), HOOKS)]
    if "__class__" in free and located.class_name is None:
        names.append(ast.arg(arg="__class__"))
    arguments = ast.arguments(posonlyargs=[], args=names, kwonlyargs=[], kw_defaults=[], defaults=[])
    outer = ast.FunctionDef(name="outer", args=arguments, body=body, decorator_list=[])
    module = ast.Module([outer], [])
    for node in ast.walk(module):  # 3.12 and later
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and "type_params" in node._fields:
            vars(node).setdefault("type_params", [])
    return ast.fix_missing_locations(module)


def _find(compiled: CodeType, original: CodeType) -> CodeType:
    """The code of the root function, inside ``outer`` and perhaps a class, under its own name again."""
    root = "<lambda>" if original.co_name == "<lambda>" else ROOT
    pending = [compiled]
    while pending:
        code = pending.pop(0)
        if code.co_name == root:
            return _named(code, code.co_qualname, original.co_qualname).replace(co_name=original.co_name)
        pending += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    raise Unsupported("its twin could not be compiled")


def _named(code: CodeType, prefix: str, wanted: str) -> CodeType:
    """The code with another beginning of its full name, and of those of functions and classes within."""

    def renamed(constant: Any) -> Any:
        if isinstance(constant, CodeType):
            return _named(constant, prefix, wanted)
        # The body of a class has the name of that among its constants.
        is_name = isinstance(constant, str) and constant.startswith(prefix)
        return wanted + constant[len(prefix) :] if is_name else constant

    consts = tuple(map(renamed, code.co_consts))
    return code.replace(co_consts=consts, co_qualname=renamed(code.co_qualname))
