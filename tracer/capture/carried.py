"""Attributes that a run reads and sets: tensors that one call leaves for the next, as the state of an RNN.

In: what was recorded. Out: the same, where such a tensor is not one that must be there, but an input whose
values each replay finds in the attribute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.pytree import flatten
from fusegrad.eager.core.stand_in import has_values
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir.graph import Value
from fusegrad.tracer.observe.hosts import Host
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.observe.reads import AttributeRead, ItemRead, Read
from fusegrad.tracer.observe.values import text_of
from fusegrad.tracer.record.recorder import Recorder


class Carried(Host):
    """The values of a tensor in an attribute: the leaf number `number` of what lies at `place`."""

    def __init__(self, value: Value, read: Read, number: int, structure: Any, tensor: Tensor) -> None:
        self.value, self.read, self.number, self.structure = value, read, number, structure
        self.place, self.needs_grad = read.place(), tensor.needs_grad

    def array(self, leaves: Sequence[Any], *numbers: Any) -> np.ndarray | None:
        found: list[Any] = []
        try:
            structure = flatten(self.place.find(), found)
        except Exception:  # it lies there no more, or in another kind of container
            return None
        if structure.key != self.structure or not all(type(leaf) is Tensor for leaf in found):
            return None
        tensor = found[self.number]
        fits = (tensor.array.shape, tensor.array.dtype) == (self.value.shape, self.value.dtype)
        if not fits or tensor.needs_grad is not self.needs_grad or not has_values(tensor.array):
            return None
        return np.array(tensor.array, order="C")

    def key(self) -> Any:
        return ("carried", id(self))

    def missed(self) -> Carried:
        return self

    def was(self) -> str:
        """What was found, in words."""
        return f"a tensor {self.value.dtype.name}{[*self.value.shape]}"

    def now(self) -> tuple[str, bool]:
        """What is found now, in words, and whether its sizes alone are others."""
        found: list[Any] = []
        try:
            structure = flatten(self.place.find(), found)
        except Exception:
            return "gone", False
        tensor = found[self.number] if structure.key == self.structure else None
        if type(tensor) is not Tensor:
            return self.read.now(), False
        array, value = tensor.array, self.value
        alike = (array.ndim, array.dtype) == (len(value.shape), value.dtype)
        return text_of(tensor), alike and array.shape != value.shape


def carry(recorder: Recorder, observer: Observer, kept: Iterable[Any]) -> list[Any]:
    """Make inputs of the tensors that the run found in attributes which it has set in the end; gives these.

    kept: tensors that must stay themselves.
    """
    carried: list[Any] = []
    if not observer.stores:
        return carried
    fixed = {id(tensor) for tensor in kept} | {*recorder.gradients, *recorder.derived, *observer.compared}
    written = {known.original for known in recorder.memory.written()}
    values = {id(tensor): value for value, tensor in recorder.captured.items()}
    for stored in observer.stores:
        read = _read_of(observer.reads, stored.owner, stored.name)
        if read is None:
            continue
        found: list[Any] = []
        try:
            structure = flatten(read.expected.reference(), found)
        except ValueError:
            continue
        others = [r for r in (*observer.reads, *recorder.reads) if r is not read]
        held = {id(value) for r in others for value in _expected(r)}
        mine = {id(leaf) for leaf in found}
        fit = all(type(leaf) is Tensor for leaf in found) and len(mine) == len(found) and len(found) > 0
        taken = [values[i] for i in mine if i in values]
        if not fit or mine & (fixed | held) or written & {*taken}:
            continue
        if id(read.expected.reference()) in held or _is_shared(found, recorder):
            continue
        if any(v in recorder.tracked and _is_derived_by(v, recorder) for v in taken):
            continue
        looked_at = [tensor for tensor in found if id(tensor) not in values]
        if any(recorder.memory.find(tensor.array) is not None for tensor in looked_at):
            continue
        # What was only looked at must be of the same shape and type.
        values |= {id(tensor): recorder.value_of(tensor) for tensor in looked_at}
        observer.reads.remove(read)
        carried += found
        for number, tensor in enumerate(found):
            value = values.get(id(tensor))
            if value is not None:
                del recorder.captured[value]
                recorder.tracked.discard(value)
                host = Carried(value, read, number, structure.key, tensor)
                recorder.hosts.insert(0, (host, 0))
                if recorder.before is not None:
                    recorder.before.given[host] = tensor.array.copy()
    return carried


def _read_of(reads: Iterable[Read], owner: Any, name: Any) -> AttributeRead | ItemRead | None:
    """The read of an attribute that lies in an object itself or among its buffers, or of an item."""
    for read in reads:
        if isinstance(read, AttributeRead) and read.name == name and read.owner() is owner:
            return read if read.where in ("instance", "module") else None
        if isinstance(read, ItemRead) and read.item == name and read.owner() is owner:
            return read
    return None


def _expected(read: Read) -> Iterator[Any]:
    """The objects that a read expects."""
    for name in ("expected", "values", "defaults"):
        known = getattr(read, name, None)
        for expected in known if isinstance(known, tuple) else (known,):
            if expected is not None:
                yield expected.reference()


def _is_derived_by(value: Value, recorder: Recorder) -> bool:
    """Whether gradients may come to a value."""
    users = (e for e in recorder.equations if value in e.inputs)
    return any(output in recorder.tracked for e in users for output in e.outputs)


def _is_shared(tensors: Sequence[Tensor], recorder: Recorder) -> bool:
    """Whether tensors lie in memory of one another, or of others from outside."""
    own = {id(t.array) for t in tensors}
    others = [a for a in recorder.memory.outside() if id(a) not in own]
    pairs = ((t.array, a) for i, t in enumerate(tensors) for a in (*others, *[o.array for o in tensors[:i]]))
    return any(np.may_share_memory(a, b) for a, b in pairs)
