"""What the transforms of `func.py` are made of: a level for each at work, and products with the Jacobian.

A transform calls its function on tensors of its own, which stand for the arguments. Where an
argument is on a graph outside (another transform's, or that of a backward to come), they hang on it,
so that the result can be derived again; where nothing outside needs a gradient, the result is given
without a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fusegrad.eager.autograd import autograd
from fusegrad.eager.autograd.edges import Argument, Passing
from fusegrad.eager.autograd.engine import reachable
from fusegrad.eager.autograd.node import place, reach, share
from fusegrad.eager.core.errors import failure, type_name
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.pytree import flatten
from fusegrad.eager.core.stand_in import all_behind
from fusegrad.eager.core.state import enable_grad, in_state, state
from fusegrad.eager.core.tensor import Tensor

Argnums = int | tuple[int, ...]

# In the dictionary of a leaf that a transform made: the transform.
_MADE_BY = "_transform"


class Level:
    """One transform at work; `with` it.

    tracked: whether anything outside may want gradients (grad mode is on there).
    ended: nobody can ask for the gradients of the leaves that it made any more.
    """

    def __init__(self) -> None:
        self.tracked = state.grad_enabled
        self.ended = False

    def __enter__(self) -> Level:
        if state.interpreter is not None:
            state.interpreter.enter_transform()
        self._transform = in_state(transforms=state.transforms + 1)
        self._transform.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._transform.__exit__(*exception)
        self.ended = True

    def stands_for(self, tensor: Any) -> Tensor:
        """A tensor of this level's for an argument."""
        if tensor.array.dtype.kind not in "fcV":
            raise failure(
                RuntimeError,
                "Only Tensors of floating point and complex dtype can require gradients, "
                f"this one is {tensor.array.dtype.name}",
            )
        reach(tensor)
        own = leaf_of(tensor)
        if tensor.needs_grad and self.tracked and own.array is tensor.array:
            return place(own, Argument(tensor), 0)
        own.needs_grad = True
        own.__dict__[_MADE_BY] = self
        return own

    def derivable(self, *tensors: Any) -> bool:
        """Whether any of `tensors` depends on something outside that a gradient may be wanted of."""
        roots = [t for tensor in tensors if isinstance(tensor, Tensor) for t in all_behind(tensor)]
        roots = [t for t in roots if t.needs_grad]
        if not self.tracked or not roots:
            return False
        if state.interpreter is not None:
            for root in roots:
                state.interpreter.reach_graph(root)
        leaves = [t for t in roots if t.grad_fn is None]
        leaves += [t for node in reachable(roots) for _, t, _ in node.edges if isinstance(t, Tensor)]
        return any(self._is_outside(t) for t in leaves)

    def _is_outside(self, leaf: Tensor) -> bool:
        maker = leaf.__dict__.get(_MADE_BY)
        return maker is None or (maker is not self and not maker.ended)

    def outside(self, value: Any) -> Any:
        """`value` (nested) as the caller gets it: off the graph, unless something outside hangs on it."""
        return mapped(value, lambda t: t if self.derivable(t) else t.detach() if t.needs_grad else t)


def leaf_of(tensor: Tensor) -> Tensor:
    """A tensor with the values of `tensor` off the graph; where it is one of a batch, on no graph outside."""
    own = None if state.interpreter is None else state.interpreter.leaf(tensor)
    return share(tensor) if own is None else own


def is_on_graph(tensor: Tensor) -> bool:
    """Whether a gradient may be asked for, also outside of the batch that the tensor stands for."""
    return any(t.needs_grad for t in all_behind(tensor))


def mapped(value: Any, change: Callable[[Tensor], Any]) -> Any:
    """The container with every tensor changed."""
    leaves: list[Any] = []
    structure = flatten(value, leaves)
    return structure.build(iter([change(x) if isinstance(x, Tensor) else x for x in leaves]))


