"""The autograd node of a compiled call: its backward is one compiled program."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fusegrad.compiler.call_plan.steps import Frame, execute
from fusegrad.compiler.paths.backward_plan import derivation, repetition
from fusegrad.compiler.paths.eager_forward import (
    EagerForward,
    computing,
    input_tensors,
    undisturbed,
    values_behind,
    where_kept,
    writes_what_is_read,
)
from fusegrad.compiler.paths.kept_by_eager import united
from fusegrad.compiler.paths.segments import MISSED, Segment
from fusegrad.compiler.runtime.allocator import copied_as_it_lies
from fusegrad.eager.autograd import anomaly, autograd
from fusegrad.eager.autograd.node import share
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.shared import watching
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor

if TYPE_CHECKING:
    from fusegrad.compiler.paths.path import Path


MODIFIED = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: {name} "
    "of a compiled function reads it again: {where}. Use the out-of-place form, or clone() before the write."
)


# What backward does with memory from outside: eager's keeps it too; only the compiled one reads it
# again; none does (but a backward through eager's ops runs the forward again).
SAVED, AGAIN, NOT = "saved", "again", "not"
RESULT, WRITTEN = "a result", "what it wrote"
_NOTHING = type(None)
NOTHING_FREED: frozenset[int] = frozenset()
NOTHING_PRESERVED: dict[int, np.ndarray] = {}


class Fact(NamedTuple):
    """A tensor that a call read or gave, and what backward needs of its memory; `value` stands for it in the
    path.
    """

    what: str
    how: str
    value: Any


def facts_of(leaf: Segment, filled: bool) -> tuple[Fact, ...]:
    """Of the tensors from outside that a call read, of what it wrote into them, then of the results that
    backward reads.

    filled: whether the forward kept what backward reads.
    """
    facts: tuple[Fact, ...] | None = leaf.answers.facts.get(filled)
    if facts is None:
        facts = leaf.answers.facts[filled] = tuple(_facts(leaf, filled))
    return facts


def _facts(leaf: Segment, filled: bool) -> Iterator[Fact]:
    path = leaf.path
    assert path is not None
    if filled:
        read = set(leaf.backward.program.graph.inputs) if leaf.backward is not None else set()
    else:
        # The forward is repeated for what gradients need, not for what it writes: batch norm's statistics.
        assert leaf.joint is not None
        read = leaf.joint.program.inputs_behind(leaf.joint.held)
    kept, again = path.derivative.kept.values, path.derivative.kept.again
    read |= again
    for value in (*path.argument_leaves, *path.captured):
        yield Fact("an input", SAVED if kept.get(value) else AGAIN if value in read else NOT, value)
    for value in path.kept_writes:
        yield Fact(WRITTEN, SAVED if kept.get(value) else AGAIN if value in again else NOT, value)
    for number, value in path.own_results.items():
        if number in path.derivative.saved or value in kept or value in again:
            saved = number not in path.derivative.saved and value not in again
            yield Fact(RESULT, SAVED if saved or kept.get(value) else AGAIN, value)


class FreedNode(autograd.Node):
    """Stands for a graph that a backward inside the compiled call has freed already."""

    __slots__ = ("text",)

    def __init__(self, text: str, output: Tensor) -> None:
        self.begin()
        self.text = text
        self.versions, self.inputs = [], None
        self.types = self.output_types = [(output.array.shape, output.array.dtype)]

    def name(self) -> str:
        return self.text

    def apply(self, gradients: list[Tensor | None], edges: Any = None) -> list[Tensor | None]:
        raise failure(RuntimeError, autograd.FREED.format(name=self.text))


class CompiledNode(autograd.Node):
    """Stands for a whole compiled call on the autograd graph.

    Its edges go to the inputs that need gradients. A plain backward runs the compiled program; one
    with `create_graph` goes through the eager ops of the recorded graph, which derive further.

    It is made by the steps of a call plan (`plans.py`), of a template with all that calls of a leaf have in
    common.

    facts: of the inputs and the kept results; counters, numbers: what counts the writes into each, and where
    it stood. Only the counters are held: the node must not hold its own outputs. filled: whether the forward
    kept what backward reads; ready: the gradients for a backward that starts with 1, if they came along.
    captured: tensors from outside, which the path holds weakly: what backward needs must live until then.
    freed, freeing: of the eager nodes that this one stands for, those that a backward has freed, or is
    freeing. preserved: what captured tensors (by id of their `Captured`) held before they were written.
    results: those that have counters, weakly. forward: the call by eager's ops, or why that cannot be, where
    memory was written that no counter tells of.
    """

    __slots__ = (
        "captured",
        "counters",
        "environment",
        "facts",
        "filled",
        "forward",
        "freed",
        "freeing",
        "leaf",
        "leaves",
        "names",
        "numbers",
        "preserved",
        "ready",
        "results",
    )

    fresh = True
    one_op = False
    captured: Sequence[Tensor]
    counters: list[list[Any]]
    environment: list[Any]
    facts: Sequence[Fact]
    filled: bool
    forward: EagerForward | RuntimeError | None
    freed: frozenset[int]
    freeing: frozenset[int]
    leaf: Segment
    leaves: Sequence[Any]
    names: Sequence[str]
    numbers: list[int]
    preserved: dict[int, np.ndarray]
    ready: list[Tensor] | None
    results: Sequence[weakref.ref[Tensor]]

    def _wanted(self, path: Path) -> list[Any]:
        """The inputs that get gradients."""
        leaves = self.leaves
        return [leaves[s] if isinstance(s, int) else s.reference() for s in path.derivative.wanted_from]

    def keep_written(self, index: int, output: Tensor, target: Tensor) -> None:
        """The call's result has been written into `target`, whose next write eager would notice, and whose
        memory it keeps.
        """
        first = len(self.counters) - len(self.results)
        for place, counter in enumerate(self.counters):
            if counter is output.version:
                self.counters[place], self.numbers[place] = target.version, target.version[0]
                if place >= first:
                    others = self.results[: place - first], self.results[place - first + 1 :]
                    self.results = (*others[0], weakref.ref(target), *others[1])
        watching.add(self)

    def before_write(self, version: list[Any]) -> None:
        """Somebody is going to write memory that only the compiled backward reads: take copies.

        Eager kept something else of the call, so for its backward the write is no error.
        """
        if self.inputs is None or self.forward is not None:
            return
        again = self.leaf.path.derivative.kept.again  # type: ignore[union-attr]
        if any(c is version and f.value in again for f, c in self._noted()) or not self.fill():
            self._leave_to_eager()
            return
        self.leaves = list(self.leaves)
        of_result = any(c is version and f.what == RESULT for f, c in self._noted())
        for kind, reference in self.leaf.backward.inputs:  # type: ignore[union-attr]
            if kind == "argument" and self.leaves[reference].version is version:
                tensor = self.leaves[reference]
                self.leaves[reference] = copied = wrap(copied_as_it_lies(tensor.array))
                copied.needs_grad, copied.grad_fn = tensor.needs_grad, tensor.grad_fn
                copied.output_index = tensor.output_index
            elif kind == "captured":
                tensor = reference.reference()
                if tensor is not None and tensor.version is version:
                    copy = copied_as_it_lies(tensor.array)
                    self.preserved = {**self.preserved, id(reference): copy}
            elif kind == "kept" and of_result:
                self.environment[reference] = copied_as_it_lies(self.environment[reference])
        noted = [
            fact._replace(how=NOT) if counter is version and fact.how == AGAIN else fact
            for fact, counter in self._noted()
        ]
        self.facts = [*noted, *self.facts[len(noted) :]]

    def _noted(self) -> Iterator[tuple[Fact, list[Any]]]:
        """What there is a counter for: another thread may write an input before the results are noted."""
        return zip(self.facts, self.counters, strict=False)

    def name(self, index: int = 0) -> str:
        """The name of the eager node that made this output, as PyTorch prints it."""
        return self.names[index]

    def apply(self, gradients: list[Tensor | None], edges: Any = None) -> list[Tensor | None]:
        """The gradients of the inputs; None for one that only unused outputs depend on."""
        in_order = edges is None and not state.grad_enabled and writes_what_is_read(self)
        if edges is None and not in_order and _NOTHING not in map(type, gradients) and self._is_plain():
            self.freeing = self.leaf.path.derivative.kept.all_nodes  # type: ignore[union-attr]
            return self._gradients(gradients)  # type: ignore[arg-type, return-value]
        found = self._reached(gradients, edges, in_order)
        return found if edges is None else [found[i] for i, _, _ in edges]

    def take_ready(self) -> list[Tensor] | None:
        """The gradients that came along, for the backward from 1 that nothing speaks against."""
        ready = self.ready
        if ready is None or not self._is_plain() or writes_what_is_read(self):
            return None
        self.ready, self.freeing = None, self.leaf.path.derivative.kept.all_nodes  # type: ignore[union-attr]
        self.leaf.answers.usage.note_derived()
        return ready

    def _is_plain(self) -> bool:
        """Whether this is the first backward, by the compiled program, and nothing was written since."""
        return (
            not state.grad_enabled
            and state.interpreter is None
            and not anomaly.setting.enabled
            and self.inputs is not None
            and not self.freed
            and self.forward is None
            and [counter[0] for counter in self.counters] == self.numbers
        )

    def _reached(self, gradients: list[Tensor | None], edges: Any, in_order: bool) -> list[Tensor | None]:
        """in_order: whether leaves get their gradients when eager's nodes would give them."""
        path = self.leaf.path
        assert path is not None
        nodes, kept = path.derivative.kept.nodes, path.derivative.kept.behind
        partly = len(gradients) > 1 and any(g is None for g in gradients)
        if partly:
            nodes = tuple(k for k, g in zip(nodes, gradients, strict=True) if g is not None)
            kept = tuple(v for v, g in zip(kept, gradients, strict=True) if g is not None)
        self.freeing = united(nodes)
        if edges is not None:  # as eager's backward goes through no nodes but those that lead to these
            wanted = path.derivative.wanted
            toward = path.derivative.kept.toward([wanted[i] for i, _, _ in edges])
            self.freeing = _Partly(self.freeing & toward)
        if self.inputs is None or self.freeing & self.freed:
            raise failure(RuntimeError, autograd.FREED.format(name=self.name()))
        needed = united(kept)
        # In anomaly mode an error names the op.
        through_eager = (
            self.forward is not None
            or state.grad_enabled
            or state.interpreter is not None
            or anomaly.setting.enabled
            or in_order
        )
        self._check_unwritten(lambda r: r.value in needed or (r.how == AGAIN and not through_eager))
        if through_eager:
            found = self._apply_eagerly(gradients, in_order)
        else:
            # Results without a gradient count as zeros.
            found = self._gradients(autograd.filled(gradients, self.output_types))
        if not partly or in_order:
            return [*found]
        given = {
            seed
            for seed, gradient in zip(path.derivative.seeds, gradients, strict=True)
            if gradient is not None
        }
        if not all(np.isfinite(g.array).all() for g in found):
            # A result without a gradient counts as zero times its derivative, which may be infinite.
            found = self._apply_eagerly(gradients)
        return [
            g if given & seeds else None for g, seeds in zip(found, path.derivative.reached_from, strict=True)
        ]

    def _check_unwritten(self, needed: Callable[[Fact], bool]) -> None:
        """Nobody may have written memory that this backward needs."""
        if [counter[0] for counter in self.counters] == self.numbers:
            return
        for (fact, counter), then in zip(self._noted(), self.numbers, strict=False):
            now = counter[0]
            if now != then and needed(fact):
                shape = list(fact.value.shape)
                where = f"{fact.what} of shape {shape}, at version {then} then and {now} now"
                raise failure(RuntimeError, MODIFIED.format(name=self.name(), where=where))

    def _gradients(self, seeds: list[Tensor]) -> list[Tensor]:
        """The gradients of the inputs from those of all results, by the compiled program."""
        leaf = self.leaf
        if leaf.path is not None and leaf.path.derivative.alone and seeds[0].array.item() == 1:
            leaf.answers.usage.note_derived()
            ready, self.ready = self.ready, None
            if ready is not None:
                return ready
        if not self.fill():
            return self._apply_eagerly(seeds)
        found = leaf.answers.derive(self, seeds) if leaf.answers.derive is not None else self._derive(seeds)
        return self._apply_eagerly(seeds) if found is MISSED else found

    def _derive(self, seeds: Sequence[Tensor]) -> Any:
        """The steps of the backward's plan; MISSED where a captured tensor is not what it was."""
        plan = derivation(self.leaf)
        frame = Frame({"node": self, **{f"seed{number}": seed for number, seed in enumerate(seeds)}})
        left = execute(plan.steps, frame)
        return MISSED if left is not None else plan.result.evaluate(frame.variables)

    def fill(self) -> bool:
        """Keep what the backward program reads, which a joint run did not; whether that could be done."""
        if self.filled:
            return True
        code = self.leaf.code
        if code is None:
            return False  # no programs but that of both
        plan, frame = repetition(self.leaf), Frame({"node": self})
        if execute(plan.steps, frame) is not None:
            return False
        kept = dict(enumerate(self.environment))
        places = [place for place, _ in code.keeps]
        kept.update(zip(places, plan.result.evaluate(frame.variables), strict=True))
        self.environment = [kept.get(place) for place in range(max(kept, default=-1) + 1)]
        self.filled = True
        return True

    def _apply_eagerly(self, gradients: Sequence[Tensor | None], in_order: bool = False) -> list[Any]:
        """The gradients through eager's ops, so that they can be derived again, or are what eager's would be
        after a write that nobody counts.
        """
        forward = self.forward
        if forward is None:
            forward = self._run_eagerly([g is not None for g in gradients], {}, False, ends=in_order)
        if isinstance(forward, RuntimeError):
            raise forward
        return forward.add(gradients) if forward.ends else forward.derive(gradients)

    def _run_eagerly(
        self, used: Sequence[bool], given: Mapping[Any, np.ndarray], by_rounds: bool, ends: bool = False
    ) -> EagerForward:
        """The forward by eager's ops, of the results that are `used`.

        Only what they need is computed again; of that, what the values depend on that eager's nodes keep must
        be as it was. given: the memory of results that these nodes keep.
        """
        path = self.leaf.path
        assert path is not None
        graph = computing(path, used)
        tensors = input_tensors(path, self.leaves)
        tensors.update((final, as_input(tensors[target])) for final, target in path.written.items())
        behind = (v for v, is_used in zip(path.derivative.kept.behind, used, strict=True) if is_used)
        read = values_behind(graph, frozenset().union(*behind))
        self._check_unwritten(lambda r: r.what != RESULT and r.value in read)
        for segment in (*self.leaf.above, self.leaf):
            tensors.update((h.value, wrap(self.environment[place])) for h, place in segment.hosts)
        others = ((v, self.leaf.kept_above[v]) for v in graph.inputs if v not in tensors)
        tensors.update((v, wrap(self.environment[place])) for v, place in others)
        return EagerForward(path, graph, used, tensors, self._wanted(path), given, by_rounds, ends)

    def note_written(self) -> None:
        """The call has written what it writes: who writes there next changes what eager's nodes keep."""
        first = len(self.captured) + len(self.leaf.path.argument_leaves)  # type: ignore[union-attr]
        last = len(self.numbers) - len(self.results)
        self.numbers[first:last] = [counter[0] for counter in self.counters[first:last]]

    # Writes that no counter of the call's tells of.

    def before_unseen_write(self, target: Tensor, counted: bool) -> None:
        """The memory of `target` is about to be written. counted: the tensor's own counter tells of it.

        Where the call has that memory under another counter, backward will be eager's own.
        """
        memory, version = target.array, target.version
        for (_, counter), tensor in zip(self._noted(), self._tensors(), strict=False):
            unseen = tensor is not None and not (counted and counter is version)
            if unseen and np.may_share_memory(tensor.array, memory):  # type: ignore[union-attr]
                self._leave_to_eager()
                return

    def memory(self) -> list[np.ndarray]:
        """Of whose writes it has to be told."""
        return [tensor.array for tensor in self._tensors() if tensor is not None]

    def before_replaced(self, tensor: Tensor, array: np.ndarray) -> None:
        """`tensor` is about to have its values in `array`: nodes that keep it would find them there."""
        found = zip(self._noted(), self._tensors(), strict=False)
        for value in [fact.value for (fact, _), t in found if t is tensor]:
            self._leave_to_eager()
            if isinstance(self.forward, EagerForward):
                self.forward.replace(tensor, value, array)

    def _tensors(self) -> list[Tensor | None]:
        """The tensors that there are counters for, as far as somebody has them still. Where an op has failed
        that waited, a tensor has lost its memory.
        """
        leaves = self.leaves  # first: a backward in another thread may be over in between
        if self.inputs is None:
            return []
        path = self.leaf.path
        assert path is not None
        arguments = [leaves[number] for number in path.argument_leaves.values()]
        read = dict(zip((*path.argument_leaves, *path.captured), (*arguments, *self.captured), strict=True))
        written = [read[target] for target in path.kept_writes.values()]
        found = [*read.values(), *written, *(reference() for reference in self.results)]
        return [t if t is not None and hasattr(t, "array") else None for t in found]

    def _leave_to_eager(self) -> None:
        """Run eager's ops now; a later backward goes through their nodes."""
        if self.forward is not None:
            return
        found = zip(self._noted(), self.numbers, self._tensors(), strict=False)
        results = [(f, t) for (f, counter), number, t in found if f.what == RESULT and counter[0] == number]
        kept = self.leaf.path.derivative.kept.values  # type: ignore[union-attr]
        memory = {f.value: t.array for f, t in results if t is not None and f.value in kept}
        given = where_kept(self.leaf.path.capture.graph, memory)  # type: ignore[union-attr]
        try:
            with undisturbed():
                self.forward = self._run_eagerly([True] * len(self.names), given, by_rounds=True)
        except RuntimeError as error:
            self.forward = error  # for whoever asks for gradients

    def release(self) -> None:
        """Free what the last backward went through: results apart from each other are derived apart."""
        freed = self.freed = self.freed | self.freeing if self.freed else self.freeing
        if type(self.freeing) is _Partly:
            return
        for behind in self.leaf.path.derivative.kept.nodes:  # type: ignore[union-attr]
            if not behind or not (behind is freed or behind <= freed):
                return
        self.inputs = self.ready = self.forward = None
        self.captured, self.leaves, self.environment = (), (), []


