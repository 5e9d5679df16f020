"""`torch.fx.graph`: a list of steps, and the Python that does them."""

from __future__ import annotations

import builtins
import contextlib
import keyword
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fusegrad.torch.supplied.fx.node import INFIX, Node, _get_qualified_name, map_arg

__all__ = ["Graph", "PythonCode"]


@dataclass
class PythonCode:
    """The source of a graph's `forward`, and the names that it reads. Source: `torch.fx.graph.PythonCode`."""

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = None
    _prologue_start: int = 0


@dataclass
class _Namespace:
    """Names that are taken."""

    taken: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)

    def create_name(self, candidate: str, obj: Any = None) -> str:
        """A name like this one that nobody has: `add`, `add_1`, `add_2`."""
        candidate = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        candidate = f"_{candidate}" if candidate[0].isdigit() else candidate
        base, _, number = candidate.rpartition("_")
        if not (base and number.isdigit()):
            base, number = candidate, ""
        name, count = candidate, self.counts.get(base, 0)
        if number:
            count = max(count, int(number))
        while name in self.taken or keyword.iskeyword(name) or (name in vars(builtins) and obj is None):
            count += 1
            name = f"{base}_{count}"
        self.taken.add(name)
        self.counts[base] = count
        return name


class _NodeList:
    """The nodes of a graph in order; it may change while somebody walks along it."""

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        node = getattr(root, self.direction)
        while node is not root:
            after = node
            if not node._erased:
                yield node
            node = getattr(after, self.direction)

    def __reversed__(self) -> _NodeList:
        return _NodeList(self.graph, "_prev" if self.direction == "_next" else "_next")

    def __contains__(self, node: object) -> bool:
        return any(node is one for one in self)


