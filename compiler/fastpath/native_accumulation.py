"""Gradients that a compiled backward adds to the `.grad` of leaves by itself.

A cell that is called again and again hands the gradients of its weights to the same tensors each time, and
what a backward makes for them is read just once. For the node of a shortcut this is written out, too: a
program of its own derives and adds in one native call.

    def answer(node, gradients, taken):
        ...
        edges = node.edges
        total2, total3 = edges[2][1].grad, edges[3][1].grad
        if not match(total2, total3): return MISSED  # which is None here
        sum2, sum3 = total2.array, total3.array
        if not (not taken or taken.isdisjoint((id(sum2), id(sum3)))): return MISSED
        if not apart(read0, ..., sum2, sum3): return MISSED
        ...
        made6, made7, made6_tensor, made7_tensor, = make(read0, ..., sum2, sum3, nothing, ...)
        count(None, total2, total3)
        ...
        return (edges[0], edges[1]), (made6_tensor, made7_tensor)

What is missed is added by the engine, as ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad.compiler.base import debug
from fusegrad.compiler.base.lock import compiling
from fusegrad.compiler.fastpath import backward_lines
from fusegrad.compiler.fastpath.native_node import count_writes
from fusegrad.compiler.fastpath.python_writer import Place, Source, TooDifficult
from fusegrad.compiler.native.apart import Apart
from fusegrad.compiler.native.match import Match
from fusegrad.compiler.paths.replay import gather
from fusegrad.compiler.paths.segments import Segment
from fusegrad.compiler.program.donation import in_place
from fusegrad.compiler.program.program import Program
from fusegrad.eager.core.op import REGISTRY, TensorType
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir.graph import Equation, Graph, Value

if TYPE_CHECKING:
    from fusegrad.compiler.paths.autograd_node import CompiledNode


class Adding:
    """The backward of one leaf of a tree, for nodes whose edges of the numbers `edges` end at leaves.

    answer(node, gradients, taken): see `eager.node.Adding`.
    """

    def __init__(self, leaf: Segment, edges: Sequence[int]) -> None:
        self.leaf, self.edges, self.text = leaf, tuple(edges), ""
        self.answer: Any = self._first

    def _first(self, node: CompiledNode, gradients: Sequence[Any], taken: set[int]) -> Any:
        """The first backward that finds a `.grad` everywhere has the function written."""
        totals = [node.edges[number][1].grad for number in self.edges]
        plain = node.filled and node.inputs is not None and all(g is not None for g in gradients)
        if plain and all(map(_is_plain, totals)):
            with compiling:
                if self.answer == self._first:
                    self.answer = self._written(totals, node, gradients)
            return self.answer(node, gradients, taken)
        return None

    def _written(self, totals: Sequence[Tensor], node: CompiledNode, gradients: Sequence[Any]) -> Any:
        try:
            seeds = [np.ascontiguousarray(gradient.array) for gradient in gradients]
            examples = gather(self.leaf.backward_inputs, node.leaves, node.environment, seeds)
            if examples is None:
                return _missed
            source = _Writer(self.leaf, dict(zip(self.edges, totals, strict=True)), examples)
            self.text = source.write()
            debug.show(2, "adding", lambda: self.text)
            return source.function(self.text, "adding")
        except TooDifficult:
            pass
        except Exception:
            # The engine adds as well; a fault of ours must not become one of the user's program.
            if debug.level():
                raise
        return _missed


def _missed(node: CompiledNode, gradients: Sequence[Any], taken: set[int]) -> Any:
    return None


def _is_plain(total: Tensor | None) -> bool:
    """Whether this may be the `.grad` of a leaf for a long time: off the graph, in memory of its own."""
    if type(total) is not Tensor or total.needs_grad or type(total.version) is not list:
        return False
    flags = total.array.flags
    return flags.c_contiguous and flags.owndata and flags.writeable


class _Writer(Source):
    """totals: an example of a `.grad` for each of the edges whose gradients may be added; examples: of what
    the backward program reads.
    """

    def __init__(self, leaf: Segment, totals: dict[int, Tensor], examples: Sequence[np.ndarray]) -> None:
        super().__init__(missed=None)
        self.leaf, self.examples = leaf, examples
        self.constants["leaf"] = leaf
        types = [(gradient.shape, gradient.dtype) for gradient in leaf.gradients]
        self.totals = {n: t for n, t in totals.items() if types[n] == (t.array.shape, t.array.dtype)}
        if not self.totals:
            raise TooDifficult

    def write(self) -> str:
        """The source. Raises TooDifficult."""
        gradients, numbers = self.leaf.gradients, list(self.totals)
        rest = [n for n in range(len(gradients)) if n not in self.totals]
        inputs = []
        for number, value in enumerate(backward_lines.write_inputs(self, self.leaf)):
            inputs.append(f"read{number}")
            self.lines.append(f"read{number} = {value}")
        self._find_sums(numbers, inputs)
        program, places = self._program([gradients[n] for n in rest])
        inputs += [f"sum{n}" for n in numbers]
        arrays = self.run(program, inputs, places=places)
        made = self.apart(arrays, places, {*range(len(inputs))})
        count = self.constant("count", count_writes())
        self.lines.append(f"{count}(None, {', '.join(f'total{n}' for n in numbers)})")
        backward_lines.note_freed(self, self.leaf)
        edges = "".join(f"edges[{n}], " for n in rest)
        wrapped = "".join(f"{self.tensor(gradient)}, " for gradient in made)
        self.lines.append(f"return ({edges}), ({wrapped})")
        return self.text("node, gradients, taken")

    def _find_sums(self, numbers: Sequence[int], inputs: Sequence[str]) -> None:
        """Lines that find the memory that is written: of its own for each, nobody else's by now, and apart
        from what is read.
        """
        self.lines.append("edges = node.edges")
        self.lines += [f"total{n} = edges[{n}][1].grad" for n in numbers]
        totals = [self.totals[n] for n in numbers]
        match = self.constants["types"] = Match(totals, own=True)
        self.unless(f"{self.constant('match', match.matches)}({', '.join(f'total{n}' for n in numbers)})")
        self.lines += [f"sum{n} = total{n}.array" for n in numbers]
        self.constants["id"] = id
        self.unless(f"not taken or taken.isdisjoint(({''.join(f'id(sum{n}), ' for n in numbers)}))")
        apart = Apart([], totals, {*map(id, totals)}, self.examples)
        given = [*inputs, *(f"sum{n}" for n in numbers)]
        self.unless(f"{self.constant('apart', apart.holds)}({', '.join(given)})")

    def _program(self, rest: Sequence[Value]) -> tuple[Program, list[Place]]:
        """The backward program with the sums, which it writes over the totals; where the rest is."""
        backward = self.leaf.backward
        assert backward is not None
        totals = {
            n: Value(f"total{n}", TensorType(t.array.shape, t.array.dtype)) for n, t in self.totals.items()
        }
        sums = {n: Value(f"sum{n}", total.type) for n, total in totals.items()}
        adding = (
            Equation(REGISTRY["add"], (totals[n], self.leaf.gradients[n]), {}, (sums[n],)) for n in totals
        )
        whole = backward.graph
        inputs, outputs = (*whole.inputs, *totals.values()), (*sums.values(), *rest)
        graph = Graph(inputs, (*whole.equations, *adding), outputs)
        lies = {v: layout for v in whole.inputs if (layout := backward.sources.layout(v)) is not None}
        program = Program(graph, lies)
        found = dict(zip(outputs, program.graph.outputs, strict=True))
        program.into = in_place(program, [(found[sums[n]], totals[n]) for n in totals])
        if len(program.into) < len(sums) or program.finish().placed().calls is None:
            raise TooDifficult
        return program, [program.locate(found[value]) for value in rest]
