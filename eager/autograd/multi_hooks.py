"""Hooks on several tensors at once: `register_multi_grad_hook`."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor


class MultiHandle:
    """Takes the hooks away again: `handle.remove()`, or at the end of a `with`."""

    def __init__(self, handles: Sequence[Any]) -> None:
        self.handles = handles

    def remove(self) -> None:
        """Remove the hooks; removing them again does nothing."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> MultiHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


class _All:
    """Gathers what one backward brings to the tensors, and calls `fn` once with all of it."""

    def __init__(self, tensors: Sequence[Tensor], fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.found: list[Any] = [None] * len(tensors)
        self.missing = {i for i, goes in enumerate(state.walk.expects(tensors)) if goes}
        state.walk.at_end = [*state.walk.at_end, self.finish]

    def take(self, index: int, gradient: Any) -> None:
        self.found[index] = gradient
        self.missing.discard(index)
        if not self.missing:
            self.finish()

    def finish(self) -> None:
        """Call `fn`, if that has not been done; tensors that no gradient came to have None."""
        fn, self.fn = self.fn, _nothing
        fn(self.found)


def _nothing(_: Any) -> None: ...


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all"
) -> MultiHandle:
    """Call `fn` once in each backward that goes through one of `tensors`.

    mode: "all" calls `fn(gradients)`, a list with None for tensors that have none, when the last one is
    known; "any" calls `fn(gradient)` with the first one.
    Source: `torch.autograd.graph.register_multi_grad_hook`.

    >>> import fusegrad as fg
    >>> x, y, z = (fg.tensor(value, requires_grad=True) for value in (1.0, 2.0, 3.0))
    >>> handle = fg.autograd.graph.register_multi_grad_hook((x, y, z), print)
    >>> (x * y).backward()
    [tensor(2.), tensor(1.), None]
    """
    if mode not in ("all", "any"):
        raise failure(ValueError, f"Expects mode to be one of ('all', 'any') but got {mode}")
    known: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()  # by the backward at work

    def took(index: int, gradient: Any) -> None:
        if state.walk not in known:
            known[state.walk] = _All(tensors, fn)
        known[state.walk].take(index, gradient)

    def took_first(gradient: Any) -> None:
        if state.walk not in known:
            known[state.walk] = True
            fn(gradient)

    if mode == "any":
        return MultiHandle([t.register_hook(took_first) for t in tensors if t.requires_grad])
    if not all(tensor.needs_grad for tensor in tensors):
        raise failure(AssertionError, "Expected gradient function to be set")
    return MultiHandle([t.register_hook(partial(took, i)) for i, t in enumerate(tensors)])
