"""What nodes keep for backward, handed to the user: `saved_tensors_hooks`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusegrad.eager.autograd.edges import GradientEdge, Passing, get_gradient_edge, increment_version
from fusegrad.eager.autograd.function import FunctionNode
from fusegrad.eager.autograd.multi_hooks import register_multi_grad_hook
from fusegrad.eager.autograd.node import FREED, Node, filled, place, share, watchers
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor

__all__ = [
    "GradientEdge",
    "Node",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class saved_tensors_hooks:
    """Inside, what backward will need goes through `pack_hook`, and comes back through `unpack_hook`.

    As `torch.autograd.graph.saved_tensors_hooks`: pack_hook gets each tensor (off the graph) that an op
    keeps and gives anything; unpack_hook gets that in backward and gives a tensor of the same values.

    >>> import fusegrad as fg
    >>> x = fg.tensor([1.0, 2.0], requires_grad=True)
    >>> with fg.autograd.graph.saved_tensors_hooks(lambda t: t.numpy().tolist(), fg.tensor):
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 4.])
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self._pair = (pack_hook, unpack_hook)

    def __enter__(self) -> None:
        if state.interpreter is not None and self._watch() is _pack:
            state.interpreter.effect("hands what backward needs to saved_tensors_hooks")
        state.saved_hooks = (self._pair, state.saved_hooks)
        watchers.append(self._watch())

    def __exit__(self, *exception: object) -> None:
        # A backward takes back what hooks entered in it, so there may be nothing to leave.
        if state.saved_hooks is not None:
            state.saved_hooks = state.saved_hooks[1]
        if self._watch() in watchers:
            watchers.remove(self._watch())

    def _watch(self) -> Callable[[Any], None]:
        """What is told of each node."""
        return _pack


class followed_hooks(saved_tensors_hooks):
    """Hooks of fusegrad's own, which interpreters may do without: ops inside wait as others do."""

    def _watch(self) -> Callable[[Any], None]:
        return pack_followed


class save_on_cpu(followed_hooks):
    """Keeps what backward needs on the CPU, where it is; as `torch.autograd.graph.save_on_cpu`."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cpu") -> None:
        super().__init__(lambda tensor: tensor, lambda tensor: tensor)


class _Packed:
    """A kept tensor that the pack hook took; what it is on the graph stays here."""

    __slots__ = ("leaf", "made", "needs_grad", "node", "output", "pair")

    def __init__(self, tensor: Tensor, pair: tuple[Callable[..., Any], Callable[..., Any]]) -> None:
        self.pair = pair
        self.needs_grad, self.node, self.output = tensor.needs_grad, tensor.grad_fn, tensor.output_index
        self.leaf = tensor if tensor.needs_grad and tensor.grad_fn is None else None
        given = share(tensor)
        number = given.version[0]
        self.made = pair[0](given)
        if given.version[0] != number:
            raise failure(
                RuntimeError,
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack "
                "hook can not be modified by in-place operations as this can lead to unexpected "
                "side-effects.",
            )

    def unpacked(self) -> Tensor:
        """The tensor again."""
        tensor = self.pair[1](self.made)
        if not isinstance(tensor, Tensor):
            raise failure(
                TypeError,
                f"Output of saved tensor unpack_hook expected to be a Tensor but got {type(tensor).__name__}",
            )
        if not self.needs_grad or not state.grad_enabled:
            return tensor
        # A gradient of the gradient must reach what was kept.
        node = Passing(self.leaf) if self.leaf is not None else self.node
        return place(share(tensor), node, self.output)


def _pack(node: Any) -> None:
    """Hand what a new node keeps to the innermost pack hook of its thread (called once per hook pair)."""
    hooks = state.saved_hooks
    if hooks is None or isinstance(node, (PackedNode, PackedFunctionNode)):
        return
    packs = PackedFunctionNode if isinstance(node, FunctionNode) else PackedNode if node.own is Node else None
    if packs is None or not node.versions:
        return
    state.saved_hooks = None  # the hooks' own ops are not packed
    try:
        _pack_kept(node, hooks[0])
    finally:
        state.saved_hooks = hooks
    node.__class__ = packs if packs is PackedNode else _packed_class(type(node))


def pack_followed(node: Any) -> None:
    """`_pack` for `followed_hooks`."""
    _pack(node)


def is_watched() -> bool:
    """Whether somebody is told of each node as it is made, but for `followed_hooks`."""
    return bool(watchers) and any(watch is not pack_followed for watch in watchers)


def _pack_kept(node: Any, pair: Any) -> None:
    if isinstance(node, FunctionNode):
        assert node.inputs is not None
        node.inputs = [(None if t is None else _Packed(t, pair), o) for t, o in node.inputs]
        return
    inputs, outputs = list(node.inputs), list(node.outputs or ())
    for index, _ in node.versions:
        if index >= 0:
            inputs[index] = _Packed(inputs[index], pair)
        else:
            outputs[-1 - index] = _Packed(outputs[-1 - index], pair)
    node.inputs, node.outputs = inputs, tuple(outputs)


class PackedNode(Node):
    """A node whose kept tensors the hooks hold."""

    __slots__ = ()

    def apply(self, gradients: list[Tensor | None], edges: Any = None) -> Any:
        if self.inputs is None:
            raise failure(RuntimeError, FREED.format(name=self.name()))
        inputs = [t.unpacked() if isinstance(t, _Packed) else t for t in self.inputs]
        outputs: list[Any] = [t.unpacked() if isinstance(t, _Packed) else t for t in self.outputs or ()]
        if outputs and state.grad_enabled:
            outputs = [o if o is None else place(share(o), self, i) for i, o in enumerate(outputs)]
        op, types, params = self.op, self.types, self.params
        if state.interpreter is not None:
            inputs, params = state.interpreter.in_rules(inputs, params)
        g: Any = gradients[0] if len(gradients) == 1 else filled(gradients, self.output_types, op.fills)
        return [op.gradient(i, g, inputs, outputs, types, params) for i, _, _ in edges or self.edges]


class PackedFunctionNode(FunctionNode):
    """A custom Function's node whose kept tensors the hooks hold."""

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """As of an ordinary one."""
        if self.inputs is None:
            raise failure(RuntimeError, FREED.format(name=self.name()))
        found = []
        for kept, output in self.inputs:
            tensor = kept.unpacked() if kept is not None else None
            if tensor is not None and output >= 0 and self.output_types[output][1].kind in "fcV":
                tensor = place(share(tensor), self, output)
            found.append(tensor)
        return tuple(found)


_classes: dict[type, type] = {}


def _packed_class(kind: type) -> type:
    """The class of a Function's nodes, with packed tensors."""
    if kind not in _classes:
        _classes[kind] = type(kind.__name__, (PackedFunctionNode, kind), {})
    return _classes[kind]


locate("fusegrad.autograd.graph", globals(), __all__)
