"""References: tensors go in; how often the autograd graph and views hold each of them comes out.

What a graph keeps for backward nobody sees: a tensor that has no other references is gone for the program.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from fusegrad.eager.autograd.node import Node, PartNode
from fusegrad.eager.autograd.writes.written import CopySlices
from fusegrad.eager.core.interpreter import is_strange
from fusegrad.eager.core.tensor import Tensor


def by_graph(tensors: Iterable[Tensor], since: int) -> Counter[int] | None:
    """How many references to each tensor, by its id, views and nodes have that are numbered from `since` on,
    of those that lead back from `tensors`; None where somebody has put a hook there.
    """
    found: Counter[int] = Counter()
    seen: set[int] = set()
    pending: list[Any] = list(tensors)
    while pending:
        item = pending.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, Tensor):
            held = [item.alias[0]] if type(item.alias) is tuple else []
            following = item.grad_fn
        elif item.sequence < since:
            continue
        elif item.own not in (Node, PartNode, CopySlices) or item.extra is not None:
            return None
        else:
            held = [*(item.inputs or ()), *(item.outputs or ()), *(target for _, target, _ in item.edges)]
            following = None
        tensors_held = [x for x in held if isinstance(x, Tensor)]
        found.update(map(id, tensors_held))
        pending += tensors_held
        pending += [x for x in (*held, following) if isinstance(x, Node)]
    return found


def is_stale(tensors: Iterable[Tensor], since: int) -> bool:
    """Whether nodes that are numbered from `since` on, and lead back from these tensors, keep what has been
    written after that.
    """
    seen: set[int] = set()
    pending = [x.grad_fn for x in tensors]
    while pending:
        node = pending.pop()
        if isinstance(node, Node) and node.sequence >= since and id(node) not in seen:
            if node.stale():
                return True
            seen.add(id(node))
            pending += [target for _, target, _ in node.edges if isinstance(target, Node)]
    return False


def others(reference: weakref.ref[Tensor], known: Counter[int]) -> bool:
    """Whether anybody holds a tensor but those who are `known`."""
    held = (reference(),)
    return held[0] is not None and next(map(sys.getrefcount, held)) - _OWN > known[id(held[0])]


# What is counted for something that a tuple alone has. No bytecode has a part in it (see `holders`).
_OWN = next(map(sys.getrefcount, (object(),)))
if is_strange():
    _OWN = -(1 << 32)  # anybody may hold it


def note_operands(
    known: dict[Any, Callable[[], Tensor | None]], values: Iterable[Any], args: Iterable[Any]
) -> None:
    """Note which tensors hold `values`, which an op is given as `args`; nothing for what comes as several.

    One memory may be on the graph as one tensor, and off it as another.
    """
    for value, tensor in zip(values, args, strict=True):
        if isinstance(tensor, Tensor):
            other = known.setdefault(value, weakref.ref(tensor))()
            if other is not tensor and (other is None or other.needs_grad or tensor.needs_grad):
                known[value] = _nothing


def _nothing() -> None:
    """A reference to what is not there."""
