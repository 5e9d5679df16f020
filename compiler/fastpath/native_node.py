"""Linking: what a shortcut's node holds of its call is put there, and looked at again.

A node holds the tensors of its call, where their gradients go, and how often their memory had been written.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from fusegrad.compiler.paths.autograd_node import NOTHING_FREED, NOTHING_PRESERVED, CompiledNode
from fusegrad.eager.core.tensor import Tensor


class Linking:
    """Puts nodes on the graph, between the tensors of a call.

    link(node, *given): the node, which is new, gets its leaves, types and edges, its counters and their
    numbers, and what adds for it; the results become its outputs. Gives False, and may have done half of it,
    where a tensor has no counter of its own.
    """

    __slots__ = ("link",)

    link: Callable[..., bool]

    def __init__(
        self,
        leaves: Sequence[int],
        wanted: Sequence[int],
        counted: Sequence[int],
        results: Sequence[tuple[int, int]],
        adding: Any = None,
        ends: Sequence[int] = (),
    ) -> None:
        """Which of `given` are the leaves of the arguments, get gradients, and have counters; results: which,
        and the number of the output. adding: the node's, where the edges of the numbers `ends` end at leaves.
        """
        rows = [(which, number, number in ends) for number, which in enumerate(wanted)]
        self.link = functools.partial(_link, leaves, rows, counted, results, adding)


def _link(
    leaves: Sequence[int],
    wanted: Sequence[tuple[int, int, bool]],
    counted: Sequence[int],
    results: Sequence[tuple[int, int]],
    adding: Any,
    node: CompiledNode,
    *given: Any,
) -> bool:
    node.leaves = tuple([given[which] for which in leaves])
    node.types = tuple([given[which] for which, _, _ in wanted])
    inputs = [(given[which], number) for which, number, _ in wanted]
    node.edges = tuple([(n, x if x.grad_fn is None else x.grad_fn, x.output_index) for x, n in inputs])
    ends = all(given[which].grad_fn is None for which, _, must in wanted if must)
    if adding is not None and ends:
        node.adding = adding
    counters = [_counter(given[which]) for which in counted]
    if None in counters:
        return False
    node.counters = counters
    node.numbers = [counter[0] for counter in counters if counter is not None]
    for which, number in results:
        made = given[which]
        made.needs_grad, made.grad_fn, made.output_index = True, node, number
    return True


def _counter(tensor: Tensor) -> list[Any] | None:
    """The counter of a tensor's memory, if it has one."""
    version = getattr(tensor, "version", None)
    return version if type(version) is list and version else None


@functools.cache
def intact(filled: bool) -> Callable[[CompiledNode], bool]:
    """What asks whether nothing has been freed of a node, nor written of what it counts; it may say no where
    that is so, but never the other way.

    filled: what the node's `filled` must be.
    """

    def is_intact(node: CompiledNode) -> bool:
        untouched = node.freed is NOTHING_FREED and node.preserved is NOTHING_PRESERVED
        if not untouched or node.inputs != () or node.filled is not filled:
            return False
        counters, numbers = getattr(node, "counters", None), getattr(node, "numbers", None)
        if type(counters) is not list or type(numbers) is not list:
            return False
        return len(counters) == len(numbers) and all(
            type(counter) is list and len(counter) > 0 and counter[0] is number
            for counter, number in zip(counters, numbers, strict=True)
        )

    return is_intact


@functools.cache
def count_writes() -> Callable[..., bool]:
    """What counts writes, called with (spot, *tensors): one into the memory of each, at `spot` as
    `views.count_writes` notes it, if that is not None. Gives False, and counts none, where a tensor has no
    counter of its own, or more is to be done than to note that.
    """

    def count(spot: Any, *tensors: Tensor) -> bool:
        counters = [_counter(tensor) for tensor in tensors]
        if None in counters:
            return False
        if spot is not None and any(len(c or ()) != 2 for c in counters):
            return False
        if spot is not None and any(tensor.alias is not None for tensor in tensors):
            return False
        for counter in counters:
            assert counter is not None
            counter[0] += 1
            if spot is not None:
                counter[1] = (counter[0], spot)
        return True

    return count
