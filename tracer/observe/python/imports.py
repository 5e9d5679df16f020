"""Imports within a function: what a statement names goes in, the module comes out.

Its place in `sys.modules`, and on the packages around it, is read like any other.
"""

from __future__ import annotations

import builtins
import importlib.util
import sys
from typing import Any

from fusegrad.tracer.observe import attributes
from fusegrad.tracer.observe.lookup import MISSING
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.twin.sites import Site

_IMPORT = builtins.__import__


def imported(
    observer: Observer, name: str, namespace: dict[str, Any], names: tuple[str, ...], level: int, site: Site
) -> Any:
    """What `__import__` gives: the module, or its package where no names are taken from it.

    Raises what `__import__` raises.
    """
    whole = name
    if level:
        package = namespace.get("__package__")
        whole = importlib.util.resolve_name("." * level + name, package if type(package) is str else "")
    read = whole if names else whole.partition(".")[0]
    loaded = type(sys.modules) is dict and whole in sys.modules and read in sys.modules
    if not loaded or builtins.__import__ is not _IMPORT:
        observer.open(f"imports `{whole}`", site, "once" if builtins.__import__ is _IMPORT else "")
        return observer.reached(builtins.__import__(name, namespace, None, names, level))
    observer.reached(sys.modules)
    for key in {whole, read}:
        observer.read_item(sys.modules, key, sys.modules[key], site)
    return observer.reached(_IMPORT(name, namespace, None, names, level))


def taken(observer: Observer | None, module: Any, name: str, site: Site) -> Any:
    """`name` of `from module import name`: an attribute, or else a module of that package."""
    try:
        return getattr(module, name) if observer is None else attributes.load(observer, module, name, site)
    except AttributeError:
        of_package = f"{module.__name__}.{name}"
        found = sys.modules.get(of_package, MISSING)
        if observer is not None:
            observer.open(f"imports `{of_package}`, which its package does not name", site)
        if found is MISSING:
            text = (
                f"cannot import name {name!r} from {module.__name__!r} ({getattr(module, '__file__', None)})"
            )
            raise ImportError(text, name=name, path=getattr(module, "__file__", None)) from None
        return found
