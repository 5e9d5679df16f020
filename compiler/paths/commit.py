"""What a replayed call does to the world once its last guard has passed: memory written, `.grad` set.

All memory is written by one native call, which nothing interrupts: either everything is as eager would
have left it, or nothing was touched. Where nothing can go wrong any more once the program of the last
stretch runs, its kernels write what is in place by themselves (`in_place`); the rest is copied.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from fusegrad.compiler.paths.path import Captured, Path
from fusegrad.compiler.program.pipeline import clone_op
from fusegrad.compiler.program.program import Program
from fusegrad.compiler.runtime.allocator import bounds_of
from fusegrad.eager.autograd import views
from fusegrad.eager.autograd.accumulation import accumulate
from fusegrad.eager.autograd.node import replaced_gradient
from fusegrad.eager.core import shared
from fusegrad.eager.core.errors import user_spot
from fusegrad.eager.core.families import Layout, contiguous_layout
from fusegrad.eager.core.op import TensorType
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.optim.optimizer import ParameterGroup
from fusegrad.tracer.ir.graph import Equation, Graph, Value
from fusegrad.tracer.observe.hosts import GradientOf, Host, NoGradient, at
from fusegrad.tracer.observe.lookup import MISSING
from fusegrad.tracer.observe.symbols import Asked, Given, Outcome, places


class Commit:
    """Writes what a path leaves.

    targets: where the written tensors are: a leaf of the call, captured, or the `.grad` of one. done: the
    numbers of those that the path's program writes itself. without_gradient: where those are that must have
    had no `.grad`. arrays: where NumPy's arrays are that the path goes by.
    """

    def __init__(self, path: Path, done: Collection[int], orders: Mapping[int, tuple[int, ...]]) -> None:
        """orders: see `orders_of`."""
        left = path.capture.left
        hosts = {h.value: h for h in path.hosts}
        self.path = path
        self.targets: list[int | Callable[[], Tensor | None] | GradientOf] = []
        for value, _ in left.writes:
            if value in path.argument_leaves:
                self.targets.append(path.argument_leaves[value])
            else:
                host = path.captured.get(value) or hosts[value]
                assert isinstance(host, (Captured, GradientOf))
                self.targets.append(host.reference if isinstance(host, Captured) else host)
        self.rest = [i for i in range(len(left.writes)) if i not in done]
        self._orders = {place: orders[i] for place, i in enumerate(self.rest) if i in orders}
        turned = {place: (math.prod(path.left[self.rest[place]].shape),) for place in self._orders}
        types = [path.left[i].type for i in self.rest]
        types = [TensorType(turned.get(i, type_.shape), type_.dtype) for i, type_ in enumerate(types)]
        self.program = _copying(types) if self.rest else None
        # Whether memory is written as soon as the last stretch runs.
        self.begins = bool(done)
        without = (read.tensor for read in path.capture.reads if isinstance(read, NoGradient))
        self.without_gradient = {*path.capture.bare, *without}
        self._times = left.times
        self._all_once = all(times == 1 for times in left.times)
        self._references = [c.reference for c in path.captured.values()]
        self._arguments = [*path.argument_leaves.values()]
        self._gradients = [host for host in path.hosts if isinstance(host, GradientOf)]
        self.arrays = arrays_of(path.hosts)
        self._apart = _Apart([], [], [])

    def tensors(self, leaves: Sequence[Any]) -> list[Tensor] | None:
        """The tensors that are written; None where they must not be.

        They must be writable, and lie apart from each other and from whatever else the call reads: the
        recorded run saw such tensors, the present ones may overlap.
        """
        if not self.targets:
            return []
        tensors = [_tensor(target, leaves) for target in self.targets]
        for tensor in tensors:
            if tensor is None or not tensor.array.flags.writeable:
                return None
        is_apart = self._is_apart(leaves, tensors) and self._is_apart_from_arrays(tensors, leaves)
        return tensors if is_apart else None  # type: ignore[return-value]

    def _is_apart(self, leaves: Sequence[Any], written: Sequence[Any]) -> bool:
        """Whether nothing overlaps with what is written: looked at where a tensor has another array than when
        last nothing did.
        """
        seen, bounds, seen_others = self._apart
        targets = {bounds_of(tensor.array) for tensor in written}
        captured = [None if (t := reference()) is None else t.array for reference in self._references]
        if not _same(captured, seen):
            arrays = [a for c in self.path.captured.values() if (a := c.array()) is not None]
            bounds, seen_others = sorted(bounds_of(a) for a in arrays if a.size), []
            if not _apart(bounds, targets):
                return False
            seen = [weakref.ref(a) for a in arrays]
        others = [leaves[i].array for i in self._arguments]
        for host in self._gradients:
            array = host.array(leaves)
            if array is not None:
                others.append(array)
        if not _same(others, seen_others):
            if not _apart([*bounds, *map(bounds_of, others)], targets):
                return False
            seen_others = [weakref.ref(a) for a in others]
        self._apart = _Apart(seen, bounds, seen_others)
        return True

    def _is_apart_from_arrays(self, tensors: Sequence[Any], leaves: Sequence[Any]) -> bool:
        """Whether no tensor has the memory of an array that the call reads; these may overlap each other."""
        arrays = [place.find(leaves) for place in self.arrays]
        written = [bounds_of(tensor.array) for tensor in tensors]
        return all(_apart([bounds, bounds_of(array)], {bounds}) for bounds in written for array in arrays)

    def begin(self, tensors: Sequence[Tensor]) -> None:
        """The memory of `tensors` is written next: nobody must find it changed whose version is not."""
        if self._all_once:
            return views.count_writes(tensors, user_spot())
        views.count_writes([t for t, times in zip(tensors, self._times, strict=True) if times], user_spot())
        for tensor, times in zip(tensors, self._times, strict=True):
            if not times:
                shared.tell_watching(tensor, counted=False)
            elif times > 1:
                with_writes(tensor, times - 1)

    def copy(self, finals: Sequence[np.ndarray], targets: Sequence[np.ndarray]) -> None:
        """Write what the program has not into the memory of `targets`."""
        assert self.program is not None
        finals, targets = [*finals], [*targets]
        for place, order in self._orders.items():
            # As they lie in memory, both are rows.
            finals[place] = np.ascontiguousarray(finals[place].transpose(order)).reshape(-1)
            targets[place] = targets[place].transpose(order).reshape(-1)
        arrays = [a if a.flags.c_contiguous else np.array(a, order="C") for a in finals]
        self.program.run([*arrays, *targets])

    def call_after(self) -> None:
        """Call the methods that are called when all is done."""
        for method in self.path.capture.left.after:
            call = method()
            if call is not None:
                call()


def with_writes(tensor: Tensor, times: int) -> Tensor:
    """A tensor, which counts so many writes more than it did."""
    version = tensor.version
    if type(version) is list:
        number, (_, spot) = version[0], version[1] or (0, None)
        version[:2] = number + times, (number + times, spot)
    return tensor


def add_first(leaf: Tensor, gradient: Tensor) -> None:
    """Make `gradient` the `.grad` of a leaf that had none when it was looked at; where a signal handler has
    put one there since, the sum is due.
    """
    if not replaced_gradient(leaf, None, 0, gradient):
        accumulate(leaf, gradient, False, set(), False)


def replace_memory(tensor: Tensor, memory: np.ndarray) -> None:
    """Have `tensor` hold its values in `memory`, which is nobody else's."""
    shared.tell_replaced(tensor, memory)
    tensor.array = memory


