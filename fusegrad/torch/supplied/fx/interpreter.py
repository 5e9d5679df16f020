"""`torch.fx.interpreter`: runs a graph step by step, each of which may be done otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fusegrad.eager.nn.module import Module
from fusegrad.torch.supplied.fx._symbolic_trace import Tracer
from fusegrad.torch.supplied.fx.graph import Graph
from fusegrad.torch.supplied.fx.graph_module import GraphModule
from fusegrad.torch.supplied.fx.node import Node, map_aggregate, map_arg
from fusegrad.torch.supplied.fx.proxy import Proxy

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a graph; derived classes do kinds of steps otherwise. Source: `torch.fx.Interpreter`."""

    def __init__(self, module: Any, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module, self.graph = module, module.graph if graph is None else graph
        self.submodules = dict(module.named_modules())
        self.garbage_collect_values = garbage_collect_values
        self.env: dict[Node, Any] = {}
        self.args_iter: Iterator[Any] = iter(())
        last = {needed: node for node in self.graph.nodes for needed in node.all_input_nodes}
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        for needed, node in last.items():
            self.user_to_last_uses.setdefault(node, []).append(needed)

    def run(
        self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True
    ) -> Any:
        """What the graph gives for these arguments. initial_env: values that are known beforehand."""
        self.env, self.args_iter = dict(initial_env or {}), iter(args)
        for node in self.graph.nodes:
            if node not in self.env:
                self.env[node] = self.run_node(node)
            for needed in self.user_to_last_uses.get(node, ()) if self.garbage_collect_values else ():
                self.env.pop(needed, None)
            if node.op == "output":
                return self.env[node]
        return None

    def run_node(self, n: Node) -> Any:
        """What one step gives."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        """The next argument. Raises RuntimeError where there is none."""
        if target.startswith("*"):
            return list(self.args_iter)
        given = next(self.args_iter, ...)
        if given is ...:
            if not args:
                raise RuntimeError(
                    f"Expected positional argument for parameter {target}, but one was not passed in!"
                )
            return args[0]
        return given

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """What the module has under a name."""
        return self.fetch_attr(target)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """What a function gives."""
        return target(*args, **kwargs)

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        """What a method of the first argument gives."""
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """What a module gives."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        """What the graph gives."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """What the module has under a dotted name. Raises RuntimeError where it is not there."""
        found: Any = self.module
        for count, part in enumerate(target.split(".")):
            if not hasattr(found, part):
                raise RuntimeError(
                    f"Node referenced nonexistent target {'.'.join(target.split('.')[: count + 1])}"
                )
            found = getattr(found, part)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The values of a step's arguments."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Containers with values in place of steps."""
        return map_arg(args, lambda needed: self.env[needed])


class Transformer(Interpreter):
    """Runs a graph to write another one. Source: `torch.fx.Transformer`."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.new_graph = Graph(tracer_cls=self.graph._tracer_cls)

        class Appending(Tracer):
            def __init__(tracer, graph: Graph) -> None:
                super().__init__()
                tracer.graph, tracer.root = graph, module

            def is_leaf_module(tracer, m: Module, module_qualified_name: str) -> bool:
                return True

        self.tracer = Appending(self.new_graph)

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Proxy:
        """The argument of the new graph."""
        return Proxy(self.new_graph.placeholder(target, default_value=args[0] if args else ...), self.tracer)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Proxy:
        """A step that reads the module."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A step that calls a module."""
        return self.tracer.call_module(self.fetch_attr(target), self.fetch_attr(target).forward, args, kwargs)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A step that calls a function."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The module of the new graph."""
        result = super().run(enable_io_processing=False)
        if result is not None:
            self.new_graph.output(
                map_aggregate(result, lambda part: part.node if isinstance(part, Proxy) else part)
            )
        return GraphModule(self.module, self.new_graph)
