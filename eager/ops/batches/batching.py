"""`Batching`: one `vmap` at work, an interpreter whose tensors stand for batches.

A tensor of a batching has a `Batched` in the place of its array: the shape, dtype and strides of one
example, and no values. Behind it is the *physical* tensor, an ordinary one (or one of a batching further
out) with the examples along its first dimension; or, for what is the same for all, without such a dimension.
An op that gets such tensors runs as ordinary ops on the physical ones (`rules.py`), for whoever is in charge
outside: eager, a recorder, another batching. So there are two graphs: the physical tensors have theirs, for
gradients asked for outside, and the batched ones another, for those that the batched function asks for. A
backward on that runs gradient rules, which are ops like any others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fusegrad.eager.autograd.levels import mapped
from fusegrad.eager.core import op as core
from fusegrad.eager.core.errors import NoValues, failure
from fusegrad.eager.core.handlers import in_charge
from fusegrad.eager.core.names import internal
from fusegrad.eager.core.op import Op, Params, bind, wrap
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.pytree import flatten
from fusegrad.eager.core.stand_in import ABOUT_MEMORY, StandIn, refusing, stand_in
from fusegrad.eager.core.state import Interpreter, state
from fusegrad.eager.core.tensor import Tensor

RANDOM = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
    "'different' randomness flags on vmap or perform the randomness operation out of vmap"
)
SAME = "Vmap does not currently support same randomness with a batched tensor input."
_VALUES = (
    "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a "
    "Tensor, please try to rewrite what you're doing with other operations. Or, vmap: It looks like you're "
    "attempting to use a Tensor in some data-dependent control flow. We don't support that: where() gives "
    "one of two values. (The tensor stands for a batch, or for one of a vmap that has ended.)"
)
_INTO_ONE = (
    "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in "
    "extra_args that has more elements than `self`. This happened due to `other` being vmapped over but "
    "`self` not being vmapped over in a vmap. Please try to use out-of-place operators instead of inplace "
    "arithmetic, or write into a tensor that is one for each example, such as `torch.zeros_like(other)`."
)
_REFUSED = "vmap: the values of an example are none that the operation takes"


def _refuse_values(*_: Any, **__: Any) -> Any:
    raise failure(NoValues, _VALUES)


class Batched(StandIn):
    """The array of a tensor of a batching.

    physical: the tensor with all examples. is_batched: whether it has a dimension for them, the first one.
    dim: which dimension the caller of `vmap` has them along, if this is what he gave.
    """

    physical: Tensor
    is_batched: bool
    batching: Batching
    dim = 0

    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        if function in ABOUT_MEMORY:
            return function(*map(_memory, args), **kwargs)
        return _refuse_values()

    __array_ufunc__ = _refuse_values


refusing(Batched, _refuse_values)


def _memory(array: Any) -> Any:
    """An array to ask where its elements lie."""
    while isinstance(array, Batched):
        array = array.physical.array
    return array


def is_batched(tensor: Any) -> bool:
    """Whether it is a tensor of a batching."""
    return isinstance(tensor, Tensor) and type(tensor.array) is Batched


class Batching(Interpreter):
    """In charge of the ops of a function that is run once for `size` examples.

    randomness: "error", "different" or "same", as `vmap` has it. grad_enabled: the grad mode outside.
    """

    def __init__(self, size: int, randomness: str = "error") -> None:
        self.size, self.randomness = size, randomness
        outside = state.interpreter
        self.outside = None if outside is None else outside.beneath_batch()
        self.grad_enabled = state.grad_enabled

    def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """What `function` gives, whose ops are the batching's."""
        before, state.interpreter = state.interpreter, in_charge(self)
        try:
            return function(*args, **kwargs)
        finally:
            state.interpreter = before

    # Tensors.

    def of(self, physical: Tensor, batched: bool = True, dim: int = 0) -> Tensor:
        """A tensor of this batching for a physical one; dim: see `Batched`."""
        array = physical.array
        first = 1 if batched else 0
        if batched and array.shape[:1] != (self.size,):
            raise AssertionError(f"vmap: {array.shape} is no batch of {self.size} examples")
        own: Any = stand_in(array.shape[first:], array.dtype, array.strides[first:]).view(Batched)
        own.physical, own.is_batched, own.batching = physical, batched, self
        if dim:
            own.dim = dim
        return wrap(own)

    def physical(self, tensor: Any) -> tuple[Any, bool]:
        """What stands behind a tensor (a tensor of somebody else, or what is none, stands for itself), and
        whether it has a dimension for the examples.
        """
        array: Any = tensor.array if isinstance(tensor, Tensor) else None
        if type(array) is Batched and array.batching is self:
            return array.physical, array.is_batched
        return tensor, False

    def with_batch(self, tensor: Any) -> Tensor:
        """The physical tensor, with a dimension for the examples in any case."""
        physical, batched = self.physical(tensor)
        return physical if batched else repeated(physical, self.size)

    def leaf(self, tensor: Tensor) -> Tensor:
        """A tensor of this batching with the values of `tensor`, off its graph."""
        array: Any = tensor.array
        if type(array) is Batched and array.batching is self:
            own = wrap(array)
            own.version = tensor.version
            return own
        return self.of(tensor, False)

    def beneath(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """What `function` gives with whoever is outside in charge."""
        inside, mode = state.interpreter, state.grad_enabled
        state.interpreter, state.grad_enabled = self.outside, mode and self.grad_enabled
        try:
            return function(*args, **kwargs)
        finally:
            state.interpreter, state.grad_enabled = inside, mode

    def beneath_batch(self) -> Interpreter:
        """The ops on what stands behind the tensors of a batching further in are this one's."""
        return self

    def calls(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Its body's ops are the batching's."""

    # Ops.

    def bind(self, op: Op, args: tuple[Any, ...], params: Params) -> Any:
        found = [self.physical(a) for a in args]
        operands, flags = [f[0] for f in found], [f[1] for f in found]
        batched = any(flags)
        if not batched and op.family == "random":
            made, batched = self._drawn(op, operands, params)
        elif batched:
            made = self.beneath(compute, self, op, operands, flags, params)
            if made is NotImplemented:
                return op.decompose(*args, **params)  # type: ignore[attr-defined]
        else:
            made = self.beneath(bind, op, tuple(operands), params)
        several = type(made) is tuple
        ours = [o is not a for o, a in zip(operands, args, strict=True)]
        if not batched and not any(ours):
            return made
        outputs = tuple(self.of(m, batched) for m in (made if several else (made,)))
        self._on_graph(op, args, params, ours, operands[0] if operands else None, outputs)
        return outputs if several else outputs[0]

    def _on_graph(
        self, op: Op, args: Any, params: Params, ours: list[bool], source: Any, outputs: tuple[Tensor, ...]
    ) -> None:
        """Note of what an op gave what `evaluate` notes: whose view it is, and its place on the graph."""
        recording = state.grad_enabled
        view: Any = outputs[0].array
        if op.view and isinstance(source, Tensor) and view.physical.version is source.version:
            outputs[0].version = args[0].version
            if op.rules is not None and ours[0]:
                core.taken(outputs[0], args[0], op, params, recording)
        if recording and op.rules is not None:
            needing = [o and a.needs_grad for a, o in zip(args, ours, strict=True)]
            if any(needing):
                core.record(op, args, params, outputs)

    def _drawn(self, op: Op, operands: list[Any], params: Params) -> tuple[Any, bool]:
        """Random numbers that do not depend on the example, and whether there are some for each."""
        if self.randomness == "error":
            raise failure(RuntimeError, RANDOM)
        if self.randomness == "same":
            return self.beneath(bind, op, tuple(operands), params), False
        if not operands and op.name != "randperm":
            shape = (self.size, *params["shape"])
            return self.beneath(bind, op, (), {**params, "shape": shape}), True
        draws = [self.beneath(bind, op, tuple(operands), params) for _ in range(self.size)]
        return self.beneath(ops.stack, draws), True

    def draws(self, *parameters: Any) -> None:
        found = [self.physical(parameter) for parameter in parameters]
        if any(batched for _, batched in found):
            self.refuse_draws()
        if self.outside is not None:
            self.beneath(self.outside.draws, *[physical for physical, _ in found])

    def refuse_draws(self) -> None:
        """Raise RuntimeError where there may be none that depend on the example."""
        if self.randomness != "different":
            raise failure(RuntimeError, RANDOM if self.randomness == "error" else SAME)

    def made_like(self, made: Tensor, input: Tensor) -> Tensor:
        if self.physical(input)[1]:
            return self.of(self.beneath(lambda: ops.clone(repeated(made, self.size))))
        outside = self.outside
        return made if outside is None else self.beneath(outside.made_like, made, self.physical(input)[0])

    def applies(self, kind: Any, args: tuple[Any, ...]) -> Any:
        leaves: list[Any] = []
        structure = flatten(args, leaves)
        found = [self.physical(a) for a in leaves]
        operands = structure.build(iter([p for p, _ in found]))
        if not any(many for _, many in found):
            if all(p is a for (p, _), a in zip(found, leaves, strict=True)):
                return None
            made = self.beneath(kind._applied, *operands)
            return (mapped(made, lambda t: self.of(t, False)),)
        dims = structure.build(
            iter([a.array.dim if m else None for a, (_, m) in zip(leaves, found, strict=True)])
        )
        made, flags = self.beneath(apply, self, kind, operands, dims)
        marks = iter(flags)
        return (mapped(made, lambda t: self.of(t) if next(marks) else self.of(t, False)),)

    # Values.

    def check(self, tensor: Any, passed: Callable[[], Any], within: tuple[int, ...] = ()) -> bool:
        """Whether an op may look at the values itself: not at those of a batch, which are tested here."""
        if self.physical(tensor)[0] is tensor and not is_batched(tensor):
            return bool(self.beneath(_checked, self.outside, tensor, passed, within))
        outcome, _ = self.physical(passed())
        if not is_batched(outcome) and not self.beneath(lambda: bool(outcome.all())):
            raise failure(IndexError if within else RuntimeError, _REFUSED)
        return False

    def follows(self, x: Any, index: Any, dim: int) -> bool:
        """What a batch of indices holds is no number, so `SELECT_AT` is asked."""
        if is_batched(index):
            return True
        told = self.outside is not None and not is_batched(x)
        return told and bool(self.beneath(self.outside.follows, x, index, dim))  # type: ignore[union-attr]

    def requires_grad_changes(self, tensor: Any) -> None:
        if self.physical(tensor)[0] is tensor and self.outside is not None:
            self.beneath(self.outside.requires_grad_changes, tensor)

    # Writes.

    def before_write(self, target: Any, may_wait: bool = False) -> None:
        if self.physical(target)[0] is target and self.outside is not None:
            self.beneath(self.outside.before_write, target, may_wait)

    def writes_later(self, target: Any, index: Any, value: Any) -> bool:
        """Write into the physical tensor, as a program outside would."""
        (into, batched), (given, is_many) = self.physical(target), self.physical(value)
        if is_many and not batched:
            raise failure(RuntimeError, _INTO_ONE)
        if into is target:
            told = self.outside is not None
            return told and bool(self.beneath(self.outside.writes_later, target, index, value))  # type: ignore[union-attr]
        place = index if isinstance(index, tuple) else (index,)
        if batched:
            place = (slice(None), *place)
            if is_many and given.array.ndim < into.array.ndim and index is ...:
                shape = given.array.shape
                missing = into.array.ndim - len(shape)
                given = self.beneath(ops.reshape, given, (shape[0], *[1] * missing, *shape[1:]))
        self.beneath(Tensor.__setitem__, into, place, given)
        return True

    def wrote(
        self, target: Any, result: Any, index: Any = None, on_graph: bool = False, overwrites: bool = False
    ) -> None:
        if self.physical(target)[0] is target and self.outside is not None:
            self.beneath(self.outside.wrote, target, result, index, on_graph, overwrites)

    def backward(self, roots: Any, accumulates: bool) -> Interpreter | None:
        """The ops of a backward are this batching's, too; what goes through ops from outside, it is told."""
        theirs = [root for root in roots if self.physical(root)[0] is root]
        if self.outside is not None and (theirs or accumulates):
            self.beneath(self.outside.backward, theirs, accumulates)
        return state.interpreter


def _checked(outside: Interpreter | None, tensor: Any, passed: Callable[[], Any], within: Any) -> bool:
    return outside is None or outside.check(tensor, passed, within)


def _told(name: str) -> Callable[..., Any]:
    """A method that tells whoever is outside of what is physical there."""

    def method(self: Batching, *args: Any, **kwargs: Any) -> Any:
        if self.outside is None:
            return getattr(Interpreter, name)(self, *args, **kwargs)
        given = [self.physical(a)[0] for a in args]
        return self.beneath(getattr(self.outside, name), *given, **kwargs)

    return method


for _name, _member in vars(Interpreter).items():
    if not _name.startswith("_") and _name not in vars(Batching):
        setattr(Batching, _name, _told(_name))


def repeated(tensor: Tensor, size: int) -> Tensor:
    """A view of a tensor as a batch of `size` equal ones."""
    return ops.expand(tensor, (size, *tensor.array.shape))


@internal
def for_each(function: Callable[..., Sequence[Tensor]], examples: Sequence[Tensor]) -> list[Tensor]:
    """What `function` gives for each example, all at once; where it asks for values, one after the other."""
    size = examples[0].array.shape[0]
    if size > 1:
        batching = Batching(size, "same")
        try:
            made = batching.run(function, *map(batching.of, examples))
            return [batching.with_batch(m) for m in made]
        except NoValues:
            pass  # Python code of the user's, in a backward
    rows = [function(*[ops.select(x, 0, number) for x in examples]) for number in range(size)]
    return [ops.stack(list(column)) for column in zip(*rows, strict=True)]


# Gives what an op makes of batches: see `rules.py`, which is built on this.
compute: Callable[[Batching, Op, list[Any], list[bool], Params], Any]
# Calls a custom Function; gives the results, and which of them have examples: see `functions.py`.
apply: Callable[[Batching, Any, list[Any], list[Any]], tuple[Any, list[bool]]]


def compute_by(function: Callable[..., Any]) -> None:
    """Have ops on batches computed by `function`."""
    global compute
    compute = function


def apply_by(function: Callable[..., Any]) -> None:
    """Have custom Functions of batches called by `function`."""
    global apply
    apply = function
