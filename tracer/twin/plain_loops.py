"""Plain loops: a `for` statement goes in; the variables that its rounds hand on come out, if all is seen.

Their bodies are straight lines of assignments. Nothing in them branches, catches, defines or looks at which
round it is. What they call is for the run to say (see `rolling.py`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable

_EXPRESSIONS = (
    ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Subscript, ast.Slice, ast.Tuple, ast.Attribute,
    ast.Call, ast.keyword, ast.expr_context, ast.operator, ast.unaryop,
)  # fmt: skip


def carried_variables(loop: ast.For, is_own: Callable[[str], bool]) -> list[str] | None:
    """The variables that a round of a plain loop takes over from the one before; None for another loop.

    is_own: whether a name is a variable of the function's that no other function sees.
    """
    if not isinstance(loop.target, ast.Name) or loop.orelse:
        return None
    names = _Names()
    for statement in loop.body:
        if not names.follow(statement):
            return None
    counter = loop.target.id
    if counter in names.read or counter in names.assigned or not all(map(is_own, names.assigned)):
        return None
    return [name for name in names.read if name in names.assigned]


class _Names:
    """The names that the statements of a straight line assign, and those that they read before."""

    def __init__(self) -> None:
        self.read: dict[str, None] = {}
        self.assigned: dict[str, None] = {}

    def follow(self, statement: ast.stmt) -> bool:
        """Note the names of the next statement; False for one that is not plain."""
        match statement:
            case ast.Pass():
                return True
            case ast.Expr(value=value):
                return self._reads(value)
            case ast.Assign(targets=targets, value=value):
                return self._reads(value) and all(map(self._assigns, targets))
            case ast.AugAssign(target=ast.Name(id=name) as target, value=value):
                self._note(name)
                return self._reads(value) and self._assigns(target)
        return False

    def _reads(self, value: ast.expr) -> bool:
        nodes = list(ast.walk(value))
        for node in nodes:
            if isinstance(node, ast.Name):
                self._note(node.id)
        return all(isinstance(node, _EXPRESSIONS) and not _branches(node) for node in nodes)

    def _note(self, name: str) -> None:
        if name not in self.assigned:
            self.read[name] = None

    def _assigns(self, target: ast.expr) -> bool:
        match target:
            case ast.Name(id=name):
                self.assigned[name] = None
                return True
            case ast.Tuple(elts=elements):
                return all(isinstance(e, ast.Name) and self._assigns(e) for e in elements)
            case ast.Subscript(value=ast.Name() as owner, slice=index):
                return self._reads(owner) and self._reads(index)
        return False


def _branches(node: ast.AST) -> bool:
    """`not x` asks for truth, and `**options` for whatever is in there."""
    return isinstance(node, ast.Not) or (isinstance(node, ast.keyword) and node.arg is None)
