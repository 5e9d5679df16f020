"""The modules named `torch`, `torch.nn`, ... that give fusegrad's names, and what finds them.

What a module gives is, in this order: what `supplied` has for it, what fusegrad's module of that name has,
what fusegrad has at another place where PyTorch shows the same thing, and else what stands for it
(`stand_ins`). A module that PyTorch loads with `import torch` is there at once, and filled when it is first
looked at.
"""

from __future__ import annotations

import importlib
import importlib.abc
import sys
import threading
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import fusegrad as fg
from fusegrad.eager.core.names import PUBLIC
from fusegrad.eager.core.public import called, home
from fusegrad.eager.distributed import declined
from fusegrad.torch import parts, supplied
from fusegrad.torch.absent import Absent
from fusegrad.torch.asked import complaint, note, refuse
from fusegrad.torch.stand_ins import from_library, stand_in
from fusegrad.torch.surface import Named, surface

TOPS = ("torch", "functorch")
# Names of fusegrad's own, which mean something else in torch.
NOT_TORCHS = frozenset({"torch.jit", "torch.export", "torch.compare", "torch.grad", "torch.hessian"})
# Modules of fusegrad's that have no names of their own.
DECLINED = tuple(f"distributed.{part}" for part in declined.WHY)
# Folders of fusegrad's, which are no packages of torch's.
ENGINE = frozenset({"cli", "compiler", "eager", "moved", "torch", "tracer"})
LATE: Any = vars(fg)["_LAZY"]  # asking fusegrad for these loads the compiler
NOTHING = object()
_filling = threading.RLock()


class Face(ModuleType):
    """A module of torch's name."""

    def __init__(self, name: str, finder: Finder) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self.__file__ = f"<fusegrad as {name}>"
        super().__setattr__("_finder", finder)

    def __getattr__(self, name: str) -> Any:
        full = f"{self.__name__}.{name}"
        finder: Finder = self.__dict__["_finder"]
        if full in parts.VARIABLES:
            return getattr(*parts.VARIABLES[full])
        listed = finder.listed(self.__name__) if name == "__all__" else None
        if listed is not None:
            return listed
        if name.startswith("__") and not finder.knows(full):
            raise AttributeError(name)
        value = own(self.__name__, name)
        if value is not NOTHING and not isinstance(value, ModuleType):
            # Found once, it stands there, as in a module that was imported: reads of it cost nothing.
            super().__setattr__(name, value)
            return value
        if isinstance(value, ModuleType) and value.__name__.partition(".")[0] in sys.stdlib_module_names:
            return value  # torch's modules have what they import as well
        if isinstance(value, ModuleType) or finder.knows(full):
            return importlib.import_module(full)
        elsewhere = surface.names(self.__name__).get(name) if finder.derived else None
        if elsewhere is not None and elsewhere.kind == "module":
            return importlib.import_module(elsewhere.place)
        return finder.absent(full)

    def __setattr__(self, name: str, value: Any) -> None:
        if (full := f"{self.__name__}.{name}") in parts.VARIABLES:
            setattr(*parts.VARIABLES[full], value)
            return
        # Importing torch.autograd.gradcheck, the module, leaves the function of that name in its package.
        known = self.__dict__.get(name)
        if not isinstance(value, Face) or known is None or isinstance(known, ModuleType):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        late = LATE if self.__name__ == "torch" else ()
        names = {*self.__dict__, *late} - {"_finder"}
        return sorted(n for n in names if f"{self.__name__}.{n}" not in NOT_TORCHS or n in self.__dict__)


class Waiting(Face):
    """A module that is there at once, and filled when somebody looks at more than its name."""

    def __getattribute__(self, name: str) -> Any:
        if name not in ("__class__", "__spec__", "__name__"):
            fill(self)
        return ModuleType.__getattribute__(self, name)  # it is a Face by now

    def __setattr__(self, name: str, value: Any) -> None:
        fill(self)
        setattr(self, name, value)


def fill(module: ModuleType) -> None:
    """Give a module that waits what it has; others have it."""
    with _filling:
        if type(module) is Waiting:
            object.__setattr__(module, "__class__", Face)
            finder: Finder = module.__dict__["_finder"]
            finder.fill(module)


def module_behind(name: str) -> ModuleType | None:
    """fusegrad's module that has the names of torch's of this name."""
    top, _, rest = name.partition(".")
    if top == "functorch":
        return fg.func if not rest else None
    first = rest.partition(".")[0]
    if rest.startswith(DECLINED):  # what stands for torch's names there can be derived from
        return None
    if first in ENGINE or f"torch.{first}" in NOT_TORCHS:  # asking for `jit` loads the compiler
        return None
    value: Any = fg
    for part in rest.split(".") if rest else ():
        value = getattr(value, part, None)
    if not isinstance(value, ModuleType):  # a function of the module's name may stand in its package
        value = sys.modules.get(f"fusegrad.{rest}")
    return value if isinstance(value, ModuleType) else None


def own(module: str, name: str) -> Any:
    """What fusegrad has for a name of a module of torch's, at its place or elsewhere."""
    if f"{module}.{name}" in NOT_TORCHS:
        return NOTHING
    for behind in (supplied.module(module), module_behind(module)):
        value = getattr(behind, name, NOTHING) if behind is not None else NOTHING
        if value is not NOTHING:
            return value
    return NOTHING


