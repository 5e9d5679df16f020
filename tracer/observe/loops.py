"""Loops of a run: what rounds that were left out would have appended to lists, and which loops ran as ever.

A list that misses rounds is one that nobody sees but who joins its items (`plain_loops.py`). Then the rows
come in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from fusegrad.eager.core.ops import ops
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
    """Items that a list does not have, behind so many that it has: the rows of tensors, in turn."""

    behind: int
    parts: Sequence[Tensor]

    def rows(self) -> Tensor:
        """The items as rows."""
        first, *others = self.parts
        found: Tensor = ops.flatten(ops.stack(self.parts, 1), 0, 1) if others else first
        return found


class Loops:
    """not_rolled: the long loops that were not rolled. stores: how often attributes of the run's own objects
    were set, which rounds may hand on.
    """

    def __init__(self) -> None:
        self.not_rolled: list[NotRolled] = []
        self.stores = 0
        self._set: dict[tuple[int, str], tuple[Any, int]] = {}
        self._missing: dict[int, tuple[list[Any], list[Missing]]] = {}

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

    def misses(self, items: list[Any], parts: Sequence[Tensor]) -> None:
        """Note that the rows of some tensors, in turn, belong to a list, behind what it has by now."""
        self._missing.setdefault(id(items), (items, []))[1].append(Missing(len(items), parts))

    def join(self, function: Any, items: Any) -> Callable[..., Any] | None:
        """What joins the items of a list as the function does; None for one that misses none."""
        _, missing = self._missing.get(id(items), (items, []))
        if not missing:
            return None
        if function is ops.stack:
            return lambda items, dim=0: _joined(items, missing, ops.stack, dim, _as_stacked)
        if function is ops.cat:
            return lambda items, dim=0: _joined(items, missing, ops.cat, dim, _as_joined)
        for part in reversed(missing):
            items[part.behind : part.behind] = [ops.clone(row) for row in ops.unbind(part.rows())]
        del self._missing[id(items)]
        return None

    def sets(self, owner: Any, name: str) -> None:
        """An attribute of an object is set, which lies in the object's own dict."""
        self.stores += 1
        self._set[id(owner), name] = owner, self.stores

    def attributes(self, since: int) -> list[tuple[Any, str]]:
        """The attributes that were set since so many stores, by the object and the name, in one order."""
        return [(owner, name) for (_, name), (owner, when) in self._set.items() if when > since]

    def clear(self) -> None:
        """Forget the lists and objects of the run."""
        self._missing.clear()
        self._set.clear()


def _joined(
    items: list[Any],
    missing: Sequence[Missing],
    join: Any,
    dim: int,
    as_part: Callable[[Tensor, int], Tensor],
) -> Tensor:
    """The items and the rows that are missing among them."""
    parts: list[Tensor] = []
    begin = 0
    dim = dim % (missing[0].parts[0].array.ndim - (join is ops.cat))
    for part in missing:
        if begin < part.behind:
            parts.append(join(items[begin : part.behind], dim))
        parts.append(as_part(part.rows(), dim))
        begin = part.behind
    whole: Tensor = ops.cat([*parts, join(items[begin:], dim)], dim)
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
