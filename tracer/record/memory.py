"""Memory of a recorded run: an array goes in, the value of the graph that it holds now comes out.

A graph has no memory: a write into an array gives it another value. Where the array is a view, what
it is a view of gets another value too, made by the op that the view's declaration names
(`View.put`); and other views of the same array are taken anew when they are next read.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.dtypes import int64
from fusegrad.eager.core.families import View
from fusegrad.eager.core.op import REGISTRY, Op, Params
from fusegrad.eager.core.shared import owner
from fusegrad.eager.core.stand_in import StandIn
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.index.take_and_put import PUT, SELECT_AT
from fusegrad.tracer.ir.graph import Value
from fusegrad.tracer.observe.values import Strong

# Makes an equation: op, inputs, params; gives its output.
Emit = Callable[[Op, tuple[Any, ...], Params], Value]


_REWRITTEN, _DETACH = REGISTRY["rewritten"], REGISTRY["detach"]
_UNFOLD, _PERMUTE, _RESHAPE = (REGISTRY[name] for name in ("unfold", "permute", "reshape"))
_ADD, _ARANGE = REGISTRY["add"], REGISTRY["arange"]


class Unfollowed(Exception):
    """A write that no graph can say; the message says why. kind: "positions" where one could that knew the
    numbers in an index.
    """

    def __init__(self, why: str, kind: str = "") -> None:
        super().__init__(why)
        self.kind = kind


class Viewed:
    """How an array lies in another one: by a view op."""

    def __init__(self, op: View, params: Params) -> None:
        self.op, self.params = op, params
        self.name, self.can_put = op.name, op.put is not None

    def take(self, emit: Emit, value: Value) -> Value:
        """What the array holds when the other one holds `value`."""
        return emit(self.op, (value,), self.params)

    def put(self, emit: Emit, before: Value, value: Value) -> Value:
        """What the other one holds, `before` so far, when this one has been given `value`."""
        assert self.op.put is not None
        op, keeps, params = self.op.put(before.type, **self.params)
        return emit(op, (before, value) if keeps else (value,), params)


class Chosen:
    """The same where a number that a value holds says which part it is: along `dim` one element, without that
    dimension, or the `length` that begin there.
    """

    name, can_put = SELECT_AT.name, True

    def __init__(self, index: Any, dim: int, length: int = 0) -> None:
        self.index, self.dim, self.length = index, dim, length

    def take(self, emit: Emit, value: Value) -> Value:
        """See `Viewed`."""
        if not self.length:
            return emit(SELECT_AT, (value, self.index), {"dim": self.dim})
        windows = emit(_UNFOLD, (value,), {"dim": self.dim, "size": self.length, "step": 1})
        chosen = emit(SELECT_AT, (windows, self.index), {"dim": self.dim})
        order = [*range(len(value.shape) - 1)]
        order.insert(self.dim, len(value.shape) - 1)
        return emit(_PERMUTE, (chosen,), {"dims": tuple(order)})

    def put(self, emit: Emit, before: Value, value: Value) -> Value:
        """See `Viewed`."""
        index = self.index
        if self.length:
            params = {"shape": (self.length,), "start": 0, "step": 1, "dtype": int64}
            index = emit(_ADD, (index, emit(_ARANGE, (), params)), {})
        else:
            index = emit(_RESHAPE, (index,), {"shape": (1,)})
            shape = (*value.shape[: self.dim], 1, *value.shape[self.dim :])
            value = emit(_RESHAPE, (value,), {"shape": shape})
        return emit(PUT, (before, value, index), {"dim": self.dim, "accumulate": False})


class Known:
    """An array that the run has seen, and the value that it holds.

    parent: what it is a view of, and `way` how; seen: the parent's value that `value` was
    taken of. outside: whether it was there before the run; original: the value that it held at first.
    apart: whether it is off the graph, whatever its parent is: a detached alias, or made under no_grad.
    is_chosen: whether the graph does not know of what memory it is a part, as values choose that; or nobody
    else has it.
    reference: gives the array. Those from outside are kept alive; what the run makes goes as it does
    without a recorder, so that its memory can be used again.
    """

    __slots__ = (
        "apart",
        "is_chosen",
        "original",
        "outside",
        "parent",
        "reference",
        "seen",
        "value",
        "way",
    )

    def __init__(
        self,
        reference: Callable[[], np.ndarray | None],
        value: Value,
        parent: Known | None = None,
        way: Any = None,
    ) -> None:
        self.reference, self.value, self.original = reference, value, value
        self.parent, self.way, self.outside = parent, way, False
        self.is_chosen = False
        self.seen = None if parent is None else parent.value
        self.apart = parent is not None and (way.name == "detach" or not state.grad_enabled)

    @property
    def array(self) -> np.ndarray:
        """The array, which somebody has."""
        array = self.reference()
        assert array is not None, "an array that is gone is forgotten"
        return array

    def is_current(self) -> bool:
        """Whether the array holds `value`, still: what it is a view of was not written otherwise."""
        return self.parent is None or (self.seen is self.parent.value and self.parent.is_current())

    def values(self) -> Iterator[Value]:
        """What the array holds, and what it is a view of."""
        known: Known | None = self
        while known is not None:
            yield known.value
            known = known.parent

    def root(self) -> Known:
        """What the array is a view of, in the end."""
        known = self
        while known.parent is not None:
            known = known.parent
        return known


class Memory:
    """The arrays of a run by identity, as long as they live: afterwards others may have their ids."""

    def __init__(self, emit: Emit, tracked: set[Value]) -> None:
        """tracked: the values of tensors that need gradients."""
        self._emit, self._tracked = emit, tracked
        # Has containers forgotten that nobody has but who watches the run: their tensors are no more.
        self.let_go: Callable[[], Any] = lambda: None
        self._known: dict[int, Known] = {}
        # By the memory (see `_memory`), by root, and by the id of the array: a loop may leave many views.
        self._on: dict[int, dict[Known, dict[int, Known]]] = {}

    def release(self) -> None:
        """Forget all arrays, and who makes equations."""
        self._known.clear()
        self._on.clear()
        del self._emit, self.let_go

    def find(self, array: np.ndarray) -> Known | None:
        """What is known of an array."""
        known = self._known.get(id(array))
        return known if known is not None and known.reference() is array else None

    def first(self, array: np.ndarray) -> Value | None:
        """What stood for an array when it was first seen."""
        known = self.find(array)
        return None if known is None else known.original

    def define(self, array: np.ndarray, value: Value, outside: bool = False, is_chosen: bool = False) -> None:
        """Note that an array holds a value. outside: it was there before the run; is_chosen: see `Known`."""
        known = Known(Strong(array) if outside else self._while_it_lives(array), value)
        known.outside, known.is_chosen = outside, is_chosen
        self._note(array, known)

    def outside(self) -> list[np.ndarray]:
        """The arrays that were there before the run."""
        return [k.array for k in self._known.values() if k.outside]

    def roots(self, held: Callable[[np.ndarray], bool]) -> dict[Known, Value]:
        """The arrays that are no views and are held, maybe through a view, and the value of each. Parts that
        values choose are none of them.
        """
        arrays = [(k, k.reference()) for k in self._known.values()]
        roots = [k.root() for k, array in arrays if array is not None and held(array)]
        return {root: root.value for root in roots if not root.is_chosen}

    def holding(self, values: Sequence[Value]) -> list[np.ndarray] | None:
        """Arrays that hold these values; None where one has none."""
        arrays = [(k, k.reference()) for k in self._known.values() if k.is_current()]
        found = {k.value: array for k, array in arrays if array is not None}
        return [found[v] for v in values] if found.keys() >= {*values} else None

    def written(self) -> list[Known]:
        """The arrays from outside that were written."""
        return [k for k in self._known.values() if k.outside and k.value is not k.original]

    def view(self, array: np.ndarray, value: Value, source: np.ndarray, op: Op, params: Params) -> None:
        """Note that an array holds a value, and whether it is a view of `source`."""
        parent = self.find(source)
        if parent is not None and isinstance(op, View) and _shares(array, source):
            self._note(array, Known(self._while_it_lives(array), value, parent, Viewed(op, params)))
        else:
            self.define(array, value)

    def part(self, array: np.ndarray, value: Value, source: np.ndarray, way: Chosen) -> None:
        """Note that an array holds a value, and that it is a part of `source` that a number chooses."""
        parent = self.find(source)
        if parent is None:
            self.define(array, value, is_chosen=True)
        else:
            self._note(array, Known(self._while_it_lives(array), value, parent, way))

    def _note(self, array: np.ndarray, known: Known) -> None:
        self._known[id(array)] = known
        self._on.setdefault(_memory(array), {}).setdefault(known.root(), {})[id(array)] = known

    def _forget(self, own: int, on: int) -> Known | None:
        """What was known of an array, both by their ids, of which nothing is known any more."""
        known = self._known.pop(own, None)
        if known is not None:
            # What a signal handler raises where Python calls this is lost, and this undone or half done.
            roots, root = self._on.get(on, {}), known.root()
            roots.get(root, {}).pop(own, None)
            if not roots.get(root):
                roots.pop(root, None)
            if not roots:
                self._on.pop(on, None)
        return known

    def replace(self, array: np.ndarray, other: np.ndarray) -> None:
        """Note that what an array held lies in another one from now on."""
        known = self._forget(id(array), _memory(array))
        if known is not None:
            known.reference = self._while_it_lives(other)
            self._note(other, known)

    def _while_it_lives(self, array: np.ndarray) -> Callable[[], np.ndarray | None]:
        """A reference to an array, which is forgotten when it goes."""
        own, on = id(array), _memory(array)
        return weakref.ref(array, lambda _: self._forget(own, on))

    def current(self, known: Known) -> Value:
        """The value that an array holds by now."""
        if known.parent is not None:
            value = self.current(known.parent)
            if value is not known.seen:
                taken = known.way.take(self._emit, value)
                if known.apart:
                    self._tracked.discard(taken)
                    if known.value in self._tracked:
                        # What it was given since it was taken off the graph stays its gradient.
                        taken = self._emit(_REWRITTEN, (known.value, taken), {})
                known.value, known.seen = taken, value
        return known.value

    def makes_leaf(self, array: np.ndarray) -> bool:
        """Note that an array is a leaf of the graph from now on, whatever its value was made of; whether that
        can be said. It cannot where the memory is that of a tensor on the graph, too.
        """
        known = self._known[id(array)]
        value = self.current(known)
        if value in self._tracked:
            return False
        known.value = self._emit(_DETACH, (value,), {})
        self._tracked.add(known.value)
        return True

    def write(self, known: Known, value: Value) -> None:
        """Give an array another value, and what it is a view of.

        Raises Unfollowed, with nothing changed, where that cannot be said. What memory holds is of its type:
        kernels write values into it as they are, with as many bytes as these take.
        """
        held = self.current(known)
        if (value.dtype, value.shape) != (held.dtype, held.shape):
            raise Unfollowed(f"writes {value.type} into memory of {held.type}")
        root = known.root()
        array = known.array
        on = self._on.get(_memory(array), {})
        if _sharing(on, root, array):
            self.let_go()
            others = _sharing(on, root, array)
            if others:
                chosen = root.is_chosen or all(other.is_chosen for other in others)
                raise Unfollowed("writes into memory that two tensors share", "positions" if chosen else "")
        chain = [known]
        while chain[-1].parent is not None:
            if not chain[-1].way.can_put:
                raise Unfollowed(f"writes into a view that {chain[-1].way.name}() gave")
            chain.append(chain[-1].parent)
        befores = [self.current(k) for k in chain]
        if not self._tracked.isdisjoint((value, *befores)) and self._has_chosen_parts(root, array):
            # Eager's nodes, from which what is derived in the run comes, know the numbers.
            raise Unfollowed("writes into memory on the graph of which a number chose a part", "positions")
        chain[0].value = value
        for view, parent, viewed, before in zip(chain, chain[1:], befores, befores[1:], strict=False):
            # An alias that was taken off the graph may be on it by its own writes: those are unseen as well.
            apart = view.apart or viewed not in self._tracked
            unseen = before in self._tracked and apart
            value = view.way.put(self._emit, before, value)
            if unseen:
                # Through a view off the graph: autograd does not see the write.
                value = self._emit(_REWRITTEN, (before, value), {})
            parent.value = view.seen = value

    def _has_chosen_parts(self, root: Known, array: np.ndarray) -> bool:
        """Whether somebody holds a part of this memory that a number chose."""

        def any_of_them() -> bool:
            held = self._on.get(_memory(array), {}).get(root, {})
            return any(isinstance(known.way, Chosen) for known in held.values())

        if not any_of_them():
            return False
        self.let_go()
        return any_of_them()


def _sharing(on: dict[Known, dict[int, Known]], root: Known, array: np.ndarray) -> list[Known]:
    """The roots on the same memory that an array overlaps, though it is no view of them."""
    others = [(o, k.reference()) for o, group in [*on.items()] if o is not root for k in [*group.values()]]
    return [o for o, other in others if other is not None and may_overlap(array, other, o.is_chosen)]


def may_overlap(array: np.ndarray, other: np.ndarray, is_chosen: bool) -> bool:
    """Whether two arrays may lie in one memory. is_chosen: of what part of it the other one is a part may
    not be known yet.
    """
    if is_chosen and type(other) is StandIn:
        return owner(array) is owner(other)
    return np.may_share_memory(array, other)


def _memory(array: np.ndarray) -> int:
    """A number for the memory that an array lies in: arrays that overlap have the same.

    It is that of the array that owns it; but all memory that NumPy has from others (a buffer, a file, another
    library) counts as one, as two arrays that know nothing of each other may lie in it.
    """
    owned = owner(array)
    return id(owned) if owned.base is None else 0


def _shares(array: np.ndarray, source: np.ndarray) -> bool:
    """Whether what a view op gave of `source` lies in the same memory, or is a copy."""
    return np.may_share_memory(array, source)


def shares_memory(array: np.ndarray, args: Sequence[Any]) -> bool:
    """Whether an array that is there already lies in the memory of one of the tensors among `args`."""
    arrays = [a.array for a in args if isinstance(a, Tensor)]
    return any(np.may_share_memory(array, a) for a in arrays if type(array) is type(a) is np.ndarray)
