"""The modules named `torch`, `torch.nn`, ... that give fusegrad's names, and what finds them."""

from __future__ import annotations

import importlib
import importlib.abc
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import fusegrad as fg
from fusegrad.eager.core.names import PUBLIC
from fusegrad.torch import parts
from fusegrad.torch.absent import Absent
from fusegrad.torch.asked import complaint, note, refuse

TOPS = ("torch", "functorch")
# Names of fusegrad's own, which mean something else in torch.
NOT_TORCHS = frozenset({"torch.jit", "torch.export", "torch.compare", "torch.grad", "torch.hessian"})


class Face(ModuleType):
    """A module of torch's name; what it gives is `parts`' or fusegrad's."""

    def __init__(self, name: str, finder: Finder) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self.__file__ = f"<fusegrad as {name}>"
        super().__setattr__("_finder", finder)
        self.__dict__.update(finder.parts_of(name))

    def __getattr__(self, name: str) -> Any:
        full = f"{self.__name__}.{name}"
        finder: Finder = self.__dict__["_finder"]
        if full in parts.VARIABLES:
            return getattr(*parts.VARIABLES[full])
        listed = finder.listed(self.__name__) if name == "__all__" else None
        if listed is not None:
            return listed
        if name.startswith("__") and not finder.has_part(full):
            raise AttributeError(name)
        behind = module_behind(self.__name__)
        value = getattr(behind, name, finder) if full not in NOT_TORCHS else finder
        if value is not finder and not isinstance(value, ModuleType):
            # Found once, it stands there, as in a module that was imported: reads of it cost nothing.
            super().__setattr__(name, value)
            return value
        if isinstance(value, ModuleType) or finder.knows(full):
            return importlib.import_module(full)
        return finder.absent(full)

    def __setattr__(self, name: str, value: Any) -> None:
        if (full := f"{self.__name__}.{name}") in parts.VARIABLES:
            setattr(*parts.VARIABLES[full], value)
            return
        # Importing torch.autograd.gradcheck, the module, leaves the function of that name in its package.
        known = getattr(module_behind(self.__name__), name, None)
        if not isinstance(value, Face) or known is None or isinstance(known, ModuleType):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        behind = module_behind(self.__name__)
        names = {*self.__dict__, *(() if behind is None else dir(behind))} - {"_finder"}
        return sorted(n for n in names if f"{self.__name__}.{n}" not in NOT_TORCHS)


def module_behind(name: str) -> ModuleType | None:
    """fusegrad's module that has the names of torch's of this name."""
    if name in parts.BEHIND:
        names = ModuleType(name)  # asking for it loads the compiler
        vars(names).update(vars(getattr(fg, parts.BEHIND[name])))
        return names
    top, _, rest = parts.PACKAGES.get(name, name).partition(".")
    if top == "functorch":
        return fg.func if not rest else None
    value: Any = fg
    for part in rest.split(".") if rest else ():
        value = getattr(value, part, None)
    if not isinstance(value, ModuleType):  # a function of the module's name may stand in its package
        value = sys.modules.get(f"fusegrad.{rest}")
    return value if isinstance(value, ModuleType) and name not in NOT_TORCHS else None


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds all modules named torch, and says what becomes of names that are not there."""

    absent_kind: type[Absent] = Absent

    def parts_of(self, name: str) -> dict[str, Any]:
        """What a module has that is no name of fusegrad's."""
        return parts.of(name, self.absent_kind)

    def has_part(self, name: str) -> bool:
        return parts.has(name)

    def listed(self, name: str) -> list[str] | None:
        """The names that `from torch import *` takes."""
        behind = module_behind(name)
        names = getattr(behind, "__all__", None)
        return None if names is None else [n for n in names if f"{name}.{n}" not in NOT_TORCHS]

    def absent(self, name: str) -> Any:
        """What an attribute is that nobody has. Raises AttributeError."""
        refuse(name)

    def knows(self, name: str) -> bool:
        """Whether there is a module of this name."""
        return self.has_part(name) or module_behind(name) is not None

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] not in TOPS:
            return None
        if self.knows(name):
            return ModuleSpec(name, self, is_package=True)
        note(name)
        raise ModuleNotFoundError(complaint(name), name=name)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Face(spec.name, self)

    def exec_module(self, module: ModuleType) -> None:
        """Give the module what is there without loading anything: programs look at `vars(torch.nn)`."""
        behind = module_behind(module.__name__)
        if behind is None or module.__name__ in parts.BEHIND:
            return
        for name in {**vars(behind), **(PUBLIC if behind is fg else {})}:
            full = f"{module.__name__}.{name}"
            if name.startswith("_") or name in module.__dict__ or full in NOT_TORCHS | parts.VARIABLES.keys():
                continue
            value = getattr(behind, name)
            if not isinstance(value, ModuleType):
                vars(module)[name] = value
