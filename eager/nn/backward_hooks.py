"""Hooks on a module's gradients: its inputs and outputs pass through nodes that call them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fusegrad.eager.autograd.function import Function
from fusegrad.eager.autograd.node import Node
from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor


class BackwardHookFunction(Function):
    """Gives its tensors on; `seen` gets their gradients, all together, and may replace them.

    zeros: whether these stand for gradients that do not come.
    """

    @staticmethod
    def forward(ctx: Any, seen: Callable[..., Any], zeros: bool, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.seen = seen
        ctx.set_materialize_grads(zeros)
        ctx.mark_non_differentiable(*(t for t in tensors if not t.needs_grad))
        return tensors

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        return None, None, *ctx.seen(gradients)


class BackwardHooks:
    """One call of a module whose gradients are watched. Source: `torch.utils.hooks.BackwardHook`.

    grad_outputs: what came to the outputs, until the inputs' gradients are known.
    """

    def __init__(self, module: Any, before: Sequence[Any], after: Sequence[Any]) -> None:
        self.module, self.before, self.after = module, before, after
        self.inputs: list[int] | None = None  # places of the tensors among the inputs, if any gets a gradient
        self.input_count = 0
        self.grad_outputs: tuple[Any, ...] | None = None

    def watch_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, the tensors among them behind a node that calls the hooks."""
        self.input_count = len(args)
        watched, places = _watched(args, self._inputs_known, True)
        if places:
            self.inputs = places
        return watched

    def watch_outputs(self, result: Any) -> Any:
        """The result, its tensors behind a node that calls the pre-hooks."""
        if not isinstance(result, (Tensor, tuple)):
            warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors "
                f"but received {type(result)}"
            )
            return result
        outputs = result if isinstance(result, tuple) else (result,)
        places: list[int] = []
        watched, found = _watched(outputs, lambda g: self._outputs_known(g, places, len(outputs)), False)
        places += found
        return _like(result, watched) if isinstance(result, tuple) else watched[0]

    def _outputs_known(self, gradients: Sequence[Any], places: list[int], count: int) -> Sequence[Any]:
        grad_outputs = _packed(gradients, places, count)
        for hook in self.before:
            grad_outputs = _replaced(hook(self.module, grad_outputs), grad_outputs, "pre hook", "grad_output")
        self.grad_outputs = grad_outputs
        if self.inputs is None:
            nothing = (None,) * self.input_count
            for hook in self.after:
                made = hook(self.module, nothing, grad_outputs)
                if made is not None and not (isinstance(made, tuple) and all(g is None for g in made)):
                    raise failure(
                        RuntimeError,
                        "Backward hook for Modules where no input requires gradient should always return "
                        "None or None for all gradients.",
                    )
            self.grad_outputs = None
        return [grad_outputs[i] for i in places]

    def _inputs_known(self, gradients: Sequence[Any]) -> Sequence[Any]:
        assert self.inputs is not None
        if self.grad_outputs is None:
            # Nothing came through the outputs: a backward through gradients of this module, say.
            return gradients
        grad_inputs = _packed(gradients, self.inputs, self.input_count)
        for hook in self.after:
            made = hook(self.module, grad_inputs, self.grad_outputs)
            grad_inputs = _replaced(made, grad_inputs, "hook", "grad_input")
        self.grad_outputs = None
        return [grad_inputs[i] for i in self.inputs]


def _watched(
    values: tuple[Any, ...], seen: Callable[..., Any], zeros: bool
) -> tuple[tuple[Any, ...], list[int]]:
    """`values` with the tensors among them behind one node, if any needs a gradient; and their places.

    zeros: `seen` gets zeros for those that no gradient came to, rather than None.
    """
    places = [i for i, v in enumerate(values) if isinstance(v, Tensor)]
    if not any(values[i].needs_grad for i in places) or not state.grad_enabled:
        return values, []
    passed = BackwardHookFunction.apply(seen, zeros, *(values[i] for i in places))
    result = list(values)
    for i, tensor in zip(places, passed, strict=True):
        result[i] = tensor
    return tuple(result), places


def _like(result: tuple[Any, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
    """`values` in a tuple of the type of `result`, which may have names."""
    return values if type(result) is tuple else type(result)(*values)


def watch_last_node(module: Any, hooks: Sequence[Any], args: tuple[Any, ...], result: Any) -> None:
    """Have backward call `hooks` after the node that made a module's result: its hooks that are not full."""
    if not hooks:
        return
    tensor = result
    while not isinstance(tensor, Tensor):
        tensor = (
            next(v for v in tensor.values() if isinstance(v, Tensor))
            if isinstance(tensor, dict)
            else tensor[0]
        )
    node = node_of(tensor)
    if node is None:
        return
    if state.interpreter is not None:
        state.interpreter.effect("puts a hook on a node")
    for hook in hooks:
        node.register_hook(partial(hook, module))
    missed = _missed(args, result, node)
    if missed:
        warn(
            f"Using {missed}. Please use register_full_backward_hook to get the documented behavior.",
            FutureWarning,
        )


def node_of(tensor: Tensor) -> Node | None:
    """The node that made a tensor."""
    if state.interpreter is not None:
        state.interpreter.reach_graph(tensor)
    node: Node | None = tensor.grad_fn
    return node


_MISSING = "is deprecated and will be removed in future versions. This hook will be missing some"


def _missed(args: tuple[Any, ...], result: Any, node: Node) -> str:
    """What hooks of `node`, a module's last one, do not see of the module's gradients; in PyTorch's words."""
    results = result if isinstance(result, tuple) else (result,)
    if not all(isinstance(r, Tensor) for r in results):
        kinds = f"a single Tensor or a tuple of Tensors {_MISSING} of the grad_output"
        return f"non-full backward hooks on a Module that does not return {kinds}"
    if not all(isinstance(a, Tensor) for a in args):
        kinds = f"a single Tensor or a tuple of Tensors {_MISSING} of the grad_input"
        return f"non-full backward hooks on a Module that does not take as input {kinds}"
    makers = {node_of(r) for r in results} - {None}
    if len(makers) > 1:
        return (
            f"a non-full backward hook when outputs are generated by different autograd Nodes {_MISSING} "
            "grad_output"
        )
    if {node_of(a) for a in args} - {None} != {following for following, _ in node.next_functions}:
        return (
            f"a non-full backward hook when the forward contains multiple autograd Nodes {_MISSING} "
            "grad_input"
        )
    return ""


def _packed(gradients: Sequence[Any], places: list[int], count: int) -> tuple[Any, ...]:
    """The gradients in their places, None in the others."""
    result: list[Any] = [None] * count
    for i, gradient in zip(places, gradients, strict=True):
        result[i] = gradient
    return tuple(result)


def _replaced(made: Any, known: tuple[Any, ...], kind: str, what: str) -> tuple[Any, ...]:
    """What a hook gave, or what was known if it gave None."""
    if made is None:
        return known
    made = made if isinstance(made, tuple) else (made,)
    if len(made) != len(known):
        raise failure(
            RuntimeError,
            f"Backward {kind} returned an invalid number of {what}, got {len(made)}, but expected "
            f"{len(known)}",
        )
    return made
