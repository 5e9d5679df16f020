"""Sizes that a file leaves open: a function is captured at several sizes, and one program for all comes out.

What differs from capture to capture is numbers, and each must follow from the sizes: as one of the sizes of
an operand, a product of some, a number of windows, or a sum of multiples of the open ones. The shapes follow
by the ops' own rules. Where a number does not follow, or an op wants a size as a number, nothing is written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.op import EXPLAINED, TensorType, wrap
from fusegrad.eager.core.pytree import flatten
from fusegrad.eager.core.sizes import Symbol
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.shape.slicing import Slice
from fusegrad.tracer.export.dims import OpenAxes
from fusegrad.tracer.export.files import ExportError
from fusegrad.tracer.export.program import Program, captured_program, function_name
from fusegrad.tracer.ir.graph import GUARD, Equation, Graph, Subgraph, Value, source_text
from fusegrad.tracer.ir.symbolic_sizes import Dim, Sizes

Point = Mapping[str, int]  # a size for each name


@dataclasses.dataclass(frozen=True, eq=False)
class OpenSizes:
    """The open sizes of a program.

    names: the user's, in the order of `sizes.names`. places: for each the argument, and the axis of it, that
    tells the size. ranges: for each the least and the largest that was asked for. trials: closed programs at
    other sizes, which are said, whose results a file must give.
    """

    sizes: Sizes
    names: tuple[str, ...]
    places: tuple[tuple[Value, int], ...]
    ranges: tuple[tuple[int, int], ...]
    trials: tuple[tuple[str, Program], ...]

    def text(self, code: str) -> str:
        """An expression in the user's names."""
        names = dict(zip(self.sizes.names, self.names, strict=True))
        named = re.sub(r"[A-Za-z_]\w*", lambda word: names.get(word[0], word[0]), code)
        return named[1:-1] if named[1:-1].isidentifier() else named

    def size_text(self, size: Any) -> str:
        """A size in the user's names."""
        return self.text(size.code) if isinstance(size, Dim) else str(size)

    def told(self, given: Sequence[np.ndarray], arguments: Sequence[Value]) -> list[int]:
        """The sizes of a call with these arrays for the arguments."""
        return [given[arguments.index(value)].shape[axis] for value, axis in self.places]

    def refuse_fixed(self, equation: Equation) -> None:
        """Raises ExportError if somebody has asked for a size as a number since the last time."""
        assert self.sizes.guards is not None
        fixed = [code for code in self.sizes.guards if " == " in code and not code.startswith("not")]
        self.sizes.begin()
        if fixed:
            raise ExportError(
                f"export: the op {equation.op.name} is written for one size, and {self.text(fixed[0])} is "
                "all that it would hold for; leave that size out of dynamic_shapes: "
                f"{source_text(equation.source)}"
            )


def open_program(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    axes: OpenAxes,
    capture: Callable[..., Program] = captured_program,
) -> Program:
    """What `function` computes, for all sizes of the axes. Raises ExportError as `captured_program` does,
    where other sizes are computed in another way, and for what the file cannot say of a size. capture: gives
    what the function does for arguments of some sizes.
    """
    leaves: list[Any] = []
    structure = flatten((args, dict(kwargs)), leaves)
    captures = []

    def captured_at(point: Point, capture: Callable[..., Program] = captured_program) -> Program:
        resized = [_resized(leaf, axes.of(place), point) for place, leaf in enumerate(leaves)]
        return capture(function, *structure.build(iter(resized)))

    for point in _points(axes, axes.hints(leaves)):
        try:
            captures.append((point, captured_at(point, capture)))
        except ExportError:
            raise
        except Exception as error:
            raise ExportError(
                f"export: with {_said(point)} {function_name(function)} raises {error!r}; if it takes no "
                "such sizes, say so by the min and max of a Dim"
            ) from error
    trials = [(_said(point), program) for point, program in captures]
    for name in captures[0][0]:
        # The least sizes may be computed in another way: they broadcast, or are shorter than what is cut off.
        for size in range(axes.range(name)[0], axes.range(name)[0] + 2):
            point = {**captures[0][0], name: size}
            with contextlib.suppress(Exception):  # what eager refuses has no result
                trials.append((_said(point), captured_at(point)))
    return _Opening(captures, axes, leaves).program(trials)


