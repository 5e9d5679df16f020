"""Writes into tensors that show memory several times, as expanded ones do.

PyTorch refuses most of them. What it takes is written into the part that shows each element once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.errors import warn
from fusegrad.eager.core.names import attach, publish
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.by_name import in_our_names
from fusegrad.eager.ops.index import indexing, writing
from fusegrad.eager.ops.inplace import inplace
from fusegrad.eager.ops.pointwise import special
from fusegrad.eager.ops.shape import diagonals, shape
from fusegrad.eager.ops.shape.slicing import once, repeating


def filling(write: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`write`, which does one thing to all elements: of an expanded tensor, where each of them lies once."""

    @functools.wraps(write)
    def method(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        array = input.array
        if array.flags.writeable or any(isinstance(value, Tensor) for value in (*args, *kwargs.values())):
            return write(input, *args, **kwargs)
        write(once(input), *args, **kwargs)
        return input

    return method


def warn_of_repeated(name: str, form: str = "tensor[mask] = scalar") -> None:
    """Say that PyTorch may refuse such a write one day. form: the assignment that does the same."""
    warn(
        f"Use of {name} on expanded tensors is deprecated. Please clone() the tensor before performing this "
        f"operation. This also applies to advanced indexing e.g. {form}"
    )


_masked_fill = inplace(special.masked_fill, "masked_fill_")
_index_fill = inplace(writing.index_fill, "index_fill_")


def masked_fill_(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`masked_fill` written into the tensor itself: of an expanded one each element that is shown where
    `mask` is true. Source: `torch.Tensor.masked_fill_`.
    """
    array = input.array
    if array.flags.writeable or not isinstance(mask, Tensor) or mask.array.dtype.kind != "b":
        return _masked_fill(input, mask, value)
    warn_of_repeated("masked_fill_")
    mask = shape.expanded(mask, array.shape)
    for dim in repeating(array):
        mask = ops.any(mask, dim, keepdim=True)
    _masked_fill(once(input), mask, value)
    return input


def index_fill_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """`index_fill` written into the tensor itself: of an expanded one each element that is shown at `index`.
    Source: `torch.Tensor.index_fill_`.
    """
    array = input.array
    if array.flags.writeable:
        return _index_fill(input, *args, **kwargs)
    warn_of_repeated("index_fill_")
    named = in_our_names(writing.index_fill, (input, *args), kwargs)
    writing.index_fill(input, *args, **named)  # which refuses what is no index
    named |= dict(zip(("dim", "index", "value"), args, strict=False))
    if shape.normal_dim(named["dim"], array.ndim) in repeating(array):
        named["index"] = ops.zeros(min(named["index"].array.size, 1), dtype=named["index"].dtype)
    _index_fill(once(input), **named)
    return input


_index_put = inplace(writing.index_put, "index_put_")


def index_put_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """`index_put` written into the tensor itself: into an expanded one as `put_repeated` does.
    Source: `torch.Tensor.index_put_`.
    """
    if input.array.flags.writeable:
        return _index_put(input, *args, **kwargs)
    warn_of_repeated("index_put_", "tensor[indices] = tensor")
    named = in_our_names(writing.index_put, (input, *args), kwargs)
    named |= dict(zip(("indices", "values", "accumulate"), args, strict=False))
    writing.index_put(input, **named)  # which refuses what does not fit
    index = tuple([slice(None) if i is None else i for i in named["indices"]])
    put_repeated(input, index, named["values"], named.get("accumulate", False))
    return input


def put_repeated(expanded: Tensor, index: Any, value: Tensor, accumulate: bool) -> None:
    """Put, or add, `value` at `expanded[index]`, one element after the other: the last one stays."""
    part = once(expanded)
    places = ops.reshape(ops.arange(part.array.size), part.array.shape)
    places = shape.expanded(places, expanded.array.shape)[index]
    value = shape.expanded(indexing._without_ones(value, places.array.ndim), places.array.shape)
    part.put_(places, value.contiguous(), accumulate)


def _triangle(function: Callable[..., Tensor]) -> None:
    """Declare the in-place form of a triangle: an element of which any place is beyond it is 0."""
    name = f"{function.__name__}_"
    write = inplace(function, name)

    @functools.wraps(write)
    def method(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        array = input.array
        if array.flags.writeable or array.ndim < 2:
            return write(input, *args, **kwargs)
        named = in_our_names(function, (input, *args), kwargs)
        kept = function(ops.ones(array.shape, dtype=dtypes.bool_), *args, **named)
        return masked_fill_(input, ops.logical_not(kept), 0)

    attach(method, name)


_triangle(diagonals.tril)
_triangle(diagonals.triu)
attach(masked_fill_, "masked_fill_")
attach(index_fill_, "index_fill_")
attach(index_put_, "index_put_")
publish(index_put_, "index_put_")
