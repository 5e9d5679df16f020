"""Isomorphic groups: a group of equations goes in; the plan of one that is alike but for names comes out.

A Python loop leaves the same few equations again and again, each time with other values: such groups
are planned once, and have one kernel, which each of them is called with its own values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fusegrad.compiler.fuse.iteration_domain import Sources
from fusegrad.compiler.fuse.nest_growth import Nest
from fusegrad.compiler.kernel.bound_kernel import Argument, BoundKernel
from fusegrad.tracer.ir.graph import Equation, Value


class _Read(NamedTuple):
    """How an equation reads a value. base: the number of that whose memory it looks at; offset: where in it.

    made, loaded: numbers for how it is read where the group makes the base, and where it does not.
    """

    base: int
    offset: Any
    made: int
    loaded: int


class _Described(NamedTuple):
    """An equation without names. kind: a number for op and result; output: the number of the result."""

    kind: int
    reads: tuple[_Read, ...]
    output: int


class Group(NamedTuple):
    """A group of equations without names.

    key: equal for groups that are alike. places: the memory that the group reads and the results that it
    makes, in an order that groups that are alike share, and for each where the first read begins.
    """

    key: tuple[Any, ...]
    places: list[tuple[Value, Any]]

    def in_place_of(self, other: Group) -> dict[Value, tuple[Value, Any]]:
        """For each value of another group that is alike: this one's, and how much further on it is read."""
        return {
            value: (mine, start - origin)
            for (value, origin), (mine, start) in zip(other.places, self.places, strict=True)
        }

    def kernel_like(self, kernel: BoundKernel, other: Group) -> BoundKernel:
        """The kernel of another group that is alike, called with the values of this one."""
        here = self.in_place_of(other)

        def moved(argument: Argument) -> Argument:
            value, distance = here[argument.value]
            return Argument(value, argument.offset + distance, argument.strides)

        inputs, outputs = (tuple(map(moved, arguments)) for arguments in (kernel.inputs, kernel.outputs))
        return BoundKernel(kernel.kernel, kernel.sizes, inputs, outputs, kernel.numbers)


class Plans:
    """What was found out about groups, by their keys: for graphs whose groups are alike.

    said: whether the kernel IR can say them; nests: the nest of one, and that one with the numbers of its
    equations, or None where no nest holds them; built: the kernel of one. contracted: whether the kernels of
    these graphs are.
    """

    def __init__(self, contracted: bool = False) -> None:
        self.contracted = contracted
        self.kinds: dict[Any, int] = {}
        self.said: dict[Any, bool] = {}
        self.nests: dict[Any, tuple[Nest, Group, Sequence[int]] | None] = {}
        self.built: dict[Any, tuple[BoundKernel, Group]] = {}


class Alike:
    """Describes groups of equations by all that planning looks at: everything but names.

    kinds: numbers for what equations have in common, which it adds to.
    """

    def __init__(self, sources: Sources, kinds: dict[Any, int] | None = None) -> None:
        self.sources = sources
        self._kinds = {} if kinds is None else kinds
        self._numbers: dict[Value, int] = {}
        self._values: list[Value] = []
        self._known: dict[int, _Described] = {}  # by the id of an equation
        self._alone: dict[int, Group] = {}  # the same: of each equation, its result needed

    def group(self, equations: Sequence[Equation], outputs: Sequence[Value]) -> Group:
        """The group without names.

        equations: elementwise ones, reductions and the like, with one result each, in order. outputs: the
        results that are needed outside.
        """
        if len(equations) > 1 or not outputs:
            return self._group(equations, outputs)
        # What each of them can be is asked more than once.
        number = id(equations[0])
        if number not in self._alone:
            self._alone[number] = self._group(equations, outputs)
        return self._alone[number]

    def _group(self, equations: Sequence[Equation], outputs: Sequence[Value]) -> Group:
        described = [self._known.get(id(e)) or self._describe(e) for e in equations]
        made = {d.output for d in described}
        places: dict[int, int] = {}
        starts: list[Any] = []
        key: list[Any] = []
        for kind, reads, output in described:
            key.append(kind)
            for base, offset, view, load in reads:
                inside = base in made
                place = places.setdefault(base, len(starts))
                if place == len(starts):
                    starts.append(0 if inside else offset)
                # How far apart two reads of one memory are is all that matters of where they are.
                key += (view, place) if inside else (load, place, offset - starts[place])
            place = places.setdefault(output, len(starts))
            if place == len(starts):
                starts.append(0)
            key.append(place)
        key += [None, *[places[self._numbers[v]] for v in outputs]]
        return Group(tuple(key), [(self._values[n], start) for n, start in zip(places, starts, strict=True)])

    def _describe(self, equation: Equation) -> _Described:
        operands = tuple([None if isinstance(v, Value) else (type(v), repr(v)) for v in equation.inputs])
        result = equation.output.type, self.sources.layout(equation.output)
        kind = self._kind((equation.op.name, parameters_text(equation), operands, result))
        reads = tuple([self._read(v) for v in equation.values()])
        found = self._known[id(equation)] = _Described(kind, reads, self._number(equation.output))
        return found

    def _read(self, value: Value) -> _Read:
        base, chain = self.sources.resolve(value)
        layout = self.sources.layout(value)
        views = tuple([(e.op.name, parameters_text(e), e.output.shape) for e in chain])
        steps, offset = (None, 0) if layout is None else (layout.strides, layout.offset)
        made, loaded = self._kind((value.type, base.type, views)), self._kind((value.type, base.dtype, steps))
        return _Read(self._number(base), offset, made, loaded)

    def _kind(self, description: Any) -> int:
        return self._kinds.setdefault(description, len(self._kinds))

    def _number(self, value: Value) -> int:
        number = self._numbers.setdefault(value, len(self._values))
        if number == len(self._values):
            self._values.append(value)
        return number


def parameters_text(equation: Equation) -> str:
    """The parameters as text, which tells 1, 1.0 and True apart."""
    return repr(sorted(equation.params.items())) if equation.params else ""