def _said(point: Point) -> str:
    return ", ".join(f"{name} = {size}" for name, size in point.items())


def _points(axes: OpenAxes, hints: Mapping[str, int]) -> Iterator[Point]:
    """Sizes to capture at: about the examples', each changed by itself, and all changed, twice."""
    columns = {name: _column(axes, name, hint, place) for place, (name, hint) in enumerate(hints.items())}
    base = {name: column[0] for name, column in columns.items()}
    yield base
    for name, column in columns.items():
        yield {**base, name: column[1]}
    yield {name: column[2] for name, column in columns.items()}
    yield {name: column[3] for name, column in columns.items()}


def _column(axes: OpenAxes, name: str, hint: int, place: int) -> tuple[int, ...]:
    """Four sizes for a name: the example's, the next, and others that are no multiples of it."""
    least, most = axes.range(name)
    least = max(2, least)
    first = min(max(least, hint), most)
    wanted = [first, first + place + 1, 2 * first + 1 + place, 3 * first + 5 - place]
    found: list[int] = []
    for size in [*wanted, *range(most, least - 1, -1)] if most < max(wanted) else wanted:
        if least <= size <= most and size not in found:
            found.append(size)
    if len(found) < 4:
        raise ExportError(f"export: {name!r} has fewer than four sizes above 1; write a file for each")
    return tuple(found[:4])


def _resized(leaf: Any, names: Mapping[int, str], point: Point) -> Any:
    """A leaf of the arguments at other sizes: its slices, over and over."""
    if not names:
        return leaf
    array = leaf.array
    for axis, name in names.items():
        array = np.take(array, np.arange(point[name]) % array.shape[axis], axis)
    resized = wrap(array)
    resized.needs_grad = leaf.needs_grad
    return resized


