"""What differs from one Python to the next: the versions that fusegrad was tried on, how they count
references, and what their bytecode says. On others the plain way is taken: nothing counts as free, and no
native code looks into objects.

Offsets in objects are in `compiler/native/layouts.py`. Two modules count by themselves, as `holders` does, as
each is tried as it is on interpreters that have no NumPy: `compiler/runtime/allocator.py` and
`tracer/record/references.py`.
"""

from __future__ import annotations

import dis
import functools
import math
import sys
from collections.abc import Collection
from types import CodeType
from typing import Any

from fusegrad.eager.core.errors import warn

# What CI runs; `requires-python` in pyproject.toml ends behind the last of them.
TRIED = ((3, 11), (3, 12), (3, 13))


def counts(things: Collection[object]) -> list[int]:
    """The reference counts of what a container holds.

    No bytecode has a part in them, whose references to a function's variables each version counts otherwise.
    """
    return [*map(sys.getrefcount, things)]


# What is counted for something that a container alone holds.
(_ALONE,) = counts([object()])


def holders(things: Collection[object]) -> list[float]:
    """How many references to each of the things in a container there are beside the container's.

    Where the interpreter is strange they are no numbers: no comparison with them holds.

    >>> name = object()
    >>> holders([name, object()])
    [1, 0]
    """
    if is_strange():
        return [math.nan] * len(things)
    return [count - _ALONE for count in counts(things)]


def strangeness() -> str:
    """Why the interpreter is not one of those that fusegrad knows; nothing where it is."""
    name, version = sys.implementation.name, sys.version_info[:2]
    if name != "cpython" or version not in TRIED:
        return f"{name} {version[0]}.{version[1]} is not known"
    # `sysconfig` knows as well, but reads a file for it.
    built = "free-threading" in sys.version
    if built or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "Python runs, or was built to run, without the GIL"
    return "" if _counts_as_known() else "references are not counted as in CPython"


@functools.cache
def is_strange() -> bool:
    """Whether the interpreter is none of those that fusegrad knows. The first time, the user is told."""
    reason = strangeness()
    if reason:
        tried = ", ".join(f"{major}.{minor}" for major, minor in TRIED)
        warn(
            f"fusegrad was tried on CPython {tried}: {reason}. Calls take longer than they need "
            "to, as nothing counts as free"
        )
    return bool(reason)


def _counts_as_known() -> bool:
    """Whether each who holds a thing adds one."""

    class Owner:
        thing: Any = None

    def passed_on(row: list[object], thing: object) -> int:
        return counts(row)[0] - _ALONE if thing else 0

    row, owner, others, seen = [object()], Owner(), list[Any](), []
    seen.append(counts(row)[0] - _ALONE)
    name = row[0]
    seen.append(counts(row)[0] - _ALONE)
    owner.thing = name
    seen.append(counts(row)[0] - _ALONE)
    others.append({"key": name})
    seen.append(counts(row)[0] - _ALONE)
    others.append(lambda: name)  # holds the variable, not the thing
    seen.append(counts(row)[0] - _ALONE)
    seen.append(passed_on(row, name))
    return seen == [0, 1, 2, 3, 3, 4]


def rebound(code: CodeType) -> set[str]:
    """The variables of functions around it that code rebinds.

    >>> def around():
    ...     count = 0
    ...     def inner():
    ...         nonlocal count
    ...         count += 1
    ...     return inner
    >>> rebound(around().__code__)
    {'count'}
    """
    stores = (i for i in dis.get_instructions(code) if i.opname in ("STORE_DEREF", "DELETE_DEREF"))
    return {store.argval for store in stores} & {*code.co_freevars}


def is_raise(code: CodeType, offset: int) -> bool:
    """Whether the instruction there is that of a `raise` or an `assert`."""
    return dis.opname[code.co_code[offset]] == "RAISE_VARARGS"


def instructions(code: CodeType) -> bytes:
    """The instructions of a function as this interpreter has them, to be compared with others of its own."""
    return code.co_code
