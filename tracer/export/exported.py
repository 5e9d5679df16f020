"""What `load` of a `.fgx` file gives: a graph and its tensors go in, a module to be called comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nn.module import Module
from fusegrad.eager.nn.parameter import Parameter
from fusegrad.tracer.export.exported_call import Function, Part, Place, run
from fusegrad.tracer.ir.graph import Graph, Value
from fusegrad.tracer.ir.symbolic_sizes import Sizes


class Exported(Module):
    """A function that was read from a file: its graph, run op by op, or compiled where `jit` calls it.

    Its parameters and buffers are the tensors that the function had from outside, under their names.
    """

    def __init__(
        self,
        name: str,
        graph: Graph,
        open_sizes: tuple[Sizes, Sequence[Place]],
        call: tuple[Part, Part],
        tensors: Mapping[Value, tuple[Sequence[str], Tensor]],
        trained: Sequence[Value],
    ) -> None:
        """open_sizes: with where a call tells them. call: how arguments and the result are put together.
        tensors: for inputs of the graph their names and values. trained: those that are parameters.
        """
        super().__init__()
        held = []
        for value, (names, tensor) in tensors.items():
            kept = Parameter(tensor) if value in trained else tensor
            places = [_hold(self, each, kept) for each in names or [value.name]]
            held.append(places[0])
        self._exported = Function(name, graph, *open_sizes, *call, held)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the function gives for tensors of the types that it was exported for.

        Raises TypeError for others, and GuardFailed where the run went by values that are now others.
        """
        known = self._exported
        held = [getattr(self.get_submodule(owner), name) for owner, name in known.held]
        return run(known, args, kwargs, held)

    def extra_repr(self) -> str:
        """The function's name, and how many ops there are."""
        return f"{self._exported.name}, {len(self._exported.graph.equations)} ops"


def _hold(module: Module, name: str, tensor: Tensor) -> tuple[str, str]:
    """Put a tensor under a name with dots; gives that of its module, and its own there."""
    path, _, own = name.rpartition(".")
    for owner in filter(None, path.split(".")):
        if owner not in module._modules:
            module.add_module(owner, Module())
        module = module.get_submodule(owner)
    while hasattr(module, own):  # such as a function's `forward`
        own += "_"
    if isinstance(tensor, Parameter):
        module.register_parameter(own, tensor)
    else:
        module.register_buffer(own, tensor)
    return path, own
