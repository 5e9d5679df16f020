"""torch's names on JAX. All of it runs while JAX traces: nothing here is timed."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import jax
from jax import lax, numpy as jnp
from jax.scipy import linalg as scipy_linalg, special

SAME = """
abs angle atan2 ceil conj cos cosh cross dot einsum exp expm1 eye floor full_like hypot imag kron log log10
log1p log2 logaddexp matmul maximum minimum ones ones_like outer pow real reciprocal reshape round sign sin
sinh sqrt square stack tan tanh tensordot tile trace tril triu where zeros zeros_like broadcast_to
""".split()
BY_AXIS = "all amax amin any argmax argmin mean prod std sum var".split()
ALONG = {"sort": jnp.sort, "argsort": jnp.argsort, "cumsum": jnp.cumsum, "cumprod": jnp.cumprod}


def names() -> SimpleNamespace:
    """The namespace that `facade.names_of("jax")` gives."""
    own: dict[str, Any] = {name: getattr(jnp, name) for name in SAME}
    own |= {name: by_axis(getattr(jnp, name)) for name in BY_AXIS}
    return SimpleNamespace(**own | ADAPTED, library=jax)


def by_axis(function: Any) -> Any:
    """A reduction with torch's arguments; variances divide by the count less `correction`."""

    def reduced(x: Any, dim: Any = None, keepdim: bool = False, correction: int | None = None) -> Any:
        spread = {} if correction is None else {"ddof": correction}
        return function(x, axis=dim, keepdims=keepdim, **spread)

    return reduced


def logsumexp(x: Any, dim: Any, keepdim: bool = False) -> Any:
    return jax.nn.logsumexp(x, axis=dim, keepdims=keepdim)


def vector_norm(x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False) -> Any:
    return jnp.linalg.vector_norm(x, ord=ord, axis=dim, keepdims=keepdim)


def sort(x: Any, dim: int = -1, descending: bool = False) -> Any:
    order = jnp.argsort(x, axis=dim, descending=descending)
    return jnp.take_along_axis(x, order, axis=dim), order


def topk(x: Any, k: int) -> Any:
    return lax.top_k(x, k)


def cummax(x: Any, dim: int) -> Any:
    return lax.cummax(x, axis=dim % x.ndim), None


