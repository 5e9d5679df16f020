"""`torch.fx.graph_module`: a module that does what a graph says."""

from __future__ import annotations

import copy
import itertools
import linecache
from typing import Any

from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn.module import Module
from fusegrad.torch.supplied.fx.graph import Graph, PythonCode

__all__ = ["GraphModule"]
_numbers = itertools.count()


class GraphModule(Module):
    """A module whose `forward` is written after a graph. Source: `torch.fx.GraphModule`.

    root: the module, or a dict, that has what the graph reads and calls. Writing to `graph` or calling
    `recompile()` writes `forward` anew; `code` is its source.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        # Each has a class of its own, as each has a `forward` of its own.
        plain = next(base for base in cls.__mro__ if "_of_one" not in vars(base))

        class GraphModuleImpl(plain):  # type: ignore[misc, valid-type]
            _of_one = True

        made: GraphModule = super().__new__(GraphModuleImpl)
        return made

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        self.training = getattr(root, "training", True)
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                self._bring(root, node.target)
        self.meta: dict[str, Any] = {}
        self._tracer_cls = graph._tracer_cls
        self.graph = graph

    def _bring(self, root: Any, path: str) -> None:
        """Have what the root has under a dotted name."""
        *places, name = path.split(".")
        if isinstance(root, dict):
            if path not in root:
                raise RuntimeError(
                    f"Node referenced target {path} but that target was not provided in `root`!"
                )
            value = root[path]
        else:
            value = root
            for part in path.split("."):
                value = getattr(value, part)
        place: Any = self
        for part in places:
            if not hasattr(place, part):
                place.add_module(part, Module())
            place = getattr(place, part)
        if isinstance(value, Tensor) and name not in place._parameters and not _is_parameter(value):
            if name not in place._buffers:
                place.register_buffer(name, value)
        else:
            setattr(place, name, value)

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The source of `forward`."""
        return f"\n\n\n{self._code}"

    def recompile(self) -> PythonCode:
        """Write `forward` anew, after the graph changed."""
        written = self._graph.python_code("self")
        self._code = written.src
        name = f"<eval_with_key>.{next(_numbers)}"
        lines = written.src.splitlines(keepends=True)
        linecache.cache[name] = (
            len(written.src),
            None,
            lines,
            name,
        )  # errors, and jit, read the source there
        names = {**written.globals, "__name__": __name__}
        exec(compile(written.src, name, "exec"), names)
        type(self).forward = names["forward"]  # type: ignore[method-assign]
        return written

    def add_submodule(self, target: str, m: Module) -> bool:
        """Have a module under a dotted name; says whether it could be put there."""
        *places, name = target.split(".")
        place: Any = self
        for part in places:
            if not hasattr(place, part):
                place.add_module(part, Module())
            place = getattr(place, part)
            if not isinstance(place, Module):
                return False
        place.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Take out the module under a dotted name; says whether there was one."""
        *places, name = target.split(".")
        place: Any = self
        for part in places:
            place = getattr(place, part, None)
        if not isinstance(getattr(place, name, None), Module):
            return False
        delattr(place, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Take out all modules that the graph does not call, or reads of."""
        used = set()
        for node in self.graph.nodes:
            if node.op in ("get_attr", "call_module"):
                parts = node.target.split(".")
                used |= {".".join(parts[: count + 1]) for count in range(len(parts))}
                if node.op == "call_module":
                    called = self.get_submodule(node.target)
                    used |= {f"{node.target}.{name}" for name, _ in called.named_modules() if name}
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    def print_readable(self, print_output: bool = True, **_: Any) -> str:
        """The source as a class; shown, if not said otherwise."""
        body = "".join(f"    {line}\n" for line in self._code.splitlines())
        text = f"class {type(self).__name__}(torch.nn.Module):\n{body}"
        if print_output:
            print(text)
        return text

    def __str__(self) -> str:
        hint = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__str__(), self.code, hint])

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        copied = Module.__new__(Module)
        Module.__init__(copied)
        kept = {k: v for k, v in vars(self).items() if k not in ("_graph", "_code")}
        vars(copied).update(copy.deepcopy(kept, memo))
        made = GraphModule(copied, copy.deepcopy(self._graph), type(self).__name__)
        made.meta = copied.meta
        return made

    def __copy__(self) -> GraphModule:
        return GraphModule(self, copy.deepcopy(self._graph), type(self).__name__)

    def __reduce__(self) -> Any:
        kept = {k: v for k, v in vars(self).items() if k not in ("_graph", "_code", "_tracer_cls")}
        return _unpickled, (kept, self._code, type(self).__name__)


def _unpickled(kept: dict[str, Any], source: str, name: str) -> GraphModule:
    """A module of its pickled state: the source is traced again. Source: `torch.fx.graph_module`."""
    from fusegrad.torch.supplied.fx._symbolic_trace import Tracer

    class Kept(Module):
        pass

    class KeepModules(Tracer):
        def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
            return True

    import torch  # type: ignore[import-not-found, unused-ignore]

    names: dict[str, Any] = {"torch": torch}
    exec(compile(source, "<pickled graph>", "exec"), names)
    Kept.forward = names["forward"]  # type: ignore[method-assign]
    root = Kept()
    vars(root).update(kept)
    return GraphModule(root, KeepModules().trace(root), name)


def _is_parameter(value: Any) -> bool:
    from fusegrad.eager.nn.parameter import Parameter

    return isinstance(value, Parameter)
