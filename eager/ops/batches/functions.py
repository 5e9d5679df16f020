"""Custom autograd Functions of batches: by their own `vmap`, or by a rule that is generated.

The generated one is a Function of physical tensors. Its forward and backward are the user's, run on tensors
of a batching; so derivatives asked for outside go through the user's backward, too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fusegrad.eager.autograd.function import NO_CONTEXT, Function
from fusegrad.eager.core.errors import NoValues, failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.pytree import contents, flatten, is_container
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.batches.batching import Batching, apply_by

_NO_RULE = (
    "You tried to vmap over {name}, but it does not have vmap support. Please override and implement the "
    "vmap staticmethod or set generate_vmap_rule=True."
)
_BOTH = (
    "You tried to vmap over {name}, but it has both generate_vmap_rule=True and an overriden vmap "
    "staticmethod. Please set generate_vmap_rule=False or delete the overriden vmap staticmethod to avoid "
    "ambiguity."
)
_NESTED = (
    "You tried to vmap over {name} with tensors in containers, which a rule that is generated does not take "
    "apart: override the vmap staticmethod, or give the tensors as arguments."
)
_INCOMPATIBLE = (
    "The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) tuple. Expected "
    "out_dims={dims} to be compatible with the structure of `output`, which is a {output}."
)


class VmapInfo(NamedTuple):
    """What the `vmap` of a Function is told of the batch."""

    batch_size: int
    randomness: str


def applied(
    batching: Batching, kind: type[Function], operands: tuple[Any, ...], dims: tuple[Any, ...]
) -> tuple[Any, list[bool]]:
    """What a Function gives for physical operands; which of the results have a dimension for the examples.

    dims: for each of the (nested) operands the dimension along which the caller of `vmap` had the examples;
    None for one without.
    """
    if kind.setup_context is Function.setup_context:
        raise failure(NoValues, NO_CONTEXT)
    own = kind.vmap is not Function.vmap
    if own and kind.generate_vmap_rule:
        raise failure(RuntimeError, _BOTH.format(name=kind.__name__))
    if own:
        return _by_its_own(batching, kind, operands, dims)
    if not kind.generate_vmap_rule:
        raise failure(NoValues, _NO_RULE.format(name=kind.__name__))
    if any(map(is_container, dims)):
        raise failure(NotImplementedError, _NESTED.format(name=kind.__name__))
    made = _generated(batching, kind, tuple([dim is not None for dim in dims]))._applied(*operands)
    return made, [True] * (len(made) if isinstance(made, (tuple, list)) else 1)


def _by_its_own(
    batching: Batching, kind: type[Function], operands: tuple[Any, ...], dims: tuple[Any, ...]
) -> tuple[Any, list[bool]]:
    info = VmapInfo(batching.size, batching.randomness)
    given: list[Any] = []
    places: list[Any] = []
    structure = flatten(operands, given)
    flatten(dims, places)
    given = [ops.movedim(x, 0, dim) if dim else x for x, dim in zip(given, places, strict=True)]
    answer = kind.vmap(info, dims, *structure.build(iter(given)))
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise failure(
            RuntimeError,
            f"Expected the vmap staticmethod of {kind.__name__} to have two returns, an output and out_dims "
            f"with pytree structure compatible with the output. Got a {type(answer).__name__} instead",
        )
    made, out_dims = answer
    of_each = _spread(out_dims, made)
    if of_each is None:
        raise failure(RuntimeError, _INCOMPATIBLE.format(dims=out_dims, output=type(made).__name__))
    results: list[Any] = []
    structure = flatten(made, results)
    moved = [ops.movedim(m, d, 0) if d else m for m, d in zip(results, of_each, strict=True)]
    tensors = [d is not None for m, d in zip(results, of_each, strict=True) if isinstance(m, Tensor)]
    return structure.build(iter(moved)), tensors


def _spread(dims: Any, made: Any) -> list[Any] | None:
    """Where each leaf of `made` has its examples; `dims` has the containers, or one place for all in one.

    None where it has others.
    """
    if not is_container(dims):
        leaves: list[Any] = []
        flatten(made, leaves)
        return [dims] * len(leaves)
    parts, values = list(contents(dims)), list(contents(made)) if is_container(made) else []
    if type(dims) is not type(made) or len(parts) != len(values):
        return None
    found = [_spread(d, m) for d, m in zip(parts, values, strict=True)]
    return None if None in found else [d for part in found for d in part or ()]


class _Context:
    """The `ctx` of the user's methods, whose tensors are of a batching; physical ones are kept."""

    def __init__(self, needs: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs
        self.saved_tensors: tuple[Any, ...] = ()
        self.non_differentiable: tuple[Any, ...] = ()
        self.materialize_grads = True

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    save_for_forward = save_for_backward

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        self.non_differentiable = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        raise failure(RuntimeError, "mark_dirty: a generated vmap rule cannot write into inputs in place")

    def set_materialize_grads(self, value: bool) -> None:
        self.materialize_grads = value


def _generated(batching: Batching, kind: type[Function], batched: tuple[bool, ...]) -> type[Function]:
    """A Function of physical tensors that does what `kind` does for each example."""
    size, randomness = batching.size, batching.randomness

    class Generated(Function):
        @staticmethod
        def forward(ctx: Any, *operands: Any) -> Any:
            inner = Batching(size, randomness)
            given = [inner.of(x) if many else x for x, many in zip(operands, batched, strict=True)]
            ctx.of_user = user = _Context(ctx.needs_input_grad)

            def run() -> Any:
                made = kind.forward(*given)
                kind.setup_context(user, tuple(given), made)
                return made

            made = inner.run(run)
            several = isinstance(made, (tuple, list))
            outputs = [
                inner.with_batch(m) if isinstance(m, Tensor) else m for m in (made if several else [made])
            ]
            physical = {id(m): o for m, o in zip(made if several else [made], outputs, strict=True)}
            kept: list[tuple[Any, bool]] = [
                (physical[id(t)], True) if id(t) in physical else inner.physical(t)
                for t in user.saved_tensors
            ]
            ctx.save_for_backward(*[found for found, _ in kept])
            ctx.kept = [many for _, many in kept]
            ctx.mark_non_differentiable(*[physical[id(t)] for t in user.non_differentiable])
            ctx.set_materialize_grads(user.materialize_grads)
            user.saved_tensors = user.non_differentiable = ()
            return type(made)(outputs) if several else outputs[0]

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            inner, user = Batching(size, randomness), ctx.of_user

            def run() -> Any:
                saved = zip(ctx.saved_tensors, ctx.kept, strict=True)
                user.saved_tensors = tuple([inner.of(t) if many else t for t, many in saved])
                made = kind.backward(user, *[g if g is None else inner.of(g) for g in gradients])
                user.saved_tensors = ()
                return made

            made = inner.run(run)
            found = made if isinstance(made, tuple) else (made,)
            return tuple([_gradient(inner, g, many) for g, many in zip(found, batched, strict=False)])

    Generated.__name__ = Generated._backward_cls.__name__ = kind._backward_cls.__name__
    return Generated


def _gradient(inner: Batching, gradient: Any, many: bool) -> Any:
    """The physical gradient of an operand: what is one for all gets the sum over all."""
    if gradient is None:
        return None
    whole: Tensor = inner.with_batch(gradient)
    return whole if many else ops.sum(whole, (0,))


apply_by(applied)
