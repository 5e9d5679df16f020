"""Reductions of nested tensors, and softmax and attention over the ragged dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusegrad.eager.core import dtypes
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.nested.functions import PADS, dimension, from_padded, longest, padded, refuse, rule
from fusegrad.eager.nested.nested_tensor import NestedTensor
from fusegrad.eager.ops.nn.attention import scaled_dot_product_attention


def _lowest(dtype: dtypes.DType) -> Any:
    return (
        float("-inf")
        if dtype.is_floating_point
        else (False if dtype is dtypes.bool_ else dtypes.iinfo(dtype).min)
    )


def _highest(dtype: dtypes.DType) -> Any:
    return (
        float("inf")
        if dtype.is_floating_point
        else (True if dtype is dtypes.bool_ else dtypes.iinfo(dtype).max)
    )


# By the name: what changes nothing where examples are padded.
_NEUTRAL = {
    "amax": _lowest,
    "max": _lowest,
    "argmax": _lowest,
    "amin": _highest,
    "min": _highest,
    "argmin": _highest,
    "prod": lambda dtype: 1,
    "any": lambda dtype: 0,
    "all": lambda dtype: 1,
}
_ONE_RESULT_OF_ALL = ("sum", "amax", "amin", "any", "all")  # which may be reduced step by step


@rule("sum", "mean", *_NEUTRAL)
def reduce(function: Any, input: NestedTensor, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> Any:
    """Over all elements, dimensions that each example has, its length, or all examples and their lengths."""
    name, values, ragged = function.__name__, input.values(), input.ragged
    if isinstance(dim, NestedTensor):
        raise refuse(function, "of two nested tensors it is maximum() and minimum()")
    if dim is None or dim == ():
        return function(values, **kwargs)
    dims = sorted({dimension(function, input, d) for d in ([dim] if isinstance(dim, int) else dim)})
    one = isinstance(dim, int)
    if dims[0] == 0:
        if ragged not in dims:
            raise refuse(
                function,
                "reducing along the batch dimension but not the ragged dimension is not supported for nested "
                f"tensors{PADS}",
            )
        made = function(values, dim=[d - 1 for d in dims[1:]], **kwargs)
        return made if not keepdim else _kept(made, dims)
    if ragged not in dims:
        inner = [d - 1 for d in dims]
        made = function(values, dim=inner[0] if one else inner, keepdim=keepdim, **kwargs)
        gone = 0 if keepdim else sum(d < ragged for d in dims)
        return _rewrapped(input, made, ragged - gone)
    others = [d for d in dims if d != ragged]
    if not others:
        return _over_ragged(function, name, input, keepdim, one, kwargs)
    if name not in _ONE_RESULT_OF_ALL:
        raise refuse(
            function, f"over the ragged dimension and others it is not there{PADS}", NotImplementedError
        )
    within = function(values, dim=[d - 1 for d in others], keepdim=True, **kwargs)
    made = _over_ragged(function, name, input.like(within), True, one, {})
    return made if keepdim else made.squeeze(tuple(dims))


def _kept(made: Tensor, dims: Sequence[int]) -> Tensor:
    for d in dims:
        made = made.unsqueeze(d)
    return made


def _rewrapped(input: NestedTensor, made: Any, ragged: int) -> Any:
    if isinstance(made, Tensor):
        return input.like(made, ragged)
    return type(made)(*[input.like(part, ragged) for part in made])


def _over_ragged(
    function: Any, name: str, input: NestedTensor, keepdim: bool, one: bool, kwargs: dict[str, Any]
) -> Any:
    ragged = input.ragged
    if name in _NEUTRAL:
        dtype = input.dtype
        return function(
            padded(input, _NEUTRAL[name](dtype)), dim=ragged if one else [ragged], keepdim=keepdim, **kwargs
        )
    values = input.in_front()
    if kwargs.get("dtype") is not None:
        values = values.to(kwargs["dtype"])
    elif name == "sum" and not (values.dtype.is_floating_point or values.dtype.is_complex):
        values = values.to(dtypes.int64)
    made = _sums(input, values)
    if name == "mean":
        lengths = input.offsets().diff().to(made.dtype)
        made = made / lengths.reshape(-1, *[1] * (made.ndim - 1))
    if keepdim:
        return made.unsqueeze(ragged)
    return made


def _sums(input: NestedTensor, values: Tensor) -> Tensor:
    """Of each example the sum of what it has in front."""
    zeros = ops.zeros((len(input), *values.shape[1:]), dtype=values.dtype)
    return zeros.index_add(0, input.examples(), values)


@rule("softmax", "log_softmax")
def softmax(function: Any, input: NestedTensor, dim: int = -1, *args: Any, **kwargs: Any) -> NestedTensor:
    """Along a dimension that each example has, or over its length."""
    place = dimension(function, input, dim)
    if place == 0:
        raise refuse(function, "not supported when reducing across the batch dimension for NestedTensor")
    if place != input.ragged:
        return input.like(function(input.values(), place - 1, *args, **kwargs))
    dtype = kwargs.get("dtype") or (args[-1] if args and isinstance(args[-1], dtypes.DType) else None)
    values, of = input.in_front(), input.examples()
    values = values if dtype is None else values.to(dtype)
    lowest = ops.full((len(input), *values.shape[1:]), float("-inf"), dtype=values.dtype)
    highest = lowest.index_reduce(0, of, values.detach(), "amax")
    shifted = values - highest.index_select(0, of)
    sums = _sums(input, shifted.exp())
    if function.__name__ == "softmax":
        made = shifted.exp() / sums.index_select(0, of)
    else:
        made = shifted - sums.log().index_select(0, of)
    return input.like(made if input.ragged == 1 else made.movedim(0, input.ragged - 1))


@rule("scaled_dot_product_attention")
def attention(
    function: Any,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> NestedTensor:
    """Each example's queries see its own keys: (examples, heads, ragged, size), or without heads."""
    for given in (query, key, value):
        if not isinstance(given, NestedTensor) or given.ragged != given.ndim - 2 or len(given) != len(query):
            raise refuse(
                function,
                "queries, keys and values are nested, of the same examples, and ragged in the last dimension "
                "but one: x.unflatten(-1, (heads, size)).transpose(1, 2)",
            )
    if key.offsets() is not value.offsets():
        raise refuse(function, "keys and values have the same offsets")
    if attn_mask is not None:
        raise refuse(function, f"no masks but is_causal are there for examples of all lengths{PADS}")
    queries, keys = longest(query), longest(key)
    sees = ops.arange(keys) < key.offsets().diff().unsqueeze(-1)
    mask = sees.reshape(len(key), *[1] * (key.ndim - 2), keys)
    if is_causal:
        mask = mask & (ops.arange(queries).unsqueeze(1) >= ops.arange(keys))
    made = scaled_dot_product_attention(
        padded(query, 0.0), padded(key, 0.0), padded(value, 0.0), mask, dropout_p, False, scale, enable_gqa
    )
    return from_padded(made, query)
