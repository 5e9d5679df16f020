"""Reversed rounds: the body of a rolled loop goes in, that of the loop back for its gradient comes out.

What is carried back is the gradient of what was carried on, and the sum of those of what is the same for all:

    def round(h, x, w):                          def back(g_h, sum_w, h, x, w):
        v0 = mul(h, w)              goes back        v0 = mul(h, w)
        v1 = add(v0, x)                as            d0 = mul(g_h, w)
        return (v1,)                                 d1 = mul(g_h, h)
                                                     d2 = add(sum_w, d1)
                                                     return (d0, d2, g_h)

where h and x come row by row, h as the loop kept it, and the gradient of x leaves row by row. Of what has a
gradient in only some rounds, a truth that says whether it has one is carried back, too (`cotangent.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from fusegrad.eager.core.abstract import interpreted
from fusegrad.eager.core.ops import ops
from fusegrad.tracer.ir.cotangent import TRUTH, Cotangent, Presence, presence, truth_of, zeros_of
from fusegrad.tracer.ir.differentiate import Walk
from fusegrad.tracer.ir.graph import Graph, Value


class Given(NamedTuple):
    """When there are gradients of what rounds hand on, by place; and of which outputs that leave row by row,
    by number.
    """

    carried: tuple[Presence, ...]
    rows: tuple[tuple[int, Presence], ...]

    def walk(self, graph: Graph) -> Walk:
        """What goes back through such a round."""
        return Walk(graph, [*enumerate(self.carried), *self.rows])


class ReversedRound(NamedTuple):
    """A round that goes back.

    graph: takes the gradients of what is carried on, the sums for what all rounds read, and truths; then, as
    rows, the gradients of what left row by row, what the round was handed, what was kept of it, and its own
    rows; then what all rounds read, truths for the first of these rows, and `constants`. Gives the new
    gradients, sums and truths, and as rows the gradients of the rows that were read.
    carried, others, truths, rows: which inputs of the round these are of.
    """

    graph: Graph
    carried: list[int]
    others: list[int]
    truths: list[int]
    rows: list[int]
    constants: list[np.ndarray]


class History:
    """When there are gradients, after none, one, two and more rounds back: of what was handed on, and of what
    the last of them read.
    """

    def __init__(self, graph: Graph, carried: int, given: Given) -> None:
        self._carried = [given.carried]
        self._read: list[tuple[Presence, ...]] = [(Presence.NEVER,) * (len(graph.inputs) - carried)]
        self._from = 0  # which of these follows the last one
        while True:
            after = _presences(graph, given._replace(carried=self._carried[-1]))
            self._read.append(after[carried:])
            if after[:carried] in self._carried:
                self._from = self._carried.index(after[:carried])
                break
            self._carried.append(after[:carried])

    def after(self, rounds: int | None) -> tuple[Presence, ...]:
        """Of what a loop of so many rounds was given; None: of any number, and what is read in any at all."""
        if rounds is None:
            found = [self.after(number) for number in range(1, len(self._read) + 1)]
            read = [reduce(Presence.joined, each) for each in zip(*found, strict=True)]
            return (*self.during(None), *read[len(self._carried[0]) :])
        again = len(self._carried) - self._from
        place = rounds if rounds < len(self._carried) else self._from + (rounds - self._from) % again
        known = self._read[: rounds + 1]
        return (*self._carried[place], *(reduce(Presence.__or__, each) for each in zip(*known, strict=True)))

    def during(self, rounds: int | None) -> tuple[Presence, ...]:
        """Of what is handed on, if it is to be said in one way for all rounds."""
        known = self._carried if rounds is None else self._carried[: rounds + 1]
        return tuple([reduce(Presence.joined, each) for each in zip(*known, strict=True)])


def _presences(graph: Graph, given: Given) -> tuple[Presence, ...]:
    """When there are gradients of the inputs of a round, after it has gone back."""
    walk = given.walk(graph)
    found: dict[Value, Cotangent] = {}
    interpreted(walk.builder, lambda: found.update(walk.back()) or [])
    return tuple([presence(found.get(v)) for v in graph.inputs])


def reversed_round(
    graph: Graph,
    carried: int,
    rows: int,
    given: Given,
    after: Sequence[Presence],
    kept: Sequence[Value] = (),
) -> ReversedRound:
    """The round that goes back.

    carried, rows: how many of the inputs of `graph` are handed on, and come row by row. given: when there are
    gradients in all rounds. after: when there are some of the inputs that are not handed on, when all have
    gone back. kept: what of the round need not be computed again.
    """
    inputs, walk = graph.inputs, given.walk(graph)
    builder = walk.builder
    ours = [i for i in walk.seeds if i < carried]
    read = [i for i, each in enumerate(after, carried) if each is not Presence.NEVER]
    parts, others = ([i for i in read if (i < carried + rows) is is_row] for is_row in (True, False))
    sums = {i: walk.new("sum", inputs[i]) for i in others}
    sometimes = [i for i in read if after[i - carried] is Presence.SOMETIMES]
    had = {i: walk.new("has", Value(inputs[i].name, TRUTH)) for i in sometimes}
    flags = {i: x for i, x in walk.truths.items() if i < carried} | had

    def results() -> list[Value]:
        found = walk.back()
        gradients = {i: found[v].gradient for i, v in enumerate(inputs) if v in found}
        for i, known in sums.items():
            summed = builder.tensor(known)
            gradients[i] = summed + gradients[i] if i in gradients else summed
        gradients.update((i, zeros_of(inputs[i])) for i in (*ours, *parts) if i not in gradients)
        truths = {i: truth_of(found.get(inputs[i])) for i in flags}
        for i, known in had.items():
            truths[i] = ops.logical_or(builder.tensor(known), truths[i])
        made = (*(gradients[i] for i in (*ours, *others)), *truths.values(), *(gradients[i] for i in parts))
        return [builder.value(x) for x in made]

    made = interpreted(builder, results)
    taken = (
        *[walk.seeds[i] for i in ours], *sums.values(), *flags.values(),
        *[walk.seeds[i] for i, _ in given.rows if i in walk.seeds], *inputs[:carried], *kept,
        *inputs[carried:], *[walk.truths[i] for i, _ in given.rows if i in walk.truths], *builder.constants,
    )  # fmt: skip
    again = [e for e in graph.equations if not any(v in kept for v in e.outputs)]
    round_ = Graph(taken, (*again, *builder.equations), tuple(made))
    return ReversedRound(round_, ours, others, [*flags], parts, [*builder.constants.values()])
