"""fusegrad in torch's place for PyTorch's tests, which are read leniently; their tools are a checkout's."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from fusegrad.torch import face
from fusegrad.torch.surface import surface
from peers import missing, parts

# What is read from PyTorch's checkout, as it is: its test tools, and the trees that they use.
FROM_CHECKOUT = ("torch.testing", "torch.utils._pytree", "torch.types")
# What PyTorch's test tools look for and expect not to find.
NOWHERE = frozenset(f"torch.{prefix}{op}" for prefix in ("", "_foreach_") for op in ("copy", "zero"))


class Finder(face.Finder):
    """`checkout`, if there is one, is where PyTorch's test tools lie."""

    absent_kind = missing.Missing
    derived = False  # what stands for names is `missing`'s

    def __init__(self, checkout: Path | None) -> None:
        self.checkout = checkout

    def source(self, name: str) -> Path | None:
        """The checkout's file of a module that is read as it is."""
        if self.checkout is None or not name.startswith(FROM_CHECKOUT):
            return None
        path = self.checkout.joinpath(*name.split("."))
        return next((p for p in (path / "__init__.py", path.with_suffix(".py")) if p.exists()), None)

    def parts_of(self, name: str) -> dict[str, Any]:
        return super().parts_of(name) | parts.PARTS.get(name, {})

    def has_part(self, name: str) -> bool:
        return super().has_part(name) or any(k == name or k.startswith(f"{name}.") for k in parts.PARTS)

    def listed(self, name: str) -> list[str] | None:
        names = super().listed(name)
        return [] if names is None and missing.is_reading() else names

    def absent(self, name: str) -> Any:
        module, _, last = name.rpartition(".")
        if last in surface.names(module) and (value := face.present(module, last)) is not face.NOTHING:
            return value
        if missing.is_reading() and name not in NOWHERE:
            return missing.Missing(name)
        return super().absent(name)

    def knows(self, name: str) -> bool:
        return super().knows(name) or self.source(name) is not None

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        file = self.source(name)
        if file is not None:
            places = [str(file.parent)] if file.name == "__init__.py" else None
            loader = Reader(name, str(file))
            return importlib.util.spec_from_file_location(
                name, file, loader=loader, submodule_search_locations=places
            )
        if missing.is_reading() and name.partition(".")[0] in face.TOPS:
            return ModuleSpec(name, self, is_package=True)
        return super().find_spec(name, path, target)


class Reader(SourceFileLoader):
    """Reads a file of the checkout, which may mention what is missing."""

    def exec_module(self, module: ModuleType) -> None:
        with missing.reading():
            super().exec_module(module)
