"""Globals, and variables of functions around, that a run rebinds: replays rebind them once everything else is
done, as they set attributes (`stores.py`).

    global step
    step += 1                      a replay finds the number first, and rebinds the global in the end

What the run finds in such a variable afterwards is no look at the world any more.
"""

from __future__ import annotations

from types import CellType, FunctionType
from typing import Any

from fusegrad.tracer.observe import stores
from fusegrad.tracer.observe.observer import LOCAL, Observer
from fusegrad.tracer.twin.sites import Site

_CELL = "cell_contents"
REBIND = "rebinds a variable from outside"


def place_of(function: FunctionType, name: str, is_global: bool) -> tuple[Any, str]:
    """Where a variable of a function lies: in the globals, by its name, or in a cell of the closure."""
    if is_global:
        return function.__globals__, name
    cells = function.__closure__
    assert cells is not None, "a function has cells for its free variables"
    return cells[function.__code__.co_freevars.index(name)], _CELL


def put(place: tuple[Any, str], value: Any) -> None:
    """Rebind the variable."""
    owner, name = place
    if type(owner) is CellType:
        owner.cell_contents = value
    else:
        owner[name] = value


def read_global(observer: Observer, function: FunctionType, name: str, value: Any, site: Site) -> Any:
    """A global or builtin name of a function, already loaded."""
    if (function.__globals__, name) in observer.stores:
        return value
    return observer.read_global(function, name, value, site)


def read_cell(observer: Observer, function: FunctionType, name: str, value: Any, site: Site) -> Any:
    """A variable of a function's closure, already loaded."""
    if observer.stores and place_of(function, name, False) in observer.stores:
        return value
    return observer.read_cell(function, name, value, site)


def store(
    observer: Observer, function: FunctionType, value: Any, place: tuple[Any, str], name: str, site: Site
) -> None:
    """Rebind a variable, as a replay can, too, where it had a value and gets one that can be left."""
    observer.does(f"rebinds `{name}`", site)
    owner, key = place
    is_cell = type(owner) is CellType
    new = type(owner) is dict and key not in owner
    if new or not (is_cell or type(owner) is dict) or (is_cell and observer.status(function) == LOCAL):
        observer.open(f"rebinds the outer variable `{name}`", site, "once" if new else "")
    elif not stores.can_be_left(observer, value, owner):
        observer.open(f"rebinds the outer variable `{name}` to what a replay could not make", site)
    else:
        if not is_cell:
            stores.has_item(observer, owner, key, site)
        observer.stores.times += 1
        observer.stores.add(owner, key)
        observer.changed(REBIND)
    put(place, value)
