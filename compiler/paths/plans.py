"""The call plans of a trace tree: one for each segment, and one for the backward of each leaf.

    Tree                              the plan of its only leaf, as `FUSEGRAD_DEBUG=2` prints it written out
      leaf: x * w, sum                run0 = run(leaf0.array, leaf1.array)
      results: one, on the graph      node = like(template)
      gradients: of leaf0             node.leaves = leaves; node.edges = (edge of leaf0,); ...
                                      result0 = wrap(run0[2]); place(result0, node, 0)

A plan is made of a segment when a call first comes there, whose arguments show what kinds of tensors its
variables are; all calls with the same key have the same kinds.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad.compiler.call_plan.expressions import (
    NONE,
    Call,
    Constant,
    Either,
    Expression,
    Made,
    Name,
    Row,
    attribute,
    item,
    other_than,
    same,
)
from fusegrad.compiler.call_plan.steps import Assign, Attempt, Do, Run, Step, Unless
from fusegrad.compiler.guards.guards import Guards
from fusegrad.compiler.native.apart import Apart
from fusegrad.compiler.native.match import Match
from fusegrad.compiler.paths.autograd_node import CompiledNode
from fusegrad.compiler.paths.backward_plan import NODE
from fusegrad.compiler.paths.commit import add_first, call_again, count, own, replace_memory, with_writes
from fusegrad.compiler.paths.endings import Ending
from fusegrad.compiler.paths.number_steps import NumberSteps
from fusegrad.compiler.paths.path import Captured, Path
from fusegrad.compiler.paths.segments import Code, Segment, Spot
from fusegrad.compiler.paths.variables import LEAVES, kept_name, leaf_name
from fusegrad.eager.autograd.hooks import any_has_hooks, any_was_made, leaf_hooks
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.shared import Untracked
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.observe.arrays.known import array_key
from fusegrad.tracer.observe.hosts import GradientOf, at
from fusegrad.tracer.observe.symbols import Given, parts
from fusegrad.tracer.observe.world.ahead import Asks
from fusegrad.tracer.observe.world.unknown_calls import Cut

if TYPE_CHECKING:
    from fusegrad.compiler.paths.tree import Tree

_SLOTS = ("array", "needs_grad", "version")

OVERLAPS = "memory that is written overlaps with what is read"
SPLIT = "two tensors that were one are not one now"
HAS_GRADIENT = "an argument has a .grad now"
WAS_MADE = "a tensor whose gradient is asked for is the result of an op now"
ANOTHER_WORLD = "what was read before a call is not what it was when that was recorded"
HAS_HOOKS = "a tensor whose gradient is asked for has hooks now"


class Unplanned(Exception):
    """A call that shows that the segment cannot answer it; the argument says why."""


@dataclass(eq=False)
class Plan:
    """What a call does in a segment.

    before: what it finds, asks and is sure of; run: its program; after: what is tested and kept then. At an
    inner segment `seen` is the value that its guard looks at. At a leaf, finish: what makes the results and
    the node; commit: what is left in the world; last: the Python code that is called then; late: what is
    found when that is done; result: what the function gives. found: the tensors from outside that have a
    variable by now, by their references; kept: the places of the environment that do; numbers: the symbols.
    """

    before: list[Step]
    run: Run
    after: list[Step]
    found: dict[Any, str]
    kept: set[int]
    numbers: dict[Any, str]
    seen: Expression | None = None
    finish: list[Step] = field(default_factory=list)
    results: list[Name] = field(default_factory=list)
    written: list[Expression] = field(default_factory=list)
    commit: list[Step] = field(default_factory=list)
    last: list[Step] = field(default_factory=list)
    late: list[Step] = field(default_factory=list)
    result: Expression = NONE

    @property
    def is_sure(self) -> bool:
        """Whether nothing behind its program can leave the call unanswered."""
        return self.seen is None and not self.after


def plan_of(tree: Tree, segment: Segment, joint: bool, above: Sequence[Plan], leaves: Sequence[Any]) -> Plan:
    """The plan of a segment of a tree (or of its joint program), which `leaves` are the first to need.

    above: the plans of the segments on the way. Raises Unplanned.
    """
    known: Plan | None = segment.answers.plans.get(joint)
    if known is not None:
        return known
    made = segment.answers.plans[joint] = Planner(tree, segment, joint, above, leaves).plan()
    return made


class Planner:
    def __init__(
        self, tree: Tree, segment: Segment, joint: bool, above: Sequence[Plan], leaves: Sequence[Any]
    ) -> None:
        self.tree, self.segment, self.leaves = tree, segment, leaves
        self.joint = segment.joint if joint else None
        code = self.joint or segment.code
        assert code is not None
        self.code: Code = code
        last = above[-1] if above else None
        self.found: dict[Any, str] = dict(last.found) if last else {}
        self.kept: set[int] = set(last.kept) if last else set()
        self.numbers = NumberSteps(dict(last.numbers) if last else {})
        self.name = f"run{len(above)}"
        self.before: list[Step] = []
        self.gradients: dict[Any, str] = {}  # the variables of `.grad`s, by the keys of hosts

    def plan(self) -> Plan:
        path, segment = self.segment.path, self.segment
        self._same_as_recorded(path)
        self._outside(path)
        # What a later backward reads must not change meanwhile.
        places = {id(h): kept_name(p).name for h, p in segment.hosts}
        numbers, asks = self.numbers.of(segment.givers, places, self.tree.derived)
        self.before += numbers
        if path is not None:
            computed = parts(o.item for o in path.capture.outputs if o.kind == "computed")
            self.before += self.numbers.find(*(symbol for symbol in computed if not symbol.late))
        self.kept.update(p for _, p in segment.hosts)
        self.before += [ask for ask in asks if not ask.changes_something]
        written = self._may_write(path)
        # What draws random numbers comes last.
        self.before += [ask for ask in asks if ask.changes_something]
        if segment.asked is not None and self.joint is None:
            first = segment.asked
            self.before.append(Run("asked", first.program, tuple(self._inputs(first))))
            self.before += [Unless(Call(np.ndarray.item, (Made("asked", *spot),))) for spot in first.checks]
        begin: tuple[Step, ...] = ()
        commit = segment.commit
        if commit is not None and commit.begins and self.joint is None:
            begin = (self._begin(written),)
        self._look_before(segment.calls)
        run = Run(self.name, self.code.program, tuple(self._inputs(self.code)), begin)
        after: list[Step] = [Unless(Call(np.ndarray.item, (self.made(spot),))) for spot in self.code.checks]
        if self.joint is None:
            after += [Assign(kept_name(p).name, self.made(spot)) for p, spot in self.code.keeps]
            self.kept.update(p for p, _ in self.code.keeps)
        plan = Plan(self.before, run, after, self.found, self.kept, self.numbers.names)
        if path is None:
            assert self.code.guard is not None
            plan.seen = Call(np.ndarray.item, (self.made(self.code.guard),))
            return plan
        plan.written = written
        ending = Ending(self, path)
        plan.finish, plan.results = ending.steps, [*ending.tensors.values()]
        plan.result, plan.late = ending.result(), ending.late
        attributes, after = ending.attributes()
        asked = dict.fromkeys(h.source for h in path.hosts if isinstance(h, Asks) and h.source is not None)
        plan.commit = [Do(Call(source.answered)) for source in asked]
        plan.commit += [*self._commit(path, written), *attributes]
        if path.derivative.wanted and path.kept_writes:
            plan.commit.append(Do(Call(CompiledNode.note_written, (NODE,))))
        plan.last = [Do(Call(count, tuple(map(Constant, c)))) for c in path.capture.left.counts]
        plan.last += [Do(Call(call_again, tuple(map(Constant, hit)))) for hit in path.capture.left.hits]
        if path.capture.left.after:
            assert segment.commit is not None
            plan.last.append(Do(Call(segment.commit.call_after)))
        plan.late += after
        return plan

    def made(self, spot: Spot) -> Made:
        return Made(self.name, *spot)

    # What is found, and what must be true of it.

    def _same_as_recorded(self, path: Path | None) -> None:
        """Tensors that were one are one still, arguments without a `.grad` have none, and backwards end where
        they did.
        """
        if path is None:
            return
        for number, spot in path.capture.same:
            self.before += [Unless(same(attribute(leaf_name(number), "array"), self._array_at(spot)), SPLIT)]
        for number in path.capture.bare:
            self.before += [Unless(same(attribute(leaf_name(number), "gradient"), NONE), HAS_GRADIENT)]
        derived = [p for p in path.capture.derived if isinstance(p, int) or p() is not None]
        if derived:  # those that are gone, which the run had made for itself, do not come back
            leaves = [leaf_name(p) if isinstance(p, int) else Call(p) for p in derived]
            self.before += [Unless(Call(operator.not_, (Call(any_was_made, tuple(leaves)),)), WAS_MADE)]
            without = Call(operator.not_, (Call(any_has_hooks, tuple(leaves)),))
            # Most programs never put a hook on any leaf.
            none = Call(operator.not_, (item(Constant(leaf_hooks), 0),))
            self.before += [Unless(Either(none, without), HAS_HOOKS)]

    def _look_before(self, calls: Sequence[Cut]) -> None:
        """Look at what a call of what nobody knows might change."""
        for call in calls:
            tensors = [leaf_name(i) for i, leaf in enumerate(self.leaves) if isinstance(leaf, Tensor)]
            for reference in call.outside:
                if reference not in self.found:
                    self._find(reference)
            names = Row((*tensors, *map(Name, self.found.values())))
            fails = Constant(Guards(call.reads).first_failure)
            self.before.append(Unless(Call(call.look, (fails, names)), ANOTHER_WORLD))

    def _array_at(self, spot: Any) -> Expression:
        if isinstance(spot, int):
            return attribute(leaf_name(spot), "array")
        return Call(_array_of, (Constant(spot),))

    def _outside(self, path: Path | None) -> None:
        """Variables for the tensors from outside that are read here first, which must be what they were."""
        read = [c for kind, c in self.code.inputs if kind == "captured"]
        commit = self.segment.commit
        if path is not None:
            read += path.outside()
        new = {c.reference: c for c in read if c.reference not in self.found}
        for reference in new:
            self._find(reference)
        alike = [c for c in new.values() if _is_as_it_was(c)]
        if alike:
            tensors = [c.reference() for c in alike]
            match = Match(tensors, alike=True)
            names = tuple(Name(self.found[c.reference]) for c in alike)
            self.before.append(Unless(Call(match.matches, names)))
        others = [c for c in new.values() if c not in alike]
        self.before += [Unless(other_than(Call(c.array), NONE)) for c in others]
        if path is not None and commit is not None:
            left = path.capture.left
            for spot, _ in (*left.gradients, *left.replaced, *left.flags):
                if not isinstance(spot, int) and spot not in self.found:
                    self._find(spot)

    def _find(self, reference: Any) -> None:
        name = self.found[reference] = f"outside{len(self.found)}"
        self.before += [Assign(name, Call(reference)), Unless(other_than(Name(name), NONE))]

    def tensor(self, spot: Any) -> Name:
        """The variable of a tensor: a leaf of the call, one from outside, or the `.grad` of either."""
        if isinstance(spot, int):
            return leaf_name(spot)
        if isinstance(spot, GradientOf):
            return Name(self.gradients[spot.key()])
        return Name(self.found[spot])

    def _may_write(self, path: Path | None) -> list[Expression]:
        """The tensors that are written, which must be writeable and lie apart from all that is read."""
        commit = self.segment.commit
        if path is None or commit is None or not commit.targets:
            return []
        lent = [host for host in path.hosts if isinstance(host, GradientOf)]
        gradients = []
        for host in lent:
            tensor = at(host.place, self.leaves)
            if host.array(self.leaves) is None or tensor is None:
                raise Unplanned(host.missed())
            name = self.gradients[host.key()] = f"gradient{len(self.gradients)}"
            if not isinstance(host.place, int) and host.place not in self.found:
                self._find(host.place)
            self.before.append(Assign(name, attribute(self.tensor(host.place), "gradient")))
            gradients.append((Name(name), tensor.gradient))
        if commit.tensors(self.leaves) is None:
            raise Unplanned(OVERLAPS)
        staying = {c.reference: c.reference() for c in path.captured.values()}
        others = [(leaf_name(i), self.leaves[i]) for i in path.argument_leaves.values()]
        others += [(name, tensor) for name, tensor in gradients if tensor is not None]
        others += [(name, wrap(array)) for name, array in self._arrays(commit.arrays)]
        written = {id(t) for t in commit.tensors(self.leaves) or ()}
        tensors = [tensor for tensor in staying.values() if tensor is not None]
        apart = Apart(tensors, [tensor for _, tensor in others], written)
        names = [Name(self.found[reference]) for reference in staying]
        condition = Either(
            Call(apart.holds, (*names, *(name for name, _ in others))),
            Call(_lies_apart(commit, apart), (Row(tuple(names)), LEAVES)),
        )
        self.before.append(Unless(condition, OVERLAPS))
        return [self.tensor(target) for target in commit.targets]

    def _arrays(self, places: Iterable[Given]) -> Iterator[tuple[Name, np.ndarray]]:
        """The variables of NumPy's arrays, those from outside being of the kind that they are now."""
        for number, given in enumerate(places):
            array = given.find(self.leaves)
            if isinstance(given.place, int):
                yield leaf_name(given.place), array
                continue
            name = Name(f"array_read{number}")
            kind = Call(operator.eq, (Call(array_key, (name,)), Constant(array_key(array))))
            self.before += [
                Attempt(name.name, Call(given.place.find), OVERLAPS),
                Unless(kind, OVERLAPS, True),
            ]
            yield name, array

    # What is run.

    def _inputs(self, code: Code) -> Iterator[Expression]:
        for kind, reference in code.inputs:
            if kind == "argument":
                yield attribute(leaf_name(reference), "array")
            elif kind == "constant":
                yield Constant(reference)
            elif kind == "kept":
                assert reference in self.kept, "a value is read that no segment kept"
                yield kept_name(reference)
            else:
                assert kind == "captured"
                yield attribute(Name(self.found[reference.reference]), "array")

    # What is left.

    def _begin(self, written: Sequence[Expression]) -> Do:
        """Count the writes, which come next."""
        assert self.segment.commit is not None
        return Do(Call(self.segment.commit.begin, (Row(tuple(written)),)))

    def _commit(self, path: Path, written: Sequence[Expression]) -> Iterator[Step]:
        """Write what the program has not, and set gradients."""
        commit = self.segment.commit
        if commit is None:
            return
        finals = [self.made(spot) for spot in self.code.left]
        if written and (self.joint is not None or not commit.begins):
            yield self._begin(written)
        if commit.program is not None:
            rest = Row(tuple(finals[i] for i in commit.rest), list)
            targets = Row(tuple(attribute(written[i], "array") for i in commit.rest), list)
            yield Do(Call(commit.copy, (rest, targets)))
        made = iter(finals[len(written) :])
        for spot, value in path.capture.left.gradients:
            gradient: Expression = NONE
            if value is not None:
                final = next(made)
                gradient = Call(wrap, (Call(own, (final,)) if final.views else final,))
                if value in path.capture.left.made:
                    gradient = Call(with_writes, (gradient, Constant(path.capture.left.made[value])))
            if value is not None and spot in commit.without_gradient:
                yield Do(Call(add_first, (self.tensor(spot), gradient)))
            else:
                yield Do(Call(setattr, (self.tensor(spot), Constant("gradient"), gradient)))
        for spot, _ in path.capture.left.replaced:
            memory = Call(np.array, (next(made),))  # which no pool takes back
            yield Do(Call(replace_memory, (self.tensor(spot), memory)))
        for spot, needs in path.capture.left.flags:
            yield Do(Call(setattr, (self.tensor(spot), Constant("needs_grad"), Constant(needs))))


def _array_of(reference: Any) -> np.ndarray | None:
    tensor = reference()
    return None if tensor is None else tensor.array


def is_plain(tensor: Tensor) -> bool:
    """Whether the tensor is one that native code can look into: its slots are its own, its writes counted."""
    own = all(getattr(type(tensor), slot) is getattr(Tensor, slot) for slot in _SLOTS)
    return own and type(tensor.version) is not Untracked


def _is_as_it_was(captured: Captured) -> bool:
    """Whether a tensor from outside is plain, and what it was."""
    tensor = captured.reference()
    return tensor is not None and captured.array() is not None and is_plain(tensor)


def _lies_apart(commit: Any, native: Apart) -> Any:
    """What looks closely whether all is apart, where something lies elsewhere than before."""

    def lies_apart(staying: Sequence[Tensor], leaves: Sequence[Any]) -> bool:
        found = commit.tensors(leaves) is not None
        if found:
            native.seen(staying)
        return found

    return lies_apart
