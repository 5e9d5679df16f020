"""`torch.fx.node`: the steps of a graph of Python calls, and what walks through their arguments."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from typing import Any

__all__ = ["Node", "map_aggregate", "map_arg"]
# Graphs are written by these, where they are called.
INFIX: dict[Any, str] = {
    operator.add: "{} + {}",
    operator.sub: "{} - {}",
    operator.mul: "{} * {}",
    operator.floordiv: "{} // {}",
    operator.truediv: "{} / {}",
    operator.mod: "{} % {}",
    operator.pow: "{} ** {}",
    operator.matmul: "{} @ {}",
    operator.lshift: "{} << {}",
    operator.rshift: "{} >> {}",
    operator.and_: "{} & {}",
    operator.or_: "{} | {}",
    operator.xor: "{} ^ {}",
    operator.lt: "{} < {}",
    operator.le: "{} <= {}",
    operator.gt: "{} > {}",
    operator.ge: "{} >= {}",
    operator.eq: "{} == {}",
    operator.ne: "{} != {}",
    operator.neg: "-{}",
    operator.pos: "+{}",
    operator.invert: "~{}",
    operator.getitem: "{}[{}]",
}


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Containers like `a`, in which `fn` has been at whatever is no container. Source: `torch.fx.node`.

    >>> map_aggregate([1, (2, {"a": slice(3)})], lambda x: x and x + 1)
    [2, (3, {'a': slice(None, 4, None)})]
    """
    if isinstance(a, tuple):
        parts = [map_aggregate(part, fn) for part in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return [map_aggregate(part, fn) for part in a]
    if isinstance(a, dict):
        return {key: map_aggregate(part, fn) for key, part in a.items()}
    if isinstance(a, slice):
        return slice(*(map_aggregate(part, fn) for part in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """Containers like `a`, with `fn` of each node. Source: `torch.fx.node.map_arg`."""
    return map_aggregate(a, lambda part: fn(part) if isinstance(part, Node) else part)


class Node:
    """A step of a graph: what is called, by which arguments. Source: `torch.fx.Node`.

    op: "placeholder" for what a graph is given, "get_attr" for what is read of the module, "call_function",
    "call_method", "call_module" for calls, "output" for what the graph gives. target: the function, or its
    name.
    """

    def __init__(
        self,
        graph: Any,
        name: str,
        op: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        return_type: Any = None,
    ) -> None:
        if op == "call_function" and not callable(target):
            raise ValueError(f"a function is called, and {target!r} is none")
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._input_nodes: dict[Node, None] = {}
        self._prev = self._next = self
        self._erased = False
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._take(args, kwargs)

    def _take(self, args: Any, kwargs: Any) -> None:
        """Have these arguments, and be a user of the nodes in them."""
        for node in self._input_nodes:
            node.users.pop(self, None)
        self._args, self._kwargs = tuple(map_aggregate(args, _same)), map_aggregate(dict(kwargs), _same)
        self._input_nodes = {}
        map_arg((self._args, self._kwargs), lambda node: self._input_nodes.setdefault(node))
        for node in self._input_nodes:
            node.users.setdefault(self)

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments by position."""
        return self._args

    @args.setter
    def args(self, a: tuple[Any, ...]) -> None:
        self._take(a, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments by name."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Any]) -> None:
        self._take(self._args, k)

    @property
    def next(self) -> Node:
        """The node after this one."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before this one."""
        return self._prev

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once."""
        return list(self._input_nodes)

    @property
    def stack_trace(self) -> str | None:
        """Where the call stands, if that was kept."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def prepend(self, x: Node) -> None:
        """Move a node to before this one."""
        if x is self:
            return
        x._prev._next, x._next._prev = x._next, x._prev
        before = self._prev
        before._next, x._prev, x._next, self._prev = x, before, self, x

    def append(self, x: Node) -> None:
        """Move a node to behind this one."""
        self._next.prepend(x)

    def update_arg(self, idx: int, arg: Any) -> None:
        """Have another argument at a position."""
        given = list(self._args)
        given[idx] = arg
        self.args = tuple(given)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Have one more argument, at this position."""
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Have another argument of this name."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Take another node wherever one stands among the arguments."""
        args, kwargs = map_arg((self._args, self._kwargs), lambda n: new_input if n is old_input else n)
        self._take(args, kwargs)

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] = lambda user: True,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Have those who use this node use another; gives them."""
        if propagate_meta:
            replace_with.meta.update(self.meta)
        users = [user for user in self.users if delete_user_cb(user)]
        for user in users:
            user.replace_input_with(self, replace_with)
        return users

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the step does more than give a value, so that it stays though nobody uses that."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_module":
            owner = self.graph.owning_module
            return owner is None or not _is_layer(owner.get_submodule(self.target))
        writes = self.op == "call_method" and self.target.endswith("_") and not self.target.endswith("__")
        return writes or self.target in (operator.setitem, setattr, getattr(builtins, "print", None))

    def format_node(self, *_: Any, **__: Any) -> str | None:
        """The step in a line of text."""
        kind = "" if self.type is None else f": {_type_name(self.type)}"
        if self.op == "placeholder":
            default = f"(default={self.args[0]})" if self.args else ""
            used = f"%{self.name} : [num_users={len(self.users)}]"
            return f"{used} = placeholder[target={self.target}]{default}{kind}"
        if self.op == "output":
            return f"return {self.args[0]}"
        target = f"{self.op}[target={self._pretty_print_target(self.target)}]"
        if self.op == "get_attr":
            return f"%{self.name} : [num_users={len(self.users)}] = {target}"
        args, kwargs = _percent(self.args), _percent(self.kwargs)
        return f"%{self.name} : [num_users={len(self.users)}] = {target}(args = {args}, kwargs = {kwargs})"

    def _pretty_print_target(self, target: Any) -> str:
        if isinstance(target, str):
            return target
        path = _get_qualified_name(target)
        return path.replace("_operator.", "operator.") if "." in path else f"builtins.{path}"

    def __repr__(self) -> str:
        return self.name

    def __lt__(self, other: Any) -> bool:
        return self._at() < other._at()

    def __gt__(self, other: Any) -> bool:
        return self._at() > other._at()

    def _at(self) -> int:
        return [*self.graph.nodes].index(self)


def _same(value: Any) -> Any:
    return value


def _is_layer(module: Any) -> bool:
    return type(module).__module__.startswith(("torch.nn", "fusegrad"))


def _percent(value: Any) -> str:
    """An argument as PyTorch shows it: nodes with a sign, texts without quotes."""
    if isinstance(value, Node):
        return f"%{value.name}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_percent, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(map(_percent, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_percent(part)}" for key, part in value.items()) + "}"
    return str(value)


def _type_name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _get_qualified_name(func: Callable[..., Any]) -> str:
    """Under which name PyTorch shows a function.

    >>> _get_qualified_name(operator.add), _get_qualified_name(len)
    ('_operator.add', 'len')
    """
    name = getattr(func, "__name__", type(func).__name__)
    if getattr(builtins, name, None) is func:
        return str(name)
    module = getattr(func, "__module__", None) or "torch"
    if module == "_operator":
        return f"_operator.{name}"
    if module.partition(".")[0] == "fusegrad":
        place = module.removeprefix("fusegrad.torch.supplied.").removeprefix("fusegrad").lstrip(".")
        module = f"torch.{place}" if place not in ("", "top") else "torch"
    return f"{module}.{name}"
