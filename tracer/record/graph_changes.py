"""What a run does to the autograd graph besides ops: backwards, hooks, custom Functions, new leaves.

In: what the engine tells the recorder of it. Out: the reasons not to replay, and those not to replay a run
whose result can be derived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from fusegrad.eager.autograd.engine import reachable
from fusegrad.eager.autograd.hooks import has_hooks, has_own_hooks, is_averaged
from fusegrad.eager.autograd.node import Node, next_sequence
from fusegrad.eager.autograd.views import base_of
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.record.exchanges import Exchanges

if TYPE_CHECKING:
    from fusegrad.tracer.observe.hosts import Place
    from fusegrad.tracer.record.memory import Known
    from fusegrad.tracer.record.recorder import Recorder


class Callbacks(Protocol):
    """Gives the user's code that the engine is about to call so that it is observed; None where it cannot be.

    See `capture/callbacks.py`.
    """

    def method(self, kind: type, name: str, context: Any) -> Callable[..., Any] | None:
        """A method of a custom Function."""

    def hook(self, hook: Callable[..., Any]) -> Callable[..., Any] | None:
        """A hook on a gradient."""

    def deeds(self) -> int:
        """How often the observed code has changed something that a replay changes, too, or cannot change."""


class GraphChanges:
    """Those of one run.

    unsure_leaves: whether the run has made leaves in memory that is on the graph besides. detached: whether
    it has taken what it made off the graph, which the recorded ops do not say. turned: the tensors
    from outside that were made to require gradients or not to, by id, with whether they did at first.
    callbacks: observes the user's code that is called; None where nobody observes. with_ranks: what is
    exchanged with other ranks.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._first_node = next_sequence()
        self.unsure_leaves = self.detached = False
        self.turned: dict[int, tuple[Tensor, bool]] = {}
        self.callbacks: Callbacks | None = None
        self.with_ranks = Exchanges(recorder)
        self._writes: list[tuple[Known, Any, int]] = []  # the root, what counts its writes, and when

    def backward(self, roots: Sequence[Tensor]) -> None:
        """A backward is recorded like the rest, as long as it stays within the run."""
        recorder, nodes = self._recorder, reachable(roots)
        if any(node.sequence < self._first_node for node in nodes):
            recorder.effect("goes backward through ops that were done outside")
        leaves = [root for root in roots if root.grad_fn is None]
        leaves += [target for node in nodes for _, target, _ in node.edges if isinstance(target, Tensor)]
        for leaf in leaves:
            if not recorder.is_made(leaf):
                recorder.derived.setdefault(id(leaf), recorder.place_of(leaf))
                if has_own_hooks(leaf) or (is_averaged(leaf) and not self.with_ranks.averages):
                    recorder.effect("runs hooks in backward")

    def is_own(self, tensor: Tensor) -> bool:
        """Whether the run has made the tensor, and the op that it comes of."""
        if tensor.grad_fn is None or self._recorder.is_made(tensor):
            return self._recorder.is_made(tensor)
        # A view finds its node when it is asked for: what it is a view of says when that was written.
        node = base_of(tensor).grad_fn
        return node is not None and node.sequence > self._first_node

    def requires_grad_changes(self, tensor: Tensor) -> None:
        """What the run has made may become a leaf, from which nothing leads outside; of what was there before
        a replay says in the end what the run has said.
        """
        recorder = self._recorder
        if tensor.grad_fn is not None:
            self._detaches(tensor)
        elif not recorder.is_made(tensor):
            recorder.change("changes requires_grad")
            if not self._has_own_value(tensor):
                recorder.effect("changes requires_grad")
            self.turned.setdefault(id(tensor), (tensor, tensor.needs_grad))
        elif not tensor.needs_grad:
            self.unsure_leaves = not recorder.memory.makes_leaf(tensor.array) or self.unsure_leaves

    def _has_own_value(self, tensor: Tensor) -> bool:
        """Whether a value stands for this very tensor from outside, and no other one of its memory."""
        recorder = self._recorder
        first = recorder.memory.first(tensor.array) or recorder.value_of(tensor)
        return isinstance(recorder.place_of(tensor), int) or recorder.captured.get(first) is tensor

    def _detaches(self, tensor: Tensor) -> None:
        """A tensor is taken off the graph: a backward of the run is recorded as it goes."""
        self._recorder.later.settle()
        if self._recorder.is_made(tensor):
            self.detached = True
        else:
            self._recorder.effect("takes a tensor off the graph in place")

    def wrote(self, root: Known, target: Tensor) -> None:
        """The memory of a tensor was written."""
        self._writes.append((root, target.version, next_sequence()))

    def keeps_what_is_gone(self, node: Node) -> bool:
        """Whether a node keeps memory that was written since, and that was not there before the run: of that
        the node of a replay knows, and refuses its backward as eager does. Of what was written through
        `.data`, which no count tells of, eager's backward takes the new values.
        """
        recorder = self._recorder
        if any(recorder.writes_at_first(tensor) != count for tensor, count in node.stale()):
            return True
        later = [(root, version) for root, version, when in self._writes if when > node.sequence]
        if not later:
            return False
        for tensor in (t for t in (*(node.inputs or ()), *(node.outputs or ())) if isinstance(t, Tensor)):
            known = recorder.memory.find(tensor.array)
            own = None if known is None else known.root()
            if any(root is own and version is not tensor.version for root, version in later):
                return True
        return False

    def finish(self) -> None:
        """The run is over."""
        self.with_ranks.finish()

    def flags(self) -> tuple[tuple[Place, bool], ...]:
        """The tensors from outside that require gradients in the end, or do not, other than at first."""
        left = [
            (tensor, tensor.needs_grad)
            for tensor, first in self.turned.values()
            if tensor.needs_grad is not first
        ]
        return tuple([(self._recorder.place_of(tensor), needs) for tensor, needs in left])

    def problems(self, results: bool) -> Iterator[str]:
        """Why the run cannot be replayed if there are `results` that can be derived."""
        if results and self.unsure_leaves:
            yield "gives a result that can be derived by tensors that the run has made"
        if results and self.detached:
            yield "takes a tensor off the graph in place, and gives a result that can be derived"
        if results and any(host.value in self._recorder.tracked for host, _ in self._recorder.hosts):
            yield "gives a result that can be derived by a .grad that was there before"
        if results and self.with_ranks.made:
            yield "exchanges tensors with other ranks, and gives a result that can be derived"
        if results and self.turned:
            yield "changes requires_grad, and gives a result that can be derived"

    def problem_of(self, nodes: Sequence[Node]) -> str:
        """Why a result cannot be given again that is derived by these nodes; "" where it can be."""
        for node in nodes:
            if node.foreign:
                return f"gives a result that is derived by {node.foreign}"
            own = [t for _, t, _ in node.edges if isinstance(t, Tensor) and self._recorder.is_made(t)]
            if (node.extra is not None and node.extra.calls()) or any(map(has_hooks, own)):
                return "gives a result with hooks on what it is derived by"
        leaves = [t for node in nodes for _, t, _ in node.edges if isinstance(t, Tensor)]
        if all(map(self._recorder.is_made, leaves)):
            return "gives a result that is derived by nothing but tensors that the run has made"
        return ""
