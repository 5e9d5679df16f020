"""Over all rounds: an equation of one round goes in; the op that does the same for the rows of all comes out.

Rows lie along a first dimension that no op of a round knows of: what works along dimensions does so along the
next, what broadcasts gets the missing ones, and a product with what is the same for all is one of more rows.

Source: the batching rules of `jax.vmap`, for a first dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fusegrad.eager.core.op import bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.shape.slicing import Slice
from fusegrad.tracer.ir.graph import Equation

Arguments = Sequence[Any]
Flags = Sequence[bool]


def lifted(equation: Equation, args: Arguments, are_rows: Flags, rounds: int) -> Tensor | None:
    """What the equation gives in all rounds, one behind the other; None where no rule says it.

    args: its operands, of which those in `are_rows` have a first dimension for the rounds.
    """
    rule = _RULES.get(equation.op.name) or _OF_FAMILIES.get(equation.op.family)
    if rule is None or len(equation.outputs) != 1:
        return None
    made = rule(equation, args, are_rows, rounds)
    wanted = (rounds, *equation.output.shape)
    return made if made is not None and made.array.shape == wanted else None


def sum_of_products(left_transposed: Tensor, right: Tensor) -> Tensor:
    """The sum of the products of so many matrices: [n, k, l] and [n, k, m] give [l, m]."""
    left, right = (ops.flatten(t, 0, 1) for t in (left_transposed, right))
    return ops.permute(left, (1, 0)) @ right


def transposed(rows: Tensor) -> Tensor:
    """The rows with their matrices transposed."""
    return ops.permute(rows, (0, 2, 1))


def _aligned(tensor: Tensor, dimensions: int) -> Tensor:
    """Rows of so many dimensions, as broadcasting would make them."""
    rounds, *shape = tensor.array.shape
    missing = dimensions - len(shape)
    return ops.reshape(tensor, (rounds, *[1] * missing, *shape)) if missing else tensor


def _elementwise(equation: Equation, args: Arguments, are_rows: Flags, rounds: int) -> Tensor:
    dimensions = len(equation.output.shape)
    aligned = [_aligned(a, dimensions) if row else a for a, row in zip(args, are_rows, strict=True)]
    made: Tensor = bind(equation.op, tuple(aligned), dict(equation.params))
    return made


def _reduction(equation: Equation, args: Arguments, are_rows: Flags, rounds: int) -> Tensor:
    dims = equation.params["dim"]
    if dims is None:
        dims = tuple(range(args[0].array.ndim - 1))
    made: Tensor = bind(equation.op, tuple(args), {**equation.params, "dim": tuple([d + 1 for d in dims])})
    return made


def _product(equation: Equation, args: Arguments, are_rows: Flags, rounds: int) -> Tensor | None:
    x: Tensor
    y: Tensor
    x, y = args
    ranks = tuple([a.array.ndim - row for a, row in zip(args, are_rows, strict=True)])
    if not any(are_rows):  # one for all
        return ops.expand(x @ y, (rounds, *equation.output.shape))
    if are_rows[0] and are_rows[1]:
        return x @ y if ranks == (2, 2) else None
    if are_rows[0] and max(ranks) <= 2:  # rows of rows, times a matrix or a vector
        flat = ops.flatten(x, 0, -2) if ranks[0] == 2 else x
        return ops.reshape(flat @ y, (rounds, *equation.output.shape))
    if ranks == (2, 1):
        return y @ ops.permute(x, (1, 0))
    if ranks == (2, 2):
        flat = ops.flatten(transposed(y), 0, 1) @ ops.permute(x, (1, 0))
        return transposed(ops.reshape(flat, (rounds, y.array.shape[2], x.array.shape[0])))
    return None


def _permute(equation: Equation, args: Arguments, are_rows: Flags, rounds: int) -> Tensor:
    return ops.permute(args[0], (0, *[d + 1 for d in equation.params["dims"]]))


def _with_rounds(**where: Callable[[Any, int], Any]) -> Callable[[Equation, Arguments, Flags, int], Any]:
    """A rule that changes parameters alone; where: each of them, and how."""

    def rule(equation: Equation, args: Arguments, are_rows: Flags, rounds: int) -> Any:
        changed = {name: change(equation.params[name], rounds) for name, change in where.items()}
        return bind(equation.op, tuple(args), {**equation.params, **changed})

    return rule


def _cat(equation: Equation, args: Arguments, are_rows: Flags, rounds: int) -> Tensor | None:
    if not all(are_rows):
        return None
    made: Tensor = bind(equation.op, tuple(args), {**equation.params, "dim": equation.params["dim"] + 1})
    return made


def _expand(equation: Equation, args: Arguments, are_rows: Flags, rounds: int) -> Tensor:
    return ops.expand(_aligned(args[0], len(equation.output.shape)), (rounds, *equation.output.shape))


def _shape(shape: tuple[int, ...], rounds: int) -> tuple[int, ...]:
    return rounds, *shape


def _index(index: tuple[Any, ...], rounds: int) -> tuple[Any, ...]:
    return Slice(0, rounds, 1), *index


_OF_FAMILIES = {"elementwise": _elementwise, "reduction": _reduction}
_RULES = {
    "matmul": _product,
    "permute": _permute,
    "expand": _expand,
    "cat": _cat,
    "reshape": _with_rounds(shape=_shape),
    "getitem": _with_rounds(index=_index),
    "embed": _with_rounds(shape=_shape, index=_index),
}
