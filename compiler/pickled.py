"""Jitted functions in pickles: by name where that finds them, as functions are; else with their code.

A process pool, joblib, ray or dask sends a function to processes that may not know where it was defined.
Compiled code stays behind: every process compiles for itself.
"""

from __future__ import annotations

import operator
import sys
import threading
from types import FunctionType
from typing import Any

from fusegrad.eager.core.handlers import handler_raised

# The functions whose code is being put into a pickle, and those that are being made of one, the outermost
# first: a function may refer to itself.
_busy = threading.local()


def reduced(jitted: Any) -> Any:
    """What `jitted.__reduce__` gives.

    Raises what pickling the function raises, where no name leads to it.
    """
    function, options = jitted.__wrapped__, (jitted.verify, jitted.require, jitted.contract)
    if not isinstance(function, FunctionType):
        return type(jitted), (function, *options)  # a module, a method, ...
    module, name = function.__module__, function.__qualname__
    found = _named(module, name)
    if found is function:
        return type(jitted), (function, *options)
    if found is jitted and module != "__main__":
        return name
    writing = _busy.__dict__.setdefault("writing", [])
    if jitted in writing:
        return _outer, (writing.index(jitted),)
    writing.append(jitted)
    try:
        data = _by_value(function)
    except Exception:
        if found is not jitted or handler_raised():
            raise
        data = None
    finally:
        writing.pop()
    # The main module of another process may be another one.
    place = (module, name) if found is jitted else None
    return _loaded, (type(jitted), place, data, *options)


def _named(module: str, name: str) -> Any:
    """What lies under a name of a module that has been imported; None if nothing does."""
    try:
        return operator.attrgetter(name)(sys.modules[module])
    except (KeyError, AttributeError):
        return None


def _by_value(function: FunctionType) -> bytes:
    """The function with its code and what it refers to."""
    from numba import cloudpickle  # slow to import, and few need it

    data: bytes = cloudpickle.dumps(function)
    return data


def _outer(number: int) -> Any:
    """A jitted function that a function refers to which is a part of it."""
    return _busy.reading[number]


def _loaded(kind: Any, place: tuple[str, str] | None, data: bytes | None, *options: Any) -> Any:
    """The jitted function at its place, or a new one of the function in `data`."""
    found = None if place is None else _named(*place)
    if isinstance(found, kind):
        return found
    if data is None:
        raise AttributeError(f"{place} is not here, and could not be pickled with its code; import it first")
    from numba import cloudpickle

    reading = _busy.__dict__.setdefault("reading", [])
    made: Any = kind.__new__(kind)
    reading.append(made)
    try:
        function = cloudpickle.loads(data)
    finally:
        reading.pop()
    made.__init__(function, *options)
    return made
