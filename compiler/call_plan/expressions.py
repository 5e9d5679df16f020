"""Expressions of a call plan: what its steps compute from variables and from what was known when it was made.

There are few kinds, and whatever a plan does is a call of an ordinary Python function:

    attribute(Name("leaf0"), "array")        leaf0.array
    Call(wrap, (Made("run1", 2),))           wrap(run1[2])

They can be evaluated, which is what they mean, and `python_writer.py` spells them out.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusegrad.compiler.placement.memory_plan import viewed

Variables = Mapping[str, Any]


class Expression:
    """Something with a value, once the variables have theirs."""

    __slots__ = ()

    def evaluate(self, variables: Variables) -> Any:
        """Its value."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Name(Expression):
    """A variable."""

    name: str

    def evaluate(self, variables: Variables) -> Any:
        return variables[self.name]


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Expression):
    """What is known when the plan is made."""

    value: Any

    def evaluate(self, variables: Variables) -> Any:
        return self.value


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expression):
    """A function called. It takes what it is given by position alone."""

    function: Callable[..., Any]
    arguments: tuple[Expression, ...] = ()

    def evaluate(self, variables: Variables) -> Any:
        return self.function(*[argument.evaluate(variables) for argument in self.arguments])


@dataclass(frozen=True, slots=True, eq=False)
class Row(Expression):
    """A new tuple or list."""

    items: tuple[Expression, ...]
    kind: type = tuple

    def evaluate(self, variables: Variables) -> Any:
        return self.kind([item.evaluate(variables) for item in self.items])


@dataclass(frozen=True, slots=True, eq=False)
class Either(Expression):
    """The first where it is true, else the second, as Python's `or`."""

    first: Expression
    second: Expression

    def evaluate(self, variables: Variables) -> Any:
        return self.first.evaluate(variables) or self.second.evaluate(variables)


@dataclass(frozen=True, slots=True, eq=False)
class Made(Expression):
    """An array of those that a program has: `index` among those of the run of this name, through `views`."""

    run: str
    index: int
    views: Sequence[Any] = ()

    def evaluate(self, variables: Variables) -> Any:
        array = variables[self.run][self.index]
        return viewed(array, self.views) if self.views else array


@dataclass(frozen=True, slots=True, eq=False)
class Like(Expression):
    """A new object of the class of `template`, with the same in its slots; it has nothing but slots."""

    template: Any

    def evaluate(self, variables: Variables) -> Any:
        return like(self.template)


def like(template: Any) -> Any:
    """An object like another one; slots that are empty stay so."""
    made = object.__new__(type(template))
    for kind in type(template).__mro__:
        for name in vars(kind).get("__slots__", ()):
            if name != "__weakref__" and hasattr(template, name):
                setattr(made, name, getattr(template, name))
    return made


# The usual calls.


def attribute(owner: Expression, name: str) -> Expression:
    """`owner.name`"""
    return Call(getattr, (owner, Constant(name)))


def item(owner: Expression, index: int) -> Expression:
    """`owner[index]`"""
    return Call(operator.getitem, (owner, Constant(index)))


def same(one: Expression, other: Expression) -> Expression:
    """`one is other`"""
    return Call(operator.is_, (one, other))


def other_than(one: Expression, other: Expression) -> Expression:
    """`one is not other`"""
    return Call(operator.is_not, (one, other))


NONE = Constant(None)


def structured(structure: Any, items: Sequence[Expression]) -> Expression:
    """The containers that `flatten` took apart, put together from their leaves; those are the first items."""
    known = _put_together(structure.key, iter(items))
    return known or Call(_build, (Constant(structure), Row(tuple(items))))


def _put_together(key: Any, parts: Iterator[Expression]) -> Expression | None:
    """The expression for a container of the structure `key`; None where that takes more than brackets."""
    if key is None:
        return next(parts)
    kind, _, inner = key
    items = [_put_together(part, parts) for part in inner]
    if kind not in (list, tuple) or None in items:
        return None
    return Row(tuple(items), kind)  # type: ignore[arg-type]


def _build(structure: Any, items: Sequence[Any]) -> Any:
    return structure.build(iter(items))
