"""The autograd node of a compiled call: its backward is one compiled program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fusegrad.compiler.paths.replay import gather, gradients_at, refill
from fusegrad.compiler.paths.segments import MISSED, Run, Segment
from fusegrad.compiler.runtime.allocator import copied_as_it_lies
from fusegrad.eager.autograd import autograd, views
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor, mark_inference
from fusegrad.tracer.ir import passes
from fusegrad.tracer.ir.evaluation import evaluate_graph
from fusegrad.tracer.ir.graph import GUARD, Graph
from fusegrad.tracer.observe.pytree import Structure

if TYPE_CHECKING:
    from fusegrad.compiler.fastpath.native_accumulation import Adding
    from fusegrad.compiler.paths.path import Path


MODIFIED = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: {name} "
    "of a compiled function reads it again: {where}. Use the out-of-place form, or clone() before the write."
)


# What backward does with memory from outside: eager's keeps it too; only the compiled one reads it
# again; none does (but a backward through eager's ops runs the forward again).
SAVED, AGAIN, NOT = "saved", "again", "not"
RESULT = "a result"
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
    """Of the tensors from outside that a call read, then of the results that backward reads.

    filled: whether the forward kept what backward reads.
    """
    facts: tuple[Fact, ...] | None = leaf.facts.get(filled)
    if facts is None:
        facts = leaf.facts[filled] = tuple(_facts(leaf, filled))
    return facts


def _facts(leaf: Segment, filled: bool) -> Iterator[Fact]:
    path = leaf.path
    assert path is not None
    for value in (*path.argument_leaves, *path.captured):
        yield Fact("an input", _how(leaf, filled, value), value)
    for number, value in path.own_results.items():
        if number in path.saved or value in path.kept_by_eager:
            saved = number not in path.saved or path.kept_by_eager.get(value)
            yield Fact(RESULT, SAVED if saved else AGAIN, value)


def _how(leaf: Segment, filled: bool, value: Any) -> str:
    """What backward needs of an input; it may have to repeat the forward if nothing was kept."""
    assert leaf.path is not None
    if leaf.path.kept_by_eager.get(value):
        return SAVED
    program = leaf.backward
    read = not filled or (program is not None and value in program.graph.inputs)
    return AGAIN if read else NOT


class FreedNode(autograd.Node):
    """Stands for a graph that a backward inside the compiled call has freed already."""

    __slots__ = ("text",)

    def __init__(self, text: str, output: Tensor) -> None:
        self.begin()
        self.text = text
        self.edges, self.versions, self.inputs = [], [], None
        self.types = self.output_types = [(output.array.shape, output.array.dtype)]

    def name(self) -> str:
        return self.text

    def apply(self, gradients: list[Tensor | None], edges: Any = None) -> list[Tensor | None]:
        raise failure(RuntimeError, autograd.FREED.format(name=self.text))


class CompiledNode(autograd.Node):
    """Stands for a whole compiled call on the autograd graph.

    Its edges go to the inputs that need gradients. A plain backward runs the compiled program; one
    with `create_graph` goes through the eager ops of the recorded graph, which derive further.

    facts: of the inputs and the kept results; counters, numbers: what counts the writes into each, and where
    it stood. Only the counters are held: the node must not hold its own outputs. derived, adding: what
    answers most backwards of a node that a shortcut made (see `backward_lines` and `adding`).
    """

    __slots__ = (
        "adding",
        "captured",
        "counters",
        "derived",
        "environment",
        "facts",
        "filled",
        "freed",
        "freeing",
        "leaf",
        "leaves",
        "names",
        "numbers",
        "preserved",
        "ready",
    )

    fresh = True
    derived: Callable[[CompiledNode, list[Tensor | None]], Any] | None
    adding: Adding | None

    def __init__(self, run: Run, leaves: Sequence[Any]) -> None:
        path = run.leaf.path
        assert path is not None
        self.derived = self.adding = None
        self.leaf, self.leaves, self.environment = run.leaf, leaves, run.environment
        # The gradients for a backward that starts with 1, if the call computed them already.
        self.ready = run.gradients
        self.filled = run.gradients is None
        self.begin()
        self.names, self.output_types = path.grad_names, path.output_types
        # The path holds captured tensors weakly; what backward needs must live until then.
        self.captured: Sequence[Any] = [c.reference() for c in path.captured.values()]
        wanted = self._wanted(path)
        self.edges = [
            (i, t if t.grad_fn is None else t.grad_fn, t.output_index) for i, t in enumerate(wanted)
        ]
        # Of the eager nodes that this one stands for, those that a backward has freed, or is freeing.
        self.freed = self.freeing = NOTHING_FREED
        self.preserved: dict[int, np.ndarray] = NOTHING_PRESERVED
        facts = facts_of(self.leaf, self.filled)
        self.facts: Sequence[Fact] = facts
        self.counters = [leaves[i].version for i in path.argument_leaves.values()]
        if self.captured:
            self.counters += [tensor.version for tensor in self.captured]
        self.numbers = [counter[0] for counter in self.counters]
        for fact, counter in zip(facts, self.counters, strict=False):
            if fact.how == AGAIN:
                views.ask_before_write(counter, self)
        self.inputs, self.versions, self.types = (), [], wanted

    def _wanted(self, path: Path) -> list[Any]:
        """The inputs that get gradients."""
        leaves = self.leaves
        return [leaves[s] if isinstance(s, int) else s.reference() for s in path.wanted_from]

    def keep(self, tensor: Tensor) -> None:
        """Note the result that the next of `facts` is about, as it is now."""
        version = tensor.version
        if self.facts[len(self.counters)].how == AGAIN:
            views.ask_before_write(version, self)
        self.counters.append(version)
        self.numbers.append(version[0])

    def keep_written(self, index: int, output: Tensor, target: Tensor) -> None:
        """The call's result has been written into `target`, whose next write eager would notice."""
        for place, counter in enumerate(self.counters):
            if counter is output.version:
                self.counters[place], self.numbers[place] = target.version, target.version[0]

    def before_write(self, version: list[Any]) -> None:
        """Somebody is going to write memory that only the compiled backward reads: take copies.

        Eager kept something else of the call, so for its backward the write is no error.
        """
        if self.inputs is None:
            return
        if not self.filled:
            refill(self.leaf, self.leaves, self.environment)
            self.filled = True
        self.leaves = list(self.leaves)
        for kind, reference in self.leaf.backward_inputs:
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
            elif kind == "kept" and any(c is version and f.what == RESULT for f, c in self._noted()):
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
        if edges is None and self.derived is not None:
            answer: Any = self.derived(self, gradients)
            if answer is not MISSED:
                return answer
        found = self._reached(gradients)
        return found if edges is None else [found[i] for i, _, _ in edges]

    def _reached(self, gradients: list[Tensor | None]) -> list[Tensor | None]:
        path = self.leaf.path
        assert path is not None
        nodes, kept = path.kept_behind, path.values_behind
        partly = len(gradients) > 1 and any(g is None for g in gradients)
        if partly:
            nodes = tuple(k for k, g in zip(nodes, gradients, strict=True) if g is not None)
            kept = tuple(v for v, g in zip(kept, gradients, strict=True) if g is not None)
        self.freeing = nodes[0] if len(nodes) == 1 else frozenset().union(*nodes)
        if self.inputs is None or self.freeing & self.freed:
            raise failure(RuntimeError, autograd.FREED.format(name=self.name()))
        needed = kept[0] if len(kept) == 1 else frozenset().union(*kept)
        through_eager = state.grad_enabled or state.interpreter is not None
        self._check_unwritten(lambda r: r.value in needed or (r.how == AGAIN and not through_eager))
        found = self._apply_eagerly(gradients) if through_eager else self._gradients(gradients)
        if not partly:
            return [*found]
        given = {seed for seed, gradient in zip(path.seeds, gradients, strict=True) if gradient is not None}
        if not all(np.isfinite(g.array).all() for g in found):
            # A result without a gradient counts as zero times its derivative, which may be infinite.
            found = self._apply_eagerly(gradients)
        return [g if given & seeds else None for g, seeds in zip(found, path.reached_from, strict=True)]

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

    def _gradients(self, gradients: list[Tensor | None]) -> list[Tensor]:
        """The gradients by the compiled program; results without one count as zeros."""
        seeds = autograd.filled(gradients, self.output_types)
        leaf = self.leaf
        if leaf.path is not None and leaf.path.derives_alone and seeds[0].array.item() == 1:
            leaf.usage.derived += 1
            if self.ready is not None:
                ready, self.ready = self.ready, None
                return [wrap(array) for array in ready]
        if not self.filled:
            refill(leaf, self.leaves, self.environment)
            self.filled = True
        given = [in_rows(g.array) for g in seeds]
        arrays = gather(leaf.backward_inputs, self.leaves, self.environment, given, self.preserved)
        if arrays is None:
            return self._apply_eagerly(gradients)
        assert leaf.backward is not None
        made = leaf.backward.run(arrays)
        return [wrap(array) for array in gradients_at(made, leaf.gradient_places, arrays)]

    def _apply_eagerly(self, gradients: list[Tensor | None]) -> list[Tensor]:
        """The gradients through eager's ops, so that they can be derived again.

        Only what the results with a gradient need is computed again; of that, what the values depend on
        that eager's nodes keep must be as it was.
        """
        path = self.leaf.path
        assert path is not None
        results = [o.value for o in path.capture.outputs if o.value is not None]
        seeds = {results[i]: g for i, g in zip(path.seeded, gradients, strict=True) if g is not None}
        whole = path.capture.graph
        computing = tuple(e for e in whole.equations if e.op is not GUARD)
        graph = passes.dead_code(Graph(whole.inputs, computing, tuple(seeds)))
        behind = (v for v, g in zip(path.values_behind, gradients, strict=True) if g is not None)
        read = values_behind(graph, frozenset().union(*behind))
        self._check_unwritten(lambda r: r.what != RESULT and r.value in read)
        create_graph = state.grad_enabled
        with autograd_on():
            tensors = input_tensors(path, self.leaves)
            for segment in (*self.leaf.above, self.leaf):
                tensors.update((h.value, wrap(self.environment[place])) for h, place in segment.hosts)
            # The gradients end at the call's inputs, also where one of them was made of another.
            wanted = [tensor.view(tensor.shape) for tensor in self._wanted(path)]
            tensors.update(zip(path.wanted, wanted, strict=True))
            roots = evaluate_graph(graph, [tensors[v] for v in graph.inputs], path.capture.tracked)
            found = autograd.grad(
                roots, wanted, list(seeds.values()), create_graph=create_graph, allow_unused=True
            )
        return [wrap(np.zeros_like(t.array)) if g is None else g for g, t in zip(found, wanted, strict=True)]

    def release(self) -> None:
        """Free what the last backward went through: results apart from each other are derived apart."""
        freed = self.freed = self.freed | self.freeing if self.freed else self.freeing
        for behind in self.leaf.path.kept_behind:  # type: ignore[union-attr]
            if not behind or not (behind is freed or behind <= freed):
                return
        self.inputs = self.ready = None
        self.captured, self.leaves, self.environment = (), (), []


