"""What an op is for a batch: ordinary ops on physical tensors, whose first dimension has the examples.

A rule is for a family of ops, and follows from what their declarations say: ops of numbers get operands of
equal rank; ops along dimensions, which all have in their parameter `dim` (`dims`, `dim1`, `dim2`), go along
the next ones; those that are composed of others are; those that leave leading dimensions alone get one more.
Convolutions, products and look-ups, whose dimensions have roles, have rules of their own (`folded.py`). What
has none is done for one example after the other, and a warning says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fusegrad.eager.core.errors import failure, warn
from fusegrad.eager.core.families import Composite, Pointwise, Random, Reduction
from fusegrad.eager.core.op import REGISTRY, Op, Params, TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.batches.batching import Batching, compute_by, repeated
from fusegrad.eager.ops.shape.slicing import Slice

SLOW = (
    "There is a performance drop because we have not yet implemented the batching rule for {name}: vmap does "
    "it for one example after the other."
)
DYNAMIC = (
    "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over {name}."
)


class _Setting:
    """names_slow: whether a warning names what is done for one example after the other."""

    names_slow = True


setting = _Setting()


class Call(NamedTuple):
    """An op with its physical operands. batched: which of them have a dimension for the examples."""

    op: Op
    operands: list[Any]
    batched: list[bool]
    params: Params
    size: int

    def rank(self, index: int) -> int:
        """How many dimensions the program sees."""
        return self.operands[index].array.ndim - self.batched[index]

    def shape(self, index: int) -> tuple[int, ...]:
        """The shape that the program sees."""
        return self.operands[index].array.shape[self.batched[index] :]

    def tensors(self) -> list[int]:
        """Which operands are tensors."""
        return [i for i, a in enumerate(self.operands) if isinstance(a, Tensor)]

    def types(self) -> list[Any]:
        """The operands' types as the program sees them, and its numbers."""
        return [
            TensorType(self.shape(i), a.array.dtype) if isinstance(a, Tensor) else a
            for i, a in enumerate(self.operands)
        ]

    def aligned(self, index: int, rank: int) -> Any:
        """An operand as broadcasting would have it: of so many dimensions besides that of the examples."""
        operand = self.operands[index]
        if not self.batched[index] or self.rank(index) == rank:
            return operand
        ones = [1] * (rank - self.rank(index))
        return ops.reshape(operand, (self.size, *ones, *self.shape(index)))

    def full(self, index: int) -> Tensor:
        """An operand with a dimension for the examples in any case."""
        operand: Tensor = self.operands[index]
        return operand if self.batched[index] else repeated(operand, self.size)

    def everything(self) -> list[Any]:
        """All operands so."""
        return [self.full(i) if isinstance(a, Tensor) else a for i, a in enumerate(self.operands)]

    def done(self, operands: Sequence[Any], **params: Any) -> Any:
        """The op of these operands, with some parameters changed."""
        return bind(self.op, tuple(operands), {**self.params, **params} if params else self.params)

    def fitted(self, made: Any) -> Any:
        """What was made, each in the shape of a batch of what the program expects."""
        expected = self.op.infer(self.types(), self.params)
        if isinstance(made, Tensor):
            return ops.reshape(made, (self.size, *expected.shape))
        pairs = zip(made, expected, strict=True)
        return tuple([ops.reshape(m, (self.size, *type_.shape)) for m, type_ in pairs])


Batch = Callable[[Call], Any]
RULES: dict[str, Batch] = {}


def rule(names: str) -> Callable[[Batch], Batch]:
    """Declare the rule of ops that have one of their own."""

    def declared(function: Batch) -> Batch:
        RULES.update(dict.fromkeys(names.split(), function))
        return function

    return declared


def batch(batching: Batching, op: Op, operands: list[Any], batched: list[bool], params: Params) -> Any:
    """What an op gives for a batch: tensors whose first dimension has the examples. NotImplemented: what the
    ops give that it is composed of, on the tensors of the batching.
    """
    call = Call(op, operands, batched, params, batching.size)
    if isinstance(op, Random):
        batching.refuse_draws()
    found = rule_of(call)
    if found is None and isinstance(op, Composite):
        return NotImplemented
    return by_examples(call) if found is None else found(call)


