"""Results with several named parts, as PyTorch gives them."""

from __future__ import annotations

from collections import namedtuple
from types import SimpleNamespace
from typing import Any

# The classes, by their names.
return_types = SimpleNamespace()


def return_type(name: str, fields: tuple[str, ...]) -> type:
    """A named tuple that prints as PyTorch's results with several parts do."""

    def show(self: Any) -> str:
        parts = ",\n".join(f"{f}={getattr(self, f)!r}" for f in fields)
        return f"torch.return_types.{name}(\n{parts})"

    make: Any = namedtuple  # type checkers want the fields written out
    kind = make(name, fields)
    kind.__repr__ = show
    setattr(return_types, name, kind)
    return kind
