"""The forward of a compiled call once more, by eager's ops, for what only a backward through them can give.

That is derivatives which can be derived again; and gradients where memory was written between forward and
backward that no counter tells of. Eager's nodes keep inputs and outputs as they lie in memory, and find there
what was written; what else they keep they computed before. So the ops run before the write, and are derived
when it is time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad.eager.autograd import autograd, hooks
from fusegrad.eager.autograd.views import owned
from fusegrad.eager.core.families import View
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.shared import is_same, owner
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor, require_grad
from fusegrad.tracer.ir import passes
from fusegrad.tracer.ir.evaluation import evaluate_graph
from fusegrad.tracer.ir.graph import GUARD, Graph, Value
from fusegrad.tracer.ir.rolled import unrolled
from fusegrad.tracer.observe.world.unknown_calls import UNKNOWN

if TYPE_CHECKING:
    from fusegrad.compiler.paths.autograd_node import CompiledNode
    from fusegrad.compiler.paths.path import Path


def computing(path: Path, used: Sequence[bool]) -> Graph:
    """What computes the results that can be derived, of them those that are `used`, from the inputs and what
    was written into these: that lies there still. So does what unknown functions gave: they are called once.
    """
    results = [o.value for o in path.capture.outputs if o.value is not None]
    roots = tuple(results[i] for i, is_used in zip(path.derivative.seeded, used, strict=True) if is_used)
    whole = path.capture.graph
    computed = {v: Value(f"{v.name}_computed", v.type) for v in path.written}
    equations = tuple(
        replace(e, outputs=tuple([computed.get(v, v) for v in e.outputs]))
        for e in whole.equations
        if e.op is not GUARD and e.op is not UNKNOWN
    )
    read = {v for e in equations for v in e.values()}
    gave = [v for e in whole.equations if e.op is UNKNOWN for v in e.outputs if v in read]
    return passes.dead_code(Graph((*whole.inputs, *path.written, *gave), equations, roots))


def where_kept(graph: Graph, results: Mapping[Value, np.ndarray]) -> dict[Value, np.ndarray]:
    """The memory of `results`, and of what those that are views show, as far as it is all of that."""
    makers = {equation.output: equation for equation in graph.equations if isinstance(equation.op, View)}
    found = dict(results)
    for value, array in results.items():
        steps, root = [], value
        while root in makers:
            steps.append(makers[root])
            root = makers[root].inputs[0]
        # In rows, as long as the views make of it what the result is.
        memory = array.transpose(np.argsort([-step for step in array.strides], kind="stable")).reshape(-1)
        if not steps or memory.size != math.prod(root.shape) or not np.may_share_memory(memory, array):
            continue
        whole = seen = memory.reshape(root.shape)
        for equation in reversed(steps):
            seen = equation.op.evaluate((wrap(seen),), dict(equation.params))
        if is_same(seen, array):
            del found[value]
            found.setdefault(root, whole)
    return found


def _standing_in(tensor: Tensor) -> Tensor:
    """A view of an input that gets its gradient, also where the input is frozen since."""
    seen = owned(tensor.view(tensor.shape))
    return seen if seen.needs_grad else _leaf_for(seen)


def _leaf_for(tensor: Tensor) -> Tensor:
    return require_grad(tensor.detach())


class EagerForward:
    """Results of a call on eager's graph.

    roots: of all results that can be derived, None where nobody asks for its gradient. made: what stands for
    results that the roots are computed of. wanted: what stands for the inputs that get gradients, which are
    `sources`.
    """

    def __init__(
        self,
        path: Path,
        graph: Graph,
        used: Sequence[bool],
        tensors: dict[Value, Any],
        sources: Sequence[Tensor],
        given: Mapping[Value, np.ndarray],
        by_rounds: bool,
        ends: bool,
    ) -> None:
        """graph: what computes the results that are `used`; tensors: its inputs. given: memory in which the
        results lie that eager keeps. by_rounds: whether loops run round by round, so that nodes keep what
        each has made, and find what is written into their inputs. ends: whether backward ends here, with
        leaves in place of the inputs.
        """
        self.sources, self.ends = sources, ends
        tracked = path.capture.tracked
        known = {v for e in graph.equations for v in e.outputs}
        results = tuple(v for v in path.own_results.values() if v in known)
        graph = replace(graph, outputs=(*graph.outputs, *results))
        if by_rounds:
            graph = unrolled(graph)
            tracked |= {v for e in graph.equations for v in e.outputs if v not in known}
        with autograd_on():
            # The gradients end at the call's inputs, also where one of them was made of another.
            self.wanted = [(_leaf_for if ends else _standing_in)(tensor) for tensor in sources]
            tensors = {**tensors, **dict(zip(path.derivative.wanted, self.wanted, strict=True))}
            inputs = [tensors[v] for v in graph.inputs]
            parts = path.capture.recomputed
            made = iter(evaluate_graph(graph, inputs, tracked, given, by_rounds, parts))
        self.roots = [next(made) if is_used else None for is_used in used]
        self.made = dict(zip(results, made, strict=True))

    def derive(self, gradients: Sequence[Tensor | None]) -> list[Tensor]:
        """The gradients of the inputs from those of the results."""
        roots, seeds = self._ends(gradients)
        create_graph = state.grad_enabled
        with autograd_on():
            found = autograd.grad(
                roots, self.wanted, seeds, retain_graph=True, create_graph=create_graph, allow_unused=True
            )
        return [
            wrap(np.zeros_like(t.array)) if g is None else g for g, t in zip(found, self.wanted, strict=True)
        ]

    def add(self, gradients: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Add to the `.grad` of inputs when eager's nodes would. The gradients of those that had none."""
        roots, seeds = self._ends(gradients)
        for stand_in, source in zip(self.wanted, self.sources, strict=True):
            stand_in.gradient = _added_to(source)
        autograd.backward(roots, seeds, retain_graph=True)
        found: list[Tensor | None] = []
        for stand_in, source in zip(self.wanted, self.sources, strict=True):
            gradient, stand_in.gradient = stand_in.gradient, None
            if _added_to(source) is not None:
                source.gradient, gradient = gradient, None
            found.append(gradient)
        return found

    def _ends(self, gradients: Sequence[Tensor | None]) -> tuple[list[Tensor], list[Tensor]]:
        """Where a backward begins, and with what."""
        pairs = zip(self.roots, gradients, strict=True)
        known = [(root, gradient) for root, gradient in pairs if root is not None and gradient is not None]
        return [root for root, _ in known], [gradient for _, gradient in known]

    def replace(self, tensor: Tensor, value: Value, array: np.ndarray) -> None:
        """An input or a result, which `value` stands for, has its values in `array` from now on."""
        if value in self.made:
            self.made[value].array = array
        for source, stand_in in zip(self.sources, self.wanted, strict=True):
            if source is tensor:
                stand_in.array = array


