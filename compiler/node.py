"""The autograd node of a compiled call: its backward is one compiled program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad.compiler.program import viewed
from fusegrad.compiler.tree import Run, gather, refill
from fusegrad.eager import autograd
from fusegrad.eager.errors import failure
from fusegrad.eager.op import wrap
from fusegrad.eager.state import state
from fusegrad.eager.tensor import Tensor
from fusegrad.tracer.text import evaluate_graph

if TYPE_CHECKING:
    from fusegrad.compiler.path import Path


MODIFIED = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: {name} "
    "of a compiled function reads it again: {where}. Use the out-of-place form, or clone() before the write."
)


class CompiledNode(autograd.Node):
    """Stands for a whole compiled call on the autograd graph.

    Its edges go to the inputs that need gradients. A plain backward runs the compiled program; one
    with `create_graph` goes through the eager ops of the recorded graph, which derive further.
    """

    __slots__ = ("captured", "environment", "filled", "leaf", "leaves", "names", "ready", "saved_versions")

    fresh = True

    def __init__(self, run: Run, leaves: Sequence[Any]) -> None:
        path = run.leaf.path
        assert path is not None
        self.leaf, self.leaves, self.environment = run.leaf, leaves, run.environment
        # The gradients for a backward that starts with 1, if the call computed them already.
        self.ready = run.gradients
        self.filled = run.gradients is None
        self.sequence = autograd.next_sequence()
        self.names, self.output_types = path.grad_names, path.output_types
        # The path holds captured tensors weakly; what backward needs must live until then.
        self.captured = [c.reference() for c in path.captured.values()]
        wanted = self._wanted(path)
        self.edges = [
            (i, t if t.grad_fn is None else t.grad_fn, t.output_index) for i, t in enumerate(wanted)
        ]
        self.saved_versions: list[tuple[list[int], int, str, tuple[int, ...]]] = []
        for tensor in self._read_by_backward():
            self.keep(tensor, "an input")
        self.inputs, self.moves = (), None

    def _wanted(self, path: Path) -> list[Any]:
        """The inputs that get gradients."""
        leaves = self.leaves
        return [leaves[s] if isinstance(s, int) else s.reference() for s in path.wanted_from]

    def keep(self, tensor: Tensor, what: str) -> None:
        """Backward will read the memory of `tensor`: nobody may have written there by then.

        Only the counter is held: the node must not hold its own outputs.
        """
        self.saved_versions.append((tensor.version, tensor.version[0], what, tensor.array.shape))

    def _read_by_backward(self) -> list[Tensor]:
        """The tensors from outside that the backward program reads."""
        found: list[Any] = []
        for kind, reference in self.leaf.backward_inputs:
            if kind == "argument":
                found.append(self.leaves[reference])
            elif kind == "captured":
                found.append(reference.reference())
        return found

    def name(self, index: int = 0) -> str:
        """The name of the eager node that made this output, as PyTorch prints it."""
        return self.names[index]

    def apply(self, gradients: list[Tensor | None]) -> list[Tensor | None]:
        """The gradients of the inputs; None for one that only unused outputs depend on."""
        path = self.leaf.path
        assert path is not None
        given = {seed for seed, gradient in zip(path.seeds, gradients, strict=True) if gradient is not None}
        found = self._gradients(gradients)
        if len(given) == len(path.seeds):
            return [*found]
        return [g if given & seeds else None for g, seeds in zip(found, path.reached_from, strict=True)]

    def _gradients(self, gradients: list[Tensor | None]) -> list[Tensor]:
        if self.inputs is None:
            raise failure(RuntimeError, autograd.FREED.format(name=self.name()))
        for version, number, what, shape in self.saved_versions:
            if version[0] != number:
                where = f"{what} of shape {list(shape)}, at version {number} then and {version[0]} now"
                raise failure(RuntimeError, MODIFIED.format(name=self.name(), where=where))
        seeds = autograd.filled(gradients, self.output_types)
        if state.grad_enabled or state.interpreter is not None:
            return self._apply_eagerly(seeds)
        leaf = self.leaf
        if leaf.path is not None and leaf.path.derives_alone and seeds[0].array.item() == 1:
            leaf.derived += 1
            if self.ready is not None:
                ready, self.ready = self.ready, None
                return [wrap(array) for array in ready]
        if not self.filled:
            refill(leaf, self.leaves, self.environment)
            self.filled = True
        arrays = gather(leaf.backward_inputs, self.leaves, self.environment, [_plain(g.array) for g in seeds])
        if arrays is None:
            return self._apply_eagerly(seeds)
        assert leaf.backward is not None
        made = leaf.backward.run(arrays)
        return [wrap(viewed(made[i], chain) if chain else made[i]) for i, chain in leaf.gradient_places]

    def _apply_eagerly(self, seeds: list[Tensor]) -> list[Tensor]:
        """The gradients through eager's ops, so that they can be derived again."""
        path = self.leaf.path
        assert path is not None
        graph = path.capture.graph
        create_graph = state.grad_enabled
        with autograd_on():
            tensors = input_tensors(path, self.leaves)
            outputs = evaluate_graph(graph, [tensors[v] for v in graph.inputs])
            results = [o.value for o in path.capture.outputs if o.value is not None]
            known = dict(zip(graph.outputs, outputs, strict=True))
            roots = [known[results[i]] for i in path.seeded]
            wanted = self._wanted(path)
            found = autograd.grad(roots, wanted, seeds, create_graph=create_graph, allow_unused=True)
        return [wrap(np.zeros_like(t.array)) if g is None else g for g, t in zip(found, wanted, strict=True)]

    def release(self) -> None:
        self.inputs = None
        self.environment = []
        self.ready = None
        self.captured = []
        self.leaves = ()


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


def _plain(array: np.ndarray) -> np.ndarray:
    """A gradient in row-major order, as the compiled backward takes it."""
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)
