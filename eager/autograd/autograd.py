"""Automatic differentiation: the public face, as `torch.autograd`.

The graph stands in `eager/autograd/node.py`, the engine that walks it in `eager/autograd/engine.py`, writes
and views in `eager/autograd/views.py`, hooks in `eager/autograd/hooks.py`.
"""

from __future__ import annotations

from typing import Any

from fusegrad.eager.autograd.accumulation import add_to_leaf
from fusegrad.eager.autograd.anomaly import detect_anomaly, set_detect_anomaly
from fusegrad.eager.autograd.edges import GradientEdge, at_edges
from fusegrad.eager.autograd.engine import hand_on, reachable, run_backward
from fusegrad.eager.autograd.function import Function
from fusegrad.eager.autograd.hooks import refuse_beside
from fusegrad.eager.autograd.node import FREED, Node, filled, place, record, share
from fusegrad.eager.autograd.variable import Variable
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.names import attach, renamed
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.settings import warn_once
from fusegrad.eager.core.state import (
    enable_grad,
    inference_mode,
    no_grad,
    refuse_transforms,
    set_grad_enabled,
)
from fusegrad.eager.core.tensor import Tensor

__all__ = [
    "FREED",
    "Function",
    "Node",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "filled",
    "grad",
    "inference_mode",
    "no_grad",
    "place",
    "record",
    "run_backward",
    "set_detect_anomaly",
    "set_grad_enabled",
    "share",
]


_INSIDE = (
    "backward() called inside a functorch transform. This is not supported, please use functorch.grad or "
    "functorch.vjp instead or call backward() outside of functorch transforms."
)
_CYCLE = (
    "Using backward() with create_graph=True will create a reference cycle between the parameter and its "
    "gradient which can cause a memory leak. We recommend using autograd.grad when creating the graph to "
    "avoid this. If you have to use this function, make sure to reset the .grad fields of your parameters to "
    "None after use to break the cycle and avoid the leak."
)


def as_sequence(value: Any) -> list[Any]:
    """One tensor (or place of one on the graph), or a sequence of them, as a list of tensors."""
    single = isinstance(value, (Tensor, GradientEdge)) or value is None
    return at_edges([value] if single else list(value))


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add the gradients of the sum of `tensors` to the `.grad` of the leaves; as `torch.autograd.backward`.

    grad_tensors: the gradients to start with; None where a tensor has one element.
    inputs: add to the `.grad` of these tensors only, which need not be leaves.
    """
    refuse_transforms(_INSIDE)
    grad_tensors = grad_variables if grad_tensors is None else grad_tensors
    roots = as_sequence(tensors)
    gradients = as_sequence(grad_tensors) if grad_tensors is not None else None
    retain = create_graph if retain_graph is None else retain_graph
    if create_graph:
        warn_once(_CYCLE)
    if inputs is None:
        run_backward(roots, gradients, retain, create_graph)
        return
    wanted = _wanted(inputs, "backward")
    for tensor in wanted:
        if tensor.grad_fn is not None:
            tensor.retain_grad()  # which adds to its `.grad`, in this backward and in later ones
    found = run_backward(roots, gradients, retain, create_graph, wanted, adds=True)
    taken = {id(g.array) for g in gradients or () if g is not None}
    for tensor, gradient in zip(wanted, found, strict=True):
        if gradient is not None and tensor.grad_fn is None:
            add_to_leaf(tensor, gradient, create_graph, taken)


def _wanted(inputs: Any, name: str) -> list[Tensor]:
    """`inputs` as a list, checked."""
    wanted = as_sequence(inputs)
    if not wanted:
        raise failure(RuntimeError, f"`inputs` argument to `{name}()` cannot be empty.")
    for i, tensor in enumerate(wanted):
        if not isinstance(tensor, Tensor):
            raise failure(TypeError, f"input {i} of {name} is no tensor, but a {type(tensor).__name__}")
        if not tensor.needs_grad:
            raise failure(
                RuntimeError, f"One of the differentiated Tensors does not require grad: input {i} of {name}"
            )
        refuse_beside(tensor, name)
    return wanted


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of `outputs` with respect to `inputs`, as a tuple; as `torch.autograd.grad`.

    is_grads_batched: grad_outputs have a first dimension of examples, each with its gradients.
    allow_unused: give None for an input that was not used, where otherwise RuntimeError is raised;
    materialize_grads: give zeros for it.

    >>> import fusegrad as fg
    >>> x = fg.tensor(3.0, requires_grad=True)
    >>> fg.autograd.grad(x * x, x)
    (tensor(6.),)
    """
    if materialize_grads and allow_unused is False:
        raise failure(
            ValueError,
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "allow_unused=False.",
        )
    single = isinstance(inputs, (Tensor, GradientEdge)) or inputs is None
    inputs = [inputs] if single else list(inputs)
    if is_grads_batched:
        return _batched(
            outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads
        )
    roots, wanted = as_sequence(outputs), _wanted(inputs, "grad")
    gradients = as_sequence(grad_outputs) if grad_outputs is not None else None
    retain = create_graph if retain_graph is None else retain_graph
    results = run_backward(roots, gradients, retain, create_graph, wanted)
    for i, result in enumerate(results):
        if result is None and materialize_grads and isinstance(inputs[i], GradientEdge):
            raise failure(
                RuntimeError, "materialize_grads cannot be used when the given input is a GradientEdge"
            )
        if result is None and materialize_grads:
            results[i] = ops.zeros_like(wanted[i])
            results[i].needs_grad = create_graph  # type: ignore[union-attr]
        elif result is None and not allow_unused:
            raise failure(
                RuntimeError,
                f"The differentiated Tensor at index {i} appears to not have been used in the graph. Set "
                "allow_unused=True if this is the desired behavior.",
            )
    return tuple(results)


