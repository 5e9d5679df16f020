"""Which modules PyTorch has, and which names are in each: `surface.txt`, written by `tools/write_surface.py`.

In: lines of names. Out: for each module, what stands under each name: a class, a function, a number, or what
another module has. Nothing of what PyTorch does is there.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

SURFACE = Path(__file__).with_name("surface.txt")


class Named(NamedTuple):
    """What stands under a name of a module of PyTorch's.

    kind: class, error, layer, enum, function, value, module, or from: what `place` defines as `name`.
    detail: the base of an error, the members of an enum, the constants of a class, the text of a value.
    """

    kind: str
    place: str
    name: str
    detail: str = ""


class Surface:
    """The modules of PyTorch's with their names; a module's lines are read when it is asked for.

    >>> surface = Surface(SURFACE.read_text())
    >>> surface.names("torch.nn")["Linear"]
    Named(kind='from', place='torch.nn.modules.linear', name='Linear', detail='')
    >>> surface.names("torch.serialization")["DEFAULT_PROTOCOL"].detail
    '2'
    """

    def __init__(self, text: str) -> None:
        blocks = re.findall(r"^(\w\S*?)(\*?)\n((?: .*\n)*)", text, re.MULTILINE)
        self._lines = {module: lines for module, _, lines in blocks}
        self.at_once = [module for module, star, _ in blocks if star]
        self._names: dict[str, dict[str, Named]] = {}

    @property
    def modules(self) -> list[str]:
        """All modules, those with names first that come first in the alphabet."""
        return list(self._lines)

    def __contains__(self, module: str) -> bool:
        return module in self._lines

    def names(self, module: str) -> dict[str, Named]:
        """What a module has; nothing of one that PyTorch has not."""
        if module not in self._names:
            self._names[module] = dict(
                pair for line in self._lines.get(module, "").splitlines() for pair in read_line(module, line)
            )
        return self._names[module]

    @functools.cached_property
    def shown_by(self) -> dict[tuple[str, str], list[tuple[str, str]]]:
        """For what a module defines, the other modules that have it, and under which names."""
        found = defaultdict(list)
        for module in self._lines:
            for name, named in self.names(module).items():
                if named.kind == "from":
                    found[named.place, named.name].append((module, name))
        return found


def read_line(module: str, line: str) -> list[tuple[str, Named]]:
    """The names of one line."""
    kind, *words = line.split()
    place = words.pop(0) if kind in ("from", "library") else module
    found = []
    for word in words:
        name, mark, rest = re.fullmatch(r"(\w+)(?:([=(])(.*?)\)?)?", word).groups()  # type: ignore[union-attr]
        if kind == "module":
            found.append((name, Named(kind, rest, "")))
        elif kind == "value":
            found.append((name, Named(kind, place, name, word.partition("=")[2])))
        elif mark == "=":
            found.append((name, Named("from" if kind == "library" else kind, place, rest)))
        else:
            found.append((name, Named("from" if kind == "library" else kind, place, name, rest or "")))
    return found


def literal(named: Named) -> object:
    """The number or text of a value that is written out."""
    return float(named.detail) if named.detail in ("inf", "nan", "-inf") else ast.literal_eval(named.detail)


surface = Surface(SURFACE.read_text())
