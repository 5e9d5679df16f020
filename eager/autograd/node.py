"""The autograd graph: a `Node` for each op that ran, and `record`, which puts it there.

Tensors that need gradients point at the node that made them. Nothing points forward, and a node
never holds its own output tensor, so a graph has no reference cycles and goes when the last
tensor that needs it goes.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.autograd.hooks import Extra, RemovableHandle
from fusegrad.eager.autograd.leaf_node import AccumulateGrad, named
from fusegrad.eager.core import large
from fusegrad.eager.core.dtypes import FROM_NUMPY
from fusegrad.eager.core.errors import Spot, failure, known_files, spot_text, user_spot
from fusegrad.eager.core.op import Op, Params, wrap
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.places.meta import meta_array
from fusegrad.eager.core.stand_in import give_values, putting_off
from fusegrad.eager.core.state import state, watchers
from fusegrad.eager.core.tensor import Tensor

sequence = itertools.count()

FREED = (
    "Trying to backward through the graph a second time: {name}'s saved tensors were freed by the first "
    "backward. Specify retain_graph=True there if you need to go through the graph again."
)
MODIFIED = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: "
    "{name} kept its {what} ({dtype}{shape}) at version {then}, and it is at version {now} now. "
    "Use the out-of-place form, or clone() before the write."
)


class Node:
    """One op on the graph: what its gradient rules need, and where the gradients go.

    edges: for each input that needs a gradient (input index, target, output index of the target);
    the target is the node that made the input, or the leaf tensor itself.
    versions: what is kept (input index, or -1 - output index) and its version then.
    spot: where in the user's program the op ran. extra: hooks and metadata, made when asked for.
    """

    __slots__ = (
        "__weakref__",
        "edges",
        "extra",
        "inputs",
        "op",
        "output_types",
        "outputs",
        "params",
        "sequence",
        "spot",
        "types",
        "versions",
    )

    own: type[Node]  # the class that says what it does, of which the one that users see has its name
    fresh = False  # whether each gradient that `apply` gives has memory of its own
    one_op = True  # whether its outputs are those of one op
    foreign = ""  # what its gradients are given by, if that is not the rule of an op
    refused = ""  # why no gradient can be sent here
    argument = False  # whether what it made is an argument that a transform derives by: a leaf to writes
    ready: list[Tensor] | None = None  # the gradients of its edges, if they are known for a backward from 1
    op: Op
    params: Params
    edges: Sequence[tuple[int, Any, int]]
    extra: Extra | None
    inputs: Sequence[Any] | None
    outputs: tuple[Tensor | None, ...] | None
    output_types: Sequence[tuple[tuple[int, ...], np.dtype]]
    sequence: int
    spot: Spot | None
    types: Sequence[Any]
    versions: Sequence[tuple[int, int]]

    def __init_subclass__(cls, own: type[Node] | None = None) -> None:
        cls.own = own or cls

    def begin(self, edges: Any = ()) -> None:
        """Give a node that `record` does not make its edges, and its place in time and in the user's program.

        Edges are there before: who is asked for one may make a node first, and backward goes by their order.
        """
        self.edges = edges
        self.extra = self.outputs = None
        self.sequence = next(sequence)
        self.spot = user_spot()

    def name(self) -> str:
        """PyTorch's name of this node, as in `grad_fn=<MulBackward0>`."""
        return self.op.node_name(self.params, self.types)

    def __repr__(self) -> str:
        return f"<{self.name()}>"

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """Where the gradient of each input tensor goes, as in PyTorch: (node, output index)."""
        targets = {
            index: (AccumulateGrad(target) if isinstance(target, Tensor) else named(target), output)
            for index, target, output in self.edges
        }
        return tuple(targets.get(i, (None, 0)) for i in self.tensor_places())

    def tensor_places(self) -> list[int]:
        """Which inputs are tensors that can have gradients; of a compiled call, which need them."""
        types, op = getattr(self, "types", None), getattr(self, "op", None)
        if types is None:
            return [index for index, _, _ in self.edges]
        places = [index for index, kind in enumerate(types) if kind is not None]
        return places if op is None else [index for index in places if op.rule(index) is not None]

    @property
    def metadata(self) -> dict[str, Any]:
        """A dictionary for the user (and anomaly mode) to write into."""
        return self.extras().metadata

    def extras(self) -> Extra:
        """Hooks and metadata, made at the first use."""
        if self.extra is None:
            self.extra = Extra()
        return self.extra

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn(grad_inputs, grad_outputs)` after the node ran; it may return new grad_inputs."""
        return RemovableHandle(self.extras().hooks, fn)

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn(grad_outputs)` before the node runs; it may return new grad_outputs."""
        return RemovableHandle(self.extras().prehooks, fn)

    def __call__(self, *gradients: Tensor | None) -> Any:
        """The gradients of the inputs, from those of the outputs; one alone, or a tuple."""
        if len(gradients) != len(self.output_types):
            raise failure(
                TypeError, f"expected {len(self.output_types)} arguments, got {len(gradients)} instead"
            )
        found = dict(zip([i for i, _, _ in self.edges], self.apply([*gradients]), strict=True))
        made = tuple([found.get(place) for place in self.tensor_places()])
        return made[0] if len(made) == 1 else made

    def _sequence_nr(self) -> int:
        """Nodes made later have higher numbers."""
        return self.sequence

    def apply(self, gradients: list[Tensor | None], edges: Any = None) -> Sequence[Tensor | None]:
        """The gradients of the inputs on `edges` (all of the node's own, if it is None), from those of the
        outputs; None where there is none.
        """
        inputs = self.inputs
        if inputs is None:
            raise failure(RuntimeError, FREED.format(name=self.name()))
        for index, version in self.versions:
            kept: Any = inputs[index] if index >= 0 else self.outputs[-1 - index]  # type: ignore[index]
            if kept.version[0] != version:
                raise failure(RuntimeError, self._modified(index, kept, version))
        outputs: Sequence[Any] = self.outputs or ()
        if outputs and state.grad_enabled:
            # The kept outputs stand off the graph, or the node would hold itself.
            outputs = [o if o is None else place(share(o), self, i) for i, o in enumerate(outputs)]
        op, types, params, edges = self.op, self.types, self.params, edges or self.edges
        if (interpreter := state.interpreter) is not None:
            inputs, params = interpreter.in_rules(inputs, params)
        g: Any = gradients[0] if len(gradients) == 1 else filled(gradients, self.output_types, op.fills)
        asks = large.answers.kernels is not None and not state.grad_enabled and interpreter is None
        if asks and large.has_large(op, g, types):
            where = [i for i, _, _ in edges]
            return large.gradients(large.Derived(op, where, g, inputs, outputs, types, params))
        return [op.gradient(i, g, inputs, outputs, types, params) for i, _, _ in edges]

    def arrived(self, gradients: list[Tensor | None]) -> list[Tensor | None]:
        """The gradients of the outputs as hooks and whoever asks for them see them."""
        return gradients

    def stale(self) -> list[tuple[Tensor, int]]:
        """What an op kept for backward and has been written since, so that `apply` will refuse: each with the
        number that its writes had.
        """
        inputs, outputs = self.inputs, self.outputs
        if self.own is not Node or inputs is None:
            return []
        kept = [(inputs[i] if i >= 0 else outputs[-1 - i], v) for i, v in self.versions]  # type: ignore[index]
        return [(t, version) for t, version in kept if isinstance(t, Tensor) and t.version[0] != version]

    def release(self) -> None:
        """Drop what was kept for backward; a node that kept nothing can be walked again."""
        if self.versions:
            self.inputs = self.outputs = None

    def keep_written(self, index: int, output: Tensor, target: Tensor) -> None:
        """The node's `output` has been written into `target`: where it is kept, keep the memory of
        `target` in its place, as PyTorch does: half the memory, and the next write will be noticed.
        """
        before = self.outputs[index] if self.outputs else None
        if isinstance(before, Tensor) and before.array is output.array:  # hooks may have taken it
            kept = share(target)
            self.outputs = (*self.outputs[:index], kept, *self.outputs[index + 1 :])  # type: ignore[index]
            self.versions = tuple([(i, kept.version[0] if i == -1 - index else v) for i, v in self.versions])

    def _modified(self, index: int, kept: Tensor, expected: int) -> str:
        if index >= 0:
            name = self.op.arguments[0 if self.op.variadic else index]
            what, (shape, dtype) = f"input {name!r}", self.types[index]
        else:
            what, (shape, dtype) = "output", self.output_types[-1 - index]
        now = kept.version[0]
        message = MODIFIED.format(
            name=self.name(), what=what, dtype=dtype.name, shape=list(shape), then=expected, now=now
        )
        return message + written_text(kept.version) + forward_text(self)


Node.own = Node


def forward_text(node: Node) -> str:
    """The line of a message that says where the node's op ran."""
    where = spot_text(node.spot)
    return f"\n  {node.name()} is the backward of {where}" if where else ""


def written_text(version: list[Any]) -> str:
    """The line of a message that says where the last write into a memory was."""
    number, spot = version[1] or (None, None)
    where = spot_text(spot) if number == version[0] else ""
    return f"\n  written in place at {where}" if where else ""


class PartNode(Node):
    """The node of a part of a leaf, whose gradient is zero but for that part.

    To the `.grad` of the leaf it is added where the part is: a table has many rows, of which a program may
    pick one at a time.
    """

    __slots__ = ()

    def add(self, gradient: Any, taken: set[int]) -> bool:
        """Add `gradient` to the part, if the leaf has a `.grad` that may be written (see `is_writable`), and
        nobody else looks at it.
        """
        known = self.edges[0][1].gradient
        if known is None or self.extra is not None or not is_writable(known, gradient, taken):
            return False
        # What the leaf has by now may have another shape than what the part was taken of.
        if known.array.shape != self.types[0][0]:
            return False
        part, added = self.op.evaluate((known,), self.params), gradient.array
        if self.edges[0][1].gradient is not known:
            return False  # a signal handler came in between
        np.add(part, added, part)
        known.version[0] += 1
        return True


def is_writable(known: Tensor, gradient: Tensor, taken: set[int]) -> bool:
    """Whether `known`, the `.grad` of a leaf, takes what is added to it in its own memory.

    taken: ids of arrays that somebody else may hold.
    """
    array = known.array
    dtype, added = array.dtype, gradient.array.dtype
    # One from before the leaf got another dtype stays what it was.
    if (
        (dtype is not added and not np.can_cast(added, dtype, "same_kind"))
        or known.needs_grad
        or not array.flags.writeable
        or known.is_meta
    ):
        return False
    return not taken or id(array) not in taken


def reach(*tensors: Tensor) -> None:
    """Tell an interpreter that `tensors` are going to be read: their memory, or their place on the graph."""
    if putting_off:
        give_values(tensors)
    if state.interpreter is not None:
        for tensor in tensors:
            state.interpreter.reach(tensor)


# A number that is higher than those of all nodes made before, and lower than of those made later.
next_sequence = sequence.__next__


def replaced_gradient(tensor: Tensor, known: Tensor | None, version: int, gradient: Tensor) -> bool:
    """Make `gradient` the `.grad` of `tensor`, if that is still `known`, at this version; whether it was."""
    if tensor.gradient is not known or (known is not None and known.version[0] != version):
        return False  # a signal handler, or another thread, has set it since, or added to it
    tensor.gradient = gradient
    return True


def share(tensor: Tensor) -> Tensor:
    """The memory and version counter of `tensor` in a tensor off the graph."""
    other = wrap(tensor.array)
    other.version = tensor.version
    return other


def place(tensor: Tensor, node: Node, index: int) -> Tensor:
    """`tensor` made the output `index` of `node`."""
    tensor.needs_grad = True
    tensor.maker = node
    tensor.output_index = index
    return tensor


def edge_of(tensor: Tensor) -> tuple[Any, int]:
    """Where a gradient of `tensor` goes: the node that made it and which output, or the leaf itself."""
    node = tensor.maker
    if node is None:
        return tensor, 0
    if node.refused:
        node = tensor.grad_fn  # of a view that lags behind it is another
        if node.refused:
            raise failure(RuntimeError, node.refused)
    return node, tensor.output_index


def filled(
    gradients: list[Tensor | None], types: Sequence[tuple[tuple[int, ...], np.dtype]], fills: bool = True
) -> list[Any]:
    """`gradients` with zeros for the outputs that nobody used; as they are if it says not to."""
    return (
        gradients
        if not fills
        else [
            constant(0, shape, dtype, next(g for g in gradients if g is not None)) if g is None else g
            for g, (shape, dtype) in zip(gradients, types, strict=True)
        ]
    )


def constant(value: int, shape: tuple[int, ...], dtype: np.dtype, beside: Tensor | None = None) -> Tensor:
    """A tensor full of 0 or 1 that backward starts with, made by an op where an interpreter looks on.

    beside: a tensor on whose device it is to be, if not the CPU.
    """
    if beside is not None and beside.is_meta:
        return wrap(meta_array(shape, dtype))
    if state.interpreter is not None:
        return ops.full(shape, value, dtype=FROM_NUMPY[dtype])
    array = np.zeros(shape, dtype)
    if value:
        array[...] = value  # `np.ones` takes four times as long for a number
    return wrap(array)


def _kept(op: Op, args: tuple[Any, ...], node: Node) -> list[Any]:
    """Give a node for `op` its edges, types, inputs, and the number of writes into each input that it keeps.
    Gives the rules for which it keeps outputs.

    All are tuples: Python's collector of garbage looks at each list again and again, and of tuples only at
    those that hold objects. On the graph of a long program there are hundreds of thousands.
    """
    versions: list[tuple[int, int]] = []
    edges: list[tuple[int, Any, int]] = []
    saved: Any = [None if isinstance(a, Tensor) else a for a in args] if op.saves else ()
    types: list[Any] = []
    keeping: list[Any] = []
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
        made = a.maker
        if made is None:
            edges.append((index, a, 0))
        elif made.refused:
            edges.append((index, *edge_of(a)))
        else:
            edges.append((index, made, a.output_index))
        if rule.needs_output:
            keeping.append(rule)
        for i in rule.saved(len(args)):
            if saved[i] is None:
                saved[i] = args[i]
                versions.append((i, args[i].version[0]))
    node.edges, node.types, node.inputs, node.versions = (
        tuple(edges),
        tuple(types),
        tuple(saved),
        tuple(versions),
    )
    return keeping


def record(op: Op, args: tuple[Any, ...], params: Params, outputs: tuple[Tensor, ...]) -> None:
    """Put `op` on the graph: the outputs that can have a gradient get a node that made them."""
    node: Node
    keeping = None
    if op.keeps_nothing:
        # What `_kept` comes to for the one input, which needs a gradient, or nobody would be here.
        (x,) = args
        array, made = x.array, x.maker
        if made is None:
            node = PartNode() if op.part else Node()
            node.edges = ((0, x, 0),)
        else:
            node = Node()
            node.edges = ((0, *edge_of(x)),)
        node.inputs, node.types, node.versions = (), ((array.shape, array.dtype),), ()
    else:
        node = Node()
        keeping = _kept(op, args, node)
        if not node.edges:
            return
    node.op, node.params = op, params
    node.sequence = next(sequence)
    node.extra = node.outputs = None
    # `user_spot`, spelled out, since it runs for every op. Above this frame are `_finished`, `evaluate` and
    # `bind`, or what stands for them, and whoever has asked for the op.
    try:
        frame: Any = _frame(4)
    except ValueError:  # somebody else, of whom a program asked at its top
        frame = _frame(0)
    code = frame.f_code
    own = own_file(code.co_filename)
    while own:
        frame = frame.f_back
        code = frame.f_code
        own = own_file(code.co_filename)
    node.spot = (code, frame.f_lasti) if own is False else user_spot()
    if keeping:
        _keep(node, outputs, keeping)
    output_types = []
    leads = None if op.leads is None else op.leads(params)
    for i, output in enumerate(outputs):
        array = output.array
        dtype = array.dtype
        output_types.append((array.shape, dtype))
        if dtype.kind in "fcV" and (leads is None or any(index in leads[i] for index, _, _ in node.edges)):
            output.needs_grad = True
            output.maker = node
            output.output_index = i
    node.output_types = tuple(output_types)
    for watch in watchers:
        watch(node)


def _keep(node: Node, outputs: tuple[Tensor, ...], rules: list[Any]) -> None:
    """Have `node` keep the values of the outputs which its rules ask for."""
    kept: tuple[Tensor | None, ...] = outputs
    if len(outputs) > 1:
        asked = {i for rule in rules for i in rule.saved_outputs(len(outputs))}
        kept = tuple([o if i in asked else None for i, o in enumerate(outputs)])
    node.outputs = tuple([None if o is None else share(o) for o in kept])
    node.versions += tuple(  # type: ignore[operator]
        [(-1 - i, o.version[0]) for i, o in enumerate(kept) if o is not None]
    )


_frame = sys._getframe
own_file = known_files.get
