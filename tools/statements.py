"""Counts the statements of each room, docstrings left out: `python tools/statements.py [CHECKOUT ...]`.

Lines grow and shrink with the width of a page; statements are what a reader has to follow. With several
checkouts their figures stand side by side, a row for each room that any of them has.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

FOLDERS = ("eager", "tracer", "compiler", "fusegrad")


def statements(path: Path) -> int:
    """The statements of a file, at any depth, without docstrings."""
    count = 0
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.stmt):
            text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            count += not (text and isinstance(node.value.value, str))  # type: ignore[attr-defined]
    return count


def by_room(checkout: Path) -> Counter[str]:
    """The statements of each folder of a checkout that has modules."""
    found: Counter[str] = Counter()
    for folder in FOLDERS:
        for path in sorted((checkout / folder).rglob("*.py")):
            found[str(path.parent.relative_to(checkout))] += statements(path)
    return found


def main() -> None:
    """The command line."""
    checkouts = [Path(name) for name in sys.argv[1:]] or [Path(__file__).parent.parent]
    found = [by_room(checkout) for checkout in checkouts]
    rooms = sorted(set().union(*found))
    for room in rooms:
        print(f"{room:32}" + "".join(f"{counted[room]:8,}" for counted in found))
    print(f"{'in all':32}" + "".join(f"{counted.total():8,}" for counted in found))


if __name__ == "__main__":
    main()