def rule_of(call: Call) -> Batch | None:
    """How an op is done for all examples at once; None where no rule says it."""
    op = call.op
    found = RULES.get(op.name)
    if found is not None:
        return found
    if isinstance(op, Pointwise) or op.name in OF_NUMBERS:
        return of_numbers
    if isinstance(op, Reduction):
        return over_all if call.params["dim"] is None else along_dimensions
    if not _DIMENSIONS.isdisjoint(call.params) and len({call.rank(i) for i in call.tensors()}) == 1:
        return along_dimensions
    return with_leading if op.name in LEAVE_LEADING else None


def has_rule(call: Call) -> bool:
    """Whether a batch is more than one example after the other."""
    return isinstance(call.op, Composite) or rule_of(call) not in (None, _alone)


# Ops of numbers.

# Those that are no `Pointwise` since they give several results, or numbers of another kind.
OF_NUMBERS = frozenset(
    """real imag conj angle sgn complex_of frexp flat_index log_gamma_draw
    log_gamma_draw_gradient igamma igammac polygamma binomial poisson class_draw detach""".split()
)


def of_numbers(call: Call) -> Any:
    """Elements of operands of equal rank. The dtype is still that which numbers without dimensions leave."""
    op, tensors = call.op, call.tensors()
    rank = max(map(call.rank, tensors))
    operands = [call.aligned(i, rank) if i in tensors else a for i, a in enumerate(call.operands)]
    if len(operands) > 1 and isinstance(op, Pointwise):
        scalars = [i for i in tensors if call.batched[i] and not call.rank(i)]
        if scalars:
            kind = op.compute_dtype(call.types())
            for i in tensors:
                if i >= op.data and operands[i].array.dtype != kind:
                    operands[i] = ops.cast(operands[i], kind)
    return call.done(operands)


# Ops along dimensions.

_DIMENSIONS = frozenset(("dim", "dims", "dim1", "dim2"))


@rule("diagonal_scatter")
def along_dimensions(call: Call) -> Any:
    """Along the next dimension; what has none gets one of one element."""
    operands, rank = call.everything(), max(map(call.rank, call.tensors()))
    if not rank:
        operands = [ops.unsqueeze(x, 1) if isinstance(x, Tensor) else x for x in operands]
    shifted = {n: _next(call.params[n], rank) for n in _DIMENSIONS.intersection(call.params)}
    made = call.done(operands, **shifted)
    return made if rank else call.fitted(made)


def _next(dims: Any, rank: int) -> Any:
    """Dimensions of an example as those of a batch."""
    if isinstance(dims, int):
        return dims + 1
    return tuple([d + 1 for d in (range(max(rank, 1)) if dims is None else dims)]) or (() if rank else (1,))


@rule("argmax argmin product_of_others")
def along_one_or_all(call: Call) -> Any:
    """Along a dimension, or over all elements."""
    return over_all(call) if call.params["dim"] is None else along_dimensions(call)


# Reductions over all elements, whose gradients know of no dimensions: those that do, and do the same.
_OF_ROWS = {"max": "amax", "min": "amin"}


def over_all(call: Call) -> Any:
    """Over all elements, which are in a row."""
    flat = ops.reshape(call.operands[0], (call.size, math.prod(call.shape(0))))
    op = REGISTRY[_OF_ROWS.get(call.op.name, call.op.name)]
    dim = (1,) if isinstance(op, Reduction) else 1
    return call.fitted(bind(op, (flat,), {**call.params, "dim": dim}))


@rule("mse_loss l1_loss huber_loss smooth_l1_loss binary_cross_entropy binary_cross_entropy_with_logits")
def _loss(call: Call) -> Any:
    """Of each pair of elements, and then of all of an example."""
    how, rank = call.params["reduction"], max(map(call.rank, call.tensors()))
    each = call.done([call.aligned(i, rank) for i in call.tensors()], reduction="none")
    if how == "none":
        return each
    rows = ops.reshape(each, (call.size, math.prod(each.array.shape[1:])))
    return ops.mean(rows, 1) if how == "mean" else ops.sum(rows, 1)