def _batched(
    outputs: Any,
    inputs: list[Any],
    grad_outputs: Any,
    retain_graph: bool | None,
    create_graph: bool,
    allow_unused: bool | None,
    materialize_grads: bool,
) -> tuple[Tensor | None, ...]:
    """`grad` for each example of `grad_outputs`, by one backward."""
    given: list[Any] = as_sequence(grad_outputs) if grad_outputs is not None else [None]
    places = [i for i, g in enumerate(given) if g is not None]
    if not places:
        raise failure(RuntimeError, "is_grads_batched=True: grad_outputs have no examples")
    for i, (root, example) in enumerate(zip(as_sequence(outputs), given, strict=False)):
        if example is not None and example.shape[1:] != root.shape:
            raise failure(
                RuntimeError,
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the "
                "batch dimension. The sizes of the remaining dimensions are expected to match the shape of "
                f"corresponding output, but a mismatch was detected: grad_output[{i}] has a shape of "
                f"{example.shape} and output[{i}] has a shape of {root.shape}",
            )
    known: list[bool] = []

    def of_one(*examples: Tensor) -> list[Tensor]:
        one = list(given)
        for place_, example in zip(places, examples, strict=True):
            one[place_] = example
        found = grad(
            outputs, inputs, one, True, create_graph, True, allow_unused, materialize_grads=materialize_grads
        )
        known[:] = [g is not None for g in found]
        return [g for g in found if g is not None]

    made = iter(ops.for_each(of_one, [given[i] for i in places]))
    if not (create_graph if retain_graph is None else retain_graph):
        for node in reachable(as_sequence(outputs)):
            node.release()
    return tuple([next(made) if is_known else None for is_known in known])


def _backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of this tensor to `.grad` of the leaves; as `torch.Tensor.backward`.

    gradient: the gradient of this tensor, of its shape; may be left out for one element.
    retain_graph: keep what is saved, so that backward can run again.
    create_graph: make the gradients differentiable themselves.
    inputs: add to the `.grad` of these tensors only.

    >>> import fusegrad as fg
    >>> x = fg.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """
    refuse_transforms(_INSIDE)
    if inputs is None:
        retain = create_graph if retain_graph is None else retain_graph
        if create_graph:
            warn_once(_CYCLE)
        elif gradient is None and self.grad_fn is not None and self.grad_fn.ready and hand_on(self, retain):
            return
        run_backward([self], [gradient], retain, create_graph)
    else:
        backward([self], [gradient], retain_graph, create_graph, inputs=inputs)


attach(renamed(_backward, "backward"))


locate("fusegrad.autograd", globals(), __all__)
