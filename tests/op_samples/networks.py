"""Normalisation by channel, recurrent cells, bags of embeddings, attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from op_samples.table import add, f, i

_OFFSETS = np.array([0, 2, 2, 5])

add("standardize", lambda fg, x: fg.nn.functional.batch_norm(x, None, None, training=True), f(3, 2, 4))
add("standardize", lambda fg, x: fg.nn.functional.group_norm(x, 2), f(3, 4, 2))
add("standardize", lambda fg, x, w: fg.nn.functional.instance_norm(x, weight=w), f(3, 2, 4), f(2))
add(
    "standardize_affine",
    lambda fg, x, w, c: fg.nn.functional.batch_norm(x, None, None, w, c, True),
    f(3, 2, 2, 2),
    f(2),
    f(2),
)
add(
    "standardize_affine",
    lambda fg, x, w, c: fg.nn.functional.batch_norm(x, None, None, w, c, True),
    f(4, 3),
    f(3),
    f(3),
)
add("standardize_affine", lambda fg, x, w, c: fg.nn.functional.group_norm(x, 2, w, c), f(3, 4, 2), f(4), f(4))
add(
    "standardize_affine",
    lambda fg, x, w, c: fg.nn.functional.instance_norm(x, None, None, w, c),
    f(3, 2, 4),
    f(2),
    f(2),
)
add(
    "rsqrt",
    lambda fg, x, m, v, w, c: fg.nn.functional.batch_norm(x, m.detach(), v.detach(), w, c),
    f(4, 3, 2),
    f(3),
    f(3, low=0.5),
    f(3),
    f(3),
)
add("embedding_bag_max", lambda fg, w, n: fg.nn.functional.embedding_bag(n, w, mode="max"), f(5, 3), i(2, 4))
add(
    "embedding_bag_max",
    lambda fg, w, n, o: fg.nn.functional.embedding_bag(n, w, o, mode="max", padding_idx=1),
    f(5, 3),
    i(6),
    _OFFSETS,
)
add(
    "put",
    lambda fg, w, n, o: fg.nn.functional.embedding_bag(n, w, o, mode="mean", padding_idx=1),
    f(5, 3),
    i(6),
    _OFFSETS,
)
add(
    "softmax",
    lambda fg, q, k, v: fg.nn.functional.scaled_dot_product_attention(q, k, v),
    f(2, 3, 4),
    f(2, 5, 4),
    f(2, 5, 6),
)
add(
    "softmax",
    lambda fg, q, k, v: fg.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
    f(3, 4),
    f(3, 4),
    f(3, 4),
)

# Gates of three rows and two units: a sample's inputs are input, state(s) and weights.
_LSTM, _GRU = (
    (f(3, 4), f(3, 2), f(3, 2), f(8, 4), f(8, 2), f(8), f(8)),
    (f(3, 4), f(3, 2), f(6, 4), f(6, 2), f(6), f(6)),
)
add("lstm_cell", lambda fg, x, h, c, *w: fg.lstm_cell(x, (h, c), *w), *_LSTM)
add("lstm_cell", lambda fg, x, h, c, *w: fg.lstm_cell(x, (h, c), *w)[1], *_LSTM[:-2])
add("lstm_cell", lambda fg, x, h, c, *w: fg.cat(fg.lstm_cell(x, fg.lstm_cell(x, (h, c), *w), *w)), *_LSTM)
add("gru_cell", lambda fg, x, h, *w: fg.gru_cell(x, h, *w), *_GRU)
add("gru_cell", lambda fg, x, h, *w: fg.gru_cell(x, fg.gru_cell(x, h, *w), *w), *_GRU[:-2])
add("linear", lambda fg, x, h, *w: fg.rnn_tanh_cell(x, h, *w), f(3, 4), f(3, 2), f(2, 4), f(2, 2), f(2), f(2))
add("linear", lambda fg, x, h, *w: fg.rnn_relu_cell(x, h, *w), f(3, 4), f(3, 2), f(2, 4), f(2, 2))
add("linear", lambda fg, *x: fg.nn.functional.linear(*x), f(3, 4), f(2, 4), f(2))
add("linear", lambda fg, *x: fg.nn.functional.linear(*x), f(2, 3, 4), f(2, 4), f(2))
add("time_steps", lambda fg, x: _lstm(fg, x)(x)[0], f(5, 3, 3))
add("time_steps", lambda fg, x: _lstm(fg, x)(x)[1][0], f(4, 1, 3))


def _lstm(fg: Any, x: Any) -> Any:
    """A layer with the same weights in either library."""
    layer = fg.nn.LSTM(3, 2)
    for weight in layer.parameters():
        weight.data = ((fg.arange(weight.numel()) % 7 - 3) / 4).reshape(weight.shape)
    return layer.to(x.dtype)
