"""Custom differentiable functions: `Function`, and the node that runs its backward."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.autograd import views
from fusegrad.eager.autograd.node import (
    FREED,
    Node,
    constant,
    edge_of,
    forward_text,
    place,
    share,
    watchers,
    written_text,
)
from fusegrad.eager.autograd.once import once_differentiable
from fusegrad.eager.core import families
from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.state import no_grad, refuse_transforms, state
from fusegrad.eager.core.tensor import Tensor

__all__ = ["Function", "InplaceFunction", "once_differentiable"]

NO_CONTEXT = (
    "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must "
    "override the setup_context staticmethod. For more details, please see "
    "https://pytorch.org/docs/main/notes/extending.func.html"
)


class FunctionNode(Node):
    """The node of a call of a `Function`, and the `ctx` that its methods get."""

    # No __slots__: users put attributes on `ctx`.
    function: type[Function]
    materialize_grads = True
    _materialize_non_diff_grads = True  # PyTorch's name: whether results without a gradient get zeros, too
    to_save: Sequence[Any] = ()
    dirty_tensors: Sequence[Tensor] = ()
    non_differentiable: Sequence[Tensor] = ()
    needs_input_grad: tuple[bool, ...] = ()
    # Which results are no tensors, and which have no gradient, by their places.
    plain: frozenset[int]
    constant: frozenset[int]

    def name(self) -> str:
        return type(self).__name__

    @property
    def foreign(self) -> str:  # type: ignore[override]
        return f"the custom Function {self.function.__name__}, whose backward is Python code"

    # What the user's methods call.

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for backward, where `saved_tensors` gives them."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise failure(
                    TypeError,
                    f"save_for_backward can only save variables, but argument is of type {type(t).__name__}",
                )
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Takes what PyTorch's forward mode would need; there is none here."""

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say that forward wrote into these inputs in place; they must be among its results."""
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say that these results have no gradient."""
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros for results that nobody used (it does), or None."""
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors that `save_for_backward` kept; RuntimeError if they were freed, or written since."""
        if self.inputs is None:
            raise failure(RuntimeError, FREED.format(name=self.name()))
        return tuple([self._restored(i, *kept) for i, kept in enumerate(self.inputs)])

    # The node.

    def keep(self, outputs: Sequence[Any]) -> None:
        """Keep what is to be saved; results stand off the graph, or the node would hold itself."""
        numbers = {id(o): i for i, o in enumerate(outputs) if isinstance(o, Tensor)}
        kept: list[Any] = []
        self.versions = []
        for i, tensor in enumerate(self.to_save):
            if tensor is None:
                kept.append((None, -1))
                continue
            number = numbers.get(id(tensor), -1)
            kept.append((share(tensor) if number >= 0 else tensor, number))
            self.versions.append((i, tensor.version[0]))
        self.inputs = kept
        self.to_save = ()

    def _restored(self, place_: int, tensor: Any, output: int) -> Any:
        expected = dict(self.versions).get(place_)
        if tensor is None:
            return None
        if tensor.version[0] != expected:
            raise failure(
                RuntimeError,
                "one of the variables needed for gradient computation has been modified by an inplace "
                f"operation: saved tensor {place_} of {self.name()} "
                f"({tensor.array.dtype.name}{list(tensor.array.shape)}) was kept at version {expected}, and "
                f"is at version {tensor.version[0]} now." + written_text(tensor.version) + forward_text(self),
            )
        if output >= 0 and self.output_types[output][1].kind in "fcV" and output not in self.constant:
            return place(share(tensor), self, output)
        return tensor

    def apply(self, gradients: list[Tensor | None], edges: Any = None) -> list[Tensor | None]:
        given: list[Any] = list(gradients)
        if self.materialize_grads:
            left_out = self.plain if self._materialize_non_diff_grads else self.plain | self.constant
            given = [
                constant(0, shape, dtype) if g is None and i not in left_out else g
                for i, (g, (shape, dtype)) in enumerate(zip(gradients, self.output_types, strict=True))
            ]
        if self.function._ambiguous:
            raise failure(
                RuntimeError,
                f"Implementing both 'backward' and 'vjp' for a custom Function is not allowed: {self.name()}",
            )
        made = _method(self.function, "backward", self)(self, *given)  # None for results that are no tensors
        return self._fitted(made if isinstance(made, tuple) else (made,), edges or self.edges)

    def _fitted(self, made: tuple[Any, ...], edges: Any) -> list[Tensor | None]:
        """What backward returned, checked and brought to the inputs' shapes and dtypes."""
        while len(made) > len(self.types) and made[-1] is None:
            made = made[:-1]
        if len(made) != len(self.types):
            raise failure(
                RuntimeError,
                f"function {self.name()} returned an incorrect number of gradients (expected "
                f"{len(self.types)}, got {len(made)})",
            )
        for i, (gradient, known) in enumerate(zip(made, self.types, strict=True)):
            if gradient is not None and known is None:
                raise failure(
                    RuntimeError,
                    f"function {self.name()} returned a gradient different from None at position {i + 1}, "
                    "but the corresponding forward input was not a Variable",
                )
            if gradient is not None and not isinstance(gradient, Tensor):
                raise failure(
                    RuntimeError,
                    f"expected Variable or None (got {type(gradient).__name__}) from {self.name()}",
                )
        return [made[i] if made[i] is None else self._fit(i, made[i]) for i, _, _ in edges]

    def _fit(self, index: int, gradient: Tensor) -> Tensor:
        shape, dtype = self.types[index]
        given = gradient.array.shape
        if given == shape and gradient.array.dtype == dtype:
            return gradient
        lead = len(given) - len(shape)
        if lead < 0 or any(n != 1 and n != m for n, m in zip(shape, given[lead:], strict=True)):
            raise failure(
                RuntimeError,
                f"Function {self.name()} returned an invalid gradient at index {index} - got {list(given)} "
                f"but expected shape compatible with {list(shape)}",
            )
        return families.fit(gradient, shape, dtype)

    def release(self) -> None:
        if self.versions:
            self.inputs = None


