"""Loops and branches as functions: for programs that are written so for JAX, or for `torch.cond`.

They are the plain Python that they stand for, and so all that holds of that holds of them: values may decide,
shapes may change, and under `jit` a branch is a guard and rounds that do the same are compiled once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.ops.shape.joining import stack


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    """`true_fn(*operands)` if `pred` is true, else `false_fn(*operands)`.

    pred: a bool, or a tensor of one element. Source: `torch.cond`.

    >>> import fusegrad as fg
    >>> x = fg.tensor([1.0, 2.0])
    >>> fg.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))
    tensor([2., 4.])
    """
    if pred:
        return true_fn(*operands)
    return false_fn(*operands)


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any) -> Any:
    """`carried = body_fn(*carried)` as long as `cond_fn(*carried)` is true.

    carried_inputs: a tuple or list; one value that is neither is handed on as it is, as in JAX.
    Source: PyTorch's `while_loop` (`torch._higher_order_ops`).

    >>> import fusegrad as fg
    >>> fg.while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, x * 2), (0, fg.tensor(1.0)))
    (3, tensor(8.))
    >>> fg.while_loop(lambda x: x < 100, lambda x: x * x, fg.tensor(3.0))
    tensor(6561.)
    """
    carried = carried_inputs
    if not isinstance(carried, (tuple, list)):
        while cond_fn(carried):
            carried = body_fn(carried)
        return carried
    while cond_fn(*carried):
        made = body_fn(*carried)
        carried = made if isinstance(made, (tuple, list)) else (made,)
    return carried


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    dim: int = 0,
) -> tuple[Any, Any]:
    """`carry, y = f(carry, x)` for each slice `x` of `xs` along `dim`; the last carry, and the `y`s, stacked.

    xs: a tensor, or a tuple, list or dict of some, whose slices then come in one as well; None for `length`
    rounds in which `x` is None. What `f` gives for `y` may be None, a tensor, or a tuple, list or dict of
    these.
    reverse: from the last slice to the first; the `y`s are in the order of the slices.
    Raises ValueError for tensors of different lengths, and for no slices: what would be stacked is not known.
    Source: `jax.lax.scan`; PyTorch's `scan` (`torch._higher_order_ops`).

    >>> import fusegrad as fg
    >>> fg.scan(lambda total, x: (total + x, total * x), fg.tensor(0.0), fg.tensor([1.0, 2.0, 3.0]))
    (tensor(6.), tensor([0., 2., 9.]))
    """
    rounds = _length(xs, length, dim)
    carry, kept = init, []
    for number in range(rounds):
        place = rounds - 1 - number if reverse else number
        carry, y = f(carry, _slice(xs, place, dim))
        kept.append(y)
    if reverse:
        kept = kept[::-1]
    return carry, _stacked(kept, dim)


def _length(xs: Any, length: int | None, dim: int) -> int:
    """How many slices there are."""
    found = {*_lengths(xs, dim)}
    if length is not None:
        found.add(length)
    if len(found) != 1:
        raise failure(ValueError, f"scan: the tensors in xs, and length, say {sorted(found)} rounds")
    (rounds,) = found
    if not rounds:
        raise failure(ValueError, "scan: over no slices nothing is known of what would be stacked")
    return rounds


def _lengths(xs: Any, dim: int) -> list[int]:
    if xs is None:
        return []
    if isinstance(xs, dict):
        return [n for x in xs.values() for n in _lengths(x, dim)]
    if isinstance(xs, (tuple, list)):
        return [n for x in xs for n in _lengths(x, dim)]
    return [xs.shape[dim]]


def _slice(xs: Any, place: int, dim: int) -> Any:
    """The slice at a place of each tensor."""
    if xs is None:
        return None
    if isinstance(xs, dict):
        return {key: _slice(x, place, dim) for key, x in xs.items()}
    if isinstance(xs, tuple):
        return tuple([_slice(x, place, dim) for x in xs])
    if isinstance(xs, list):
        return [_slice(x, place, dim) for x in xs]
    return xs[place] if dim == 0 else xs.select(dim, place)


def _stacked(kept: list[Any], dim: int) -> Any:
    """What the rounds gave, stacked part by part."""
    first = kept[0]
    if first is None:
        return None
    if isinstance(first, dict):
        return {key: _stacked([y[key] for y in kept], dim) for key in first}
    if isinstance(first, tuple):
        return tuple([_stacked([y[i] for y in kept], dim) for i in range(len(first))])
    if isinstance(first, list):
        return [_stacked([y[i] for y in kept], dim) for i in range(len(first))]
    return stack(kept, dim)
