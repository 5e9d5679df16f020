"""Operators of classes in Python: operands go in; what their methods give, which are followed, comes out.

Who is asked when is Python's: for `x + y` the `__add__` of x, then the `__radd__` of y; the other way round
where the class of y derives from that of x and has another one. Before them `x += y` asks for `__iadd__`.
What a class does not have it must go on not having.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from types import FunctionType, NoneType
from typing import Any

import numpy as np

from fusegrad.tracer.observe import purity
from fusegrad.tracer.observe.lookup import MISSING, type_lookup
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.observe.python import identities
from fusegrad.tracer.twin.sites import Site

Truth = Callable[[Observer, Any, Site], bool]
_SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
_NUMBERS = (bool, int, float, complex, NoneType)
_CONTAINERS = (str, bytes, list, tuple, dict, set, frozenset)
# By what a tensor takes a stranger for an operand, or asks him.
_TAKEN = "__torch_function__ __array__ __index__ __float__ __int__ __complex__ __bool__ __len__".split()


def apply(
    observer: Observer, function: Callable[..., Any], symbol: str, operands: Any, site: Site, truth: Truth
) -> Any:
    """What an operator gives. MISSING, with nothing done, where no operand's class has it in Python, or one
    has it in another way. truth: how a value is asked whether it is true. Raises what Python raises.
    """
    name = function.__name__.strip("_")
    if all(map(_is_builtin, operands)) or not _are_followed(name, operands):
        return MISSING
    for owner, method, others in _asked(observer, name, operands, site):
        result = _answer(observer, owner, method, others, symbol, site, truth)
        if result is not NotImplemented or len(operands) == 1:
            return result
    if name in ("eq", "ne"):
        return identities.identity(observer, operands[0], operands[1], site) is (name == "eq")
    error = TypeError(_refusal(name, symbol, operands))
    observer.explain(error)
    raise error


def _is_builtin(value: Any) -> bool:
    return type(value) in _NUMBERS or type(value) in _CONTAINERS or _is_tensor(value)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, purity.tensor_class() or ())


def _are_followed(name: str, operands: Any) -> bool:
    """Whether each operand is an object of a class in Python, or leaves it to such a one."""
    has_own = False
    for value in operands:
        if type(value) in _NUMBERS or (type(value) in _CONTAINERS and name in _SWAPPED):
            continue
        if _is_tensor(value):
            if type(value) is purity.tensor_class():
                continue
            return False
        if isinstance(value, (*_NUMBERS, *_CONTAINERS, np.ndarray, np.generic, enum.Enum)):
            return False
        if purity.is_static(value) or purity.is_trusted_object(value):
            return False
        found = [type_lookup(type(value), method) for method in _methods(name, len(operands))]
        if not all(type(raw) is FunctionType or raw is MISSING or _is_objects(raw) for raw in found):
            return False
        has_own |= any(type(raw) is FunctionType for raw in found)
    return has_own


def _is_objects(raw: Any) -> bool:
    return vars(object).get(getattr(raw, "__name__", "")) is raw


def _methods(name: str, operands: int) -> tuple[str, ...]:
    """The methods that may be asked for an operator."""
    if operands == 1:
        return (f"__{name}__",)
    if name in _SWAPPED:  # `!=` is at first the opposite of `==`
        return f"__{name}__", f"__{_SWAPPED[name]}__", *(("__eq__",) if name == "ne" else ())
    plain = _plain(name)
    return f"__{name}__", f"__{plain}__", f"__r{plain}__"


def _plain(name: str) -> str:
    """`add`, of `iadd`."""
    return name[1:] if name.startswith("i") else name


def _asked(
    observer: Observer, name: str, operands: Any, site: Site
) -> Iterator[tuple[Any, str, tuple[Any, ...]]]:
    """Who is asked, by which method, about what: in Python's order."""
    if len(operands) == 1:
        yield operands[0], f"__{name}__", ()
        return
    left, right = operands
    derives = type(right) is not type(left) and issubclass(type(right), type(left))
    if name in _SWAPPED:
        both = [(left, f"__{name}__", (right,)), (right, f"__{_SWAPPED[name]}__", (left,))]
        yield from reversed(both) if derives else both
        return
    plain = _plain(name)
    reflected = f"__r{plain}__"
    if plain != name:
        yield left, f"__{name}__", (right,)
    if derives:
        first, second = (type_lookup(type(x), reflected) for x in (left, right))
        _read(observer, left, reflected, first, site)
        _read(observer, right, reflected, second, site)
        derives = second is not first
    if derives:
        yield right, reflected, (left,)
    yield left, f"__{plain}__", (right,)
    if not derives and type(right) is not type(left):
        yield right, reflected, (left,)


def _answer(
    observer: Observer, owner: Any, name: str, others: Any, symbol: str, site: Site, truth: Truth
) -> Any:
    """What a method gives for an operator; NotImplemented where there is none."""
    kind = type(owner)
    raw = type_lookup(kind, name)
    if _is_builtin(owner):
        if _is_tensor(owner):
            _leaves_it(observer, others[0], symbol, site)
        return NotImplemented if raw is MISSING else observer.adopt(raw(owner, *others))
    if type(raw) is FunctionType:
        method = observer.special_method(owner, name, site)
        return raw(owner, *others) if method is None else method(*others)
    _read(observer, owner, name, raw, site)
    if raw is MISSING or name != "__ne__":
        return NotImplemented  # and so do the comparisons of `object`, of two objects
    equal = _answer(observer, owner, "__eq__", others, symbol, site, truth)
    return equal if equal is NotImplemented else not truth(observer, equal, site)


def _leaves_it(observer: Observer, other: Any, symbol: str, site: Site) -> None:
    """Guard that a tensor can do nothing with an object; the run is open where it can."""
    for name in _TAKEN if not _is_builtin(other) else ():
        raw = type_lookup(type(other), name)
        if raw is not MISSING:
            observer.open(f"uses `{symbol}` on a tensor and a {type(other).__name__} object", site)
        _read(observer, other, name, raw, site)


def _read(observer: Observer, owner: Any, name: str, raw: Any, site: Site) -> None:
    if not _is_builtin(owner):
        observer.read_type(owner, site)
        observer.read_class(type(owner), name, raw, site)


def _refusal(name: str, symbol: str, operands: Any) -> str:
    """What Python says where nobody answers."""
    kinds = " and ".join(f"'{type(value).__name__}'" for value in operands)
    if name in _SWAPPED:
        return f"'{symbol}' not supported between instances of {kinds}"
    sign = "** or pow()" if name == "pow" else symbol if _plain(name) == name else f"{symbol}="
    return f"unsupported operand type(s) for {sign}: {kinds}"
