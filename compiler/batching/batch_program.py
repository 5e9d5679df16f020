"""The graph of a jitted function for many examples: by `vmap`'s rules, compiled once for all sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fusegrad.compiler.deferred.interpreter import Deferred
from fusegrad.compiler.deferred.op_trie import Plan
from fusegrad.compiler.deferred.region import Stretch
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.state import Interpreter
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.batches import rules
from fusegrad.eager.ops.batches.batching import Batching

MOST_SIZES = 256  # numbers of examples whose code is kept at hand


class _Ended(NamedTuple):
    """What a run left when its values were asked for: its code, and which tensors that takes and gives."""

    stretch: Stretch | None
    outside: list[Tensor]
    scalars: list[Any]
    made: dict[int, int]


class _Traced(Deferred):
    """A deferred run of batching rules, which it hears of as of any other ops. What they may refuse was
    looked at when the calls were made.
    """

    at_its_line = False

    def __init__(self, plan: Plan) -> None:
        self.ended: list[_Ended] = []
        super().__init__(plan)

    def beneath_batch(self) -> Interpreter:  # type: ignore[override]
        return self

    def _end(self, alive: tuple[int, ...]) -> None:
        place, sizes, outside, scalars = self.place, tuple(self.sizes), self.outside, self.scalars
        made = dict(self._made)
        super()._end(alive)
        ending = place.ends.get(alive)
        stretch = None if ending is None else ending.known(sizes)
        self.ended.append(_Ended(stretch, outside, scalars, made))


class _Replay(NamedTuple):
    """The code for a number of examples: which operands it takes in which order, and what it gives."""

    stretch: Stretch
    takes: list[int]
    scalars: list[Any]
    gives: list[int]


class BatchProgram:
    """What a graph gives for many examples.

    evaluate: does the graph for one, by ops. batched: which of its operands have a row for each. All runs
    have operands of the same types, but for how many examples there are.
    """

    def __init__(self, evaluate: Callable[[Sequence[Any]], Sequence[Any]], batched: Sequence[bool]) -> None:
        self._evaluate, self._batched = evaluate, batched
        self._plan = Plan()
        self._plan.sizes_change = True
        self._known: dict[int, _Replay] = {}
        self._gives_views = False

    @property
    def compiles(self) -> int:
        """How often something was compiled."""
        return len(self._plan.stretches)

    def run(self, operands: Sequence[Tensor], size: int) -> tuple[Tensor, ...]:
        """The results, with the examples along their first dimension."""
        known = self._known.get(size)
        if known is not None:
            found = known.stretch.run([operands[i] for i in known.takes], known.scalars)
            if found is not None:
                return tuple([found[number] for number in known.gives])
        return self._traced(operands, size)

    def _traced(self, operands: Sequence[Tensor], size: int) -> tuple[Tensor, ...]:
        """The same, op by op for whoever compiles them; what that has made answers from then on."""
        traced = _Traced(self._plan)
        made: tuple[Tensor, ...] = traced.run(self._by_rules, (operands, size), {})
        if len(traced.ended) == 1 and traced.compiled == 1 and not traced.learned:
            (ended,) = traced.ended
            places = {id(tensor): i for i, tensor in enumerate(operands)}
            takes = [places.get(id(tensor), -1) for tensor in ended.outside]
            gives = [ended.made.get(id(tensor), -1) for tensor in made]
            stretch = ended.stretch
            if stretch is not None and min([*takes, *gives]) >= 0 and len(self._known) < MOST_SIZES:
                self._gives_views = self._gives_views or any(map(stretch.is_view, gives))
                if not any(map(stretch.is_view, gives)):
                    self._known[size] = _Replay(stretch, takes, ended.scalars, gives)
        return made

    def _by_rules(self, operands: Sequence[Tensor], size: int) -> tuple[Tensor, ...]:
        names, rules.setting.names_slow = rules.setting.names_slow, False
        try:
            batching = Batching(size)
            given = [batching.of(o) if many else o for o, many in zip(operands, self._batched, strict=True)]
            made = [batching.with_batch(m) for m in batching.run(self._evaluate, given)]
        finally:
            rules.setting.names_slow = names
        # A view has no values of its own in the code that makes it.
        return tuple([ops.clone(m) if self._gives_views else m for m in made])
