"""The names that programs are written with: torch's, for torch, fusegrad and JAX alike.

`names_of("torch")` gives a namespace whose attributes are torch's own functions, and so for fusegrad: a
program that looks them up once pays nothing for the facade. JAX's are adapted to torch's arguments, which
runs while JAX traces, and never when it is timed. What the libraries write differently stands here once
for each: `loop`, `scan`, `cond`, `while_loop` (plain Python; `lax` in JAX), `index_set`, `index_increment`
(writing into a copy; `.at`), `segment_sum`, `lstm`, and the derivatives inside programs.
"""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

LIBRARY = """
abs acos addcmul all amax amin angle any arange argmax argmin argsort asin atan atan2 bmm broadcast_to cat
ceil clamp complex conj cos cosh cummax cumprod cumsum diag_embed diagonal diff digamma dot einsum erf exp
expm1 eye flip floor full_like gather hypot imag index_add index_select kron lgamma log log10 log1p log2
logaddexp logcumsumexp logsumexp masked_fill matmul maximum mean meshgrid minimum movedim mv norm ones
ones_like outer permute pow prod real reciprocal repeat_interleave reshape roll round rsqrt scatter_add
searchsorted sigmoid sign sin sinh softmax sort sqrt square squeeze stack std sum take_along_dim tan tanh
tensordot tile topk trace transpose tril triu unbind unsqueeze var where zeros zeros_like log_softmax lerp
bucketize cdist addmm
""".split()
FUNCTIONAL = """
avg_pool2d batch_norm binary_cross_entropy_with_logits conv1d conv2d conv_transpose2d cosine_similarity
cross_entropy elu embedding gelu group_norm huber_loss interpolate kl_div layer_norm leaky_relu max_pool2d
mse_loss normalize one_hot pad relu scaled_dot_product_attention silu smooth_l1_loss softplus unfold
""".split()
LINALG = "cholesky cross det inv matrix_power slogdet solve solve_triangular vector_norm eigvalsh".split()
SPECTRA = "rfft irfft".split()


def names_of(library: str) -> SimpleNamespace:
    """The namespace of a library: "torch", "jax" or "fusegrad"; imports it."""
    if library == "jax":
        from families.facade_jax import names

        return names()
    return pytorch_style(importlib.import_module(library))


def pytorch_style(library: Any) -> SimpleNamespace:
    """The names of torch or fusegrad, which are the library's own functions wherever it has one."""
    rooms = (
        (library, LIBRARY),
        (library.nn.functional, FUNCTIONAL),
        (library.linalg, LINALG),
        (library.fft, SPECTRA),
    )
    own = {name: getattr(room, name) for room, names in rooms for name in names}
    # On a CPU JAX has no separate fused cell, torch has its own layer.
    lstm = library.lstm if library.__name__ == "torch" else None
    return SimpleNamespace(
        **own,
        library=library,
        float32=library.float32,
        float64=library.float64,
        int64=library.int64,
        tensor=library.tensor,
        loop=loop,
        scan=scanner(library),
        cond=cond,
        while_loop=while_loop,
        index_set=index_set,
        index_increment=index_increment,
        segment_sum=segment_sum(library),
        lstm=torch_layer(lstm) if lstm else cells(library),
        gradient=gradient_by(library),
        hessian=library.func.hessian,
        jacobian=library.func.jacrev,
        hessian_product=hessian_product(library),
        cast=lambda x, dtype: x.to(dtype),
    )


def loop(steps: int, body: Any, state: Any) -> Any:
    """`state = body(state)`, so many times."""
    for _ in range(steps):
        state = body(state)
    return state


def scanner(library: Any) -> Any:
    """The library's `scan`."""
    stack = library.stack

    def scan(body: Any, state: Any, rows: Any) -> tuple[Any, Any]:
        """`state, kept = body(state, row)` for each row; the last state, and what was kept, stacked."""
        kept = []
        for row in rows:
            state, item = body(state, row)
            kept.append(item)
        return state, None if kept[0] is None else stack(kept)

    return scan


def cond(predicate: Any, yes: Any, no: Any, *operands: Any) -> Any:
    """One of two functions of the operands."""
    if predicate:
        return yes(*operands)
    return no(*operands)


def while_loop(goes_on: Any, body: Any, state: Any) -> Any:
    """`state = body(state)` while `goes_on(state)`."""
    while goes_on(state):
        state = body(state)
    return state


def index_set(x: Any, index: Any, value: Any) -> Any:
    """A copy of `x` with `value` at `index`."""
    written = x.clone()
    written[index] = value
    return written


def index_increment(x: Any, index: Any, value: Any) -> Any:
    """A copy of `x` with `value` added at `index`, whose places differ."""
    written = x.clone()
    written[index] += value
    return written


def segment_sum(library: Any) -> Any:
    """Sums of the rows that have the same number."""
    zeros = library.zeros

    def summed(rows: Any, numbers: Any, count: int) -> Any:
        return zeros((count, *rows.shape[1:]), dtype=rows.dtype).index_add(0, numbers, rows)

    return summed


def torch_layer(native: Any) -> Any:
    """torch's own layer of a whole sequence (time, batch, features)."""

    def lstm(x: Any, h: Any, c: Any, w: Any, u: Any, b: Any) -> Any:
        start, weights = (h[None], c[None]), [w, u, b, b.new_zeros(b.shape)]
        return native(x, start, weights, True, 1, 0.0, True, False, False)[0]

    return lstm


def cells(library: Any) -> Any:
    """The library's cell in a loop over the sequence."""
    cell, stack = library.lstm_cell, library.stack

    def lstm(x: Any, h: Any, c: Any, w: Any, u: Any, b: Any) -> Any:
        kept = []
        for row in x:
            h, c = cell(row, (h, c), w, u, b)
            kept.append(h)
        return stack(kept)

    return lstm


def gradient_by(library: Any) -> Any:
    """The library's way to a gradient inside a program, which can be differentiated again."""
    if library.__name__ != "torch":
        return library.grad
    derive = library.autograd.grad

    def gradient(function: Any, place: int = 0) -> Any:
        def derived(*arguments: Any) -> Any:
            x = arguments[place]
            if not x.requires_grad:
                x = x.detach().requires_grad_()
                arguments = (*arguments[:place], x, *arguments[place + 1 :])
            return derive(function(*arguments), x, create_graph=True)[0]

        return derived

    return gradient


def hessian_product(library: Any) -> Any:
    """The Hessian of a function at `x` times `v`: the gradient of the gradient times `v`."""
    gradient = gradient_by(library)

    def product(function: Any, x: Any, v: Any) -> Any:
        first = gradient(function)
        return gradient(lambda at: (first(at) * v).sum())(x)

    return product
