"""Which memory may be written without a word to the engine: what NumPy code holds, what has several counters.

A deferred run computes ops later than the program asks for them; it must not do so with memory
that the program can change in between unseen. Memory that came from a NumPy array of the user's is
noted here for as long as it lives, and memory lent to NumPy for as long as somebody has it.

A write through `x.data` is not counted by the counter of `x`, so that backward goes by what is there then.
What a compiled backward makes of memory is not in each case what eager's would, so it is told before.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import byte_bounds

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.state import state

# By the id of the array that owns the memory: weak references to who has it, besides tensors.
_held: dict[int, dict[int, weakref.ref[np.ndarray]]] = {}


def source(array: np.ndarray) -> np.ndarray | None:
    """The array that a view was taken of.

    NumPy's `as_strided` puts an object between the two, whose base the array is.
    """
    base = array.base
    if base is not None and not isinstance(base, np.ndarray):
        base = getattr(base, "base", None)
    return base if isinstance(base, np.ndarray) else None


def owner(array: np.ndarray) -> np.ndarray:
    """The last array in the chain of sources: every view of a memory leads to it."""
    while (base := source(array)) is not None:
        array = base
    return array


def copied(array: np.ndarray, memo: dict[Any, Any]) -> tuple[np.ndarray, list[Any]]:
    """`copy.deepcopy` of an array: the same place in a copy of the whole memory that it lies in, which all
    that are copied with this `memo` have in common, as PyTorch copies storages. And their tensors, a list.
    """
    if type(array) is not np.ndarray:
        return array.copy(), []
    whole = owner(array)
    if not (whole.flags.c_contiguous or whole.flags.f_contiguous):  # somebody else's memory, with gaps
        return array.copy(order="K"), []
    key = "memory of tensors", id(whole)
    if key not in memo:
        memo[key] = whole.copy(order="K"), [], whole  # which keeps its id
    made, tensors, _ = memo[key]
    if array is whole:
        return made, tensors
    start = array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    return np.ndarray(array.shape, array.dtype, _bytes_of(made), start, array.strides), tensors


def _bytes_of(whole: np.ndarray) -> np.ndarray:
    return whole.reshape(-1, order="A").view(np.uint8)


def is_same(one: Any, other: Any) -> bool:
    """Whether two arrays are the same elements of one memory."""
    if type(one) is not np.ndarray or type(other) is not np.ndarray:
        return one is other
    same = (one.shape, one.strides, one.dtype) == (other.shape, other.strides, other.dtype)
    return same and one.__array_interface__["data"] == other.__array_interface__["data"]


class _Loan:
    """Holds an array for the one that is lent, where a buffer does not say all of its strides."""

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    @property
    def __array_struct__(self) -> Any:
        return self.array.__array_struct__


def lend(array: np.ndarray, version: list[Any]) -> np.ndarray:
    """An array of the same memory, whose writes `version` counts, for NumPy code.

    NumPy makes views refer to the owner of the memory, past the array that they were taken from, but not past
    an object that is no array: all views of the lent one keep it alive.
    """
    part(version)
    # Python's buffers have no bfloat16: it is lent as numbers of two bytes.
    plain = array if array.dtype.kind != "V" else array.view(f"u{array.itemsize}")
    lent = np.asarray(plain.data).view(array.dtype)
    if lent.strides != array.strides:  # along dimensions of one element
        lent = np.asarray(_Loan(array))
    _note(owner(array), lent)
    return lent


def expose(array: np.ndarray) -> np.ndarray:
    """Note that the memory of `array` is the user's; gives `array`."""
    _note(owner(array), owner(array))
    return array


class _Holding(weakref.ref[np.ndarray]):
    """A weak reference to who has the memory of the array with this id."""

    __slots__ = ("identity",)

    identity: int


def _note(owned: np.ndarray, holder: np.ndarray) -> None:
    reference, identity = _Holding(holder, _returned), id(owned)
    reference.identity = identity
    holders: dict[int, Any] | None = None
    # The last other holder may go at any time, and what holds them with it.
    while holders is None or _held.get(identity) is not holders:
        holders = _held.setdefault(identity, {})
        holders[id(reference)] = reference


def _returned(reference: Any, held: dict[int, Any] = _held) -> None:
    # The table is an argument: when Python ends, the module's names go before the arrays.
    identity = reference.identity
    holders = held.get(identity)
    if holders is not None:
        holders.pop(id(reference), None)
        if not holders and held.get(identity) is holders:
            del held[identity]


class _Places(NamedTuple):
    """Pieces of memory: whose each is, where it starts and where it ends."""

    whose: list[weakref.ref[Any]]
    starts: np.ndarray
    ends: np.ndarray


_NOTHING = np.empty(0, np.int64)
_FEW = 64