class _Partly(frozenset[int]):
    """What a backward to some of the inputs frees: for others, perhaps, nothing is kept."""


def hand_on(given: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Of each pair the first, a result of a call, is to be forgotten, and the second to have its place: also
    where it is an input of the next call.
    """
    places = {id(result): tensor for result, tensor in given}
    references = {place: weakref.ref(tensor) for place, tensor in places.items()}
    for node in {result.grad_fn for result, _ in given}:
        if isinstance(node, CompiledNode):
            node.results = tuple([references.get(id(reference()), reference) for reference in node.results])
            node.leaves = [places.get(id(leaf), leaf) for leaf in node.leaves]


def as_input(tensor: Tensor) -> Tensor:
    """A tensor that a call wrote, off the graph, as eager's nodes keep it: itself, if nothing derives it."""
    return share(tensor) if tensor.needs_grad else tensor


def template_of(leaf: Segment, filled: bool) -> CompiledNode:
    """A node with what is the same for all calls of a leaf."""
    node, path = CompiledNode.__new__(CompiledNode), leaf.path
    assert path is not None
    node.leaf, node.filled, node.facts = leaf, filled, facts_of(leaf, filled)
    node.ready = node.extra = node.outputs = node.forward = None
    node.names, node.output_types = path.derivative.names, path.derivative.types
    node.freed = node.freeing = NOTHING_FREED
    node.preserved = NOTHING_PRESERVED
    node.captured = node.results = ()
    node.inputs, node.versions = (), []
    return node
