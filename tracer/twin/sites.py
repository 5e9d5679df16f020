"""The places of hooks in the user's source: a number goes in, file, line and expression come out."""

from __future__ import annotations

import ast
from dataclasses import dataclass
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
