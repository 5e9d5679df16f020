"""Results of a run that share memory: which are aliases that a replay gives again, and which end a replay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fusegrad.eager.core.memory_order import interleave
from fusegrad.eager.core.shared import is_same
from fusegrad.eager.core.stand_in import plain
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.capture.captured import Output, Reason
from fusegrad.tracer.record.recorder import Recorder


def aliased(outputs: tuple[Output, ...], found: list[Any]) -> tuple[Output, ...]:
    """The outputs, those said to be aliases that lie just where another one does, as `detach` gives them, and
    `.data`.
    """
    result = list(outputs)
    first = {id(leaf): i for i, leaf in reversed(list(enumerate(found)))}
    for i, (output, leaf) in enumerate(zip(outputs, found, strict=True)):
        if output.kind != "value" or _on_graph(leaf):
            continue
        for j, other in enumerate(found):
            owner = result[j].kind == "value" and (_on_graph(other) or first[id(other)] < first[id(leaf)])
            if not owner or not is_same(leaf.array, other.array):
                continue
            counted = leaf.version is other.version
            if counted or _has_a_counter(leaf, found):
                result[i] = Output("alias", item=(j, first[id(leaf)], counted))
                break
    return tuple(result)


def _has_a_counter(tensor: Tensor, found: list[Any]) -> bool:
    """Whether the writes of a tensor are counted for it alone, as those of `.data`, and there were none."""
    others = (other for other in found if isinstance(other, Tensor) and other is not tensor)
    alone = all(other.version is not tensor.version for other in others)
    return alone and type(tensor.version) is list and tensor.version[0] == 0


def _on_graph(tensor: Tensor) -> bool:
    return tensor.needs_grad or tensor.grad_fn is not None


def _meet(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays may have an element in common."""
    if not np.may_share_memory(one, other):
        return False
    one, other = plain(one), plain(other)
    strides = [s for a in (one, other) for s, n in zip(a.strides, a.shape, strict=True) if n != 1]
    between = other.ctypes.data - one.ctypes.data
    return not interleave(strides, between, max(one.itemsize, other.itemsize))


def sharing(
    outputs: tuple[Output, ...], found: list[Any], leaves: list[Any], recorder: Recorder
) -> Iterator[Reason]:
    """Results that share memory with each other or with what came in: a replay would return copies."""
    computed = [(o, t) for o, t in zip(outputs, found, strict=True) if o.kind == "value"]
    outside = [a.array for a in leaves if isinstance(a, Tensor)]
    outside += recorder.memory.outside()
    for i, (output, tensor) in enumerate(computed):
        if any(np.may_share_memory(tensor.array, a) for a in outside):
            yield Reason("returns a view of a tensor that came from outside", "", 0, "memory")
        for other, sibling in computed[:i]:
            same = other.value == output.value
            if same and sibling is not tensor:
                yield Reason("returns two tensors of one memory", "", 0, "memory")
            elif not same and _meet(tensor.array, sibling.array):
                yield Reason("returns two views of one memory", "", 0, "memory")