class Function:
    """A function with a backward of its own; as `torch.autograd.Function`.

    Subclasses define static methods `forward(ctx, *args)` and `backward(ctx, *gradients)`, or
    `forward(*args)` and `setup_context(ctx, inputs, output)`; `apply(*args)` calls it.

    >>> import fusegrad as fg
    >>> class Square(fg.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     def backward(ctx, gradient):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x * gradient
    >>> x = fg.tensor(3.0, requires_grad=True)
    >>> Square.apply(x).backward()
    >>> x.grad
    tensor(6.)
    """

    _backward_cls: type[FunctionNode]
    generate_vmap_rule = False  # whether `vmap` runs forward and backward on batches
    _ambiguous = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._backward_cls = type(f"{cls.__name__}Backward", (FunctionNode,), {"function": cls})
        cls._ambiguous = "vjp" in vars(cls) and "backward" in vars(cls)
        if "vjp" in vars(cls) and "backward" not in vars(cls):
            cls.backward = cls.vjp  # type: ignore[attr-defined, method-assign]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you "
            "should invoke them on the class itself. Instantiating an autograd function will raise an error "
            "in a future version of PyTorch.",
            DeprecationWarning,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise failure(
            RuntimeError,
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style "
            f"autograd function with static forward method: {type(self).__name__}.apply(...)",
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save what backward needs, for a `forward` without `ctx`."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """The gradients of the arguments, from those of the results."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use "
            "it with backward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        """The results for a batch, and where they have it: `info` has `batch_size` and `randomness`."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap static method or set "
            "generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the function, and put it on the graph.

        Arguments may be given by their names. Raises RuntimeError, if there is no `setup_context`, within
        functions that a functional transform calls.
        """
        set_up = cls.setup_context is not Function.setup_context
        if not set_up:
            refuse_transforms(NO_CONTEXT)
        return cls._applied(*_in_order(cls.forward, args, kwargs, set_up))

    @classmethod
    def _applied(cls, *args: Any) -> Any:
        applied = None if state.interpreter is None else state.interpreter.applies(cls, args)
        node = cls._backward_cls()
        forward = _method(cls, "forward", node)  # what waits comes before the node
        node.needs_input_grad = tuple(isinstance(a, Tensor) and a.needs_grad for a in args)
        recorded = state.grad_enabled and any(node.needs_input_grad)
        # Edges are those of before what forward writes.
        wanted = [(i, a) for i, a in enumerate(args) if recorded and node.needs_input_grad[i]]
        node.begin([(i, *edge_of(a)) for i, a in wanted])
        node.extras()  # backward must take it for one whose gradients the user may hold
        with no_grad():
            if cls.setup_context is not Function.setup_context:
                output = forward(*args) if applied is None else applied[0]
                _method(cls, "setup_context", node)(node, args, output)
            else:
                output = forward(node, *args)
        if state.interpreter is not None:
            state.interpreter.ended_method(cls, node)
        outputs = output if isinstance(output, (tuple, list)) else (output,)
        results = _placed(node, args, outputs, recorded)
        return type(output)(results) if isinstance(output, (tuple, list)) else results[0]


def _method(cls: type[Function], name: str, node: FunctionNode) -> Callable[..., Any]:
    """A method that is about to be called, or what an interpreter has in its place."""
    found = state.interpreter and state.interpreter.begins_method(cls, name, node)
    return found or getattr(cls, name)


class InplaceFunction(Function):
    """A function that says of itself whether it writes in place; only the name of older programs.

    Source: `torch.autograd.function.InplaceFunction`.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


def _in_order(
    forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], set_up: bool
) -> tuple[Any, ...]:
    """The arguments of a call in the order of `forward`, which has a `ctx` first without a `setup_context`;
    with the defaults of those that were not given, if there is one (`set_up`).
    """
    defaults = set_up and getattr(forward, "__defaults__", None)
    if not kwargs and not defaults:
        return args
    context = () if set_up else (None,)
    bound = inspect.signature(forward).bind(*context, *args, **kwargs)
    for name in bound.kwargs:
        if state.transforms and isinstance(kwargs[name], Tensor):
            raise failure(
                NotImplementedError,
                "Run vmap on autograd.Function with kwarg-only Tensor args. Please do not pass kwarg-only "
                f"Tensors to autograd.Function. Got: {name}",
            )
        raise failure(TypeError, f"forward() got an unexpected keyword argument '{name}'")
    if defaults:
        bound.apply_defaults()
    return bound.args[len(context) :]


