"""What stands for a leaf where PyTorch's graph has a node."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from fusegrad.eager.autograd.hooks import RemovableHandle, after_accumulation, before_accumulation
from fusegrad.eager.core.tensor import Tensor

_accumulators: weakref.WeakValueDictionary[int, AccumulateGrad] = weakref.WeakValueDictionary()  # by id


class AccumulateGrad:
    """Stands for a leaf on the graph, as PyTorch's node of that name: `variable` is the leaf.

    Of a leaf there is one at a time. Its hooks stay with the leaf (PyTorch's go with the node).
    """

    __slots__ = ("__weakref__", "variable")
    next_functions = ()
    variable: Tensor

    def __new__(cls, variable: Tensor) -> AccumulateGrad:
        known = _accumulators.get(id(variable))
        if known is None:
            known = _accumulators[id(variable)] = super().__new__(cls)
            known.variable = variable
        return known

    def name(self) -> str:
        """PyTorch's name of this node."""
        return "torch::autograd::AccumulateGrad"

    @property
    def metadata(self) -> dict[str, Any]:
        """A dictionary for the user to write into."""
        kept: dict[str, Any] = self.variable.__dict__.setdefault("_accumulate_grad_metadata", {})
        return kept

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn((gradient,))` before the gradient is added; it may return another one."""
        return before_accumulation(self.variable, lambda gradient: _only(fn((gradient,))))

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn((), (gradient,))` after the gradient was added."""
        return after_accumulation(self.variable, lambda gradient: fn((), (gradient,)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccumulateGrad) and other.variable is self.variable

    def __hash__(self) -> int:
        return id(self.variable)

    def __repr__(self) -> str:
        return "<AccumulateGrad>"


def _only(made: Any) -> Any:
    return made[0] if isinstance(made, (tuple, list)) else made


# By what they do, and their name.
_named: dict[tuple[type, str], type] = {}


def named(node: Any) -> Any:
    """A node as users see it: of a class that has its name, by which programs tell nodes apart.

    Nodes get that when somebody looks at them, since most are never looked at. None is None.
    """
    if node is None:
        return None
    name, kind = node.name(), type(node)
    if kind.__name__ != name:
        own = kind.own
        found = _named.get((own, name))
        if found is None:
            made = type(own)(name, (own,), {"__slots__": (), "__module__": "builtins"}, own=own)
            found = _named.setdefault((own, name), made)
        node.__class__ = found
    return node
