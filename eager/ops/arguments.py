"""What functions take for numbers, dimensions and sizes: one rule for each kind, by the annotation.

    int      an int, a NumPy integer, an integer tensor of one element, what has `__index__`; no bool
    float    a real number of Python's or NumPy's, a tensor without dimensions or gradient
    bool     a bool
    Sequence[int]   a tuple or list of such ints: dimensions, sizes, strides
    Ints     one such int, or a tuple or list

Functions get what they are declared for: Python's numbers, and tuples or lists of ints. Forms (`forms.py`)
ask for the types of arguments first and come here with others only. Source: PyTorch's parser of arguments.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.eager.core.errors import failure, type_name
from fusegrad.eager.core.sizes import Symbol
from fusegrad.eager.core.tensor import Tensor


class _Missing:
    """Stands for an argument that was not given."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()
_INT = {int}
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
OVERFLOW = "Overflow when unpacking long long"


def as_int(value: Any) -> int | None:
    """What is taken for an int, as one; None for anything else. Raises ValueError beyond 64 bits."""
    kind = type(value)
    if kind is bool or kind is np.bool_:
        return None
    if isinstance(value, Symbol):
        return value  # type: ignore[return-value]
    if isinstance(value, Tensor):
        if value.array.size != 1 or value.dtype.category != 1:
            return None
        value = value.item()
    try:
        found = operator.index(value)
    except TypeError:
        return None
    if not _LEAST <= found <= _MOST:
        raise failure(ValueError, OVERFLOW)
    return found


class Place(NamedTuple):
    """The parameter `name` of a function, and where it stands among them; 0 for one that has no place."""

    function: str
    name: str
    position: int = 0

    def __str__(self) -> str:
        at = f" (position {self.position})" if self.position else ""
        before = f"{self.function}(): " if self.function else ""  # which errors find by themselves
        return f"{before}argument '{self.name}'{at}"


def _refused(place: Place, wanted: str, value: Any) -> Exception:
    return failure(TypeError, f"{place} must be {wanted}, not {type_name(value)}")


def whole_number(value: Any, place: Place) -> Any:
    """An argument that is declared as int. Raises TypeError, or ValueError beyond 64 bits."""
    found = as_int(value)
    if found is None:
        raise _refused(place, "int", value)
    return found


def real_number(value: Any, place: Place) -> Any:
    """An argument that is declared as float. Raises TypeError."""
    if isinstance(value, Tensor):
        if value.array.ndim or value.needs_grad or value.dtype.category == 3:
            raise _refused(place, "float", value)
        return value.item()
    if isinstance(value, (np.floating, np.integer, np.bool_)):
        return value.item()
    if not isinstance(value, (float, int)):
        raise _refused(place, "float", value)
    return value


def truth(value: Any, place: Place) -> Any:
    """An argument that is declared as bool. Raises TypeError for everything else."""
    if type(value) is not bool:
        raise _refused(place, "bool", value)
    return value


def ints(value: Any, place: Place) -> Any:
    """An argument that is an int, or several: an int, or a tuple or list of ints. Raises TypeError.

    Of several the first may not be a bool, and others may, as PyTorch has it.
    """
    if not isinstance(value, (tuple, list)):
        found = as_int(value)
        if found is None:
            raise _refused(place, "tuple of ints", value)
        return found
    if set(map(type, value)) <= _INT and not _reaches_beyond(value):
        return value
    return tuple([_element(element, number, place) for number, element in enumerate(value)])


def several(value: Any, place: Place) -> Any:
    """An argument that is a tuple or list of ints. Raises TypeError for a single one, too."""
    if not isinstance(value, (tuple, list)):
        raise _refused(place, "tuple of ints", value)
    return ints(value, place)


def _reaches_beyond(numbers: Sequence[int]) -> bool:
    return bool(numbers) and not _LEAST <= min(numbers) <= max(numbers) <= _MOST


def _element(value: Any, number: int, place: Place) -> Any:
    try:
        found = int(value) if number and type(value) is bool else as_int(value)
    except ValueError:
        raise failure(
            TypeError, f'{place} failed to unpack the object at pos {number + 1} with error "{OVERFLOW}"'
        ) from None
    if found is None:
        raise failure(
            TypeError,
            f"{place} must be tuple of ints, but found element of type {type_name(value)} at pos {number}",
        )
    return found


class Rule(NamedTuple):
    """How a parameter is read. plain: the types that need not be read; optional: None need not, either."""

    read: Callable[[Any, Place], Any]
    plain: tuple[type, ...]
    optional: bool


_RULES: dict[str, tuple[Callable[[Any, Place], Any], tuple[type, ...]]] = {
    "int": (whole_number, (int,)),
    "float": (real_number, (float, int)),
    "bool": (truth, (bool,)),
    "Ints": (ints, (int,)),
    "Sequence[int]": (several, ()),
}


@functools.cache
def rules(function: Any, own: int = 0) -> dict[str, tuple[Rule, Place]]:
    """Those of a function's parameters that have one, by their names.

    own: how many of them a method has by itself.
    """
    return {name: (rule, place) for name, rule, place in _rules(function, own)}


def _rules(function: Any, own: int) -> Iterator[tuple[str, Rule, Place]]:
    for number, p in enumerate(inspect.signature(function, follow_wrapped=False).parameters.values()):
        words = [w.strip() for w in str(p.annotation).split("|")]
        kinds = [w for w in words if w != "None"]
        known = _RULES.get(kinds[0]) if len(kinds) == 1 else None
        if known is not None and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            position = 0 if p.kind is p.KEYWORD_ONLY else number + 1 - own
            optional = "None" in words or p.default is None
            yield p.name, Rule(*known, optional), Place(function.__name__, p.name, position)


def read(function: Any, args: Sequence[Any], named: dict[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """Arguments by place and by name, each as its rule has it."""
    known = rules(function)
    if not known:
        return args, named
    places = _places(function)
    first = [_read(value, known.get(name)) for name, value in zip(places, args, strict=False)]
    return [*first, *args[len(places) :]], {
        name: _read(value, known.get(name)) for name, value in named.items()
    }


@functools.cache
def _places(function: Any) -> list[str]:
    """The names of the parameters that are given by place, but for a row of any number."""
    parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _read(value: Any, known: tuple[Rule, Place] | None) -> Any:
    if known is None or value is MISSING:
        return value
    rule, place = known
    return (
        value if type(value) in rule.plain or (value is None and rule.optional) else rule.read(value, place)
    )