class _Opening:
    """Several captures on their way to one program."""

    def __init__(self, captures: Sequence[tuple[Point, Program]], axes: OpenAxes, leaves: list[Any]) -> None:
        self.points = [point for point, _ in captures]
        self.programs = [program for _, program in captures]
        self.axes, self.leaves = axes, leaves
        names = tuple(self.points[0])
        self.sizes = Sizes([self.points[0][name] for name in names])
        self.dims = dict(zip(names, self.sizes.dims, strict=True))
        self.known: list[dict[Value, Value]] = [{} for _ in captures]
        self.open: OpenSizes

    def program(self, trials: Sequence[tuple[str, Program]]) -> Program:
        """The one program."""
        base = self.programs[0]
        tensors = [place for place, leaf in enumerate(self.leaves) if isinstance(leaf, Tensor)]
        arguments = []
        for number, place in enumerate(tensors):
            shape: list[Any] = [*base.arguments[number].shape]
            for axis, name in self.axes.of(place).items():
                shape[axis] = self.dims[name]
            arguments.append(self._same([p.arguments[number] for p in self.programs], tuple(shape)))
        places = tuple(self._place(name, tensors, arguments) for name in self.dims)
        ranges = tuple(map(self.axes.range, self.dims))
        self.open = OpenSizes(self.sizes, tuple(self.dims), places, ranges, tuple(trials))
        captured = self._captured()
        constants = self._constants()
        equations = [
            self._equation(found) for found in self._rows([p.graph.equations for p in self.programs])
        ]
        outputs = [
            self._operand(found, (), None) for found in self._rows([p.graph.outputs for p in self.programs])
        ]
        graph = Graph((*arguments, *captured, *constants), tuple(equations), tuple(outputs))
        return dataclasses.replace(
            base,
            graph=graph,
            arguments=tuple(arguments),
            captured=captured,
            constants=constants,
            open=self.open,
        )

    def _place(self, name: str, tensors: Sequence[int], arguments: Sequence[Value]) -> tuple[Value, int]:
        for value, leaf in zip(arguments, tensors, strict=True):
            for axis, given in self.axes.of(leaf).items():
                if given == name:
                    return value, axis
        raise AssertionError("each name is that of an axis")

    def _rows(self, columns: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
        """What corresponds in the captures. Raises ExportError where their lengths differ."""
        if len({len(column) for column in columns}) > 1:
            longest = max(columns, key=len)
            extra = longest[min(map(len, columns))]
            where = source_text(extra.source) if isinstance(extra, Equation) else "its results"
            raise self._differs(f"does more, or less, for other sizes: {where}")
        yield from zip(*columns, strict=True)

    def _differs(self, what: str) -> ExportError:
        return ExportError(
            f"export: {self.programs[0].name} {what}; a file with open sizes has one form for all of them: "
            "give dynamic_shapes for fewer axes, or write a file for each size"
        )

    def _same(self, found: Sequence[Value], shape: tuple[Any, ...]) -> Value:
        """The value that stands for one of each capture."""
        value = Value(found[0].name, TensorType(shape, found[0].dtype))
        for known, each in zip(self.known, found, strict=True):
            known[each] = value
        return value

    def _captured(self) -> dict[Value, Tensor]:
        made = {}
        for found in self._rows([list(p.captured.items()) for p in self.programs]):
            tensors = {id(tensor) for _, tensor in found}
            if len(tensors) > 1:
                raise self._differs("reads other tensors from outside for other sizes")
            made[self._same([value for value, _ in found], found[0][0].shape)] = found[0][1]
        return made

    def _constants(self) -> dict[Value, np.ndarray]:
        made = {}
        for found in self._rows([list(p.constants.items()) for p in self.programs]):
            arrays = [array for _, array in found]
            if any(a.shape != arrays[0].shape or a.tobytes() != arrays[0].tobytes() for a in arrays):
                raise self._differs("makes data in Python, or NumPy, that differ with the sizes")
            made[self._same([value for value, _ in found], found[0][0].shape)] = arrays[0]
        return made

    def _equation(self, found: tuple[Equation, ...]) -> Equation:
        first = found[0]
        if any(e.op is not first.op or len(e.inputs) != len(first.inputs) for e in found):
            raise self._differs(f"does something else for other sizes: {source_text(first.source)}")
        inputs: list[Any] = []
        for operands in self._rows([e.inputs for e in found]):
            inputs.append(self._operand(operands, inputs, first))
        if any(e.params.keys() != first.params.keys() for e in found):
            raise self._differs(f"does something else for other sizes: {source_text(first.source)}")
        params = {
            name: self._number(tuple(e.params[name] for e in found), inputs, first) for name in first.params
        }
        outputs: tuple[Value, ...] = ()
        if first.op is not GUARD:
            types = [v.type if isinstance(v, Value) else v for v in inputs]
            try:
                inferred = first.op.infer(types, params)
            except EXPLAINED as error:
                raise self._differs(
                    f"has no shape for open sizes ({error}): {source_text(first.source)}"
                ) from error
            found_types = (inferred,) if isinstance(inferred, TensorType) else tuple(inferred)
            self.open.refuse_fixed(first)
            rows = zip(*[e.outputs for e in found], strict=True)
            outputs = tuple(
                self._same(values, type_.shape) for values, type_ in zip(rows, found_types, strict=True)
            )
        return Equation(first.op, tuple(inputs), params, outputs, first.source)

    def _operand(self, found: tuple[Any, ...], inputs: Sequence[Any], equation: Equation | None) -> Any:
        if not isinstance(found[0], Value):
            return self._number(found, inputs, equation)
        values = {known.get(value) for known, value in zip(self.known, found, strict=True)}
        if len(values) > 1 or None in values:
            raise self._differs("computes with other values for other sizes")
        return values.pop()

    def _subgraph(
        self, found: tuple[Subgraph, ...], inputs: Sequence[Any], equation: Equation | None
    ) -> Subgraph:
        """A round of a loop, or a side of a branch, for all sizes."""
        outside, self.known = self.known, [dict(known) for known in self.known]
        try:
            taken = [
                self._same(row, self._number(tuple(value.shape for value in row), inputs, equation))
                for row in self._rows([subgraph.graph.inputs for subgraph in found])
            ]
            equations = [self._equation(row) for row in self._rows([s.graph.equations for s in found])]
            outputs = [
                self._operand(row, taken, None) for row in self._rows([s.graph.outputs for s in found])
            ]
            return type(found[0])(Graph(tuple(taken), tuple(equations), tuple(outputs)))
        finally:
            self.known = outside

    # Numbers.

    def _number(self, found: tuple[Any, ...], inputs: Sequence[Any], equation: Equation | None) -> Any:
        """What a number, or a tuple of numbers, of each capture is for all sizes."""
        first = found[0]
        if isinstance(first, tuple):
            parts = [self._number(row, inputs, equation) for row in self._rows(found)]
            if not any(part is not item for part, item in zip(parts, first, strict=True)):
                return first
            return type(first)(*parts) if isinstance(first, Slice) else type(first)(parts)
        if all(type(other) is type(first) and repr(other) == repr(first) for other in found):
            return first
        if isinstance(first, Subgraph) and all(type(other) is type(first) for other in found):
            return self._subgraph(found, inputs, equation)
        expression = None
        if all(type(n) is int for n in found):
            expression = self._expression(found, inputs, equation.params if equation else {})
        if expression is None:
            where = source_text(equation.source) if equation else "its results"
            listed = ", ".join(map(repr, dict.fromkeys(found)))
            raise self._differs(f"has numbers that no rule gives from the sizes ({listed}): {where}")
        return expression

    def _expression(self, found: tuple[int, ...], inputs: Sequence[Any], params: Mapping[str, Any]) -> Any:
        """An expression in the sizes that is these numbers; None if there is none of the forms tried."""
        for candidate in self._candidates(found, inputs, params):
            if all(self._at(candidate, point) == n for point, n in zip(self.points, found, strict=True)):
                return candidate
        return None

    def _candidates(
        self, found: tuple[int, ...], inputs: Sequence[Any], params: Mapping[str, Any]
    ) -> Iterator[Any]:
        shapes: list[tuple[Any, ...]] = [value.shape for value in inputs if isinstance(value, Value)]
        for shape in shapes:
            yield from shape
        yield self._sum(found)
        yield from self._windows(shapes, params)
        for shape in [tuple[Any, ...](self.dims.values()), *shapes]:
            for start in range(len(shape)):
                for stop in range(start + 1, len(shape) + 1):
                    product = math.prod(shape[start:stop])
                    base = self._at(product, self.points[0])
                    yield product
                    if base and found[0] % base == 0:
                        yield product * (found[0] // base)
                    if found[0] and base % found[0] == 0:
                        yield product // (base // found[0])

    def _windows(self, shapes: Sequence[tuple[Any, ...]], params: Mapping[str, Any]) -> Iterator[Any]:
        """How many windows fit, by the rule of convolutions and pools, with the last whole or not."""
        for size in {n: None for shape in shapes for n in shape if isinstance(n, Symbol)}:
            for kernel, stride, before, dilation in dict.fromkeys(params.get("window", ())):
                spare = size + (2 * before - dilation * (kernel - 1) - 1)
                yield spare // stride + 1
                yield (spare + (stride - 1)) // stride + 1

    def _sum(self, found: tuple[int, ...]) -> Any:
        """A multiple of each size and a constant, of which each size changed by itself tells one."""
        base, total = self.points[0], 0
        for number, name in enumerate(self.dims, 1):
            slope = (found[number] - found[0]) // (self.points[number][name] - base[name])
            total = total + self.dims[name] * slope
        return total + (found[0] - self._at(total, base))

    def _at(self, expression: Any, point: Point) -> int:
        return int(self.sizes.values(list(point.values())).of(expression))