def resolve(module: str, name: str, absent: type[Absent] = Absent) -> Any:
    """What a module of torch's gives for a name that PyTorch has there."""
    value = present(module, name)
    named = surface.names(module)[name]
    if value is not NOTHING or named.kind == "module":
        return value
    place = (named.place, named.name)
    return _standing(place, surface.names(place[0]).get(place[1], Named("class", *place)), absent)


def present(module: str, name: str) -> Any:
    """What fusegrad has for a name that PyTorch has in a module, at any of its places; NOTHING."""
    value = own(module, name)
    named = surface.names(module)[name]
    if value is not NOTHING or named.kind == "module":
        return value
    if named.kind == "from" and named.place not in surface:
        return from_library(named.place, named.name)
    place = (named.place, named.name)
    if named.kind == "from" and (value := own(*place)) is not NOTHING:
        return value
    package = module.rpartition(".")[0]
    in_package = (
        [(package, name)] if named == surface.names(package).get(name, named)._replace(place=module) else []
    )
    for shown in [*surface.shown_by.get(place, ()), *in_package]:
        if (value := own(*shown)) is not NOTHING:
            return value
    return NOTHING


_STANDING: dict[tuple[str, str], Any] = {}


def _standing(place: tuple[str, str], named: Named, absent: type[Absent]) -> Any:
    """The one thing that stands for what PyTorch has at a place."""
    if place not in _STANDING:
        _STANDING[place] = stand_in(".".join(place), named, resolve, absent)
    return _STANDING[place]


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds all modules named torch, and says what becomes of names that are not there.

    derived: whether what fusegrad has not is stood in for.
    """

    absent_kind: type[Absent] = Absent
    derived = True

    def parts_of(self, name: str) -> dict[str, Any]:
        """What a module has that is no name of fusegrad's."""
        return parts.of(name, self.absent_kind)

    def has_part(self, name: str) -> bool:
        return parts.has(name)

    def listed(self, name: str) -> list[str] | None:
        """The names that `from torch import *` takes."""
        modules = (module_behind(name), supplied.module(name))
        names = next((m.__all__ for m in modules if m is not None and hasattr(m, "__all__")), None)
        return None if names is None else [n for n in names if f"{name}.{n}" not in NOT_TORCHS]

    def absent(self, name: str) -> Any:
        """What an attribute is that nobody has. Raises AttributeError."""
        refuse(name)

    def knows(self, name: str) -> bool:
        """Whether there is a module of this name."""
        if (self.derived and name in surface) or self.has_part(name) or supplied.module(name) is not None:
            return True
        return module_behind(name) is not None

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] not in TOPS:
            return None
        if self.knows(name):
            return ModuleSpec(name, self, origin=f"<fusegrad as {name}>", is_package=True)
        note(name)
        raise ModuleNotFoundError(complaint(name), name=name)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Face(spec.name, self)

    def exec_module(self, module: ModuleType) -> None:
        """Fill a module; with `torch` come all that PyTorch loads, which wait."""
        for name in surface.at_once if module.__name__ == "torch" and self.derived else ():
            if name not in sys.modules:
                sys.modules[name] = made = Face(name, self)
                made.__spec__, made.__loader__, made.__package__ = self.find_spec(name), self, name
                made.__class__ = Waiting
        self.fill(module)

    def fill(self, module: ModuleType) -> None:
        """Give a module what is there without loading the compiler: programs look at `vars(torch.nn)`."""
        name, names = module.__name__, vars(module)
        behind, more = module_behind(name), supplied.module(name)
        names.update(self.parts_of(name))
        offered = [] if more is None else [(more, [*getattr(more, "__all__", ()), *surface.names(name)])]
        offered += [] if behind is None else [(behind, [*vars(behind), *(PUBLIC if behind is fg else ())])]
        for source, keys in offered:
            for key in keys:
                full = f"{name}.{key}"
                if key.startswith("_") or key in names or full in NOT_TORCHS | parts.VARIABLES.keys():
                    continue
                value = getattr(source, key, None)
                if value is not None and not isinstance(value, ModuleType):
                    names[key] = value
        if self.derived:
            self.derive(name, names)

    def derive(self, name: str, names: dict[str, Any]) -> None:
        """What PyTorch has besides, and where it says that classes are."""
        for key, named in surface.names(name).items():
            full = f"{name}.{key}"
            if named.kind == "module":
                if named.place in sys.modules:
                    names.setdefault(key, sys.modules[named.place])
                elif not self.knows(named.place) and not self.knows(full):
                    names.setdefault(key, self.absent_kind(full))
            elif key not in names and full not in parts.VARIABLES and not self.is_late(full):
                names[key] = resolve(name, key, self.absent_kind)
            value = names.get(key)
            if isinstance(value, type) and value.__qualname__ == named.name and home(value) is not None:
                called(value, named.place)

    def is_late(self, full: str) -> bool:
        """Whether asking fusegrad for a name loads the compiler."""
        return full.removeprefix("torch.") in LATE