def _added_to(source: Tensor) -> Tensor | None:
    """The `.grad` that a backward adds to as soon as it has a gradient for this input."""
    return None if source.grad_fn is not None or hooks.has_hooks(source) else source.gradient


def writes_what_is_read(node: CompiledNode) -> bool:
    """Whether the `.grad` of an input lies in memory that the call read or gave: eager writes it while some
    of its nodes have yet to read that.
    """
    targets = [target for _, target, _ in node.edges if isinstance(target, Tensor)]
    gradients = [known.array for target in targets if (known := _added_to(target)) is not None]
    if not gradients:
        return False
    memory = node.memory()
    owners, wholes = [*map(owner, gradients)], [*map(owner, memory)]
    if {*map(id, owners)}.isdisjoint(map(id, wholes)) and all(a.base is None for a in (*owners, *wholes)):
        return False  # each has memory that NumPy gave it
    return any(np.may_share_memory(array, gradient) for array in memory for gradient in gradients)


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


class undisturbed:
    """No interpreter looks on, and no results are of inference mode."""

    def __enter__(self) -> None:
        self._before = state.interpreter, state.inference
        state.interpreter, state.inference = None, False

    def __exit__(self, *exception: object) -> None:
        state.interpreter, state.inference = self._before


def input_tensors(path: Path, leaves: Sequence[Any]) -> dict[Any, Any]:
    """The tensor behind each input of the path's graph in this call."""
    tensors: dict[Any, Any] = {v: leaves[i] for v, i in path.argument_leaves.items()}
    tensors.update((v, c.reference()) for v, c in path.captured.items())
    tensors.update((v, wrap(a)) for v, a in path.constants.items())
    return tensors
