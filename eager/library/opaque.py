"""A user's function as an op: arguments go in, and one equation of a recorded run comes out.

What the function does is nobody's business: it is called with tensors, also by what is compiled, between
kernels. So it must depend on nothing but its arguments, as `torch.library.custom_op` asks.
"""

from __future__ import annotations

import functools
import re
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.dtypes import DType
from fusegrad.eager.core.op import REGISTRY, Op, Params, TensorType, wrap
from fusegrad.eager.core.places.device import META, made_on
from fusegrad.eager.core.state import in_state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.create.creation import empty

TENSOR = "tensor"
MOST_SEEN = 1024  # shapes whose results' types are remembered
_LITERALS = (bool, int, float, complex, str, DType, type(None))


def _unseen() -> in_state:
    """Out of sight of whoever records the run, and of gradients."""
    return in_state(interpreter=None, grad_enabled=False, autocast=None)


class OpaqueCall(Op):
    """The op of one user's function, of any number of tensors. Params: `arguments`, its other arguments.

    fake: gives tensors without values for such tensors, which tells types without a call; without it the op
    knows the types of what it has given.
    """

    family = "opaque"
    refuses = "buifc"
    large = 1 << 62  # it has no kernel that eager could ask for

    def __init__(
        self,
        qualified_name: str,
        function: Callable[..., Any],
        backward: Callable[..., Any],
        setup: Callable[..., Any] | None,
    ) -> None:
        """backward, setup: see `CustomOpDef.register_autograd`."""
        name = re.sub(r"\W", "_", qualified_name.replace("::", "__"))
        REGISTRY.pop(name, None)  # defined anew, as in a notebook

        def rule(g: Any, inputs: Any, outputs: Any, index: int, arguments: Any) -> Any:
            return self._gradients(g, inputs, outputs, arguments)[index]

        super().__init__(name, "*tensors", {"tensors": rule})
        self.function, self._backward, self._setup = function, backward, setup
        # By the gradient that backward got what it gave, as long as that lives: each input has a turn.
        self._given: dict[int, tuple[weakref.ref[Tensor], list[Any]]] = {}
        self.fake: Callable[..., Any] | None = None
        self._seen: dict[Any, Any] = {}

    def evaluate(self, args: Sequence[Any], params: Params) -> Any:
        """What the function gives; its ops are no part of a run that is recorded."""
        given = [wrap(a.array) for a in args]
        try:
            with _unseen():
                made = self.function(*put_together(params["arguments"], iter(given)))
        except Exception as error:
            error.fusegrad_located = True  # type: ignore[attr-defined]  # the user's own: raised as it is
            raise
        several = isinstance(made, (tuple, list))
        outputs = tuple([self._own(output, given) for output in (made if several else (made,))])
        result = outputs if several else outputs[0]
        if len(self._seen) >= MOST_SEEN:
            self._seen.clear()
        self._seen[self._key(given, params)] = _types(outputs) if several else _types(outputs)[0]
        return result

    def _own(self, output: Any, given: Sequence[Tensor]) -> np.ndarray:
        """The memory of a result, which it has for itself."""
        if not isinstance(output, Tensor):
            raise TypeError(f"a custom op gives tensors, and {self.name} gave a {type(output).__name__}")
        array = np.asarray(output.array)
        return array.copy() if any(np.may_share_memory(array, g.array) for g in given) else array

    def infer(self, types: Sequence[Any], params: Params) -> Any:
        key = self._key(types, params)
        if key not in self._seen and self.fake is not None:
            with _unseen(), made_on(META):
                given = [empty(t.shape, dtype=t.dtype) for t in types]
            with _unseen():
                made = self.fake(*put_together(params["arguments"], iter(given)))
            if isinstance(made, (tuple, list)):
                return tuple(_types([output.array for output in made]))
            return _types([made.array])[0]
        if key not in self._seen:
            raise RuntimeError(f"{self.name} has no rule of shapes; give it one by register_fake")
        return self._seen[key]

    def _gradients(self, g: Any, inputs: Sequence[Any], outputs: Sequence[Any], arguments: Any) -> list[Any]:
        """What the user's backward gives for each tensor."""
        gradients = [*g] if isinstance(g, (list, tuple)) else [g]
        first = next(each for each in gradients if isinstance(each, Tensor))
        known = self._given.get(id(first))
        if known is not None and known[0]() is first:
            return known[1]
        context = Context(inputs, arguments)
        if self._setup is not None:
            output = tuple(outputs) if isinstance(g, (list, tuple)) else outputs[0]
            self._setup(context, tuple(put_together(arguments, iter(inputs))), output)
        made = self._backward(context, *gradients)
        found: list[Any] = []
        _matched(arguments, made if isinstance(made, tuple) else (made,), found)
        gone = functools.partial(self._forget, id(first))
        self._given[id(first)] = weakref.ref(first, gone), found
        return found

    def _forget(self, key: int, _: Any) -> None:
        self._given.pop(key, None)

    def _key(self, operands: Sequence[Any], params: Params) -> Any:
        return (*((tuple(o.shape), np.dtype(_numpy(o.dtype))) for o in operands), params["arguments"])


class Context:
    """What `setup_context` and `backward` of a custom op get as `ctx`."""

    def __init__(self, inputs: Sequence[Any], arguments: Sequence[Any]) -> None:
        needs = [getattr(tensor, "requires_grad", False) or tensor.is_floating_point() for tensor in inputs]
        self.needs_input_grad = tuple(put_together(_without_values(arguments), iter(needs)))
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors for backward, where `saved_tensors` gives them."""
        self.saved_tensors = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Taken: gradients that nobody gave are zeros."""

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Taken: nobody gives these a gradient."""


def _without_values(arguments: Sequence[Any]) -> list[Any]:
    return [("value", False) if argument[0] == "value" else argument for argument in arguments]


def _matched(arguments: Sequence[Any], gradients: Sequence[Any], found: list[Any]) -> None:
    """Append what stands among the gradients where tensors stand among the arguments."""
    for argument, gradient in zip(arguments, gradients, strict=True):
        if argument[0] == TENSOR:
            found.append(gradient)
        elif argument[0] in ("list", "tuple"):
            _matched(argument[1:], gradient or [None] * (len(argument) - 1), found)


def _numpy(dtype: Any) -> Any:
    return dtype.numpy if isinstance(dtype, DType) else dtype


def _types(arrays: Sequence[np.ndarray]) -> list[TensorType]:
    return [TensorType(array.shape, array.dtype) for array in arrays]


def taken_apart(value: Any, tensors: list[Tensor]) -> Any:
    """An argument as a literal that marks tensors, which are appended. Raises TypeError for what is none."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return (TENSOR,)
    if isinstance(value, (tuple, list)):
        kind = "list" if isinstance(value, list) else "tuple"
        return (kind, *[taken_apart(item, tensors) for item in value])
    if type(value) not in _LITERALS:
        raise TypeError(
            f"a custom op takes tensors, numbers, text and lists of them, not a {type(value).__name__}"
        )
    return ("value", value)


def put_together(arguments: Sequence[Any], tensors: Any) -> list[Any]:
    """The arguments again."""
    return [_made(argument, tensors) for argument in arguments]


def _made(argument: Any, tensors: Any) -> Any:
    kind, *items = argument
    if kind == TENSOR:
        return next(tensors)
    if kind == "value":
        return items[0]
    return (list if kind == "list" else tuple)(put_together(items, tensors))
