"""Writes of parts: a graph and the tensors that it writes go in; what is written part by part comes out so.

    v0: f32[512, 64] = put(cache, key, place, dim=0, accumulate=False)
    v1: f32[512, 64] = assign(v0, x, index=(3, slice(0, 64, 1)))

becomes, where `v1` is what is written into `cache`, two writes of a row of what lies there,

    v0: f32[512, 64] = write(cache, key, place, where=((512, 0, 0, 1, 0), (64, 1, 0, 1, None)))
    v1: f32[512, 64] = write(v0, x, where=((512, None, 3, 1, None), (64, 0, 0, 1, None)))

if these read and write less than the whole is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fusegrad.compiler.base.gather_op import Along
from fusegrad.compiler.base.write_op import WRITE, inside
from fusegrad.compiler.kernel.dtypes import has_kernels
from fusegrad.compiler.lower.rewriter import Rewriter
from fusegrad.eager.core.families import View
from fusegrad.eager.core.sizes import has_symbols
from fusegrad.eager.ops.shape.slicing import Slice
from fusegrad.tracer.ir import passes
from fusegrad.tracer.ir.graph import Equation, Graph, Value

# How often a part goes through memory where it is written, as what is written is made before; and a whole.
# What reads other places of what is written has to be made before in either case.
OF_PART, OF_WHOLE, OF_MADE = 3, 2, 2


class _Part(NamedTuple):
    """What is written: a source, which broadcasts to the shape `given`, and then is of `shape`; where; the
    index that this goes by, if there is one.
    """

    source: Value
    given: tuple[int, ...]
    shape: tuple[int, ...]
    where: tuple[Along, ...]
    by: tuple[Value, ...] = ()


def with_parts_written(graph: Graph, pairs: Sequence[tuple[Value, Value]]) -> Graph:
    """The graph in which parts of tensors are written where that is all that is done to them.

    pairs: what is written, and into which input.
    """
    finder = _Finder(graph)
    found: dict[Value, tuple[Value, _Part]] = {}
    for output, target in pairs:
        found.update(finder.writes(output, target))
    if not found:
        return graph
    rewriter = _Writer(graph, found)
    for equation in graph.equations:
        rewriter.put(equation)
    outputs = tuple(rewriter.now(v) for v in graph.outputs)
    return passes.dead_code(Graph(graph.inputs, tuple(rewriter.equations), outputs))


class _Finder:
    """What of a graph is made by writing parts."""

    def __init__(self, graph: Graph) -> None:
        self.makers = {v: e for e in graph.equations for v in e.outputs}
        self.readers = Counter(v for e in graph.equations for v in e.values())
        self.readers.update(v for v in graph.outputs if isinstance(v, Value))
        self.inputs = {*graph.inputs}

    def writes(self, output: Value, target: Value) -> dict[Value, tuple[Value, _Part]]:
        """The writes by which `target` becomes `output`: of each result what is written into, and what is.

        None where it is written otherwise, or all of it is.
        """
        found: dict[Value, tuple[Value, _Part]] = {}
        value = output
        while value != target:
            written = self._write(value)
            if written is None:
                return {}
            found[value] = written
            value = written[0]
        states, by_parts, as_whole = {target, *found}, 0, OF_WHOLE * math.prod(target.shape)
        for _, part in found.values():
            size = math.prod(part.shape)
            by_parts += OF_PART * size
            as_whole += OF_MADE * size * self._reads_elsewhere(part, states)
        return found if by_parts < as_whole else {}

    def _reads_elsewhere(self, part: _Part, states: set[Value]) -> bool:
        """Whether what is written, as far as it is one computation, reads other places of the memory in which
        `states` lie one after the other than the same ones.
        """
        pending, seen = [part.source], {part.source}
        while pending:
            value = pending.pop()
            maker = self.makers.get(value)
            if value in states:
                return True
            if maker is None or maker.op.family in ("reduction", "contraction"):
                continue
            if maker.op.name == "getitem" and {*maker.values()} <= states:
                (x,) = maker.values()
                if (
                    None in maker.params["index"]
                    or _at(value, x.shape, maker.params["index"]).where != part.where
                ):
                    return True
                continue
            pending += [v for v in maker.values() if v not in seen]
            seen.update(maker.values())
        return False

    def _write(self, value: Value) -> tuple[Value, _Part] | None:
        """What a value is, but for a part of it, and that part."""
        maker = self.makers.get(self._seen(value))
        if maker is None or not has_kernels(value.dtype) or has_symbols(value.shape):
            return None
        if maker.op.name == "put":
            x, source, index = maker.values()
            if maker.params["accumulate"] or len(index.shape) != 1 or source.dtype != value.dtype:
                return None
            where = [Along(n, d) for d, n in enumerate(x.shape)]
            where[maker.params["dim"]] = where[maker.params["dim"]]._replace(by=0)
            return self._seen(x), _Part(source, source.shape, source.shape, tuple(where), (index,))
        if maker.op.name != "assign" or not all(isinstance(v, Value) for v in maker.inputs):
            return None
        x, source = maker.values()
        index = maker.params["index"]
        nested = self._nested(x, source, index)
        return (x, nested) if nested is not None else (x, _at(source, x.shape, index))

    def _seen(self, value: Value) -> Value:
        """What a view shows that shows all of something as it is."""
        maker = self.makers.get(value)
        if maker is None or maker.op.name not in ("getitem", "reshape") or not maker.values():
            return value
        (x,) = maker.values()
        whole = tuple(Slice(0, n, 1) for n in x.shape)
        return (
            self._seen(x) if x.shape == value.shape and maker.params.get("index", whole) == whole else value
        )

    def _nested(self, x: Value, source: Value, index: tuple[object, ...]) -> _Part | None:
        """The part of x that is written where what is put into a part of it is that part but for a part."""
        inner = self._write(source) if self.readers[source] == 1 and None not in index else None
        if inner is None:
            return None
        base, part = inner
        of, outer = self.makers.get(base), _at(base, x.shape, index)
        if of is not None and of.op.name == "getitem" and [*of.values()] == [x] and base != x:
            is_same = None not in of.params["index"] and _at(base, x.shape, of.params["index"]) == outer
        else:
            is_same = base == x and source.shape == x.shape
        return part._replace(where=tuple(inside(outer.where, part.where))) if is_same else None


def _at(source: Value, shape: tuple[int, ...], index: tuple[object, ...]) -> _Part:
    """The part at a basic index of something of that shape, which gets a source that broadcasts to it."""
    entries = [e for e in index if e is not None]
    where: list[Along] = []
    part: list[int] = []
    for dim, size in enumerate(shape):
        entry = entries[dim] if dim < len(entries) else Slice(0, size, 1)
        if isinstance(entry, Slice):
            where.append(Along(size, len(part), entry.start, entry.step))
            part.append(entry.length)
        else:
            assert isinstance(entry, int)
            where.append(Along(size, None, entry))
    given = [e.length if isinstance(e, Slice) else 1 for e in index if e is None or isinstance(e, Slice)]
    return _Part(source, (*given, *shape[len(entries) :]), tuple(part), tuple(where))


class _Writer(Rewriter):
    """A graph in which some values are written."""

    def __init__(self, graph: Graph, found: Mapping[Value, tuple[Value, _Part]]) -> None:
        super().__init__(graph, {})
        self.found, self.targets = found, {x for x, _ in found.values()}

    def put(self, original: Equation) -> None:
        value = original.outputs[0]
        if value not in self.found:
            return super().put(original)
        x, part = self.found[value]
        self.source = original.source
        source, into = self.now(part.source), self.now(x)
        assert isinstance(source, Value)
        indices = [self.now(v) for v in part.by]
        source = self._spread(self.cast(source, value.dtype), part)
        if self._memory(source) in self.targets:
            source = self.op("clone", source)  # a part of what is written, which is read before
        self._append(Equation(WRITE, (into, source, *indices), {"where": part.where}, (value,), self.source))
        return None

    def _memory(self, value: Value) -> Value:
        """The value whose memory a value lies in."""
        maker = self.producer.get(value)
        return value if maker is None or not isinstance(maker.op, View) else self._memory(maker.values()[0])

    def _spread(self, source: Value, part: _Part) -> Value:
        """A source in the shape of the part that it is written to."""
        if source.shape == part.shape:
            return source
        return self.reshape(self.expand(source, part.given), part.shape)


def write_in_range(
    b: Rewriter, x: Value, value: Value, *indices: Value, where: tuple[Along, ...]
) -> Value | None:
    """A part that is written where an index says, which is checked, as a rule of `lowering.py`."""
    by = next((along for along in where if along.by is not None), None)
    if by is None:
        return None
    (index,) = indices
    b.within(index, -by.size, by.size)
    return b.equation(WRITE, (x, value, b.from_zero(index, by.size)), {"where": where})
