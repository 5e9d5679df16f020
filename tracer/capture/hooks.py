"""The hooks of a twin: each does what Python does there, and tells the thread's observer if there is one."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

from fusegrad.tracer.capture import patterns
from fusegrad.tracer.observe import attributes, calls, numbers, operations, purity, subscripts, variables
from fusegrad.tracer.observe.observer import active
from fusegrad.tracer.observe.python import contexts, identities, imports, namespaces
from fusegrad.tracer.observe.values import is_plain
from fusegrad.tracer.twin.sites import SiteTable
from fusegrad.tracer.twin.unfailing import part, whole

_CONVERSIONS: dict[int, Callable[[Any], str]] = {ord("s"): str, ord("r"): repr, ord("a"): ascii}


class Hooks:
    """The hooks of one function; what they are for stands in the modules that they call."""

    __slots__ = ("function", "sites")

    def __init__(self, function: FunctionType, sites: SiteTable):
        self.function, self.sites = function, sites

    # Names.

    def global_(self, name: str, value: Any, site: int) -> Any:
        """A global or builtin name, already loaded."""
        observer = active()
        return (
            value
            if observer is None
            else variables.read_global(observer, self.function, name, value, self.sites[site])
        )

    def cell(self, name: str, value: Any, site: int) -> Any:
        """A variable of the function's closure, already loaded."""
        observer = active()
        if observer is None:
            return value
        return variables.read_cell(observer, self.function, name, value, self.sites[site])

    def store_variable(self, value: Any, name: str, is_global: bool, site: int) -> None:
        """`name = value`, of a global or of a variable of the function's closure."""
        observer, place = active(), variables.place_of(self.function, name, is_global)
        if observer is None:
            variables.put(place, value)
        else:
            variables.store(observer, self.function, value, place, name, self.sites[site])

    # Attributes and items.

    def attribute(self, owner: Any, name: str, site: int) -> Any:
        """``owner.name``"""
        observer = active()
        return (
            getattr(owner, name)
            if observer is None
            else attributes.load(observer, owner, name, self.sites[site])
        )

    def counted_attribute(self, owner: Any, name: str, site: int) -> Any:
        """`owner.name` of `owner.name += ...`"""
        observer = active()
        if observer is None:
            return getattr(owner, name)
        return attributes.load_counted(observer, owner, name, self.sites[site])

    def store_counted_attribute(self, value: Any, owner: Any, name: str, site: int) -> None:
        """The end of `owner.name += ...`"""
        observer = active()
        if observer is None:
            setattr(owner, name, value)
        else:
            attributes.store_counted(observer, value, owner, name, self.sites[site])

    def store_attribute(self, value: Any, owner: Any, name: str, site: int) -> None:
        """``owner.name = value``"""
        observer = active()
        if observer is None:
            setattr(owner, name, value)
        else:
            attributes.store(observer, value, owner, name, self.sites[site])

    def delete_attribute(self, owner: Any, name: str, site: int) -> None:
        """``del owner.name``"""
        observer = active()
        if observer is None:
            delattr(owner, name)
        else:
            attributes.delete(observer, owner, name, self.sites[site])

    def item(self, owner: Any, key: Any, site: int) -> Any:
        """``owner[key]``"""
        observer = active()
        return owner[key] if observer is None else subscripts.item(observer, owner, key, self.sites[site])

    def store_item(self, value: Any, owner: Any, key: Any, site: int) -> None:
        """``owner[key] = value``"""
        observer = active()
        if observer is None:
            owner[key] = value
        else:
            subscripts.store_item(observer, value, owner, key, self.sites[site])

    def delete_item(self, owner: Any, key: Any, site: int) -> None:
        """``del owner[key]``"""
        observer = active()
        if observer is None:
            del owner[key]
        else:
            subscripts.delete_item(observer, owner, key, self.sites[site])

    slice = builtins.slice

    # Calls.

    def callee(self, function: Any, site: int) -> Any:
        """What to call in place of ``function``."""
        observer = active()
        return function if observer is None else calls.callee(observer, function, self.sites[site])

    def method(self, owner: Any, name: str, site: int) -> Any:
        """What to call in place of ``owner.name``."""
        observer = active()
        if observer is None:
            return getattr(owner, name)
        place = self.sites[site]
        return calls.callee(observer, attributes.load(observer, owner, name, place), place)

    def mapping(self, value: Any, site: int) -> Any:
        """``**value``"""
        observer = active()
        return value if observer is None else operations.mapping(observer, value, self.sites[site])

    def keywords(self, owner: Any, site: int) -> Any:
        """``**owner.__dict__``"""
        observer = active()
        if observer is None:
            return owner.__dict__
        found = namespaces.as_keywords(observer, owner, self.sites[site])
        return operations.mapping(observer, found, self.sites[site])

    # Operators.

    def binary(self, symbol: str, left: Any, right: Any, site: int) -> Any:
        """``left + right`` and the like"""
        observer, function = active(), operations.BINARY[symbol]
        if observer is None:
            return function(left, right)
        return operations.apply(observer, function, symbol, (left, right), self.sites[site])

    def inplace(self, symbol: str, left: Any, right: Any, site: int) -> Any:
        """``left += right`` and the like, without the store"""
        observer = active()
        if observer is None:
            return operations.INPLACE[symbol](left, right)
        return operations.inplace(observer, symbol, left, right, self.sites[site])

    def unary(self, symbol: str, operand: Any, site: int) -> Any:
        """``-operand`` and the like"""
        observer, function = active(), operations.UNARY[symbol]
        if observer is None:
            return function(operand)
        return operations.apply(observer, function, symbol, (operand,), self.sites[site])

    def compare(self, symbol: str, left: Any, right: Any, site: int) -> Any:
        """``left < right`` and the like"""
        observer = active()
        if observer is None:
            return operations.COMPARE[symbol](left, right)
        return operations.compare(observer, symbol, left, right, self.sites[site])

    def identity(self, left: Any, right: Any, negate: bool, site: int) -> bool:
        """``left is right``, ``left is not right``"""
        observer = active()
        if observer is None:
            return (left is right) is not negate
        return identities.identity(observer, left, right, self.sites[site]) is not negate

    def contains(self, left: Any, right: Any, negate: bool, site: int) -> bool:
        """``left in right``, ``left not in right``"""
        observer = active()
        if observer is None:
            return (left in right) is not negate
        return operations.contains(observer, left, right, self.sites[site]) is not negate

    def truth(self, value: Any, site: int) -> bool:
        """``bool(value)``, as a condition asks for it"""
        observer = active()
        return bool(value) if observer is None else operations.truth(observer, value, self.sites[site])

    # Iteration.

    def iterate(self, value: Any, site: int) -> Any:
        """What is iterated over or unpacked, natively, afterwards."""
        observer = active()
        return value if observer is None else operations.iterate(observer, value, self.sites[site])

    def iterate_unpacked(self, value: Any, pattern: tuple[Any, ...], site: int) -> Any:
        """What a loop with a tuple target iterates over."""
        observer = active()
        if observer is None:
            return value
        return operations.iterate_unpacked(observer, value, pattern, self.sites[site])

    def unpacked(self, value: Any, pattern: tuple[Any, ...], site: int) -> Any:
        """What a tuple target takes apart."""
        observer = active()
        return value if observer is None else operations.unpacked(observer, pattern, self.sites[site], value)

    # Patterns of match statements.

    def parts_of_sequence(
        self, value: Any, before: int, after: int | None, unpacks: bool, site: int
    ) -> tuple[Any, ...] | None:
        """``case [..., *_, ...]``"""
        return patterns.parts_of_sequence(active(), value, before, after, unpacks, self.sites[site])

    def item_of_sequence(self, value: Any, place: int, site: int) -> Any:
        """One of those, where what is between is not asked for"""
        return patterns.item_of_sequence(active(), value, place, self.sites[site])

    def parts_of_mapping(
        self, value: Any, keys: tuple[Any, ...], rest: bool, site: int
    ) -> tuple[Any, ...] | None:
        """``case {key: ..., **_}``"""
        return patterns.parts_of_mapping(active(), value, keys, rest, self.sites[site])

    def parts_of_object(
        self, value: Any, kind: Any, count: int, names: tuple[str, ...], site: int
    ) -> tuple[Any, ...] | None:
        """``case kind(..., name=...)``"""
        return patterns.parts_of_object(active(), value, kind, count, names, self.sites[site])

    # New objects.

    def local(self, value: Any, site: int) -> Any:
        """The value of a display, comprehension or lambda."""
        observer = active()
        if observer is not None:
            observer.local(value)
            if isinstance(value, (set, dict)):
                for key in value:
                    subscripts.check_key(observer, key, self.sites[site])
        return value

    def new_function(self, function: FunctionType) -> FunctionType:
        """A nested function, just defined."""
        observer = active()
        return function if observer is None else observer.local(function)

    def not_followed(self, what: str, site: int) -> None:
        """A statement that runs as it is."""
        observer = active()
        if observer is not None:
            observer.open(what, self.sites[site])

    def entry(self, *containers: Any) -> None:
        """``*args`` and ``**kwargs`` of the call that begins."""
        observer = active()
        if observer is not None:
            for container in containers:
                observer.local(container)

    # Imports.

    def imported(self, name: str, names: tuple[str, ...], level: int, site: int) -> Any:
        """The module of `import name` (no `names`), or of `from name import names`"""
        observer, namespace = active(), self.function.__globals__
        if observer is None:
            return builtins.__import__(name, namespace, None, names, level)
        return imports.imported(observer, name, namespace, names, level, self.sites[site])

    def taken(self, module: Any, name: str, site: int) -> Any:
        """`name` of `from module import name`"""
        return imports.taken(active(), module, name, self.sites[site])

    # Text, context managers, exceptions.

    def formatted(self, value: Any, conversion: int, spec: str, site: int) -> str:
        """A value that an f-string formats."""
        observer = active()
        if observer is not None and not is_plain(value):
            place = self.sites[site]
            if observer.is_tensor(value):
                observer.open("formats a tensor", place)
            else:
                observer.consume(value, place, "formats", tensors=False)
        if conversion in _CONVERSIONS:
            value = numbers.text_of(observer, _CONVERSIONS[conversion], value)
        return numbers.text_of(observer, part, value, spec)

    def joined(self, *parts: str) -> str:
        """The parts of an f-string in one."""
        return numbers.text_of(active(), whole, *parts)

    def context(self, manager: Any, site: int) -> Any:
        """A context manager that is about to be entered."""
        observer = active()
        return manager if observer is None else contexts.followed(observer, manager, self.sites[site])

    def raised(self, error: Any, site: int) -> Any:
        """An exception (or its class) that a raise statement is about to raise."""
        observer = active()
        if observer is None:
            return error
        if isinstance(error, type) and issubclass(error, BaseException) and purity.is_pure_type(error):
            error = error()
        if isinstance(error, BaseException) and observer.is_known(error):
            observer.explain(error)
        return error

    def caught(self, site: int) -> None:
        """The start of an except clause."""
        observer = active()
        if observer is not None and not observer.is_explained(sys.exc_info()[1]):
            observer.open("catches an exception whose cause is not guarded", self.sites[site])