class Watching:
    """Who is told before a write that its counters do not count: nodes of compiled calls, held weakly.

    Each says once, when the next such write comes, which arrays it has (`memory()`): a program may have some
    hundred calls on its graph, and write a hundred times. Who is not found by its memory, or has changed it
    since, is asked at each write. Signal handlers and other threads may come in between at any time, so
    each is in `_fresh` until it is in `_places`.
    """

    def __init__(self) -> None:
        self._fresh: set[weakref.ref[Any]] = set()
        self._places, self._limit, self._moves = _Places([], _NOTHING, _NOTHING), _FEW, 0
        self._placing = threading.Lock()

    def add(self, node: Any) -> None:
        """Have `node` told, whose memory is not what it was when it was added before, if it was."""
        self._moves += 1
        self._fresh.add(weakref.ref(node, self._fresh.discard))

    def moved(self) -> None:
        """A tensor has got other memory, of which nobody was told."""
        self._moves += 1
        self._fresh.update(self._places.whose)

    def all(self) -> Iterable[Any]:
        """All nodes."""
        fresh = self._fresh.copy()  # before those that it may just be on the way to
        return _alive({*fresh, *self._places.whose})

    def near(self, array: np.ndarray) -> Iterable[Any]:
        """The nodes that may have some of the memory of `array`."""
        if (
            not self._fresh and not self._places.whose
        ):  # in this order: what leaves the first is in the second
            return ()
        if self._placing.acquire(blocking=False):
            try:
                self._place()
            finally:
                self._placing.release()
        found = self._fresh.copy()
        whose, starts, ends = self._places
        if whose and array.size and type(array) is np.ndarray:  # others have no memory yet
            start, end = byte_bounds(array)
            found |= {whose[i] for i in np.flatnonzero((starts < end) & (ends > start))}
        return _alive(found)

    def _place(self) -> None:
        """Note where the memory is of those of whom it is not known."""
        moves, fresh = self._moves, self._fresh.copy()
        if not fresh:
            return
        places = self._places
        if len(places.whose) > self._limit:
            kept = [i for i, reference in enumerate(places.whose) if reference() is not None]
            places = _Places([places.whose[i] for i in kept], places.starts[kept], places.ends[kept])
            self._limit = max(2 * len(kept), _FEW)
        whose: list[weakref.ref[Any]] = []
        bounds: list[tuple[int, int]] = []
        for reference in [*fresh]:
            node = reference()
            arrays = [] if node is None else node.memory()
            if not all(type(array) is np.ndarray for array in arrays):
                fresh.discard(reference)  # it has no values yet
                continue
            own = [byte_bounds(array) for array in arrays if array.size] or [(0, 0)]  # so that `all` has it
            bounds += own
            whose += [reference] * len(own)
        more = np.array(bounds, np.int64).reshape(-1, 2)
        starts = np.concatenate([places.starts, more[:, 0]])
        ends = np.concatenate([places.ends, more[:, 1]])
        if moves == self._moves:
            places.whose.extend(whose)  # who looks at the old places finds them in the front
            self._places = _Places(places.whose, starts, ends)
            self._fresh.difference_update(fresh)


def _alive(references: Iterable[weakref.ref[Any]]) -> Iterable[Any]:
    return [node for reference in references if (node := reference()) is not None]


watching = Watching()


class Parted(list[Any]):
    """In the third place of a counter: those who asked to be told of its next write, where the memory has
    other counters besides.
    """


def part(version: list[Any]) -> None:
    """Note that the memory whose writes `version` counts has another counter, too."""
    if type(version) is not list:
        return
    if len(version) < 3:
        version.append(Parted())
    elif type(version[2]) is not Parted:
        version[2] = Parted(version[2])


def another(version: list[Any]) -> list[Any]:
    """Another counter for the memory whose writes `version` counts."""
    part(version)
    return [0, 0, Parted()]


def shares(tensor: Any, value: Any) -> None:
    """`tensor` is about to have its values in the memory of the tensor `value`, each with its own counter."""
    tell_replaced(tensor, value.array)
    part(tensor.version)
    part(value.version)


def tell_watching(target: Any, counted: bool = True) -> None:
    """The memory of the tensor `target` is about to be written. counted: its own counter tells of it."""
    for node in watching.near(target.array):
        node.before_unseen_write(target, counted)


def tell_replaced(tensor: Any, array: Any) -> None:
    """`tensor` is about to have its values in `array`."""
    for node in watching.all():
        node.before_replaced(tensor, array)


def is_exposed(array: np.ndarray) -> bool:
    """Whether NumPy code may hold the memory of `array`."""
    return bool(_held) and id(owner(array)) in _held


class Untracked(list[Any]):
    """The version counter of tensors made in `inference_mode`: nobody may keep them for backward."""

    def __getitem__(self, index: Any) -> Any:
        raise failure(
            RuntimeError,
            "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference "
            "mode in computation tracked by autograd. To work around this, you can make a clone to get a "
            "normal tensor and use it in autograd, or use `no_grad()` instead of `inference_mode()`.",
        )

    def count_write(self) -> int:
        """Allow a write inside `inference_mode`."""
        if not state.inference:
            raise failure(
                RuntimeError,
                "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a "
                "clone to get a normal tensor before doing inplace update.",
            )
        return 0