def _placed(node: FunctionNode, args: tuple[Any, ...], outputs: Sequence[Any], recorded: bool) -> list[Any]:
    """The results on the graph."""
    inputs = {id(a) for a in args if isinstance(a, Tensor)}
    dirty = {id(t) for t in node.dirty_tensors}
    constant = {id(t) for t in node.non_differentiable}
    for t in node.dirty_tensors:
        if id(t) not in inputs:
            warn(
                f"{node.name()}: mark_dirty() got a tensor that is no input of the function, which changes "
                "nothing; only inputs that forward writes in place should be given"
            )
            continue
        if not any(t is o for o in outputs):
            raise failure(
                RuntimeError,
                f"{node.name()}: Some elements marked as dirty during the forward method were not returned "
                "as output. The inputs that are modified inplace must all be outputs of the Function.",
            )
        if recorded:
            _check_dirty(node, t, outputs)
        views.wrote(t)
    if type(node).function.setup_context is not Function.setup_context:
        _check_saved(node, outputs, inputs, dirty)
    if not recorded:
        return [
            _unrecorded(i, o, id(o) in inputs) if isinstance(o, Tensor) and id(o) not in dirty else o
            for i, o in enumerate(outputs)
        ]
    node.types = [(a.array.shape, a.array.dtype) if isinstance(a, Tensor) else None for a in args]
    node.plain = frozenset(i for i, o in enumerate(outputs) if not isinstance(o, Tensor))
    node.constant = frozenset(i for i, o in enumerate(outputs) if id(o) in constant)
    node.output_types = [
        (o.array.shape, o.array.dtype) if isinstance(o, Tensor) else ((), np.dtype(float)) for o in outputs
    ]
    node.keep(outputs)
    node.dirty_tensors = node.non_differentiable = ()
    results: list[Any] = []
    for i, output in enumerate(outputs):
        if any(output is r for r in results if isinstance(r, Tensor) and r.grad_fn is node):
            results.append(place(output, node, i))  # one tensor, whose gradient goes to its last place
        elif i in node.plain or i in node.constant or output.array.dtype.kind not in "fcV":
            results.append(output)
        elif id(output) in dirty:
            results.append(_written(node, i, output))
        else:
            results.append(_result(node, i, output, id(output) in inputs))
    for watch in watchers:
        watch(node)
    return results


