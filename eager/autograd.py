"""The autograd graph and the engine that walks it backwards.

A `Node` stands for one op that ran; tensors that need gradients point at the node that made
them. Nothing points forward, and a node never holds its own output tensor, so a graph has no
reference cycles and goes when the last tensor that needs it goes.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad.eager.errors import failure
from fusegrad.eager.state import state
from fusegrad.eager.tensor import Tensor

if TYPE_CHECKING:
    from fusegrad.eager.op import Op, Params

_sequence = itertools.count()

FREED = (
    "Trying to backward through the graph a second time: {name}'s saved tensors were freed by the first "
    "backward. Specify retain_graph=True there if you need to go through the graph again."
)


class Node:
    """One op on the graph: what its gradient rules need, and where the gradients go.

    edges: for each input that needs a gradient (input index, target, output index of the target);
    the target is the node that made the input, or the leaf tensor itself.
    """

    __slots__ = (
        "edges",
        "inputs",
        "moves",
        "op",
        "output_types",
        "outputs",
        "params",
        "sequence",
        "types",
        "versions",
    )

    fresh = False  # whether each gradient that `apply` gives has memory of its own
    op: Op
    params: Params
    edges: Sequence[tuple[int, Any, int]]
    inputs: Sequence[Any] | None
    moves: int | None  # for a view: how often its memory had moved on the graph when it was taken
    outputs: tuple[Tensor, ...] | None
    output_types: Sequence[tuple[tuple[int, ...], np.dtype]]
    sequence: int
    types: Sequence[Any]
    versions: list[tuple[int, int]]

    def name(self) -> str:
        """PyTorch's name of this node, as in `grad_fn=<MulBackward0>`."""
        return self.op.node_name(self.params, self.types)

    def __repr__(self) -> str:
        return f"<{self.name()}>"

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes that this one's gradients go to, as in PyTorch."""
        return tuple((target, output) for _, target, output in self.edges)

    def apply(self, gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
        """The gradients of the inputs on `edges` (None where there is none), from those of the outputs."""
        inputs = self.inputs
        if inputs is None:
            raise failure(RuntimeError, FREED.format(name=self.name()))
        for index, version in self.versions:
            kept = inputs[index] if index >= 0 else self.outputs[-1 - index]  # type: ignore[index]
            if kept.version[0] != version:
                raise failure(RuntimeError, self._modified(index, kept.version[0], version))
        outputs: Sequence[Tensor] = self.outputs or ()
        if outputs and state.grad_enabled:
            # The kept outputs stand off the graph, or the node would hold itself.
            outputs = [place(share(o), self, i) for i, o in enumerate(outputs)]
        g: Any = gradients[0] if len(gradients) == 1 else filled(gradients, self.output_types)
        op, types, params = self.op, self.types, self.params
        return [op.gradient(i, g, inputs, outputs, types, params) for i, _, _ in self.edges]

    def release(self) -> None:
        """Drop what was kept for backward."""
        self.inputs = self.outputs = None

    def _modified(self, index: int, now: int, expected: int) -> str:
        if index >= 0:
            name = self.op.arguments[0 if self.op.variadic else index]
            what, (shape, dtype) = f"input {name!r}", self.types[index]
        else:
            what, (shape, dtype) = "output", self.output_types[-1 - index]
        return (
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"{self.name()} kept its {what} ({dtype.name}{list(shape)}) at version {expected}, and it is at "
            f"version {now} now. Use the out-of-place form, or clone() before the write."
        )


def share(tensor: Tensor) -> Tensor:
    """The memory and version counter of `tensor` in a tensor off the graph."""
    other = wrap(tensor.array)
    other.version = tensor.version
    return other


def place(tensor: Tensor, node: Node, index: int) -> Tensor:
    """`tensor` made the output `index` of `node`."""
    tensor.needs_grad = True
    tensor.grad_fn = node
    tensor.output_index = index
    return tensor


def filled(gradients: list[Tensor | None], types: Sequence[tuple[tuple[int, ...], np.dtype]]) -> list[Tensor]:
    """`gradients` with zeros for the outputs that nobody used."""
    return [
        wrap(np.zeros(shape, dtype)) if g is None else g
        for g, (shape, dtype) in zip(gradients, types, strict=True)
    ]


def record(op: Op, args: tuple[Any, ...], params: Params, outputs: tuple[Tensor, ...]) -> None:
    """Put `op` on the graph: the outputs that can have a gradient get a node that made them."""
    edges = []
    saved: Any = ()
    if op.saves:
        saved = [None if isinstance(a, Tensor) else a for a in args]
    types: list[Any] = []
    versions: list[tuple[int, int]] = []
    keep_output = False
    rules: Any = op.rules
    for index, a in enumerate(args):
        if not isinstance(a, Tensor):
            types.append(None)
            continue
        array = a.array
        types.append((array.shape, array.dtype))
        if not a.needs_grad:
            continue
        rule = rules[0 if op.variadic else index]
        if rule is None:
            continue
        made = a.grad_fn
        if made is None:
            edges.append((index, a, 0))
        else:
            if made.moves is not None and made.moves != a.version[1]:
                raise failure(NotImplementedError, STALE_VIEW.format(name=op.name))
            edges.append((index, made, a.output_index))
        if rule.needs_output:
            keep_output = True
        for i in rule.saves:
            if saved[i] is None:
                saved[i] = args[i]
                versions.append((i, args[i].version[0]))
    if edges:
        node = _new_node(Node)
        node.op, node.params, node.edges, node.inputs = op, params, edges, saved
        node.types, node.versions = types, versions
        node.sequence = next(_sequence)
        _attach(node, outputs, keep_output)


def _attach(node: Node, outputs: tuple[Tensor, ...], keep: bool) -> None:
    """Make `outputs` those of `node`, and have it keep their values if its rules ask for them."""
    output_types = node.output_types = []
    node.outputs = None
    if keep:
        node.outputs = tuple([share(o) for o in outputs])
        node.versions += [(-1 - i, o.version[0]) for i, o in enumerate(outputs)]
    for i, output in enumerate(outputs):
        array = output.array
        output_types.append((array.shape, array.dtype))
        if array.dtype.kind in "fc":
            output.needs_grad = True
            output.grad_fn = node
            output.output_index = i
    node.moves = outputs[0].version[1] if node.op.view else None


_new_node = Node.__new__
STALE_VIEW = (
    "{name} uses a view of a tensor that was written in place after the view was taken; its gradient "
    "cannot follow the write yet. Take the view again after the write, or use the out-of-place form."
)


def next_sequence() -> int:
    """A place in time for a node made outside `record` (compiled calls make their own)."""
    return next(_sequence)


def run_backward(
    roots: Sequence[Tensor],
    gradients: Sequence[Tensor | None] | None,
    retain_graph: bool,
    create_graph: bool,
    wanted: Sequence[Tensor] | None = None,
) -> list[Tensor | None]:
    """Walk the graph from `roots` backwards, newest node first.

    With `wanted`, give the gradients of those tensors and leave every `.grad` alone; otherwise
    add to the `.grad` of the leaves. The walk is a loop over a heap: depth costs no recursion.
    """
    pending: dict[int, list[Tensor | None]] = {}
    heap: list[tuple[int, Node]] = []
    targets: dict[tuple[int, int], list[int]] = {}
    leaves: dict[int, list[int]] = {}
    results: list[Tensor | None] = [None] * len(wanted or ())
    taken = {id(g.array) for g in gradients or () if g is not None}
    if wanted is None and state.interpreter is not None:
        state.interpreter.effect("calls backward(), which writes .grad")
    for i, tensor in enumerate(wanted or ()):
        if tensor.grad_fn is None:
            leaves.setdefault(id(tensor), []).append(i)
        else:
            targets.setdefault((id(tensor.grad_fn), tensor.output_index), []).append(i)

    def deliver(target: Any, output: int, gradient: Tensor, fresh: bool = False) -> None:
        if isinstance(target, Tensor):
            if wanted is None:
                accumulate(target, gradient, create_graph, taken, fresh)
            for i in leaves.get(id(target), ()):
                known = results[i]
                results[i] = gradient if known is None else known + gradient
            return
        slots = pending.get(target.sequence)
        if slots is None:
            slots = pending[target.sequence] = [None] * len(target.output_types)
            heapq.heappush(heap, (-target.sequence, target))
        known = slots[output]
        slots[output] = gradient if known is None else known + gradient

    previous, state.grad_enabled = state.grad_enabled, create_graph
    try:
        for root, gradient in zip(roots, gradients or [None] * len(roots), strict=True):
            deliver(root if root.grad_fn is None else root.grad_fn, root.output_index, _seed(root, gradient))
        while heap:
            _, node = heapq.heappop(heap)
            slots = pending.pop(node.sequence)
            for output, gradient in enumerate(slots):
                for i in targets.get((id(node), output), ()):
                    results[i] = gradient
            produced = node.apply(slots)
            for (_, target, output), gradient in zip(node.edges, produced, strict=True):
                if gradient is not None:
                    deliver(target, output, gradient, node.fresh)
            if not retain_graph:
                node.release()
    finally:
        state.grad_enabled = previous
    return results


def accumulate(leaf: Tensor, gradient: Tensor, create_graph: bool, taken: set[int], fresh: bool) -> None:
    """Add `gradient` to `leaf.grad`.

    taken: ids of arrays that somebody else may hold (the roots' gradients, other leaves'). An
    array that is not among them and is no view becomes `.grad` itself; others are copied, since
    rules may hand one array to several inputs (`x + y`) and `.grad` is written in place.
    fresh: the node made the array's memory for this gradient, although it may be a view of it.
    """
    if create_graph:
        leaf.grad = gradient if leaf.grad is None else leaf.grad + gradient
    elif leaf.grad is not None:
        _add_into(leaf, gradient)
    else:
        array = gradient.array
        if (array.base is not None and not fresh) or id(array) in taken:
            array = np.array(array)
        taken.add(id(array))
        leaf.grad = wrap(array)


def _add_into(leaf: Tensor, gradient: Tensor) -> None:
    """`leaf.grad += gradient`, in the memory of `leaf.grad`, as PyTorch does it."""
    known = leaf.grad
    assert known is not None
    if known.needs_grad or not known.array.flags.writeable or known.array.dtype != gradient.array.dtype:
        leaf.grad = wrap(known.array + gradient.array)
    else:
        np.add(known.array, gradient.array, out=known.array)
        known.version[0] += 1


def _seed(root: Tensor, gradient: Tensor | None) -> Tensor:
    """The gradient that backward starts with at `root`, checked."""
    if not root.needs_grad:
        raise failure(
            RuntimeError,
            "the tensor does not require grad and has no grad_fn; "
            "was it made under no_grad, or from inputs without requires_grad=True?",
        )
    array = root.array
    if gradient is None:
        if array.size != 1:
            raise failure(
                RuntimeError,
                f"grad can be implicitly created only for scalar outputs, and this one is "
                f"{array.dtype.name}{list(array.shape)}; reduce it (.sum(), .mean()) or pass a gradient "
                "of its shape",
            )
        return wrap(np.ones(array.shape, array.dtype))
    if gradient.array.shape != array.shape:
        raise failure(
            RuntimeError,
            f"the gradient has shape {list(gradient.array.shape)}, the output {list(array.shape)}",
        )
    return gradient


def as_sequence(value: Any) -> list[Any]:
    """One tensor, or a sequence of them, as a list."""
    return [value] if isinstance(value, Tensor) or value is None else list(value)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of `outputs` with respect to `inputs`, as a tuple; as `torch.autograd.grad`.

    Raises RuntimeError when an input was not used and `allow_unused` is false.

    >>> import fusegrad as fg
    >>> x = fg.tensor(3.0, requires_grad=True)
    >>> fg.grad(x * x, x)
    (tensor(6.),)
    """
    roots, wanted = as_sequence(outputs), as_sequence(inputs)
    gradients = as_sequence(grad_outputs) if grad_outputs is not None else None
    for i, tensor in enumerate(wanted):
        if not tensor.needs_grad:
            raise failure(RuntimeError, f"input {i} does not require grad")
    retain = create_graph if retain_graph is None else retain_graph
    results = run_backward(roots, gradients, retain, create_graph, wanted)
    for i, result in enumerate(results):
        if result is None and not allow_unused:
            raise failure(
                RuntimeError,
                f"input {i} was not used to compute the outputs; pass allow_unused=True to get None for it",
            )
    return tuple(results)


from fusegrad.eager.op import wrap  # noqa: E402  (see the same line in op.py)
