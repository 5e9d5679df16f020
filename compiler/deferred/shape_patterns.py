"""What of an op's call is left open where runs are compared: the sizes, so that one pattern serves many.

A pattern tells sizes apart only as far as results look different to the user: a size of 0 or 1 from others
(they broadcast, and where a dimension of size 1 lies is a matter of chance), and the order in which the
dimensions lie in memory. Under one pattern NumPy lays out the results of an op in one order too, so that
their strides are known from their sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.eager.core.op import EXPLAINED, Op, Params, TensorType, wrap
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.shape.slicing import Slice
from fusegrad.tracer.ir.symbolic_sizes import Sizes

# Parameters that hold sizes and positions, whatever the op.
_OPEN = frozenset({"count", "index", "shape", "size", "sizes"})


class Made(NamedTuple):
    """What is known of a tensor that a step makes.

    strides: in bytes, since the user may ask for them before there are values. name: of its node.
    shares: whether it is a view of the step's input (a reshape may have copied).
    """

    type: TensorType
    strides: tuple[int, ...]
    needs_grad: bool
    name: str
    shares: bool


# Parameters.


def opened(params: Params) -> tuple[Any, tuple[int, ...]]:
    """What tells the parameters from others apart from their sizes, and the sizes."""
    key: list[Any] = []
    sizes: list[int] = []
    for name, value in params.items():
        if name in _OPEN and isinstance(value, tuple):
            # The type says which of several functions it was (a squeeze, a view).
            key.append((name, type(value), *[_opened_item(item, sizes) for item in value]))
        elif name in _OPEN and type(value) is int:
            sizes.append(value)
            key.append(name)
        else:
            key.append((name, type(value), repr(value)))
    return tuple(key), tuple(sizes)


def _opened_item(item: Any, sizes: list[int]) -> Any:
    if type(item) is int:
        sizes.append(item)
        return int
    if type(item) is Slice:
        sizes.extend(item)
        return Slice
    return repr(item)


def filled(params: Params, sizes: Iterator[Any]) -> Params:
    """`params` with other sizes, in the order in which `opened` gave them."""
    return {
        name: type(value)([_filled_item(item, sizes) for item in value])
        if name in _OPEN and isinstance(value, tuple)
        else next(sizes)
        if name in _OPEN and type(value) is int
        else value
        for name, value in params.items()
    }


def _filled_item(item: Any, sizes: Iterator[Any]) -> Any:
    if type(item) is int:
        return next(sizes)
    if type(item) is Slice:
        return Slice(next(sizes), next(sizes), next(sizes))
    return item


# Layouts.


def layout_key(array: np.ndarray) -> tuple[Any, tuple[int, ...]]:
    """The pattern of an array's layout (rank, sizes of 0 and 1, order of the dimensions in memory), and
    its sizes: the shape, and for an array with gaps the strides, in elements.
    """
    shape = array.shape
    if array.flags.c_contiguous and 0 not in shape and 1 not in shape:
        return len(shape), shape
    order = dense_order(shape, array.strides, array.itemsize)
    if order is not None:
        return (small_sizes(shape), order), shape
    if any(s % array.itemsize for s in array.strides):
        return (shape, array.strides), shape
    return (small_sizes(shape), *order_with_gaps(array.strides)), shape + element_strides(array)


def element_strides(array: np.ndarray) -> tuple[int, ...]:
    """The strides counted in elements."""
    return tuple([s // array.itemsize for s in array.strides])


def order_with_gaps(strides: Sequence[int]) -> tuple[Any, ...]:
    """What NumPy looks at in strides when it lays out what is computed from an array."""
    order = sorted(range(len(strides)), key=lambda d: -abs(strides[d]))
    return tuple(order), tuple([(s > 0) - (s < 0) for s in strides])


def small_sizes(shape: Sequence[int]) -> tuple[int, ...]:
    """The sizes with 2 for all from 2 on."""
    return tuple([n if n < 2 else 2 for n in shape])


def dense_order(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, ...] | None:
    """The dimensions from the outermost in memory to the innermost; None where there are gaps."""
    order = sorted(range(len(shape)), key=lambda d: -strides[d])
    return tuple(order) if tuple(strides) == dense_strides(shape, order, itemsize) else None


def dense_strides(shape: Sequence[Any], order: Sequence[int], itemsize: int) -> tuple[Any, ...]:
    """The strides of an array without gaps whose dimensions lie in `order`."""
    strides: list[Any] = [0] * len(shape)
    step: Any = itemsize
    for d in reversed(order):
        strides[d] = step
        step = step * max(shape[d], 1)
    return tuple(strides)


# Results.


class Rule:
    """An op's rule of shapes and dtypes, run once with open sizes for the inputs of one pattern.

    Composite ops are taken apart to find what they give; with new sizes that need not be done again.
    """

    def __init__(self, op: Op, args: Sequence[Any], params: Params) -> None:
        """Raises what the rule raises, and whatever goes wrong in rules that cannot do with open sizes."""
        given = _sizes(args, params)
        self._open = [place for place, n in enumerate(given) if n > 1]
        self._small = small_sizes(given)
        self._sizes = Sizes([given[place] for place in self._open])
        symbols: list[Any] = list(given)
        for place, symbol in zip(self._open, self._sizes.dims, strict=True):
            symbols[place] = symbol
        source = iter(symbols)
        types = [
            TensorType(tuple([next(source) for _ in a.array.shape]), a.array.dtype)
            if isinstance(a, Tensor)
            else a
            for a in args
        ]
        inferred = op.infer(types, filled(params, source))
        self._types = (inferred,) if isinstance(inferred, TensorType) else tuple(inferred)
        self._holds = self._sizes.close()

    def types(self, args: Sequence[Any], params: Params) -> list[TensorType] | None:
        """The types of the results; None where the rule does not tell them."""
        sizes = _sizes(args, params)
        given = [sizes[place] for place in self._open]
        if small_sizes(sizes) != self._small or not self._holds(*given):
            return None
        values = self._sizes.values(given)
        return [TensorType(values.of(t.shape), t.dtype) for t in self._types]


def _sizes(args: Sequence[Any], params: Params) -> list[int]:
    """The sizes of the tensors among `args`, and those in the parameters."""
    sizes = [n for a in args if isinstance(a, Tensor) for n in a.array.shape]
    return [*sizes, *opened(params)[1]] if params else sizes


def predicted(
    op: Op, learned: Sequence[Made], args: Sequence[Any], params: Params, rule: Rule | None
) -> tuple[Made, ...] | None:
    """What the op gives for `args`, of which only sizes differ from those that `learned` came from.

    None where that cannot be told, or where the op is going to refuse.
    """
    try:
        if op.view:
            return _predicted_view(op, learned[0], args[0].array.view(np.ndarray), params)
        types = rule.types(args, params) if rule is not None else None
        if types is None:
            given = [TensorType(a.array.shape, a.array.dtype) if isinstance(a, Tensor) else a for a in args]
            inferred = op.infer(given, params)
            types = [inferred] if isinstance(inferred, TensorType) else list(inferred)
    except EXPLAINED:
        return None
    found = []
    for made, now in zip(learned, types, strict=True):
        order = dense_order(made.type.shape, made.strides, made.type.dtype.itemsize)
        if small_sizes(now.shape) != small_sizes(made.type.shape):
            return None
        if order is None:
            if op.family != "opaque":
                return None
            # It is computed at its own line, and NumPy's result copied where it has gaps.
            order = tuple(range(len(now.shape)))
        found.append(made._replace(type=now, strides=dense_strides(now.shape, order, now.dtype.itemsize)))
    return tuple(found)


def _predicted_view(op: Op, learned: Made, base: np.ndarray, params: Params) -> tuple[Made, ...] | None:
    """What a view op gives for an array that lies like `base`; its values do not matter."""
    view = op.evaluate((wrap(base),), params)
    shares = bool(np.may_share_memory(view, base))
    made = learned._replace(type=TensorType(view.shape, view.dtype), strides=view.strides, shares=shares)
    return (made,) if _view_pattern(made) == _view_pattern(learned) else None


def _view_pattern(made: Made) -> tuple[Any, ...]:
    return made.shares, small_sizes(made.type.shape), order_with_gaps(made.strides)
