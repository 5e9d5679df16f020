"""Gradients that a compiled backward adds to the `.grad` of leaves by itself.

A cell that is called again and again hands the gradients of its weights to the same tensors each time, and
what a backward makes for them is read just once. For the node of a shortcut this is written out, too: such
gradients go to memory that every backward uses again, and one native call adds them all.

    def answer(node, gradients, taken):
        ...
        edges = node.edges
        total2, total3 = edges[2][1].grad, edges[3][1].grad
        if not match(total2, total3): return MISSED
        sum2, sum3 = total2.array, total3.array
        ...
        spare = taken9()
        made8, made9, added2, added3, = spare
        run(leaves[0].array, ..., made6, made7, made8, made9, *arena)
        add(sum2, sum3, added2, added3, *arena)
        total2.version[0] += 1
        ...
        return (edges[0], edges[1]), [wrap(made6), wrap(made7)]

What is missed is added by the engine, as ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad.compiler import backward_lines, debug
from fusegrad.compiler.calling import Match
from fusegrad.compiler.commit import in_place
from fusegrad.compiler.lock import compiling
from fusegrad.compiler.program import Program, viewed
from fusegrad.compiler.segments import Segment
from fusegrad.compiler.source import MISSED, Place, Source, TooDifficult
from fusegrad.eager.op import REGISTRY, TensorType
from fusegrad.eager.tensor import Tensor
from fusegrad.tracer.graph import Equation, Graph, Value

if TYPE_CHECKING:
    from fusegrad.compiler.node import CompiledNode


class Adding:
    """The backward of one leaf of a tree, for nodes whose edges of the numbers `edges` end at leaves.

    answer(node, gradients, taken): the edges that are left and their gradients, or MISSED; see `Node.hand`.
    """

    def __init__(self, leaf: Segment, edges: Sequence[int]) -> None:
        self.leaf, self.edges, self.text = leaf, tuple(edges), ""
        self.answer: Any = self._first

    def _first(self, node: CompiledNode, gradients: Sequence[Any], taken: set[int]) -> Any:
        """The first backward that finds a `.grad` everywhere has the function written."""
        totals = [node.edges[number][1].grad for number in self.edges]
        if all(_is_plain(total) for total in totals):
            with compiling:
                if self.answer == self._first:
                    self.answer = self._written(totals)
            return self.answer(node, gradients, taken)
        return MISSED

    def _written(self, totals: Sequence[Tensor]) -> Any:
        try:
            source = _Writer(self.leaf, dict(zip(self.edges, totals, strict=True)))
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
    return MISSED


def _is_plain(total: Tensor | None) -> bool:
    """Whether this may be the `.grad` of a leaf for a long time: off the graph, in memory of its own."""
    if type(total) is not Tensor or total.needs_grad or type(total.version) is not list:
        return False
    flags = total.array.flags
    return flags.c_contiguous and flags.owndata and flags.writeable


class _Writer(Source):
    """totals: an example of a `.grad` for each of the edges whose gradients may be added."""

    def __init__(self, leaf: Segment, totals: dict[int, Tensor]) -> None:
        super().__init__()
        assert leaf.backward is not None
        self.leaf, self.program = leaf, leaf.backward
        self.constants["leaf"] = leaf
        self.totals = {n: t for n, t in totals.items() if self._is_made(leaf.gradient_places[n], t)}
        if not self.totals or self.program.placed().calls is None:
            raise TooDifficult

    def _is_made(self, place: Place, total: Tensor) -> bool:
        """Whether the program makes a small array for this gradient."""
        index, chain = place
        known = {i: np.empty(shape, dtype) for i, shape, dtype in self.program.placed().small}
        if index not in known or known[index].dtype != total.array.dtype:
            return False
        seen = viewed(known[index], chain)
        inside = seen is known[index] or seen.base is known[index]
        return inside and seen.shape == total.array.shape and seen.flags.c_contiguous

    def write(self) -> str:
        """The source. Raises TooDifficult."""
        places, numbers = self.leaf.gradient_places, list(self.totals)
        rest = [n for n in range(len(places)) if n not in self.totals]
        inputs = backward_lines.write_inputs(self, self.leaf)
        self._find_sums(numbers)
        left = {places[n][0] for n in rest}
        spare = {places[n][0] for n in numbers} - left
        self._take_spare(spare, [n for n in numbers if places[n][0] in spare])
        arrays = self.run(self.program, inputs, {index: f"made{index}" for index in spare})
        gradients = self.apart(arrays, [places[n] for n in rest], {*range(len(inputs))})
        for n in numbers:
            if places[n][0] not in spare:
                self.lines.append(f"added{n} = {self.seen(arrays, places[n])}")
        self.run(self._sums(), [*(f"sum{n}" for n in numbers), *(f"added{n}" for n in numbers)])
        self.lines += [f"total{n}.version[0] += 1" for n in numbers]
        self.lines.append("spares.append(spare)")
        backward_lines.note_freed(self, self.leaf)
        edges, wrapped = (f"edges[{n}]" for n in rest), (f"wrap({g})" for g in gradients)
        self.lines.append(f"return [{', '.join(edges)}], [{', '.join(wrapped)}]")
        return self.text("node, gradients, taken")

    def _find_sums(self, numbers: Sequence[int]) -> None:
        """Lines that find the memory that is written: of its own for each, and nobody else's by now."""
        self.lines.append("edges = node.edges")
        self.lines += [f"total{n} = edges[{n}][1].grad" for n in numbers]
        match = self.constants["types"] = Match([self.totals[n] for n in numbers])  # which keeps them alive
        self.unless(f"{self.constant('match', match.matches)}({', '.join(f'total{n}' for n in numbers)})")
        for n in numbers:
            self.lines += [f"sum{n} = total{n}.array", f"flags{n} = sum{n}.flags"]
            self.unless(f"flags{n}.owndata and flags{n}.writeable")
        self.constants["id"], self.constants["len"] = id, len
        self.lines.append(f"memory = {{{', '.join(f'id(sum{n})' for n in numbers)}}}")
        self.unless(f"len(memory) == {len(numbers)} and taken.isdisjoint(memory)")

    def _take_spare(self, indices: set[int], numbers: Sequence[int]) -> None:
        """Lines that take the memory of the gradients that are only added, for one run at a time."""
        small = [entry for entry in self.program.placed().small if entry[0] in indices]
        chains = {n: self.leaf.gradient_places[n] for n in numbers}
        spares: list[list[np.ndarray]] = []

        def taken() -> list[np.ndarray]:
            try:
                return spares.pop()
            except IndexError:
                made = {index: np.empty(shape, dtype) for index, shape, dtype in small}
                return [*made.values(), *(viewed(made[index], chain) for index, chain in chains.values())]

        self.constants["spares"] = spares
        names = [*(f"made{index}" for index, _, _ in small), *(f"added{n}" for n in numbers)]
        self.lines.append(f"spare = {self.constant('taken', taken)}()")
        self.lines += [f"{', '.join(names)}, = spare"] if names else []

    def _sums(self) -> Program:
        """A program that adds the second half of its inputs to the memory of the first."""
        types = {n: TensorType(t.array.shape, t.array.dtype) for n, t in self.totals.items()}
        totals, added, sums = (
            [Value(f"{name}{n}", kind) for n, kind in types.items()] for name in ("total", "added", "sum")
        )
        rows = list(zip(totals, added, sums, strict=True))
        equations = tuple(Equation(REGISTRY["add"], (t, a), {}, (s,)) for t, a, s in rows)
        program = Program(Graph((*totals, *added), equations, tuple(sums)))
        program.into = in_place(program, [(s, t) for t, _, s in rows])
        if len(program.into) < len(sums) or program.finish().placed().calls is None:
            raise TooDifficult
        return program