def _check_saved(node: FunctionNode, outputs: Sequence[Any], inputs: set[int], dirty: set[int]) -> None:
    """Refuse to save an input that was returned as it is, since the result is to be another tensor."""
    returned = {id(o) for o in outputs} & inputs - dirty
    if any(id(t) in returned for t in node.to_save):
        raise failure(
            RuntimeError,
            f"{node.name()}: An input that has been returned as-is as output is being saved for backward. "
            "This is not supported if you override setup_context. You should return and save a view of the "
            "input instead, e.g. with x.view_as(x) or setup ctx inside the forward function itself.",
        )


def _check_dirty(node: FunctionNode, tensor: Tensor, outputs: Sequence[Any]) -> None:
    """Refuse a write of an input that cannot be followed."""
    views.check_write(tensor, node.name())
    if views.base_of(tensor) is not tensor and len(outputs) > 1:
        raise failure(
            RuntimeError,
            f"{node.name()}: If your Function modifies inplace an input that is a view of another Tensor, "
            "your Function cannot return more than one Tensor. You should either make sure the input is not "
            "a view (using .clone() for example) or make your Function only return one Tensor.",
        )


def _unrecorded(index: int, output: Tensor, is_input: bool) -> Tensor:
    """A result that is not on the graph: of a view it is one that must not get there by a write."""
    result = _itself(output) if is_input else output
    if state.grad_enabled and (is_input or type(output.alias) is tuple):
        steps = output.alias[1] if type(output.alias) is tuple else ()
        views.refused_when_written(result, views.base_of(output), steps, (views.FUNCTION, index, ""))
    return result


def _itself(tensor: Tensor) -> Tensor:
    """The same memory as another tensor: what a function gives that returns its input.

    A class of users' is asked for a view, and says what comes of it.
    """
    if type(tensor) is Tensor:
        return share(tensor)
    with no_grad():
        view: Tensor = tensor.view_as(tensor)
    return view


def _written(node: FunctionNode, index: int, tensor: Tensor) -> Tensor:
    """An input that was written in place, as a result."""
    if views.base_of(tensor) is not tensor:
        value = place(share(tensor), node, index)
        views.moved(views.base_of(tensor), tensor.alias[1], value, node.name())
    else:
        views.settle(tensor, node, index)
        views.refresh(tensor)
    return tensor


def _result(node: FunctionNode, index: int, output: Tensor, is_input: bool) -> Tensor:
    alias = output.alias
    result = _itself(output) if is_input else share(output) if output.needs_grad else output
    place(result, node, index)
    origin = (views.FUNCTION, index, node.name())
    if is_input:
        steps = alias[1] if type(alias) is tuple else ()
        views.refused_when_written(result, views.base_of(output), steps, origin)
    elif type(alias) is tuple:
        views.refused_when_written(result, alias[0], alias[1], origin)
    return result


locate("fusegrad.autograd.function", globals(), __all__)