def values_behind(graph: Graph, kept: frozenset[Any]) -> set[Any]:
    """The values of `graph` that those in `kept` are computed from, and these."""
    found = set(kept)
    for equation in reversed(graph.equations):
        if not found.isdisjoint(equation.outputs):
            found.update(equation.values())
    return found


class autograd_on:
    """Gradients recorded, whatever the mode outside."""

    def __enter__(self) -> None:
        self._before = state.grad_enabled
        state.grad_enabled = True

    def __exit__(self, *exception: object) -> None:
        state.grad_enabled = self._before


def input_tensors(path: Path, leaves: Sequence[Any]) -> dict[Any, Any]:
    """The tensor behind each input of the path's graph in this call."""
    tensors: dict[Any, Any] = {v: leaves[i] for v, i in path.argument_leaves.items()}
    tensors.update((v, c.reference()) for v, c in path.captured.items())
    tensors.update((v, wrap(a)) for v, a in path.constants.items())
    return tensors


def in_rows(array: np.ndarray) -> np.ndarray:
    """A gradient in row-major order, as the compiled backward takes it."""
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def finish(run: Any, leaves: list[Any]) -> Any:
    """The function's result from what a run of the tree gave."""
    path, results = run.leaf.path, run.results
    structure: Structure = path.capture.structure
    if path.plain and not state.inference:
        return structure.build(map(wrap, results))
    node = CompiledNode(run, leaves) if path.wanted else None
    tensors: dict[Any, Tensor] = {}
    items = []
    number = 0
    seeded = path.seeded
    for output in path.capture.outputs:
        if output.kind == "argument":
            items.append(leaves[output.item])
        elif output.kind == "object":
            items.append(output.item)
        elif output.kind == "captured":
            items.append(output.item())
        else:
            if output.value not in tensors:
                tensor = wrap(results[number])
                if output.freed:
                    autograd.place(tensor, FreedNode(output.grad_name, tensor), 0)
                if node is not None:
                    if number in seeded:
                        autograd.place(tensor, node, seeded.index(number))
                    if output.value in path.kept_by_eager or number in path.saved:
                        node.keep(tensor)
                tensors[output.value] = tensor
            items.append(tensors[output.value])
            number += 1
    if state.inference:
        mark_inference(list(tensors.values()))
    return structure.build(iter(items))