def pad(x: Any, widths: Any, mode: str = "constant", value: float = 0.0) -> Any:
    pairs = [(0, 0)] * (x.ndim - len(widths) // 2)
    pairs += [(widths[i], widths[i + 1]) for i in range(len(widths) - 2, -2, -2)]
    if mode == "constant":
        return jnp.pad(x, pairs, constant_values=value)
    return jnp.pad(x, pairs, mode={"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode])


def index_add(x: Any, dim: int, index: Any, source: Any) -> Any:
    return x.at[(slice(None),) * dim + (index,)].add(source)


def scatter_add(x: Any, dim: int, index: Any, source: Any) -> Any:
    places = list(jnp.indices(index.shape, sparse=True))
    places[dim] = index
    return x.at[tuple(places)].add(source)


def scan(body: Any, state: Any, rows: Any) -> Any:
    return lax.scan(body, state, rows)


def loop(steps: int, body: Any, state: Any) -> Any:
    return lax.fori_loop(0, steps, lambda _, now: body(now), state)


# Networks, in torch's layout of channels first.


def pairs_of(value: Any, count: int) -> tuple[int, ...]:
    return (value,) * count if isinstance(value, int) else tuple(value)


def convolution(spatial: int) -> Any:
    """conv1d or conv2d."""

    def convolve(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):  # type: ignore[no-untyped-def]
        found = lax.conv_general_dilated(
            x,
            weight,
            window_strides=pairs_of(stride, spatial),
            padding=[(amount, amount) for amount in pairs_of(padding, spatial)],
            rhs_dilation=pairs_of(dilation, spatial),
            feature_group_count=groups,
        )
        return found if bias is None else found + bias.reshape(-1, *[1] * spatial)

    return convolve


def conv_transpose2d(x: Any, weight: Any, bias: Any = None, stride: int = 1, padding: int = 0) -> Any:
    kernel = jnp.flip(weight, (2, 3)).swapaxes(0, 1)
    sizes = [(size - 1 - padding, size - 1 - padding) for size in weight.shape[2:]]
    found = lax.conv_general_dilated(x, kernel, (1, 1), sizes, lhs_dilation=(stride, stride))
    return found if bias is None else found + bias[:, None, None]


def windows(x: Any, size: int, start: float, combine: Any, stride: int, padding: int) -> Any:
    edges = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
    return lax.reduce_window(x, start, combine, (1, 1, size, size), (1, 1, stride, stride), edges)


def max_pool2d(x: Any, size: int, stride: int | None = None, padding: int = 0) -> Any:
    return windows(x, size, -math.inf, lax.max, stride or size, padding)


def avg_pool2d(x: Any, size: int, stride: int | None = None, padding: int = 0) -> Any:
    return windows(x, size, 0.0, lax.add, stride or size, padding) / size**2


def batch_norm(x, mean, spread, weight, bias, training=True, momentum=0.1, eps=1e-5):  # type: ignore[no-untyped-def]
    axes, shape = (0, *range(2, x.ndim)), (1, -1, *[1] * (x.ndim - 2))
    mean, spread = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) * lax.rsqrt(spread + eps) * weight.reshape(shape) + bias.reshape(shape)


def layer_norm(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    axes = tuple(range(-len(shape), 0))
    found = (x - x.mean(axes, keepdims=True)) * lax.rsqrt(x.var(axes, keepdims=True) + eps)
    return found if weight is None else found * weight + bias


def group_norm(x: Any, groups: int, weight: Any, bias: Any, eps: float = 1e-5) -> Any:
    split = x.reshape(x.shape[0], groups, -1)
    split = (split - split.mean(2, keepdims=True)) * lax.rsqrt(split.var(2, keepdims=True) + eps)
    shape = (-1, *[1] * (x.ndim - 2))
    return split.reshape(x.shape) * weight.reshape(shape) + bias.reshape(shape)


def cross_entropy(logits: Any, labels: Any) -> Any:
    at_label = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
    return (jax.nn.logsumexp(logits, axis=1) - at_label).mean()


def binary_cross_entropy_with_logits(logits: Any, targets: Any) -> Any:
    return (jax.nn.softplus(logits) - logits * targets).mean()


def huber_loss(x: Any, y: Any, delta: float = 1.0) -> Any:
    apart = jnp.abs(x - y)
    return jnp.where(apart <= delta, 0.5 * apart**2, delta * (apart - 0.5 * delta)).mean()


def kl_div(logs: Any, targets: Any, reduction: str = "batchmean") -> Any:
    return (targets * (jnp.log(targets) - logs)).sum() / logs.shape[0]


def normalize(x: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    return x / jnp.maximum(jnp.linalg.norm(x, ord=p, axis=dim, keepdims=True), eps)


def cosine_similarity(x: Any, y: Any, dim: int = 1) -> Any:
    return (x * y).sum(dim) / (jnp.linalg.norm(x, axis=dim) * jnp.linalg.norm(y, axis=dim))


def attention(q: Any, k: Any, v: Any, is_causal: bool = False) -> Any:
    """Written out, which is as fast as `jax.nn.dot_product_attention` or faster."""
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    if is_causal:
        scores = jnp.where(jnp.tri(*scores.shape[-2:], dtype=bool), scores, -jnp.inf)
    return jax.nn.softmax(scores, -1) @ v


def unfold(x: Any, size: int, padding: int = 0, stride: int = 1) -> Any:
    edges = [(padding, padding)] * 2
    found = lax.conv_general_dilated_patches(x, (size, size), (stride, stride), edges)
    return found.reshape(*found.shape[:2], -1)


def interpolate(x: Any, scale_factor: int, mode: str = "nearest") -> Any:
    shape = (*x.shape[:2], *[scale_factor * size for size in x.shape[2:]])
    return jax.image.resize(x, shape, {"nearest": "nearest", "bilinear": "bilinear"}[mode])


def lstm(x: Any, h: Any, c: Any, w: Any, u: Any, b: Any) -> Any:
    def cell(state, row):  # type: ignore[no-untyped-def]
        h, c = state
        i, f, g, o = jnp.split(row @ w.T + h @ u.T + b, 4, axis=1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return lax.scan(cell, (h, c), x)[1]


def cdist(x: Any, y: Any) -> Any:
    return jnp.sqrt(((x[..., :, None, :] - y[..., None, :, :]) ** 2).sum(-1))


def lerp(x: Any, y: Any, weight: Any) -> Any:
    return x + weight * (y - x)


def slices_of_three(product: Any) -> Any:
    return lambda c, a, b: c + product(a, b)


ADAPTED: dict[str, Any] = {
    "acos": jnp.arccos,
    "asin": jnp.arcsin,
    "atan": jnp.arctan,
    "addcmul": lambda x, a, b, value=1.0: x + value * a * b,
    "addmm": slices_of_three(jnp.matmul),
    "arange": jnp.arange,
    "argsort": lambda x, dim=-1, descending=False: jnp.argsort(x, axis=dim, descending=descending),
    "avg_pool2d": avg_pool2d,
    "batch_norm": batch_norm,
    "binary_cross_entropy_with_logits": binary_cross_entropy_with_logits,
    "bmm": jnp.matmul,
    "mv": jnp.matmul,
    "bucketize": lambda x, edges: jnp.searchsorted(edges, x),
    "cast": lambda x, dtype: x.astype(dtype),
    "cat": lambda parts, dim=0: jnp.concatenate(parts, axis=dim),
    "cdist": cdist,
    "cholesky": jnp.linalg.cholesky,
    "clamp": lambda x, min=None, max=None: jnp.clip(x, min, max),
    "complex": lax.complex,
    "cond": lambda predicate, yes, no, *operands: lax.cond(predicate, yes, no, *operands),
    "conv1d": convolution(1),
    "conv2d": convolution(2),
    "conv_transpose2d": conv_transpose2d,
    "cosine_similarity": cosine_similarity,
    "cross_entropy": cross_entropy,
    "cummax": cummax,
    "cumprod": lambda x, dim: jnp.cumprod(x, axis=dim),
    "cumsum": lambda x, dim: jnp.cumsum(x, axis=dim),
    "det": jnp.linalg.det,
    "diag_embed": lambda x: x[..., None] * jnp.eye(x.shape[-1], dtype=x.dtype),
    "diagonal": lambda x, dim1=0, dim2=1: jnp.diagonal(x, axis1=dim1, axis2=dim2),
    "diff": lambda x, dim=-1: jnp.diff(x, axis=dim),
    "digamma": special.digamma,
    "eigvalsh": jnp.linalg.eigvalsh,
    "elu": jax.nn.elu,
    "embedding": lambda index, weight: weight[index],
    "erf": special.erf,
    "flip": lambda x, dims: jnp.flip(x, dims),
    "float32": jnp.float32,
    "float64": jnp.float64,
    "gather": lambda x, dim, index: jnp.take_along_axis(x, index, axis=dim),
    "gelu": lambda x, approximate="none": jax.nn.gelu(x, approximate=approximate == "tanh"),
    "gradient": jax.grad,
    "group_norm": group_norm,
    "hessian": jax.hessian,
    "hessian_product": lambda f, x, v: jax.jvp(jax.grad(f), (x,), (v,))[1],
    "huber_loss": huber_loss,
    "index_add": index_add,
    "index_increment": lambda x, index, value: x.at[index].add(value),
    "index_select": lambda x, dim, index: jnp.take(x, index, axis=dim),
    "index_set": lambda x, index, value: x.at[index].set(value),
    "int64": jnp.int32,
    "interpolate": interpolate,
    "inv": jnp.linalg.inv,
    "irfft": jnp.fft.irfft,
    "jacobian": jax.jacrev,
    "kl_div": kl_div,
    "layer_norm": layer_norm,
    "leaky_relu": jax.nn.leaky_relu,
    "lerp": lerp,
    "lgamma": special.gammaln,
    "log_softmax": lambda x, dim: jax.nn.log_softmax(x, axis=dim),
    "logcumsumexp": lambda x, dim: lax.cumlogsumexp(x, axis=dim % x.ndim),
    "logsumexp": logsumexp,
    "loop": loop,
    "lstm": lstm,
    "masked_fill": lambda x, mask, value: jnp.where(mask, value, x),
    "matrix_power": jnp.linalg.matrix_power,
    "max_pool2d": max_pool2d,
    "meshgrid": lambda *axes, indexing="ij": jnp.meshgrid(*axes, indexing=indexing),
    "movedim": jnp.moveaxis,
    "mse_loss": lambda x, y: ((x - y) ** 2).mean(),
    "norm": vector_norm,
    "normalize": normalize,
    "one_hot": lambda labels, count: jax.nn.one_hot(labels, count),
    "pad": pad,
    "permute": jnp.transpose,
    "relu": jax.nn.relu,
    "repeat_interleave": lambda x, count, dim: jnp.repeat(x, count, axis=dim),
    "roll": lambda x, shifts, dims: jnp.roll(x, shifts, axis=dims),
    "rfft": jnp.fft.rfft,
    "rsqrt": lax.rsqrt,
    "scaled_dot_product_attention": attention,
    "scan": scan,
    "scatter_add": scatter_add,
    "searchsorted": jnp.searchsorted,
    "segment_sum": lambda rows, numbers, count: jax.ops.segment_sum(rows, numbers, count),
    "sigmoid": jax.nn.sigmoid,
    "silu": jax.nn.silu,
    "slogdet": jnp.linalg.slogdet,
    "smooth_l1_loss": huber_loss,
    "softmax": lambda x, dim: jax.nn.softmax(x, axis=dim),
    "softplus": jax.nn.softplus,
    "solve": lambda a, b: jnp.linalg.solve(a, b),
    "solve_triangular": lambda a, b, upper: scipy_linalg.solve_triangular(a, b, lower=not upper),
    "sort": sort,
    "squeeze": jnp.squeeze,
    "take_along_dim": lambda x, index, dim: jnp.take_along_axis(x, index, axis=dim),
    "tensor": jnp.asarray,
    "topk": topk,
    "transpose": lambda x, one, other: jnp.swapaxes(x, one, other),
    "unbind": lambda x, dim: jnp.unstack(x, axis=dim),
    "unfold": unfold,
    "unsqueeze": lambda x, dim: jnp.expand_dims(x, dim),
    "vector_norm": vector_norm,
    "while_loop": lambda goes_on, body, state: lax.while_loop(goes_on, body, state),
}