def open_arguments(
    level: Level, values: Sequence[Any], written: bool = False
) -> tuple[list[Any], list[Tensor]]:
    """The (nested) arguments with tensors of the level's in place of theirs, and these in order.

    written: the function may write those that are on no graph outside, as forward derivatives follow writes:
    it gets tensors of the same memory, so that derivatives are by what was there before.
    """
    inner: list[Tensor] = []

    def stand_in(tensor: Tensor) -> Tensor:
        own = level.stands_for(tensor)
        inner.append(own)
        return place(share(own), Passing(own), 0) if written and own.grad_fn is None else own

    opened = [mapped(value, stand_in) for value in values]
    if not inner:
        given = ", ".join(map(type_name, values))
        raise failure(
            ValueError,
            f"there is no tensor to differentiate with respect to: got {given}; make a fusegrad.tensor of it",
        )
    return opened, inner


def argument_places(argnums: Argnums, count: int) -> list[int]:
    """`argnums` as a list of places among `count` arguments. Raises RuntimeError for what names none."""
    if not isinstance(argnums, (int, tuple)):
        raise failure(RuntimeError, f"argnum must be int or Tuple, got: {type(argnums).__name__}")
    numbers = list(argnums) if isinstance(argnums, tuple) else [argnums]
    if not numbers:
        raise failure(RuntimeError, "argnums must be non-empty")
    for n in numbers:
        if not isinstance(n, int):
            raise failure(RuntimeError, f"argnum must be int, got: {type(n).__name__}")
        if not -count <= n < count:
            raise failure(RuntimeError, f"Got argnum={n}, but only {count} positional inputs")
    places = [n % count for n in numbers]
    if len(set(places)) < len(places):
        raise failure(RuntimeError, f"argnums elements must be unique, got {argnums}")
    return places


def outputs_of(
    name: str, function: Callable[..., Any], has_aux: bool, *args: Any, **kwargs: Any
) -> tuple[Any, Any]:
    """What `function` gives, and what it gives beside; `name` is whom errors speak of."""
    with enable_grad():
        result = function(*args, **kwargs)
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise failure(
            RuntimeError,
            f"{name}: output of function f should be a tuple of two, (output, aux), if has_aux is True",
        )
    return result


def tensors_of(value: Any) -> list[Tensor]:
    leaves: list[Any] = []
    flatten(value, leaves)
    return [x for x in leaves if isinstance(x, Tensor)]


# Products with the Jacobian, and with its transpose.


def pulled_back(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    cotangents: Sequence[Tensor] | None,
    derivable: bool,
    retain: bool = False,
) -> list[Tensor]:
    """The gradients of `inputs`, zeros where there is none."""
    pairs = list(zip(outputs, [None] * len(outputs) if cotangents is None else cotangents, strict=True))
    pairs = [(y, c) for y, c in pairs if y.needs_grad]
    if not pairs:
        return [ops.zeros_like(x) for x in inputs]
    roots, seeds = zip(*pairs, strict=True)
    with enable_grad():
        found = autograd.grad(
            roots,
            inputs,
            seeds,
            retain_graph=derivable or retain,
            create_graph=derivable,
            materialize_grads=True,
        )
    return list(found)  # type: ignore[arg-type]


class Pushed:
    """From tangents of inputs to those of outputs: the gradient, with respect to u, of what u pulls back."""

    def __init__(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
        self._outputs = outputs
        live = [y for y in outputs if y.needs_grad]
        self._seeds: list[Tensor] = []
        self._linear: list[tuple[int, Tensor]] = []
        if not live:
            return
        zeros = [ops.zeros_like(y).detach() for y in live]
        reach(*zeros)  # the values that an op has put off would bring no such mark with them
        self._seeds = [leaf_of(z) for z in zeros]
        for u in self._seeds:
            u.needs_grad = True
        with enable_grad():
            pulled = autograd.grad(live, inputs, self._seeds, create_graph=True, materialize_grads=True)
        self._linear = [(i, g) for i, g in enumerate(pulled) if g is not None and g.needs_grad]

    def __call__(self, tangents: Sequence[Tensor], derivable: bool, retain: bool = False) -> list[Tensor]:
        made: Iterator[Tensor] = iter(())
        if self._seeds:
            outputs, given = [g for _, g in self._linear], [tangents[i] for i, _ in self._linear]
            made = iter(pulled_back(outputs, self._seeds, given, derivable, retain))
        return [next(made) if y.needs_grad else ops.zeros_like(y) for y in self._outputs]
