"""Where modules were before they were moved into rooms, for what was pickled then.

In: a name such as `fusegrad.eager.tensor`, which old pickles have for the class `Tensor`. Out: a module that
gives what the one in its place has, with a DeprecationWarning. Pickles name public paths now
(`eager/core/public.py`), so this stays for one release.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import warnings
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

# Modules whose classes another one has now.
_MERGED = {"fusegrad.eager.nn.scored_losses": "fusegrad.eager.nn.losses"}
# The rooms in which a module of a folder can be now.
_ROOMS = {
    "fusegrad.eager": ("core", "autograd", "io", "random"),
    "fusegrad.eager.ops": ("create", "index", "linalg", "loss", "nn", "pointwise", "reduce", "shape"),
}


class MovedModules:
    """What the import system asks last of all, about modules that nobody else finds."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """A module that was in one of our folders, and is in a room of it now, or in another module."""
        folder, _, module = name.rpartition(".")
        places = [f"{folder}.{room}.{module}" for room in _ROOMS.get(folder, ())]
        for there in [_MERGED[name]] if name in _MERGED else places:
            if importlib.util.find_spec(there) is not None:
                return ModuleSpec(name, MovedModules(there))  # type: ignore[arg-type]
        return None

    def __init__(self, there: str) -> None:
        self.there = there

    def create_module(self, spec: ModuleSpec) -> None:
        """None: a module as all are."""

    def exec_module(self, module: ModuleType) -> None:
        """Let the module look up everything where it is now."""
        warnings.warn(
            f"{module.__name__} is {self.there} now. Save again what was pickled with the old name: the next "
            "release does not know it",
            DeprecationWarning,
            stacklevel=2,
        )
        there = importlib.import_module(self.there)
        module.__getattr__ = functools.partial(getattr, there)  # type: ignore[method-assign]
