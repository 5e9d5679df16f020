"""Views that lag behind: told once of writes into their base, they find their node when it is asked for.

A table may have thousands of living views, and be written as often: a write must not go through all of them.
So `Views` tells those alone that know of the last write. Who is told gets a `Lagging` for its `maker`, which
all views of the base have in common, and which says where the base is on the graph by now. `Tensor.grad_fn`,
which all ask but those who make nodes, replays the ops of the view from there: nodes that others hang on are
not those that were made last, so whoever makes one takes its edges first (`Node.begin`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.eager.autograd.leaf_node import named
from fusegrad.eager.autograd.node import Node, place, record
from fusegrad.eager.core.names import attach
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.stand_in import plain
from fusegrad.eager.core.tensor import Tensor

MANY = 32  # Of references so many are kept before dead ones are looked for.


class Lagging:
    """What views have for a `maker` that were told of a write: where their base has been since the last one.

    array: the base's memory then, for how its views lie.
    """

    __slots__ = ("__weakref__", "array", "index", "node")

    array: np.ndarray
    index: int
    node: Node
    refused = "a view that lags behind its base"  # whoever makes a node asks `grad_fn` then

    def __init__(self, base: Tensor) -> None:
        self.array = base.array
        self.follow(base)

    def follow(self, base: Tensor) -> None:
        """The base is elsewhere on the graph now."""
        self.node, self.index = base.maker, base.output_index

    def tell(self, view: Tensor) -> None:
        """Have `view` lag behind, if a gradient can come through it."""
        if view.array.dtype.kind not in "fcV" or any(op.rule(0) is None for op, _ in view.alias[1]):
            return
        view.needs_grad = True
        if retained(view) is None:
            view.maker = self
        else:
            self.catch_up(view)  # the gradient is asked for where it is now

    def catch_up(self, view: Tensor) -> Any:
        """Give `view` the node that it has by now."""
        made = place(wrap(plain(self.array)), self.node, self.index)
        base, steps, _ = view.alias
        for op, params in steps:
            # Only where it lies is asked, also of what has no values yet.
            source, made = made, wrap(op.evaluate((wrap(plain(made.array)),), params))
            record(op, (source,), params, (made,))
        settle(view, made.maker, made.output_index)
        note(base, view)
        return view.maker


class Views:
    """The living views of a tensor, weakly.

    _known: all of them, of which the first `_told` lag behind; one that has caught up is there once more.
    _lagging: what those have for a maker, as long as there are any.
    refusing: those that are refused at the next write, whether that is recorded or not.
    """

    __slots__ = ("_known", "_lagging", "_limit", "_told", "refusing")

    def __init__(self) -> None:
        self._known: list[weakref.ref[Tensor]] = []
        self._lagging: Callable[[], Lagging | None] = _none
        self._limit, self._told = MANY, 0
        self.refusing: list[weakref.ref[Tensor]] = []

    def __len__(self) -> int:
        return len(self._known)

    def add(self, view: Tensor) -> None:
        """Note a view that knows of the last write."""
        self._known.append(weakref.ref(view))
        if len(self._known) > self._limit:
            self._forget()
            self.refusing = [r for r in self.refusing if r() is not None]

    def _forget(self) -> None:
        """Forget those that are gone, and that one that has caught up was told before."""
        fresh = {id(r): r for r in self._known[self._told :] if r() is not None}
        told = {id(r): r for r in self._known[: self._told] if r() is not None and id(r) not in fresh}
        self._known, self._told = [*told.values(), *fresh.values()], len(told)
        self._limit = max(MANY, 2 * len(self._known))

    def living(self) -> list[Tensor]:
        """All that are still there."""
        found = {id(r): r() for r in self._known}
        return [view for view in found.values() if view is not None]

    def take_refusing(self) -> list[Tensor]:
        """Those that are refused when the memory is written: once is enough."""
        taken, self.refusing = self.refusing, []
        return [view for r in taken if (view := r()) is not None]

    def moved(self, base: Tensor) -> tuple[Lagging, list[Tensor]]:
        """Note that `base` is elsewhere on the graph now. Gives what its views lag behind with, and those
        that must be told of it.
        """
        lagging = self._lagging()
        if lagging is not None and lagging.array is base.array:
            lagging.follow(base)
        else:
            if lagging is not None:
                self._told = 0  # those of other memory, if there are any, stay where they were
            lagging = Lagging(base)
            self._lagging = weakref.ref(lagging)
        fresh = [view for r in self._known[self._told :] if (view := r()) is not None]
        self._told = len(self._known)
        return lagging, fresh


def _none() -> None:
    """A reference to nobody."""


def note(base: Tensor, view: Tensor) -> None:
    """Have `base` tell `view` of its writes."""
    while type(base.alias) is tuple:
        base = base.alias[0]  # it has stepped behind that
    if base.alias is None:
        base.alias = Views()
    base.alias.add(view)


def retained(tensor: Tensor) -> Any:
    """What the node that made `tensor` knows it by, if it keeps its gradient; else None."""
    node = tensor.maker
    if not isinstance(node, Node) or node.extra is None:
        return None
    reference = node.extra.retained.get(tensor.output_index)
    return reference if reference is not None and reference() is tensor else None


def settle(tensor: Tensor, node: Node, index: int) -> None:
    """Make `tensor` the output `index` of `node`; a gradient that it retains is asked for there."""
    reference = retained(tensor)
    if reference is not None:
        del tensor.maker.extra.retained[tensor.output_index]
        node.extras().retained[index] = reference
    place(tensor, node, index)


def _grad_fn(self: Tensor) -> Any:
    """The node on the graph that made the tensor, or None for a leaf."""
    maker = self.maker
    if maker is None:
        return None
    return named(maker.catch_up(self) if type(maker) is Lagging else maker)


def _place(self: Tensor, node: Any) -> None:
    self.maker = node


attach(property(_grad_fn, _place), "grad_fn")