def set_attribute(owner: Callable[[], Any], name: Any, value: Any) -> None:
    """Set an attribute of an object, or an item of a group, dict or list, unless nobody has that any more."""
    held = owner()
    if isinstance(held, ParameterGroup) or type(held) in (dict, list):
        held[name] = value
    elif isinstance(held, type) and vars(held).get(name, MISSING) is value:
        return  # as it is where a setting held for a `with`; a class that changes has calls look again
    elif held is not None:
        setattr(held, name, value)


def append(owner: Callable[[], Any], empties: bool, items: tuple[Any, ...]) -> None:
    """Append to a list or deque, unless nobody has it any more. empties: what is there goes before."""
    held = owner()
    if held is not None:
        if empties:
            held.clear()
        held.extend(items)


def count(owner: Callable[[], Any], name: str, by: int) -> None:
    """Add to a whole number that is an attribute of an object, unless nobody has the object any more."""
    held = owner()
    if held is not None:
        setattr(held, name, getattr(held, name) + by)


def call_again(function: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Call a function that has kept its result for these arguments, and counts that it was asked."""
    held = function()
    if held is not None:
        held(*args, **kwargs)


def own(array: np.ndarray) -> np.ndarray:
    """The array, or a copy where it is a view of another result's memory."""
    return array if array.base is None or array.flags.c_contiguous else np.array(array)


class _Apart(NamedTuple):
    """Memory in which nothing overlaps: the arrays of captured tensors, where they lie, and other arrays."""

    seen: list[weakref.ref[np.ndarray]]
    bounds: list[tuple[int, int]]
    others: list[weakref.ref[np.ndarray]]


def arrays_of(hosts: Sequence[Host]) -> list[Given]:
    """Where a path finds the arrays of NumPy's that it goes by."""
    symbols = [host.symbol for host in hosts if isinstance(host, Outcome)]
    symbols += [symbol for host in hosts for symbol in host.takes]
    found = [place for place in places(symbols) if place.kind is np.ndarray]
    return [place for place in found if not isinstance(place, Asked)]  # what is drawn is nobody's yet


def _same(arrays: Sequence[np.ndarray | None], seen: Sequence[weakref.ref[np.ndarray]]) -> bool:
    """Whether these are the arrays that were seen. None stands for one that is gone, which nobody reads."""
    return len(arrays) == len(seen) and all(map(is_, arrays, [reference() for reference in seen]))


def _tensor(source: Any, leaves: Sequence[Any]) -> Tensor | None:
    """The tensor at one of `Commit.targets`."""
    if type(source) is weakref.ref:
        return source()
    if type(source) is int:
        tensor: Tensor = leaves[source]
        return tensor
    owner = at(source.place, leaves)
    return None if owner is None else owner.gradient


def orders_of(path: Path, layouts: Mapping[Value, Layout]) -> dict[int, tuple[int, ...]]:
    """Of tensors that are written, by the numbers of the writes, those that do not lie in row-major order,
    with the order of their dimensions in which they do. layouts: of the arguments.
    """
    found = {}
    for number, (target, _) in enumerate(path.capture.left.writes):
        captured = path.captured.get(target)
        layout = captured.layout if captured is not None else layouts.get(target)
        if layout is not None and layout.strides != contiguous_layout(layout.shape).strides:
            order = np.argsort([-step for step in layout.strides], kind="stable")
            found[number] = tuple(map(int, order))
    return found


def _copying(types: Sequence[TensorType]) -> Program:
    """A program that copies its first inputs into the memory of the others."""
    finals = [Value(f"final{i}", type_) for i, type_ in enumerate(types)]
    targets = [Value(f"target{i}", type_) for i, type_ in enumerate(types)]
    copies = [Value(f"copy{i}", type_) for i, type_ in enumerate(types)]
    equations = tuple(Equation(clone_op, (f,), {}, (c,)) for f, c in zip(finals, copies, strict=True))
    graph = Graph((*finals, *targets), equations, tuple(copies))
    return Program(graph, into=dict(zip(copies, targets, strict=True))).finish()


def _apart(bounds: list[tuple[int, int]], written: Collection[tuple[int, int]]) -> bool:
    """Whether no stretch of memory that is written overlaps with another one; those that are read may."""
    reach = reach_of_written = -1
    for start, end in sorted(b for b in bounds if b[1] > b[0]):
        is_written = (start, end) in written
        if start < (reach if is_written else reach_of_written):
            return False
        reach = max(reach, end)
        if is_written:
            reach_of_written = end
    return True
