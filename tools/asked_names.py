"""The names of PyTorch's that the source of packages asks for, found without running it.

    python tools/asked_names.py FOLDER

In: a folder of wheels, archives and sources. Out: each dotted name that is imported from torch, or read from
what was: `import torch.nn.functional as F; F.silu` asks for `torch.nn.functional.silu`.
"""

from __future__ import annotations

import ast
import io
import sys
import tarfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path


def sources(folder: Path) -> Iterator[tuple[str, str]]:
    """The package and the text of each Python file in a folder, packed or not."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".whl", ".zip"):
            with zipfile.ZipFile(path) as wheel:
                for name in wheel.namelist():
                    if name.endswith(".py"):
                        yield path.name, wheel.read(name).decode(errors="replace")
        elif path.name.endswith((".tar.gz", ".tgz")):
            with tarfile.open(path) as archive:
                for member in archive:
                    file = archive.extractfile(member) if member.name.endswith(".py") else None
                    yield path.name, (file or io.BytesIO()).read().decode(errors="replace")
        elif path.suffix == ".py":
            yield path.relative_to(folder).parts[0], path.read_text(errors="replace")


class Asking(ast.NodeVisitor):
    """The names of torch's that one file asks for."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        self.known: dict[str, str] = {}

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name.partition(".")[0] == "torch":
                self.found.add(alias.name)
                self.known[alias.asname or "torch"] = alias.name if alias.asname else "torch"

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level or (node.module or "").partition(".")[0] != "torch":
            return
        for alias in node.names:
            if alias.name != "*":
                path = f"{node.module}.{alias.name}"
                self.found.add(path)
                self.known[alias.asname or alias.name] = path

    def visit_Attribute(self, node: ast.Attribute) -> None:
        parts, value = [node.attr], node.value
        while isinstance(value, ast.Attribute):
            parts.append(value.attr)
            value = value.value
        if isinstance(value, ast.Name) and value.id in self.known:
            self.found.add(".".join([self.known[value.id], *reversed(parts)]))
        else:
            self.generic_visit(node)


def asked_in(folder: Path) -> Counter[str]:
    """Each name that is asked for, and how many packages ask."""
    found: set[tuple[str, str]] = set()
    for package, text in sources(folder):
        if "torch" not in text:
            continue
        asking = Asking()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):  # imports first: a function may use what stands below it
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                asking.visit(node)
        asking.visit(tree)
        found |= {(package, name) for name in asking.found}
    return Counter(name for _, name in found)


if __name__ == "__main__":
    for name, count in asked_in(Path(sys.argv[1])).most_common():
        print(f"{count:4} {name}")
