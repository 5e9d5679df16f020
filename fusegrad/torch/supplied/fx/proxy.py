"""`torch.fx.proxy`: what stands for a value while a program's calls are written into a graph."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from fusegrad.eager.core.tensor import Tensor
from fusegrad.torch.supplied.fx.graph import Graph
from fusegrad.torch.supplied.fx.node import INFIX, Node, map_aggregate

__all__ = ["Attribute", "GraphAppendingTracer", "Proxy", "TraceError", "TracerBase"]


class TraceError(ValueError):
    """The program asks for what is not known before it runs."""


class TracerBase:
    """Writes calls into `graph`. Source: `torch.fx.proxy.TracerBase`."""

    graph: Graph
    record_stack_traces = False

    def create_node(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Put a step into the graph."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy:
        """What stands for the value of a step."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Put a step into the graph, and give what stands for its value."""
        node = self.create_node(kind, target, self.create_arg(args), self.create_arg(kwargs), name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Any) -> Any:
        """What stands in the graph for an argument. Raises NotImplementedError for what cannot."""
        return map_aggregate(a, self._create_one)

    def _create_one(self, a: Any) -> Any:
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, range):
            return range(*(self.create_arg(part) for part in (a.start, a.stop, a.step)))
        return a

    def to_bool(self, obj: Proxy) -> bool:
        """Whether a value is true. Raises TraceError."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """The parts of a value. Raises TraceError unless they are taken apart into names at once."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a "
            "*args or **kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed "
            "explanation of what types of control flow can be traced, and check out the Proxy docstring for "
            "help troubleshooting Proxy iteration errors"
        )

    def keys(self, obj: Proxy) -> Any:
        """The keys of a value, for `**`."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """A tracer of a graph that somebody writes by hand."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


class Proxy:
    """Stands for the value of a step; what is done with it becomes steps, too. Source: `torch.fx.Proxy`."""

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Any:
        if k in ("node", "tracer") or (k.startswith("__") and k.endswith("__")):
            raise AttributeError(k)
        return Attribute(self, k)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, "
            "please call torch.fx.wrap('len') at module scope"
        )

    def keys(self) -> Any:
        """The keys, for `**`."""
        return self.tracer.keys(self)

    @classmethod
    def __torch_function__(
        cls, orig_method: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """A function of PyTorch's is called with one of these among its arguments."""
        kwargs = kwargs or {}
        tracer = _tracer_of((args, kwargs))
        named = _method_of_tensors(orig_method)
        if named is not None:
            return tracer.create_proxy("call_method", named, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs)


class Attribute(Proxy):
    """What is read of a value: a step unless it is called. Source: `torch.fx.proxy.Attribute`."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The step that reads it."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


def _tracer_of(given: Any) -> TracerBase:
    """The tracer of the values among arguments. Raises RuntimeError where there are two."""
    found: dict[TracerBase, None] = {}
    map_aggregate(given, lambda a: found.setdefault(a.tracer) if isinstance(a, Proxy) else None)
    if len(found) > 1:
        raise RuntimeError(f"Found multiple different tracers {list(found)} while trying to trace operations")
    return next(iter(found))


def _method_of_tensors(function: Any) -> str | None:
    """The name of a method of tensors; None for other functions."""
    name = getattr(function, "__name__", "")
    return name if vars(Tensor).get(name) is function else None


def _operator(function: Any, swapped: bool) -> Callable[..., Any]:
    def traced(self: Proxy, *others: Any) -> Any:
        given = (others[0], self) if swapped else (self, *others)
        return _tracer_of(given).create_proxy("call_function", function, given, {})

    return traced


_SWAPPED = (
    "add",
    "sub",
    "mul",
    "floordiv",
    "truediv",
    "mod",
    "pow",
    "lshift",
    "rshift",
    "and",
    "or",
    "xor",
    "matmul",
)
for _function in INFIX:
    _name = _function.__name__.strip("_")
    setattr(Proxy, f"__{_name}__", _operator(_function, False))
    if _name in _SWAPPED:
        setattr(Proxy, f"__r{_name}__", _operator(_function, True))
Proxy.__abs__ = _operator(operator.abs, False)  # type: ignore[attr-defined]
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]