@rule("median nanmedian")
def _alone(call: Call) -> Any:
    """All that have the middle value get equal parts of the gradient, which no op along a dimension does."""
    return by_examples(call)


# Views and movements.


@rule("reshape")
def _reshape(call: Call) -> Any:
    return call.done(call.operands, shape=(call.size, *call.params["shape"]))


@rule("expand")
def _expand(call: Call) -> Any:
    shape = call.params["shape"]
    return call.done((call.aligned(0, len(shape)),), shape=(call.size, *shape))


@rule("permute")
def _permute(call: Call) -> Any:
    return call.done(call.operands, dims=(0, *[d + 1 for d in call.params["dims"]]))


@rule("getitem assign")
def _getitem(call: Call) -> Any:
    return call.done(call.everything(), index=(Slice(0, call.size, 1), *call.params["index"]))


@rule("embed")
def _embed(call: Call) -> Any:
    size = call.size
    index, shape = (Slice(0, size, 1), *call.params["index"]), (size, *call.params["shape"])
    return call.done(call.operands, index=index, shape=shape)


@rule("rewritten overwritten")
def _written(call: Call) -> Any:
    return call.done(call.everything())


@rule("cat stack")
def _joined(call: Call) -> Any:
    return call.done(call.everything(), dim=call.params["dim"] + 1)


# Ops that leave leading dimensions alone.

LEAVE_LEADING = frozenset(
    """linalg_inv_ex linalg_solve_ex linalg_solve_triangular linalg_cholesky_ex cholesky_solve
    cholesky_inverse
    linalg_cofactors linalg_det linalg_slogdet linalg_svd linalg_svdvals linalg_phase_check linalg_eigh
    linalg_eigvalsh linalg_eig linalg_eigvals linalg_ldl_factor_ex linalg_ldl_solve linalg_qr geqrf
    linalg_lu_factor_ex lu_permutation matrix_exp linalg_pinv linalg_matrix_rank linalg_lstsq
    view_as_complex view_as_real view_dtype max_pool max_pool_place max_pool_pick max_pool_put avg_pool
    avg_pool_spread resample adaptive_max_place cdist""".split()
)


# Operands that have a vector for each matrix, or a number: how many dimensions less.
_FOR_EACH_MATRIX = {
    "linalg_ldl_solve": {1: 1},
    "linalg_pinv": {1: 2, 2: 2},
    "linalg_matrix_rank": {1: 2, 2: 2},
}


def with_leading(call: Call) -> Any:
    """One leading dimension more, in front of those that operands have in common."""
    tensors, less = call.tensors(), _FOR_EACH_MATRIX.get(call.op.name, {})
    rank = max(call.rank(i) + less.get(i, 0) for i in tensors)
    operands = list(call.everything())
    for i in tensors:
        missing = rank - less.get(i, 0) - call.rank(i)
        if missing and (i in less or call.rank(i) >= 2):
            operands[i] = ops.reshape(operands[i], (call.size, *[1] * missing, *call.shape(i)))
    return call.done(operands)


@rule("nonzero distinct count_distinct bincount repeated_indices")
def _refused(call: Call) -> Any:
    raise failure(RuntimeError, DYNAMIC.format(name=call.op.name))


# One example after the other.


def by_examples(call: Call) -> Any:
    """Each example by itself, and all in a row."""
    if setting.names_slow:
        warn(SLOW.format(name=call.op.name))
    rows = []
    for number in range(call.size):
        chosen = [
            ops.select(a, 0, number) if many else a
            for a, many in zip(call.operands, call.batched, strict=True)
        ]
        rows.append(bind(call.op, tuple(chosen), call.params))
    if not rows:
        expected = call.op.infer(call.types(), call.params)
        types = [expected] if isinstance(expected, TensorType) else expected
        made = tuple([ops.zeros((0, *t.shape), dtype=t.dtype) for t in types])
        return made[0] if isinstance(expected, TensorType) else made
    if isinstance(rows[0], Tensor):
        return ops.stack(rows)
    return tuple([ops.stack(column) for column in zip(*rows, strict=True)])


compute_by(batch)
