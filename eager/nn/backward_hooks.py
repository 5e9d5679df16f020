"""Hooks on a module's gradients: its inputs and outputs pass through nodes that call them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from fusegrad.eager.autograd.function import Function
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.state import state
from fusegrad.eager.core.tensor import Tensor


class BackwardHookFunction(Function):
    """Gives its tensors on; `seen` gets their gradients, all together, and may replace them.

    filled: whether zeros stand for gradients that do not come.
    """

    @staticmethod
    def forward(ctx: Any, seen: Callable[..., Any], filled: bool, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.seen = seen
        ctx.set_materialize_grads(filled)
        ctx.mark_non_differentiable(*(t for t in tensors if not t.needs_grad))
        return tensors

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        return None, None, *ctx.seen(gradients)


class BackwardHooks:
    """One call of a module whose gradients are watched. Source: `torch.utils.hooks.BackwardHook`.

    grad_outputs: what came to the outputs, until the inputs' gradients are known.
    """

    def __init__(self, module: Any) -> None:
        self.module = module
        self.before = tuple(module._backward_pre_hooks.values())
        self.after = tuple(module._backward_hooks.values())
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
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors "
                f"but received {type(result)}",
                stacklevel=4,
            )
            return result
        outputs = result if isinstance(result, tuple) else (result,)
        places: list[int] = []
        watched, found = _watched(outputs, lambda g: self._outputs_known(g, places, len(outputs)), False)
        places += found
        return watched if isinstance(result, tuple) else watched[0]

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
            raise failure(
                RuntimeError,
                "Module backward hook for grad_input is called before the grad_output one. This happens "
                "because the gradient in your nn.Module flows to the Module's input without passing through "
                "the Module's output. Make sure that the output depends on the input and that the loss is "
                "computed based on the output.",
            )
        grad_inputs = _packed(gradients, self.inputs, self.input_count)
        for hook in self.after:
            made = hook(self.module, grad_inputs, self.grad_outputs)
            grad_inputs = _replaced(made, grad_inputs, "hook", "grad_input")
        self.grad_outputs = None
        return [grad_inputs[i] for i in self.inputs]


def _watched(
    values: tuple[Any, ...], seen: Callable[..., Any], filled: bool
) -> tuple[tuple[Any, ...], list[int]]:
    """`values` with the tensors among them behind one node, if any needs a gradient; and their places."""
    places = [i for i, v in enumerate(values) if isinstance(v, Tensor)]
    if not any(values[i].needs_grad for i in places) or not state.grad_enabled:
        return values, []
    passed = BackwardHookFunction.apply(seen, filled, *(values[i] for i in places))
    result = list(values)
    for i, tensor in zip(places, passed, strict=True):
        result[i] = tensor
    return tuple(result), places


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
