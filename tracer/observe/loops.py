"""Loops of a run: what rounds that were left out would have appended to lists, and which loops ran as ever.

Only one variable has a list that misses items (`collected_lists.py`). Whoever joins them gets the rows in
between; who looks at one gets that, and who is given the list gets all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Any, NamedTuple

from fusegrad.eager.autograd import hooks
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import form
from fusegrad.eager.core.state import in_modes, modes
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.twin.sites import Site

# Loops of so many rounds are told of that were not rolled.
LONG = 128


class NotRolled(NamedTuple):
    """A long loop that was not rolled, and why."""

    reason: str
    site: Site

    def __str__(self) -> str:
        return f"a loop of at least {LONG} rounds was not rolled: {self.reason}"


class Missing(NamedTuple):
    """Items that a list does not have, behind so many that it has: the first `size` rows of tensors, in turn.

    last: the tensors that stand for the last ones, by their number, where variables held these, too, and
    versions, how often those had been written. made: the items that somebody has seen. modes: those of the
    loop, whether gradients are recorded and the like.
    """

    behind: int
    parts: Sequence[Tensor]
    size: int
    modes: tuple[Any, ...]
    last: Mapping[int, Tensor]
    versions: Mapping[int, int]
    made: dict[int, Tensor]

    def rows(self) -> Tensor:
        """The items as rows."""
        first, *others = self.parts
        found: Tensor = ops.flatten(ops.stack(self.parts, 1), 0, 1) if others else first
        return found if self.size == len(found) else found[: self.size]

    def is_written(self) -> bool:
        """Whether an item may hold something else than its row."""
        written = any(x._version != self.versions[i] for i, x in self.last.items())
        return written or any(x._version for x in self.made.values())

    def item(self, number: int) -> Tensor:
        """An item, which is the same tensor each time."""
        turn, place = divmod(number, len(self.parts))
        if number not in self.made and number not in self.last:
            with in_modes(self.modes):
                self.made[number] = _beside(ops.clone(ops.select(self.parts[place], 0, turn)))
        return self.last[number] if number in self.last else self.made[number]

    def items(self) -> list[Tensor]:
        """All items."""
        known = {**self.made, **self.last}
        with in_modes(self.modes):
            rows = enumerate(ops.unbind(self.rows()))
            return [known[i] if i in known else _beside(ops.clone(row)) for i, row in rows]


def _beside(item: Tensor) -> Tensor:
    """An item, of which the states that came later were not made, though they were computed of the same."""
    if item.needs_grad:
        hooks.beside[id(item)] = item
    return item


class Loops:
    """not_rolled: the long loops that were not rolled. stores: how often attributes of objects were set that
    rounds may hand on. rolling: how many loops are at work of which rounds may be left out. changed: the
    attributes of objects from outside that the run has set or counted up.
    """

    def __init__(self) -> None:
        self.not_rolled: list[NotRolled] = []
        self.stores = self.rolling = 0
        self.changed: set[tuple[str, int, str]] = set()
        self._set: dict[tuple[int, Any], tuple[Any, int]] = {}
        # By the id of a list: what it does not have, and those that others may have than one variable.
        self._missing: dict[int, tuple[list[Any], list[Missing]]] = {}
        self._known: dict[int, list[Any]] = {}

    def ran(self, reason: str, number: int, site: Site) -> None:
        """So many rounds of a loop ran, for that reason."""
        if number >= LONG:
            self.not_rolled.append(NotRolled(reason, site))

    def counted(self, items: Any, reason: str, site: Site) -> Iterator[Any]:
        """The items that a loop goes over that is not rolled for that reason."""
        for number, item in enumerate(items, 1):
            if number == LONG:
                self.ran(reason, number, site)
            yield item

    def misses(self, items: list[Any], parts: Sequence[Tensor], last: Sequence[Tensor | None]) -> None:
        """Note that the rows of some tensors, in turn, belong to a list, behind what it has by now.

        last: what stands for the last row of each, if anything does.
        """
        size = len(parts) * len(parts[0])
        held = {size - len(last) + i: x for i, x in enumerate(last) if x is not None}
        begin = size
        while begin - 1 in held:
            begin -= 1
        tail = [held.pop(i) for i in range(begin, size)]
        versions = {i: x._version for i, x in held.items()}
        missing = Missing(len(items), parts, begin, modes(), held, versions, {})
        self._missing.setdefault(id(items), (items, []))[1].append(missing)
        items += tail

    def is_known(self, items: list[Any]) -> bool:
        """Whether others may have a list than the variable that it was begun in."""
        return id(items) in self._known

    def keeps(self, key: int) -> bool:
        """Whether the list of this id is kept for what is known of it alone."""
        return key in self._known and key not in self._missing

    def forget(self, key: int) -> None:
        """Nobody else has the list of this id any more."""
        self._known.pop(key, None)

    def missed(self, items: Any) -> Sequence[Missing]:
        """What a list does not have."""
        return self._missing.get(id(items), (items, ()))[1]

    def complete(self, items: list[Any]) -> list[Any]:
        """A list with all of its items, which others may have from now on."""
        self._known[id(items)] = items
        return self._filled(items)

    def _filled(self, items: list[Any]) -> list[Any]:
        for part in reversed(self.missed(items)):
            items[part.behind : part.behind] = part.items()
        self._missing.pop(id(items), None)
        return items

    def length(self, items: list[Any]) -> int:
        """How many items a list has, with those that it misses."""
        return len(items) + sum(part.size for part in self.missed(items))

    def has(self, items: list[Any], key: Any) -> bool:
        """Whether a list has something at a place, or in a slice, for all that is known of `key`."""
        if type(key) is slice:
            return {type(key.start), type(key.stop), type(key.step)} <= {int, NoneType} and key.step != 0
        number = self.length(items)
        return type(key) is int and -number <= key < number

    def at(self, items: list[Any], key: int | slice) -> Any:
        """What a list that misses items has at a place, or in a slice."""
        places = range(self.length(items))[key]
        if isinstance(places, range):
            return [self._item(items, i) for i in places]
        return self._item(items, places)

    def _item(self, items: list[Any], number: int) -> Any:
        before = 0  # how many are missing that come first
        for part in self.missed(items):
            if number < part.behind + before:
                break
            if number < part.behind + before + part.size:
                return part.item(number - part.behind - before)
            before += part.size
        return items[number - before]

    def join(
        self, function: Any, items: list[Any], is_part: bool, look: Callable[[Any], Any]
    ) -> Callable[..., Any] | None:
        """What joins the items of a list, or of a `Part`, as the function does; None for a list that misses
        none, with which the function does as it likes.

        look: told of a number by which items are joined.
        """
        own = next((f for f in (ops.stack, ops.cat) if function is f or function is form(f)), None)
        if own is None:
            self.complete(items)
            return None
        written = any(part.is_written() for part in self.missed(items))
        if written or (is_part and own is ops.cat):
            self._filled(items)
        return functools.partial(self._join, own, look) if self.missed(items) else None

    def _join(
        self, function: Any, look: Callable[[Any], Any], items: Any, *others: Any, **options: Any
    ) -> Tensor:
        whole, key = items if isinstance(items, Part) else (items, slice(None))
        dim = next(iter((*others, *options.values())), 0)
        look(dim)
        missing = self.missed(whole)
        if not missing:
            return function(items, *others, **options)
        # Rows have a dimension more than the items.
        number = missing[0].parts[0].array.ndim - (function is ops.cat)
        places = range(self.length(whole))[key]
        plain = len(others) + len(options) <= 1 and {*options} <= {"dim"} and type(dim) is int
        if not plain or not -number <= dim < number or not places or places.step < 0:
            found: Tensor = function(self.at(whole, key), *others, **options)
            return found
        if items is whole:
            return _joined(whole, missing, function, dim % number)
        rows = ops.movedim(_joined(whole, missing, function, 0)[key], 0, dim)
        joined: Tensor = ops.cat([rows], dim)
        return joined

    def sets(self, owner: Any, name: Any) -> None:
        """An attribute of an object is set, which lies in the object's own dict; or an item that is there."""
        self.stores += 1
        self._set[id(owner), name] = owner, self.stores

    def let_go(self, owner: Any) -> None:
        """Nothing that was set of an object is handed on."""
        self._set = {place: known for place, known in self._set.items() if known[0] is not owner}

    def attributes(self, since: int) -> list[tuple[Any, Any]]:
        """The attributes that were set since so many stores, by the object and the name, in one order."""
        return [(owner, name) for (_, name), (owner, when) in self._set.items() if when > since]

    def clear(self) -> None:
        """Forget the lists and objects of the run."""
        self._missing.clear()
        self._known.clear()
        self._set.clear()


class Part(NamedTuple):
    """A slice of a list that misses items."""

    items: list[Any]
    key: slice


def _joined(items: list[Any], missing: Sequence[Missing], join: Any, dim: int) -> Tensor:
    """The items and the rows that are missing among them."""
    parts: list[Tensor] = []
    begin = 0
    as_part = _as_stacked if join is ops.stack else _as_joined
    for part in missing:
        if begin < part.behind:
            parts.append(join(items[begin : part.behind], dim))
        parts.append(as_part(part.rows(), dim))
        begin = part.behind
    if begin < len(items):
        parts.append(join(items[begin:], dim))
    whole: Tensor = ops.cat(parts, dim)
    return whole


def _as_stacked(rows: Tensor, dim: int) -> Tensor:
    """What `stack` makes of the rows."""
    found: Tensor = ops.movedim(rows, 0, dim) if dim else rows
    return found


def _as_joined(rows: Tensor, dim: int) -> Tensor:
    """What `cat` makes of the rows."""
    moved = ops.movedim(rows, 0, dim) if dim else rows
    found: Tensor = ops.flatten(moved, dim, dim + 1)
    return found
