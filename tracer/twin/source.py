"""Source: a code object goes in, its syntax tree comes out, with proof that it is what was compiled."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

from fusegrad.tracer.ir.parsing import module_of

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Unsupported(Exception):
    """A function cannot be instrumented; carries the line that stands in the way (0: the whole)."""

    def __init__(self, reason: str, line: int = 0):
        super().__init__(reason)
        self.reason, self.line = reason, line


@dataclass(frozen=True, slots=True)
class Located:
    """A function's node, the class whose name mangles its identifiers, and its file's lines."""

    node: FunctionNode
    class_name: str | None
    lines: list[str]


@dataclass(frozen=True, slots=True)
class _File:
    text: str
    lines: list[str]
    tree: ast.Module


_files: dict[str, _File] = {}


def locate(code: CodeType) -> Located:
    """The syntax tree of the function that ``code`` was compiled from.

    Raises Unsupported if there is no source, or if it no longer compiles to this very code.
    """
    located = _locate(code)
    if located is None:
        # The lines that linecache remembers may be older than the module (reload): look at the disk.
        linecache.checkcache(code.co_filename)
        located = _locate(code)
    if located is None:
        raise Unsupported("its source is not available or has changed since it was compiled")
    return located


def _on_disk(filename: str) -> str:
    """Where the source of a code lies: of a module that is frozen into the interpreter, in the library."""
    if not filename.startswith("<frozen "):
        return filename
    return getattr(sys.modules.get(filename[8:-1]), "__file__", None) or filename


def _parsed(filename: str) -> _File | None:
    lines = linecache.getlines(_on_disk(filename))
    text = "".join(lines)
    known = _files.get(filename)
    if known is not None and known.text == text:
        return known
    try:
        tree = module_of(text, filename)
    except (SyntaxError, ValueError):
        return None
    _files[filename] = parsed = _File(text, lines, tree)
    return parsed


def _locate(code: CodeType) -> Located | None:
    parsed = _parsed(code.co_filename)
    if parsed is None:
        return None
    for statement in parsed.tree.body:
        candidates = [
            (node, class_name)
            for node, class_name in _functions(statement, None, code.co_firstlineno)
            if _name(node) == code.co_name and _first_line(node) == code.co_firstlineno
        ]
        if isinstance(candidates and candidates[0][0], ast.Lambda):
            candidates = _innermost(
                [c for c in candidates if isinstance(c[0], ast.Lambda) and _covers(c[0], code)]
            )
        if len(candidates) == 1 and _compiles_to(parsed, statement, code):
            return Located(*candidates[0], parsed.lines)
    return None


def _functions(node: ast.AST, class_name: str | None, line: int) -> Iterator[tuple[FunctionNode, str | None]]:
    """Every function within ``node`` that stands on a line, with the innermost class around it."""
    if "lineno" in node._attributes and not _first_line(node) <= line <= (node.end_lineno or 0):  # type: ignore[attr-defined]
        return
    if isinstance(node, FunctionNode):
        yield node, class_name
    for child in ast.iter_child_nodes(node):
        inner = node.name if isinstance(node, ast.ClassDef) and child in node.body else class_name
        yield from _functions(child, inner, line)


def _name(node: FunctionNode) -> str:
    return "<lambda>" if isinstance(node, ast.Lambda) else node.name


def _first_line(node: Any) -> int:
    """The line where a node begins, decorators included."""
    first: int = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    return first


def _covers(node: ast.Lambda, code: CodeType) -> bool:
    """Whether all instructions of a lambda's code lie within the body of this node."""
    body = node.body
    start, end = (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)
    for line, end_line, column, end_column in code.co_positions():
        if line is None or column is None or column == end_column == 0:
            continue  # entry instructions stand on the whole function
        if not (start <= (line, column) and (end_line, end_column) <= end):
            return False
    return True


def _innermost(candidates: list) -> list:
    """Of nested lambdas that all cover the code, the smallest."""
    return sorted(candidates, key=lambda c: len(list(ast.walk(c[0]))))[:1]


def _compiles_to(parsed: _File, statement: ast.stmt, code: CodeType) -> bool:
    """Whether the statement compiles to this very code, next to what can change how it compiles:
    ``__future__`` imports, and all imports (methods of imported names compile differently)."""
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    body = [
        s
        for s in parsed.tree.body
        if s is statement
        or (
            not isinstance(s, definitions)
            and any(isinstance(inner, (ast.Import, ast.ImportFrom)) for inner in ast.walk(s))
        )
    ]
    compiled = compile(ast.Module(body, []), code.co_filename, "exec", dont_inherit=True)
    return any(found == code for found in _codes(compiled))


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)