class Graph:
    """Steps that a module does one after the other. Source: `torch.fx.Graph`.

    >>> import fusegrad as fg
    >>> graph = Graph()
    >>> x = graph.placeholder("x")
    >>> _ = graph.output(graph.call_function(fg.relu, (x,)))
    >>> print(graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})
        return relu
    """

    def __init__(
        self,
        owning_module: Any = None,
        tracer_cls: type | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._len = 0
        self._insert: Callable[[Node], None] = self._root.prepend
        self._graph_namespace = _Namespace()
        self.owning_module, self._tracer_cls, self._tracer_extras = owning_module, tracer_cls, tracer_extras

    @property
    def nodes(self) -> _NodeList:
        """The steps in order."""
        return _NodeList(self)

    def output_node(self) -> Node:
        """The step that says what the graph gives."""
        return next(iter(reversed(self.nodes)))

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """The steps of a kind, and of a function or name."""
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def create_node(
        self,
        op: str,
        target: Any,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Put a step where the graph is being written, at its end if not said otherwise."""
        named = self._graph_namespace.create_name(name or self._target_to_str(target))
        node = Node(self, named, op, target, args or (), kwargs or {}, type_expr)
        self._insert(node)
        self._len += 1
        return node

    def _target_to_str(self, target: Any) -> str:
        name = target if isinstance(target, str) else getattr(target, "__name__", type(target).__name__)
        if name.startswith("__") and name.endswith("__"):
            name = name[2:-2]
        return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name.replace(".", "_")).lower()

    def erase_node(self, to_erase: Node) -> None:
        """Take a step out that nobody uses. Raises RuntimeError if somebody does."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the "
                f"graph: {to_erase.users}!"
            )
        if to_erase._erased:
            return
        to_erase._prev._next, to_erase._next._prev = to_erase._next, to_erase._prev
        to_erase._erased = True
        self._len -= 1
        to_erase._take((), {})

    def _writing(self, insert: Callable[[Node], None]) -> Any:
        """Put steps elsewhere from now on; the context is left for where they were put before."""
        context = contextlib.ExitStack()
        context.callback(setattr, self, "_insert", self._insert)
        self._insert = insert
        return context

    def inserting_before(self, n: Node | None = None) -> Any:
        """A context in which steps are put before this one."""
        return self._writing((self._root._next if n is None else n).prepend)

    def inserting_after(self, n: Node | None = None) -> Any:
        """A context in which steps are put behind this one, one after the other."""
        last = [self._root if n is None else n]

        def insert(node: Node) -> None:
            last[0].append(node)
            last[0] = node

        return self._writing(insert)

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """What the graph is given under a name."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """What is read of the module under a name."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Call the module of this name."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Call the method of this name of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """Call a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """What the graph gives."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """Put a step of another graph here, its arguments as `arg_transform` has them."""
        args, kwargs = map_arg((node.args, node.kwargs), arg_transform)
        copied = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        copied.meta = dict(node.meta)
        return copied

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Put all steps of another graph here; gives what that graph gives."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                given = map_arg(node.args[0], lambda n: val_map[n])
                return (given, node) if return_output_node else given
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: Any = None) -> Graph:
        known: dict[Node, Node] = {}
        new = Graph(tracer_cls=self._tracer_cls)
        given = new.graph_copy(self, known, return_output_node=True)
        if given is not None:
            result, old = given
            made = new.output(result, old.type)
            made.meta = dict(old.meta)
        return new

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None, **_: Any) -> bool:
        """Take out what nobody uses; says whether there was any."""
        before = self._len
        for node in reversed(self.nodes):
            impure = node.is_impure() if is_impure_node is None else is_impure_node(node)
            if not impure and not node.users:
                self.erase_node(node)
        return self._len != before

    def lint(self) -> None:
        """Raise RuntimeError where a step takes what is not there yet, or a name is not in the module."""
        seen: set[Node] = set()
        for node in self.nodes:
            for needed in node.all_input_nodes:
                if needed.graph is not self or needed not in seen:
                    raise RuntimeError(
                        f"Argument '{needed}' of Node '{node}' was used before it has been defined! Please "
                        "check that Nodes in the graph are topologically ordered"
                    )
            seen.add(node)
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                place: Any = self.owning_module
                for part in node.target.split("."):
                    if not hasattr(place, part):
                        raise RuntimeError(
                            f"Node {node} target {node.target} references nonexistent attribute {part} of "
                            f"{place}"
                        )
                    place = getattr(place, part)

    def print_tabular(self) -> None:
        """Show the steps as a table."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [(n.op, n.name, str(n.target), str(n.args), str(n.kwargs)) for n in self.nodes]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in [rows[0], tuple("-" * width for width in widths), *rows[1:]]:
            print("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())

    def __str__(self) -> str:
        return "\n".join(["graph():", *(f"    {node.format_node()}" for node in self.nodes)])

    def python_code(self, root_module: str = "self", **_: Any) -> PythonCode:
        """The source of a function `forward` that does the steps."""
        return _Writer(self, root_module).code()


class _Writer:
    """Writes the Python of a graph; functions stand under names of their own."""

    def __init__(self, graph: Graph, root: str) -> None:
        self.graph, self.root = graph, root
        self.globals: dict[str, Any] = {}
        self.names = _Namespace({n.name for n in graph.nodes} | {root})

    def code(self) -> PythonCode:
        given, lines = [self.root], []
        last = self._last_uses()
        for node in self.graph.nodes:
            if node.op == "placeholder":
                default = f" = {self._shown(node.args[0])}" if node.args else ""
                stars = re.match(r"\**", node.target)[0]  # type: ignore[index]
                plain = node.target[len(stars) :]
                given.append(f"{stars}{plain}{self._annotated(node)}{default}")
                if plain != node.name:
                    lines.append(f"{node.name} = {plain}")
            else:
                lines.append(self._statement(node))
            if dead := [n.name for n in last.get(node, ())]:
                lines[-1:] = [f"{lines[-1]};  {' = '.join(dead)} = None"] if lines else []
        body = "\n".join(f"    {line}" for line in lines or ["pass"])
        return PythonCode(f"def forward({', '.join(given)}):\n{body}\n    ", self.globals)

    def _last_uses(self) -> dict[Node, list[Node]]:
        """Which values each step is the last to use: they are let go there."""
        last: dict[Node, Node] = {}
        for node in self.graph.nodes:
            for needed in node.all_input_nodes:
                last[needed] = node
        found: dict[Node, list[Node]] = {}
        for needed, node in last.items():
            if node.op != "output":
                found.setdefault(node, []).append(needed)
        for node in self.graph.nodes:
            if not node.users and node.op not in ("placeholder", "output"):
                found.setdefault(node, []).append(node)
        return found

    def _annotated(self, node: Node) -> str:
        return "" if node.type is None else f" : {self._of(_type_word(node.type), node.type)}"

    def _statement(self, node: Node) -> str:
        if node.op == "output":
            return f"return {self._shown(node.args[0])}"
        return f"{node.name}{self._annotated(node)} = {self._call(node)}"

    def _call(self, node: Node) -> str:
        if node.op == "get_attr":
            return _attribute(self.root, node.target)
        args = [self._shown(a) for a in node.args]
        given = ", ".join([*args, *(f"{key} = {self._shown(value)}" for key, value in node.kwargs.items())])
        if node.op == "call_method":
            return f"{args[0]}.{node.target}({given[len(args[0]) :].removeprefix(', ')})"
        if node.op == "call_module":
            return f"{_attribute(self.root, node.target)}({given})"
        if node.target in INFIX and not node.kwargs:
            return INFIX[node.target].format(*args)
        if node.target is getattr and len(args) == 2 and str(node.args[1]).isidentifier():
            return f"{args[0]}.{node.args[1]}"
        return f"{self._function(node.target)}({given})"

    def _function(self, function: Any) -> str:
        """The name that a function is called by: `torch.add` where that is it."""
        path = _get_qualified_name(function)
        top, _, rest = path.partition(".")
        place: Any = sys.modules.get(top)
        for part in rest.split(".") if rest else ():
            place = getattr(place, part, None)
        if top == "torch" and rest and place is function:
            self.globals[top] = sys.modules[top]
            return path
        return path if not rest else self._of(path, function)

    def _of(self, path: str, value: Any) -> str:
        name = path.replace(".", "_")
        if self.globals.get(name) is not value:
            name = self.names.create_name(name)
        self.globals[name] = value
        return name

    def _shown(self, value: Any) -> str:
        """An argument as it is written."""
        if isinstance(value, Node):
            return value.name
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return f"{self._of(type(value).__name__, type(value))}({', '.join(map(self._shown, value))})"
        if isinstance(value, tuple):
            return f"({', '.join(map(self._shown, value))}{',' if len(value) == 1 else ''})"
        if isinstance(value, list):
            return f"[{', '.join(map(self._shown, value))}]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key!r}: {self._shown(part)}" for key, part in value.items()) + "}"
        if isinstance(value, slice):
            return f"slice({', '.join(map(self._shown, (value.start, value.stop, value.step)))})"
        plain = value is None or value is Ellipsis or isinstance(value, (bool, int, str, bytes, complex))
        if plain or (type(value) is float and value == value and abs(value) != float("inf")):
            return "..." if value is Ellipsis else repr(value)
        return self._of(_type_word(value), value)


def _type_word(value: Any) -> str:
    """A word for an object that has no literal."""
    word = getattr(value, "__name__", None) or str(value)
    return re.sub(r"\W+", "_", str(word)).strip("_")[:40] or "value"


def _attribute(root: str, path: str) -> str:
    """The expression that reads a dotted name, whose parts may be numbers."""
    for part in path.split("."):
        root = f"{root}.{part}" if part.isidentifier() else f'getattr({root}, "{part}")'
    return root
