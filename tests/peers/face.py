"""fusegrad in torch's place: modules named `torch`, `torch.nn`, ... that give fusegrad's names.

    PYTHONPATH=tests/peers/site python program.py

runs a program with them. A name that fusegrad lacks is a plain AttributeError that says which.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import fusegrad as fg
from peers import missing, parts

# What is read from PyTorch's checkout, as it is: its test tools, and the trees that they use.
FROM_CHECKOUT = ("torch.testing", "torch.utils._pytree", "torch.types")
TOPS = ("torch", "functorch")
# Names of fusegrad's own, which mean something else in torch.
NOT_TORCHS = frozenset({"torch.jit", "torch.export", "torch.compare", "torch.grad", "torch.hessian"})
# What PyTorch's test tools look for and expect not to find.
NOWHERE = frozenset(f"torch.{prefix}{op}" for prefix in ("", "_foreach_") for op in ("copy", "zero"))


class Face(ModuleType):
    """A module of torch's name; what it gives is `parts`' or fusegrad's."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self.__file__ = f"<fusegrad as {name}>"
        self.__dict__.update(parts.of(name))

    def __getattr__(self, name: str) -> Any:
        full = f"{self.__name__}.{name}"
        if full in parts.VARIABLES:
            return getattr(*parts.VARIABLES[full])
        if name == "__all__" and missing.is_reading():
            return list(getattr(_behind(self.__name__), name, ()))
        if name.startswith("__") and not parts.has(full):
            raise AttributeError(name)
        behind = _behind(self.__name__)
        value = getattr(behind, name, None) if behind is not None and full not in NOT_TORCHS else None
        if value is not None and not isinstance(value, ModuleType):
            return value
        if isinstance(value, ModuleType) or _is_known(full):
            return importlib.import_module(full)
        if missing.is_reading() and full not in NOWHERE:
            return missing.Missing(full)
        raise AttributeError(missing.complaint(full))

    def __setattr__(self, name: str, value: Any) -> None:
        if (full := f"{self.__name__}.{name}") in parts.VARIABLES:
            setattr(*parts.VARIABLES[full], value)
            return
        # Importing torch.autograd.gradcheck, the module, leaves the function of that name in its package.
        known = getattr(_behind(self.__name__), name, None)
        if not isinstance(value, Face) or known is None or isinstance(known, ModuleType):
            super().__setattr__(name, value)


def _behind(name: str) -> ModuleType | None:
    """fusegrad's module of torch's name."""
    top, _, rest = name.partition(".")
    if top == "functorch":
        return fg.func if not rest else None
    value: Any = fg
    for part in rest.split(".") if rest else ():
        value = getattr(value, part, None)
    if not isinstance(value, ModuleType):  # a function of the module's name may stand in its package
        value = sys.modules.get(f"fusegrad.{rest}")
    return value if isinstance(value, ModuleType) and name not in NOT_TORCHS else None


def _is_known(name: str) -> bool:
    return parts.has(name) or _behind(name) is not None or _finder().source(name) is not None


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds all modules named torch; `checkout`, if there is one, is where PyTorch's test tools lie."""

    def __init__(self, checkout: Path | None) -> None:
        self.checkout = checkout

    def source(self, name: str) -> Path | None:
        """The checkout's file of a module that is read as it is."""
        if self.checkout is None or not name.startswith(FROM_CHECKOUT):
            return None
        path = self.checkout.joinpath(*name.split("."))
        return next((p for p in (path / "__init__.py", path.with_suffix(".py")) if p.exists()), None)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] not in TOPS:
            return None
        file = self.source(name)
        if file is not None:
            places = [str(file.parent)] if file.name == "__init__.py" else None
            loader = Reader(name, str(file))
            return importlib.util.spec_from_file_location(
                name, file, loader=loader, submodule_search_locations=places
            )
        if missing.is_reading() or _is_known(name):
            return ModuleSpec(name, self, is_package=True)
        raise ModuleNotFoundError(missing.complaint(name), name=name)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Face(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: all is made when it is asked for."""


class Reader(importlib.machinery.SourceFileLoader):
    """Reads a file of the checkout, which may mention what is missing."""

    def exec_module(self, module: ModuleType) -> None:
        with missing.reading():
            super().exec_module(module)


def _finder() -> Finder:
    return next(f for f in sys.meta_path if isinstance(f, Finder))


def install(checkout: Path | None = None) -> ModuleType:
    """Put fusegrad in torch's place in this process, before anybody imports torch."""
    for name in [n for n in sys.modules if n.partition(".")[0] in TOPS]:
        del sys.modules[name]
    sys.meta_path.insert(0, Finder(checkout))
    return importlib.import_module("torch")
