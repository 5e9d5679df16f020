"""Attention: values averaged by how well their keys fit a query."""

from __future__ import annotations

import contextlib
import enum
import math
from collections.abc import Iterator, Sequence
from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.nn.dropout import dropout
from fusegrad.eager.ops.nn.linear import linear
from fusegrad.eager.ops.precision import in_half, rounded_once
from fusegrad.eager.ops.shape import padding


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query @ key.T * scale + mask) @ value.

    query: [..., L, E]; key: [..., S, E]; value: [..., S, Ev]. attn_mask: bool (True where a key may be
    seen; rows that see none give 0) or float (added), broadcast to [..., L, S]. is_causal: each query
    sees the keys up to its own place. scale: 1 / sqrt(E) if None. enable_gqa: fewer key heads than query
    heads, each used several times. Source: `torch.nn.functional.scaled_dot_product_attention`.
    """
    query, key, value, attn_mask = in_half(query, key, value, attn_mask)
    _check_operands(query, key, value, attn_mask, is_causal)
    if enable_gqa:
        key, value = (_repeated_heads(query, x) for x in (key, value))
    if scale is None:
        scale = 1 / math.sqrt(query.array.shape[-1]) if query.array.shape[-1] else math.inf

    def attended(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        scores = ops.matmul(query * scale, ops.transpose(key, -2, -1))
        if is_causal:
            length, keys = scores.array.shape[-2:]
            mask = ops.arange(length).unsqueeze(1) >= ops.arange(keys)
        weights = _softmax_masked(scores, mask)
        if weights.array.shape != scores.array.shape:
            sizes = f"{list(scores.array.shape)}, which attn_mask would make {list(weights.array.shape)}"
            raise failure(RuntimeError, f"scores of query and key have shape {sizes}")
        if dropout_p:
            weights = dropout(weights, dropout_p)
        return ops.matmul(weights, value)

    return rounded_once(attended, query, key, value, attn_mask)


def _check_operands(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, is_causal: bool
) -> None:
    """Raise RuntimeError for operands that do not fit each other."""
    if is_causal and attn_mask is not None:
        raise failure(RuntimeError, "Explicit attn_mask should not be set when is_causal=True")
    kinds = [x.array.dtype.name for x in (query, key, value)]
    if len(set(kinds)) > 1:
        raise failure(RuntimeError, f"Expected query, key, and value to have the same dtype, got {kinds}")
    if min(x.array.ndim for x in (query, key, value)) < 2:
        sizes = [list(x.array.shape) for x in (query, key, value)]
        raise failure(
            RuntimeError, f"Expected query, key, and value to all be at least 2 dimensional, got {sizes}"
        )
    kind = None if attn_mask is None else attn_mask.array.dtype
    if kind is not None and kind.kind != "b" and kind != query.array.dtype:
        raise failure(
            RuntimeError,
            f"Expected attn_mask dtype to be bool or to match query dtype {query.array.dtype.name}, "
            f"got {kind.name}",
        )


def _repeated_heads(query: Tensor, x: Tensor) -> Tensor:
    """`x` with each head as often as there are query heads for it."""
    heads, own = query.array.shape[-3], x.array.shape[-3]
    if not own or heads % own:
        raise failure(RuntimeError, f"{heads} query heads cannot share {own} key heads")
    *batch, _, length, size = x.array.shape
    spread = ops.expand(ops.unsqueeze(x, -3), (*batch, own, heads // own, length, size))
    return ops.reshape(spread, (*batch, heads, length, size))


def _softmax_masked(scores: Tensor, mask: Tensor | None) -> Tensor:
    """The softmax over the keys under a mask; 0 in rows without any key."""
    if mask is None:
        return ops.softmax(scores, -1)
    scores = ops.where(mask, scores, -math.inf) if mask.array.dtype.kind == "b" else scores + mask
    empty = ops.all(ops.eq(scores, -math.inf), -1, True)
    return ops.where(empty, 0.0, ops.softmax(ops.where(empty, 0.0, scores), -1))


# Several heads with their projections: what `nn.MultiheadAttention` calls.


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention of `num_heads` heads between projections of query, key and value.

    query: [L, N, E] or [L, E]; key, value: [S, N, E] or [S, E]. Masks are True where a key is *not*
    seen, or floats that are added. Gives the output and (if `need_weights`) the weights [N, L, S], of
    each head unless averaged. Source: `torch.nn.functional.multi_head_attention_forward`.
    """
    _check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads)
    batched = query.array.ndim == 3
    if not batched:
        query, key, value = (ops.unsqueeze(x, 1) for x in (query, key, value))
        if key_padding_mask is not None:
            key_padding_mask = ops.unsqueeze(key_padding_mask, 0)
    length, rows, width = query.array.shape
    if is_causal and attn_mask is None:
        raise failure(RuntimeError, "Need attn_mask if specifying the is_causal hint.")
    if width != embed_dim_to_check or width % num_heads:
        raise failure(
            AssertionError,
            f"was expecting embedding dimension of {embed_dim_to_check}, divisible by num_heads {num_heads}, "
            f"but got {width}",
        )
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = _projections(query, key, value, in_proj_weight, in_proj_bias, separate)
    mask = _added_mask(attn_mask, "attn_mask", query)
    padding = _added_mask(key_padding_mask, "key_padding_mask", query)
    mask = _mask_of_heads(mask, rows, num_heads, length, key.array.shape[0])
    if (bias_k is None) != (bias_v is None):
        raise failure(AssertionError, "bias_k and bias_v are given both or not at all")
    if bias_k is not None and bias_v is not None:
        for what, given in (("key", static_k), ("value", static_v)):
            if given is not None:
                raise failure(AssertionError, f"bias cannot be added to static {what}.")
        k = ops.cat([k, ops.repeat(bias_k, (1, rows, 1))])
        v = ops.cat([v, ops.repeat(bias_v, (1, rows, 1))])
    q, k, v = (_heads(x, rows, num_heads) for x in (q, k, v))
    k = k if static_k is None else ops.reshape(static_k, (rows, num_heads, *static_k.array.shape[1:]))
    v = v if static_v is None else ops.reshape(static_v, (rows, num_heads, *static_v.array.shape[1:]))
    if add_zero_attn:
        zero = ops.zeros(rows, num_heads, 1, width // num_heads, dtype=k.dtype)
        k, v = ops.cat([k, zero], 2), ops.cat([v, zero], 2)
    _check_padding(padding, rows, k.array.shape[2] - (bias_k is not None) - bool(add_zero_attn))
    # Keys that were added behind the given ones are seen by all queries.
    mask, padding = (_widened(m, k.array.shape[2]) for m in (mask, padding))
    if padding is not None:
        padding = ops.reshape(padding, (rows, 1, 1, -1))
        mask = padding if mask is None else mask + padding
    return _attended(
        q,
        k,
        v,
        mask,
        dropout_p if training else 0.0,
        out_proj_weight,
        out_proj_bias,
        "none" if not need_weights else "mean" if average_attn_weights else "heads",
        batched,
    )


def _attended(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    weight: Tensor,
    bias: Tensor | None,
    wanted: str,
    batched: bool,
) -> tuple[Tensor, Tensor | None]:
    """The heads' results side by side and projected, and the attention weights as they are wanted."""
    rows, heads, length, size = q.array.shape
    weights = None
    if wanted == "none":
        out = scaled_dot_product_attention(q, k, v, mask, dropout_p)
    else:
        scores = ops.matmul(q * math.sqrt(1 / size), ops.transpose(k, -2, -1))
        weights = ops.softmax(scores if mask is None else scores + mask, -1)
        weights = dropout(weights, dropout_p) if dropout_p else weights
        out = ops.matmul(weights, v)
        weights = ops.mean(weights, 1) if wanted == "mean" else weights
    out = ops.reshape(ops.permute(out, 2, 0, 1, 3), (length, rows, heads * size))
    out = linear(out, weight, bias)
    if batched:
        return out, weights
    return ops.squeeze(out, 1), None if weights is None else ops.squeeze(weights, 0)


def _check_ranks(query: Tensor, key: Tensor, value: Tensor, padding: Any, mask: Any, heads: int) -> None:
    """Raise AssertionError unless all are batched, or none is."""
    rank, ranks = query.array.ndim, (key.array.ndim, value.array.ndim)
    problem = ""
    if rank not in (2, 3):
        problem = f"query should be unbatched 2D or batched 3D tensor but received {rank}-D query tensor"
    elif ranks != (rank, rank):
        problem = (
            f"expected `key` and `value` to be {rank}-D but found {ranks[0]}-D and {ranks[1]}-D tensors "
            "respectively"
        )
    elif padding is not None and padding.array.ndim != rank - 1:
        problem = (
            f"expected `key_padding_mask` to be `None` or {rank - 1}-D but found {padding.array.ndim}-D "
            "tensor instead"
        )
    elif mask is not None and mask.array.ndim not in (2, 3):
        problem = (
            f"expected `attn_mask` to be `None`, 2-D or 3-D but found {mask.array.ndim}-D tensor instead"
        )
    elif mask is not None and rank == 2 and mask.array.ndim == 3:
        expected = (heads, query.array.shape[0], key.array.shape[0])
        if mask.array.shape != expected:
            problem = f"Expected `attn_mask` shape to be {expected} but got {mask.array.shape}"
    if problem:
        raise failure(AssertionError, f"For a query of shape {list(query.array.shape)} {problem}")


def _check_padding(padding: Tensor | None, rows: int, keys: int) -> None:
    """Raise AssertionError unless a padding mask says of each given key of each row whether it is one."""
    for dim, wanted in enumerate((rows, keys)):
        if padding is not None and padding.array.shape[dim] != wanted:
            raise failure(
                AssertionError,
                f"Expected key_padded_mask.shape[{dim}] to be {wanted}, but got {padding.array.shape[dim]}",
            )


def _added_mask(mask: Tensor | None, name: str, like: Tensor) -> Tensor | None:
    """A mask as floats to add: a bool mask is True where nothing is to be seen."""
    if mask is None or mask.array.dtype.kind in "fV":
        return mask
    if mask.array.dtype.kind != "b":
        raise failure(AssertionError, f"only bool and floating types of {name} are supported")
    return ops.where(mask, -math.inf, ops.zeros(mask.array.shape, dtype=like.dtype))


def _mask_of_heads(mask: Tensor | None, rows: int, heads: int, length: int, keys: int) -> Tensor | None:
    """A mask [L, S] or [N * heads, L, S] so that it can be added to scores [N, heads, L, S]."""
    if mask is None:
        return None
    expected = (length, keys) if mask.array.ndim == 2 else (rows * heads, length, keys)
    if mask.array.shape != expected:
        raise failure(
            RuntimeError,
            f"The shape of the {mask.array.ndim}D attn_mask is {list(mask.array.shape)}, "
            f"but should be {list(expected)}.",
        )
    return mask if mask.array.ndim == 2 else ops.reshape(mask, (rows, heads, length, keys))


def _widened(mask: Tensor | None, keys: int) -> Tensor | None:
    """A mask with 0 for keys that were added at the end."""
    if mask is None or mask.array.shape[-1] == keys:
        return mask
    extra = keys - mask.array.shape[-1]
    return padding.padded(mask, [(0, 0)] * (mask.array.ndim - 1) + [(0, extra)], 0.0)


def _heads(x: Tensor, rows: int, heads: int) -> Tensor:
    """[L, N, E] as [N, heads, L, E / heads]."""
    length, _, width = x.array.shape
    return ops.permute(ops.reshape(x, (length, rows, heads, width // heads)), 1, 2, 0, 3)


def _projections(
    query: Tensor, key: Tensor, value: Tensor, weight: Tensor | None, bias: Tensor | None, separate: Any
) -> tuple[Tensor, ...]:
    """Query, key and value by their weights, which are parts of one matrix or stand apart."""
    parts = (None, None, None) if bias is None else ops.chunk(bias, 3)
    if separate is None:
        if weight is None or key.array.shape != value.array.shape:
            raise failure(
                AssertionError,
                f"in_proj_weight is needed, and a key of the value's shape; got {list(key.array.shape)} and "
                f"{list(value.array.shape)}; other sizes take separate projections",
            )
        if query is key and key is value:
            return ops.chunk(linear(query, weight, bias), 3, -1)
        separate = ops.chunk(weight, 3)
    elif any(w is None for w in separate):
        raise failure(AssertionError, "use_separate_proj_weight is True but a projection weight is None")
    inputs = (query, key, value)
    return tuple(linear(x, w, b) for x, w, b in zip(inputs, separate, parts, strict=True))


# What programs choose among in PyTorch. Here there is one way, which fuses.


class SDPBackend(enum.Enum):
    """The ways that PyTorch knows. Source: `torch.nn.attention.SDPBackend`."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends: SDPBackend | Sequence[SDPBackend], set_priority: bool = False) -> Iterator[None]:
    """Nothing changes inside: `scaled_dot_product_attention` gives the same result whatever is chosen.

    Raises TypeError for what is no backend. Source: `torch.nn.attention.sdpa_kernel`.

    >>> import fusegrad as fg
    >>> from fusegrad.nn.attention import SDPBackend, sdpa_kernel
    >>> x = fg.ones(1, 2, 3)
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     fg.nn.functional.scaled_dot_product_attention(x, x, x).shape
    torch.Size([1, 2, 3])
    """
    listed = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not listed or not all(isinstance(b, SDPBackend) for b in listed):
        raise failure(TypeError, "backends must be an SDPBackend or a list of some")
    yield


locate("fusegrad.nn.attention", globals(), ["SDPBackend", "sdpa_kernel"])
