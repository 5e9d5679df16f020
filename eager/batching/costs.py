"""What a batched program costs beside the same one by one: a model, by counts, so that no clock decides.

The costs are microseconds of one machine, of programs whose tensors are small (those of
`benchmarks/structures.py`): what Python does for a call, a question, a group. Between machines they differ in
common, and only their ratios count.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from fusegrad.eager.core.tensor import Tensor

WAITING, QUESTION = 6.0, 15.0  # a call that waits; a question, for which examples take turns
# A group, and its part of a backward; and for an operand whose rows are brought together.
GROUP, GROUP_DERIVED, OPERAND = 120.0, 80.0, 70.0
# What memory gives in a microsecond: one by one, each call reads again what all have in common.
BYTES = 1e4
# After calls one by one a batched one looks anew at what there is, if it is at most such a part of them.
LOOKING = 0.1

_known: WeakKeyDictionary[Any, Costs] = WeakKeyDictionary()  # by the code of a function


def costs_of(function: Any) -> Costs:
    """What the last batched run of a function has cost."""
    with contextlib.suppress(TypeError):
        return _known.get(getattr(function, "__code__", function)) or Costs()
    return Costs()


class Costs:
    """Of a batched run of a program.

    groups: what does not depend on how many examples there are; calls: what does; apart: what one by one
    would have cost.
    """

    def __init__(self) -> None:
        self.groups = self.calls = self.apart = 0.0
        self._examples, self._since = 0, 0.0

    def waited(self, calls: int) -> None:
        """So many calls have waited."""
        self.calls += calls * WAITING

    def asked(self, questions: int) -> None:
        """So many examples have asked for values."""
        self.calls += questions * QUESTION

    def group(self, kind: Any, size: int, copied: int, shared: Sequence[Tensor], derived: bool) -> None:
        """So many calls were done as one, which have tensors in common. copied: how many operands were put
        side by side.
        """
        self.groups += GROUP + derived * GROUP_DERIVED + copied * OPERAND
        again = sum(tensor.array.nbytes for tensor in shared) / BYTES
        self.apart += size * kind.costs[derived] + (size - 1) * (1 + 2 * derived) * again

    def alone(self, kind: Any, calls: int, derived: bool) -> None:
        """So many calls were done each by itself."""
        self.calls += calls * kind.costs[derived]
        self.apart += calls * kind.costs[derived]

    def keep(self, function: Any, examples: int) -> None:
        """The run is over, of so many examples: calls of the function are judged by it."""
        self._examples = examples
        with contextlib.suppress(TypeError):  # what nobody can refer to weakly
            _known[getattr(function, "__code__", function)] = self

    def loses(self, examples: int) -> str:
        """Why so many examples are faster one by one, if they are, judging by the run that this is of."""
        if not self._examples:
            return ""
        share = examples / self._examples
        batched, apart = self.groups + share * self.calls, share * self.apart
        if batched <= apart or self._since * LOOKING > batched - apart:
            return ""
        self._since += apart
        told = f"as a batch, they would take about {batched / 1000:.1f} ms, and one by one {apart / 1000:.1f}"
        return f"the examples go unbatched: {told}, by what an earlier batch has counted"
