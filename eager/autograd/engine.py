"""The engine that walks the autograd graph backwards, and the checks at its door."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

from fusegrad.eager.autograd import anomaly, hooks
from fusegrad.eager.autograd.accumulation import accumulate, add_into, add_to_leaf
from fusegrad.eager.autograd.node import Node, PartNode, constant, replaced_gradient
from fusegrad.eager.core.errors import failure, spot_text
from fusegrad.eager.core.stand_in import give_values, putting_off
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor

Slots = list[Tensor | None]


def hand_on(root: Tensor, retain_graph: bool) -> bool:
    """Do a backward from `root` whose gradients its node has ready, all of them for leaves.

    Whether it was done; where a hook, anomaly mode or a write asks for more than handing on, it was not.
    """
    node, array = root.grad_fn, root.array
    looked_at = node.extra is not None or anomaly.setting.enabled or state.interpreter is not None
    if looked_at or array.size != 1 or array.dtype.kind == "c":
        return False
    for _, target, _ in node.edges:
        if not isinstance(target, Tensor) or (hooks.leaf_hooks[0] and hooks.has_hooks(target)):
            return False
    previous, state.grad_enabled = state.grad_enabled, False
    try:
        ready = node.take_ready()
        if ready is None:
            return False
        taken: set[int] = set()
        for (_, leaf, _), gradient in zip(node.edges, ready, strict=True):
            if leaf.gradient is not None:
                add_into(leaf, gradient, taken)
            elif leaf.needs_grad:
                # It may have to lie otherwise, as the leaf does.
                alike = gradient.array.strides == leaf.array.strides
                if not (alike and replaced_gradient(leaf, None, 0, gradient)):
                    accumulate(leaf, gradient, False, taken, True)
        if not retain_graph:
            node.release()
        return True
    finally:
        state.grad_enabled = previous


def run_backward(
    roots: Sequence[Tensor],
    gradients: Sequence[Tensor | None] | None,
    retain_graph: bool,
    create_graph: bool,
    wanted: Sequence[Tensor] | None = None,
    adds: bool = False,
) -> list[Tensor | None]:
    """Walk the graph from `roots` backwards, newest node first.

    With `wanted`, give the gradients of those tensors and leave every `.grad` alone; otherwise
    add to the `.grad` of the leaves. The walk is a loop over a heap: depth costs no recursion.
    adds: what is given will be added to `.grad`, so hooks of what does that are called.
    """
    if putting_off:
        give_values(roots)
    interpreter = state.interpreter
    if interpreter is None:
        return _run_backward(roots, gradients, retain_graph, create_graph, wanted, adds)
    state.interpreter = interpreter.backward(roots, wanted is None)
    try:
        return _run_backward(roots, gradients, retain_graph, create_graph, wanted, adds)
    finally:
        state.interpreter = interpreter


def _run_backward(
    roots: Sequence[Tensor],
    gradients: Sequence[Tensor | None] | None,
    retain_graph: bool,
    create_graph: bool,
    wanted: Sequence[Tensor] | None,
    adds: bool,
) -> list[Tensor | None]:
    if gradients is None:
        gradients = [None] * len(roots)
    elif len(gradients) != len(roots):
        raise failure(RuntimeError, f"got {len(roots)} tensors and {len(gradients)} gradients")
    seeds = [_seed(i, root, gradients[i]) for i, root in enumerate(roots)]
    walk = Walk(roots, create_graph, {id(g.array) for g in gradients if g is not None})
    if wanted is not None:
        walk.adds = adds
        walk.want(roots, wanted)
    elif hooks.leaf_hooks[0]:
        walk.await_hooked(roots)
    previous, state.grad_enabled = state.grad_enabled, create_graph
    saved_hooks, outer, state.walk = state.saved_hooks, state.walk, walk
    asking = state.asks, state.function_modes
    state.asks, state.function_modes = None, ()  # tensors of users' classes are tensors here
    try:
        for root in roots:
            if root.grad_fn is None:
                walk.to_leaf(root, seeds.pop(0))
            else:
                walk.to_node(root.grad_fn, root.output_index, seeds.pop(0))
        walk.run(retain_graph)
        found: list[Tensor | None] = []
        if wanted is not None:
            found = walk.results(wanted)
        elif walk.waiting:
            walk.finish()
        calls = 0
        while calls < len(walk.at_end):  # to which calls may add others
            walk.at_end[calls]()
            calls += 1
        return found
    finally:
        state.grad_enabled, state.saved_hooks, state.walk = previous, saved_hooks, outer
        state.asks, state.function_modes = asking


_NOTHING: Slots = []
_LEAF_OF_GRAD = (
    "A leaf node was passed to _will_engine_execute_node but we are currently running autograd.grad(). "
    "This is currently not supported."
)


class Walk:
    """One backward.

    pending: the nodes that gradients have arrived at, with these, by the sequence numbers of the nodes;
    heap: minus these numbers, so the newest first. A node runs when all newer ones did, so nothing arrives
    later.
    taken: ids of arrays that somebody else may hold (see `accumulate`).
    waiting: for leaves whose gradient is needed as a whole (those with hooks, and the wanted
    ones): what arrived, and how many edges have yet to send theirs.
    """

    # Set only where they are needed: most walks are short.
    waiting: dict[int, _Waiting] | None = None
    # Where some gradients are asked for: the edges to walk, by the node's sequence number, and the
    # gradients of tensors that nodes made, by number and output index.
    needed: dict[int, list[tuple[int, Any, int]]] | None = None
    captured: dict[tuple[int, int], Tensor | None] | None = None
    adds = False  # whether what was asked for will be added to `.grad`
    current: Node | None = None  # whose backward runs, where it has hooks or anomaly mode is on
    at_end: Sequence[Callable[[], Any]] = ()  # called when all gradients are known

    def __init__(self, roots: Sequence[Tensor], create_graph: bool, taken: set[int]) -> None:
        self.roots = roots
        self.create_graph = create_graph
        self.taken = taken
        self.pending: dict[int, tuple[Node, Slots]] = {}
        self.heap: list[int] = []

    # Preparing.

    def want(self, roots: Sequence[Tensor], wanted: Sequence[Tensor]) -> None:
        """Walk only what leads to `wanted`."""
        leaves = {id(t): t for t in wanted if t.grad_fn is None}
        self.captured = {}
        for t in wanted:
            if t.grad_fn is not None:
                if t.grad_fn.refused:
                    raise failure(RuntimeError, t.grad_fn.refused)
                self.captured[(t.grad_fn.sequence, t.output_index)] = None
        self.waiting = {key: _Waiting(leaf, None) for key, leaf in leaves.items()}
        oldest = min((sequence for sequence, _ in self.captured), default=0) if not leaves else 0
        asked = {sequence for sequence, _ in self.captured}
        self.needed = {}
        for node in sorted(reachable(roots, oldest), key=_age):
            edges = [
                edge
                for edge in node.edges
                if (id(edge[1]) in leaves if isinstance(edge[1], Tensor) else edge[1].sequence in self.needed)
            ]
            if edges or node.sequence in asked:
                self.needed[node.sequence] = edges

    def await_hooked(self, roots: Sequence[Tensor]) -> None:
        """Count the edges to leaves with hooks, which are called once, with the whole gradient."""
        self.waiting = {}
        for root in roots:
            if root.grad_fn is None:
                self._await(root)
        for node in reachable(roots):
            for _, target, _ in node.edges:
                if isinstance(target, Tensor):
                    self._await(target)

    def _await(self, leaf: Tensor) -> None:
        if hooks.has_hooks(leaf):
            assert self.waiting is not None
            self.waiting.setdefault(id(leaf), _Waiting(leaf, 0)).edges += 1  # type: ignore[operator]

    def expects(self, tensors: Sequence[Tensor]) -> list[bool]:
        """Which of `tensors` this backward goes through, so that their hooks are called."""
        if self.needed is not None:
            nodes: Any = self.needed
            leaves: Any = self.waiting or ()
            if not self.adds and any(t.grad_fn is None and id(t) in leaves for t in tensors):
                raise failure(RuntimeError, _LEAF_OF_GRAD)
        else:
            found = reachable(self.roots)
            nodes = {node.sequence for node in found}
            leaves = {id(t) for node in found for _, t, _ in node.edges if isinstance(t, Tensor)}
            leaves |= {id(t) for t in self.roots}
        return [id(t) in leaves if t.grad_fn is None else t.grad_fn.sequence in nodes for t in tensors]

    # Walking.

    def to_leaf(self, leaf: Tensor, gradient: Tensor, fresh: bool = False) -> None:
        """Hand a gradient to a leaf."""
        waiting = self.waiting.get(id(leaf)) if self.waiting else None
        if waiting is not None:
            known = waiting.gradient
            waiting.gradient = gradient if known is None else known + gradient
        elif self.needed is None:
            accumulate(leaf, gradient, self.create_graph, self.taken, fresh)

    def to_node(self, node: Node, output: int, gradient: Tensor) -> None:
        """Hand the gradient of an output to the node that made it."""
        place = node.sequence
        if place in self.pending:
            slots = self.pending[place][1]
            known = slots[output]
            slots[output] = gradient if known is None else known + gradient
        elif self.needed is None or place in self.needed:
            slots = [None] * len(node.output_types)
            slots[output] = gradient
            self.pending[place] = (node, slots)
            heappush(self.heap, -place)

    def run(self, retain_graph: bool) -> None:
        """Run the nodes, newest first, dropping what each kept and was given as soon as it has run."""
        heap, pending, needed, waiting = self.heap, self.pending, self.needed, self.waiting
        taken, to_leaf = self.taken, self.to_leaf
        check_nan = anomaly.setting.enabled and anomaly.setting.check_nan
        plain = needed is None and not anomaly.setting.enabled
        # Whether a leaf's gradient is of no interest to anybody but the leaf.
        direct = needed is None and not waiting and not self.create_graph and state.interpreter is None
        produced: Any
        while heap:
            node, slots = pending.pop(-heappop(heap))
            try:
                if plain and node.extra is None:
                    if direct and node.own is PartNode and node.add(slots[0], taken):  # type: ignore[attr-defined]
                        continue  # nothing is left to hand on, nor to release
                    edges = ran = node.edges
                    produced = node.apply(slots)
                else:
                    edges, produced = self._apply(node, slots)
                    ran = edges
                    if check_nan:
                        anomaly.check(node, produced)
            except Exception as error:
                if anomaly.setting.enabled:
                    anomaly.report(node)
                raise told(error, node) from None
            slots = _NOTHING
            if not retain_graph and ran:
                node.release()
            if len(edges) > 1:
                _note_shared(produced, taken)
            for (_, target, output), gradient in zip(edges, produced, strict=True):
                if gradient is None:
                    continue
                if isinstance(target, Tensor):
                    if direct and target.gradient is not None:
                        add_into(target, gradient, taken)
                    else:
                        to_leaf(target, gradient, node.fresh)
                    continue
                # What goes to a part of a leaf is added at once, if it can be, since it goes nowhere else.
                if direct and target.own is PartNode and target.add(gradient, taken):
                    continue
                # `to_node`, spelled out.
                place = target.sequence
                if place in pending:
                    slots = pending[place][1]
                    known = slots[output]
                    slots[output] = gradient if known is None else known + gradient
                elif needed is None or place in needed:
                    slots = [None] * len(target.output_types)
                    slots[output] = gradient
                    pending[place] = (target, slots)
                    heappush(heap, -place)
            slots, produced, gradient, known = _NOTHING, None, None, None
            if waiting and needed is None:
                self._arrived(edges)

    def _apply(self, node: Node, slots: Slots) -> tuple[Any, Any]:
        """Run a node with hooks, or one of those that lead to what is wanted: its edges and gradients."""
        edges, self.current = node.edges, node
        slots = node.arrived(slots)
        if node.extra is not None:
            slots = node.extra.received(slots, node.one_op)
            self.taken.update(id(g.array) for g in slots if g is not None)
        if self.needed is not None:
            edges = self.needed[node.sequence]
            if self.captured:
                self._capture(node, slots)
            # A node with hooks runs, though nothing that it gives is asked for, where PyTorch's would.
            if not edges and not (self.adds and node.extra is not None):
                return (), ()
        if node.extra is None:
            return edges, node.apply(slots) if self.needed is None else node.apply(slots, edges)
        slots = node.extra.before(slots)
        produced = node.apply(slots)
        if node.extra.hooks:
            produced = node.extra.after(produced, slots, node.edges, node.tensor_places())
        # Hooks and custom Functions may give arrays that the user holds.
        self.taken.update(id(g.array) for g in produced if g is not None)
        return node.edges, produced

    def _capture(self, node: Node, slots: Slots) -> None:
        assert self.captured is not None
        for output, gradient in enumerate(slots):
            if (node.sequence, output) in self.captured:
                self.captured[(node.sequence, output)] = gradient

    def _arrived(self, edges: Sequence[tuple[int, Any, int]]) -> None:
        """Hand on the gradients of leaves with hooks that are whole by now."""
        assert self.waiting is not None
        for _, target, _ in edges:
            waiting = self.waiting.get(id(target)) if isinstance(target, Tensor) else None
            if waiting is not None:
                waiting.edges -= 1  # type: ignore[operator]
                if waiting.edges == 0 and waiting.gradient is not None:
                    self._settle(waiting)

    def _settle(self, waiting: _Waiting) -> None:
        leaf, gradient = waiting.leaf, waiting.gradient
        assert gradient is not None
        waiting.gradient = None
        gradient = hooks.through(leaf.__dict__.get(hooks.LEAF, {}), gradient)
        gradient = hooks.through(leaf.__dict__.get(hooks.BEFORE, {}), gradient)
        self.taken.add(id(gradient.array))  # a hook may have kept it
        add_to_leaf(leaf, gradient, self.create_graph, self.taken)

    # The end.

    def finish(self) -> None:
        """Settle leaves that some of their edges sent nothing."""
        assert self.waiting is not None
        for waiting in self.waiting.values():
            if waiting.gradient is not None:
                self._settle(waiting)

    def results(self, wanted: Sequence[Tensor]) -> list[Tensor | None]:
        """The gradients of `wanted`."""
        assert self.waiting is not None and self.captured is not None
        for waiting in self.waiting.values():
            if waiting.gradient is not None:
                kept = waiting.leaf.__dict__
                for kind in (hooks.LEAF, hooks.BEFORE) if self.adds else (hooks.LEAF,):
                    waiting.gradient = hooks.through(kept.get(kind, {}), waiting.gradient)
        return [
            self.waiting[id(t)].gradient
            if t.grad_fn is None
            else self.captured[(t.grad_fn.sequence, t.output_index)]
            for t in wanted
        ]


class _Waiting:
    """A leaf whose gradient is wanted as a whole."""

    __slots__ = ("edges", "gradient", "leaf")

    def __init__(self, leaf: Tensor, edges: int | None) -> None:
        self.leaf, self.edges = leaf, edges
        self.gradient: Tensor | None = None


def _note_shared(produced: Sequence[Tensor | None], taken: set[int]) -> None:
    """Note arrays that go several ways (`x + y`): one that became a `.grad` might be written by a hook, while
    it is on its way to a node as well.
    """
    if len(produced) == 2:
        if produced[0] is produced[1] and produced[0] is not None:
            taken.add(id(produced[0].array))
        return
    seen: set[int] = set()
    for gradient in produced:
        if gradient is not None:
            own = id(gradient.array)
            (taken if own in seen else seen).add(own)


def _age(node: Node) -> int:
    return node.sequence


def reachable(roots: Sequence[Tensor], oldest: int = 0) -> list[Node]:
    """The nodes that gradients of `roots` can reach, down to the sequence number `oldest`."""
    found: dict[int, Node] = {}
    stack = [root.grad_fn for root in roots if root.grad_fn is not None]
    while stack:
        node = stack.pop()
        if node.sequence not in found:
            found[node.sequence] = node
            stack += [t for _, t, _ in node.edges if not isinstance(t, Tensor) and t.sequence >= oldest]
    return list(found.values())


def told(error: Exception, node: Node) -> Exception:
    """`error`, which a node's backward raised, with the line that ran the node's op."""
    where = spot_text(node.spot)
    if not where or getattr(error, "fusegrad_forward", False):
        return error
    text = f"in the backward of {where} ({node.name()})"
    if getattr(error, "fusegrad_located", False):
        if where not in str(error):
            error.args = (f"{error.args[0]}\n  {text}", *error.args[1:])
    else:
        error.add_note(text)
    error.fusegrad_forward = True  # type: ignore[attr-defined]
    return error


def _seed(place: int, root: Tensor, gradient: Tensor | None) -> Tensor:
    """The gradient that backward starts with at `root`, checked."""
    if not root.needs_grad:
        raise failure(
            RuntimeError,
            f"element {place} of tensors does not require grad and does not have a grad_fn; "
            "was it made under no_grad, or from inputs without requires_grad=True?",
        )
    array = root.array
    if root.grad_fn is not None and root.grad_fn.refused:
        raise failure(RuntimeError, root.grad_fn.refused)
    if gradient is None:
        if array.size != 1:
            raise failure(
                RuntimeError,
                f"grad can be implicitly created only for scalar outputs, and this one is "
                f"{array.dtype.name}{list(array.shape)}; reduce it (.sum(), .mean()) or pass a gradient "
                "of its shape",
            )
        if array.dtype.kind == "c":
            raise failure(
                RuntimeError,
                f"grad can be implicitly created only for real scalar outputs but got {array.dtype.name}",
            )
        return constant(1, array.shape, array.dtype, root)
    if not isinstance(gradient, Tensor):
        raise failure(
            TypeError, f"gradients can be either Tensors or None, but got {type(gradient).__name__}"
        )
    if gradient.array.shape != array.shape:
        raise failure(
            RuntimeError,
            f"Mismatch in shape: grad_output[{place}] has a shape of {gradient.shape} and "
            f"output[{place}] has a shape of {root.shape}",
        )
    if (gradient.array.dtype.kind == "c") != (array.dtype.kind == "c"):
        raise failure(
            RuntimeError,
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch "
            f"in dtype: grad_output[{place}] has a dtype of {gradient.array.dtype.name} and "
            f"output[{place}] has a dtype of {array.dtype.name}",
        )
    return gradient
