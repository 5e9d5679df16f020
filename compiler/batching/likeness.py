"""Kinds of calls that do the same work: which others a kind can stand for, when calls run as one.

f(x, x) is another kind than f(x, y), as the function may ask whether they are one; so is f of a tensor that
needs no gradient. Mostly the recorded graph is the same, and then calls of both join: the more general one
has an operand for each place, and derives by all that the other derives by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fusegrad.tracer.capture.captured import Capture
from fusegrad.tracer.ir.graph import Value


class Work(NamedTuple):
    """What a recorded call computes. given: by the place of an operand (the arguments, then weights and
    constants), the value that it is in the graph, None for one that it does not take. values: the results.
    """

    made: Capture
    given: Sequence[Value | None]
    values: Sequence[Value]

    def stands_for(self, other: Work) -> bool:
        """Whether calls of the other kind can be done by this graph, with gradients."""
        mine, its = self.made, other.made
        if [*map(id, mine.captured.values())] != [*map(id, its.captured.values())]:
            return False
        if not _same_arrays([*mine.constants.values()], [*its.constants.values()]):
            return False
        if len(self.given) != len(other.given) or len(mine.graph.equations) != len(its.graph.equations):
            return False
        known: dict[Value, Any] = {
            v: o for v, o in zip(self.given, other.given, strict=True) if v is not None
        }
        if len(known) != sum(v is not None for v in self.given):
            return False  # this one has an operand twice, the other may have two
        for equation, its_equation in zip(mine.graph.equations, its.graph.equations, strict=True):
            inputs = tuple([known.get(v) if isinstance(v, Value) else v for v in equation.inputs])
            if (
                equation.op is not its_equation.op
                or replace(equation, inputs=inputs).key() != its_equation.key()
            ):
                return False
            if [v.type for v in equation.outputs] != [v.type for v in its_equation.outputs]:
                return False
            known.update(zip(equation.outputs, its_equation.outputs, strict=True))
        if [known.get(value) for value in self.values] != [*other.values]:
            return False
        return all(v in mine.tracked for v, o in known.items() if o in its.tracked)


def _same_arrays(mine: Sequence[np.ndarray], its: Sequence[np.ndarray]) -> bool:
    return len(mine) == len(its) and all(
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        for a, b in zip(mine, its, strict=True)
    )
