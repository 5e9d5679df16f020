"""The places of hooks in the user's source: a number goes in, file, line and expression come out."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from types import TracebackType
from typing import Any


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the user's source: file, line and the text of the expression."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}  {self.text}"


NOWHERE = Site("<unknown>", 0, "")


class SiteTable:
    """The expressions of one function that have hooks, by number; texts are cut out when asked for."""

    def __init__(self, file: str, lines: list[str]):
        self._file, self._lines = file, lines
        self._sites: list[Any] = []

    def add(self, node: Any) -> int:
        """Number a node of the syntax tree."""
        self._sites.append(node)
        return len(self._sites) - 1

    def __getitem__(self, index: int) -> Site:
        found = self._sites[index]
        if isinstance(found, ast.AST):
            found = self._sites[index] = Site(self._file, found.lineno, self._text(found))  # type: ignore
        return found

    def _text(self, node: Any) -> str:
        if not 0 < node.lineno <= len(self._lines):
            return ""
        line = self._lines[node.lineno - 1].encode()
        if getattr(node, "end_lineno", None) == node.lineno:
            return line[node.col_offset : node.end_col_offset].decode(errors="replace").strip()
        return line[node.col_offset :].decode(errors="replace").strip() + " ..."


# The tracer's.
_FOLDER = __file__.rpartition("/twin/")[0] + "/"


def without_hooks(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of this package's hooks."""
    if traceback is None:
        return None
    rest, frame = without_hooks(traceback.tb_next), traceback.tb_frame
    if frame.f_code.co_filename.startswith(_FOLDER):
        return rest
    # An instruction at which a signal handler came need not belong to any line.
    line: int | None = traceback.tb_lineno
    return TracebackType(
        rest, frame, traceback.tb_lasti, frame.f_code.co_firstlineno if line is None else line
    )


def definition(function: Any) -> tuple[str, int, str]:
    """The file, the line and the name of what a function is made of."""
    for _ in range(8):
        code = getattr(function, "__code__", None)
        if code is not None:
            return code.co_filename, code.co_firstlineno, code.co_name
        function = getattr(function, "__func__", None) or getattr(function, "__wrapped__", None)
    return NOWHERE.file, 0, ""
