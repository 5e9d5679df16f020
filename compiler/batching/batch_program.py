"""The graph of a jitted function for many examples: by `vmap`'s rules, compiled once for all sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fusegrad.compiler.deferred.interpreter import Deferred
from fusegrad.compiler.deferred.op_trie import Plan
from fusegrad.compiler.deferred.region import Stretch
from fusegrad.eager.core.op import Op, Params, bind
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


class _Place(NamedTuple):
    """Where a tensor is among operands, or what view of them it is."""

    where: Any

    def of(self, operands: Sequence[Tensor]) -> Tensor:
        """The tensor."""
        return self.where.of(operands) if isinstance(self.where, _View) else operands[self.where]


_NOWHERE = _Place(None)


class _View(NamedTuple):
    """A view of tensors with values, which is made before the code runs that takes it."""

    op: Op
    args: tuple[Any, ...]
    params: Params

    def of(self, operands: Sequence[Tensor]) -> Tensor:
        """The same view of other operands."""
        args = tuple([a.of(operands) if isinstance(a, _Place) else a for a in self.args])
        made: Tensor = bind(self.op, args, self.params)
        return made


class _Traced(Deferred):
    """A deferred run of batching rules, which it hears of as of any other ops. What they may refuse was
    looked at when the calls were made.
    """

    at_its_line = False

    def __init__(self, plan: Plan) -> None:
        self.ended: list[_Ended] = []
        self._views: dict[int, tuple[Tensor, _View]] = {}
        super().__init__(plan)

    def bind(self, op: Op, args: tuple[Any, ...], params: Params) -> Any:
        made = super().bind(op, args, params)
        if op.view and isinstance(made, Tensor) and self._number_of(made) is None:
            self._views[id(made)] = made, _View(op, args, params)  # it did not wait
        return made

    def found_again(self, tensor: Tensor, places: dict[int, int]) -> int | _View | None:
        """Where other runs find a tensor that their code takes: an operand, or a view of one."""
        place = places.get(id(tensor))
        if place is not None or id(tensor) not in self._views:
            return place
        view = self._views[id(tensor)][1]
        args = [_Place(self.found_again(a, places)) if isinstance(a, Tensor) else a for a in view.args]
        return None if _NOWHERE in args else view._replace(args=tuple(args))

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
    takes: list[_Place]
    scalars: list[Any]
    gives: list[int]


class BatchProgram:
    """What a graph gives for many examples, or for one.

    evaluate: does the graph for one, by ops. batched: which of its operands have a row for each. All runs
    have operands of the same types, but for how many examples there are.
    """

    def __init__(self, evaluate: Callable[[Sequence[Any]], Sequence[Any]], batched: Sequence[bool]) -> None:
        self._evaluate, self._batched = evaluate, batched
        self._plan = Plan()
        self._plan.sizes_change = True
        self._known: dict[Any, _Replay] = {}
        self._gives_views = False

    @property
    def compiles(self) -> int:
        """How often something was compiled."""
        return len(self._plan.stretches)

    def run(self, operands: Sequence[Tensor], size: int | None) -> tuple[Tensor, ...]:
        """The results, with the examples along their first dimension. size: how many there are; None for one,
        which has no such dimension.
        """
        places = {id(operand): i for i, operand in enumerate(operands)}
        # What takes one tensor twice reads it once.
        key: Any = size if len(places) == len(operands) else (size, *[places[id(o)] for o in operands])
        known = self._known.get(key)
        if known is not None:
            found = known.stretch.run([place.of(operands) for place in known.takes], known.scalars)
            if found is not None:
                return tuple([found[number] for number in known.gives])
        traced = _Traced(self._plan)
        made: tuple[Tensor, ...] = traced.run(self._by_rules, (operands, size), {})
        if len(self._known) < MOST_SIZES:
            self._note(key, traced, places, made)
        return made

    def _note(self, key: Any, traced: _Traced, places: dict[int, int], made: Sequence[Tensor]) -> None:
        """Have what the ops of a run have become answer from then on, if that is all there is to it."""
        if len(traced.ended) != 1 or traced.compiled != 1 or traced.learned:
            return
        (ended,) = traced.ended
        takes = [_Place(traced.found_again(tensor, places)) for tensor in ended.outside]
        gives = [ended.made.get(id(tensor), -1) for tensor in made]
        stretch = ended.stretch
        if stretch is None or _NOWHERE in takes or min(gives) < 0:
            return
        if any(map(stretch.is_view, gives)):
            self._gives_views = True
        else:
            self._known[key] = _Replay(stretch, takes, ended.scalars, gives)

    def _by_rules(self, operands: Sequence[Tensor], size: int | None) -> tuple[Tensor, ...]:
        if size is None:
            return tuple(self._evaluate(operands))
        names, rules.setting.names_slow = rules.setting.names_slow, False
        try:
            batching = Batching(size)
            given = [batching.of(o) if many else o for o, many in zip(operands, self._batched, strict=True)]
            made = [batching.with_batch(m) for m in batching.run(self._evaluate, given)]
        finally:
            rules.setting.names_slow = names
        # A view has no values of its own in the code that makes it.
        return tuple([ops.clone(m) if self._gives_views else m for m in made])
