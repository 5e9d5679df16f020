"""Calling a function that was read from a file: arguments and its tensors go in, the result comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from fusegrad.eager.core.dtypes import FROM_NUMPY
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.op import TensorType
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.lazy import cached_property
from fusegrad.tracer.ir.evaluation import evaluate_graph
from fusegrad.tracer.ir.graph import Equation, Graph, Value
from fusegrad.tracer.ir.symbolic_sizes import Sizes, Values


class Place(NamedTuple):
    """Where a call tells an open size: the number of an argument, and an axis of it.

    least, most: the sizes that the file holds for, which were tried when it was written.
    """

    name: str
    argument: int
    axis: int
    least: int
    most: int

    def size(self, given: Sequence[Tensor]) -> int:
        """The size of a call. Raises TypeError for one that the file does not hold for."""
        size = int(given[self.argument].array.shape[self.axis])
        if not self.least <= size <= self.most:
            raise TypeError(f"{self.name} = {size}, and was exported for {self.least} to {self.most}")
        return size


@dataclass(frozen=True)
class Part:
    """A container in the arguments or the result, or a leaf of it, of which `leaf` says something.

    kind: list, tuple or dict, with `keys`; None for a leaf.
    """

    kind: Any
    keys: tuple[Any, ...]
    parts: tuple[Part, ...]
    leaf: Mapping[str, Any]

    def take_apart(self, value: Any, found: list[Tensor], place: str) -> None:
        """Append the tensors of a value that is made as this says. Raises TypeError where it is not."""
        if self.kind is None:
            if "tensor" in self.leaf and isinstance(value, Tensor):
                found.append(value)
            elif "tensor" in self.leaf:
                raise TypeError(f"{place} is a {type(value).__name__}, and was exported as a tensor")
            elif isinstance(value, Tensor) or type(value) is not type(self.leaf["plain"]):
                raise TypeError(
                    f"{place} is a {type(value).__name__}, and was exported as {self.leaf['plain']!r}"
                )
            elif repr(value) != repr(self.leaf["plain"]):  # NaN and the signs of zeros, too
                raise TypeError(f"{place} is {value!r}, and was exported as {self.leaf['plain']!r}")
            return
        keys = tuple(value) if isinstance(value, dict) else ()
        if type(value) is not self.kind or len(value) != len(self.parts) or {*keys} != {*self.keys}:
            said = f"the keys {list(self.keys)}" if self.kind is dict else f"{len(self.parts)} items"
            raise TypeError(
                f"{place} is {_said(value)}, and was exported as a {self.kind.__name__} with {said}"
            )
        for key, part in zip(self.keys or range(len(self.parts)), self.parts, strict=True):
            part.take_apart(value[key], found, f"{place}[{key!r}]")

    def build(self, leaves: Iterator[Any]) -> Any:
        """The container with leaves put in; those that were None are."""
        if self.kind is None:
            return None if self.leaf["none"] else next(leaves)
        items = [part.build(leaves) for part in self.parts]
        return dict(zip(self.keys, items, strict=True)) if self.kind is dict else self.kind(items)


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return f"a dict with the keys {list(value)}"
    return f"a {type(value).__name__}" + (
        f" with {len(value)} items" if isinstance(value, (list, tuple)) else ""
    )


@dataclass(frozen=True)
class Function:
    """What a file says of a function.

    sizes, places: the open sizes, and where a call tells them. arguments, result: how these are put together.
    held: for each input of the graph behind the arguments the module that has it, and its name there.
    """

    name: str
    graph: Graph
    sizes: Sizes
    places: Sequence[Place]
    arguments: Part
    result: Part
    held: Sequence[tuple[str, str]]

    def __deepcopy__(self, memo: dict[int, Any]) -> Function:
        return self  # nobody writes it

    @cached_property
    def at(self) -> Callable[..., Graph]:
        """The graph for sizes; the last ones are kept. Raises TypeError where it holds for others only."""
        return lru_cache(maxsize=64)(lambda *given: _at_sizes(self.graph, self.sizes.values(given)))


def run(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], held: Sequence[Tensor]) -> Any:
    """What the function gives, op by op. held: its tensors from outside, in order.

    Raises TypeError for arguments that it was not exported for.
    """
    given: list[Tensor] = []
    try:
        function.arguments.take_apart((args, kwargs), given, "the call")
        sizes = [place.size(given) for place in function.places]
        graph = function.at(*sizes) if sizes else function.graph
        for number, (tensor, value) in enumerate(zip(given, graph.inputs, strict=False)):
            _check_type(tensor, value, f"tensor {number} of the call")
    except (TypeError, IndexError) as error:
        raise failure(TypeError, f"{function.name}: {error}") from None
    return function.result.build(iter(evaluate_graph(graph, [*given, *held])))


def _check_type(tensor: Tensor, value: Value, what: str) -> None:
    if tensor.array.shape != value.shape or tensor.array.dtype != value.dtype:
        wanted = f"{FROM_NUMPY[value.dtype]} of shape {list(value.shape)}"
        found = f"{tensor.dtype} of shape {list(tensor.array.shape)}"
        raise TypeError(f"{what} is {found}, and was exported for {wanted}")


def _at_sizes(graph: Graph, values: Values) -> Graph:
    """A graph with numbers for its open sizes. Raises TypeError where an op gives other shapes at these."""
    known: dict[Any, Value] = {}

    def closed(value: Any) -> Any:
        return known[value] if isinstance(value, Value) else values.of(value)

    def define(value: Value) -> Value:
        known[value] = Value(value.name, TensorType(values.of(value.shape), value.dtype))
        return known[value]

    inputs = tuple(map(define, graph.inputs))
    equations = []
    for equation in graph.equations:
        operands = tuple(map(closed, equation.inputs))
        params = {name: values.of(param) for name, param in equation.params.items()}
        outputs = tuple(map(define, equation.outputs))
        if outputs:
            types = [v.type if isinstance(v, Value) else v for v in operands]
            made = equation.op.infer(types, params)
            made = (made,) if isinstance(made, TensorType) else made
            if [m.shape for m in made] != [v.shape for v in outputs]:
                given = ", ".join(map(str, values.given.values()))
                raise TypeError(f"sizes of {given} are computed in another way, at {equation.source}")
        equations.append(Equation(equation.op, operands, params, outputs, equation.source))
    return Graph(inputs, tuple(equations), tuple(map(closed, graph.outputs)))
