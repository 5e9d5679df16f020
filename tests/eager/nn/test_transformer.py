# ruff: noqa: E501  (one layer a line reads as the table that it is)
"""Attention and transformers against torch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from layer_twins import compare, same
from oracle import torch

import fusegrad as fg

_random = np.random.default_rng(6)


def f(*shape: int) -> np.ndarray:
    return _random.uniform(-1.0, 1.0, shape)


def b(*shape: int) -> np.ndarray:
    """A mask that hides something, but never all keys."""
    mask = _random.integers(0, 2, shape).astype(bool)
    mask[..., 0] = False
    return mask


CAUSAL = np.triu(np.full((3, 3), -np.inf), 1)
ATTENTION = {
    "self": ({}, {}), "no bias": ({"bias": False}, {}), "bias_kv": ({"add_bias_kv": True}, {"attn_mask": b(3, 5)}), "zero": ({"add_zero_attn": True}, {"key_padding_mask": b(2, 5)}),
    "padding": ({}, {"key_padding_mask": b(2, 5)}), "mask": ({}, {"attn_mask": b(3, 5)}), "heads": ({}, {"attn_mask": b(4, 3, 5), "average_attn_weights": False}),
    "float mask": ({}, {"attn_mask": f(3, 5)}), "both": ({}, {"attn_mask": b(3, 5), "key_padding_mask": b(2, 5)}), "no weights": ({}, {"need_weights": False, "attn_mask": b(3, 5)}),
    "all": ({"add_bias_kv": True, "add_zero_attn": True, "bias": False}, {"attn_mask": b(3, 5), "key_padding_mask": b(2, 5), "need_weights": False}),
}  # fmt: skip


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("name", ATTENTION)
def test_attention_is_torchs(name: str, batch_first: bool):
    options, named = ATTENTION[name]
    make = lambda namespace: namespace.nn.MultiheadAttention(4, 2, batch_first=batch_first, **options)  # noqa: E731
    query, memory = (f(2, 3, 4), f(2, 5, 4)) if batch_first else (f(3, 2, 4), f(5, 2, 4))
    compare(lambda namespace: _with_memory(namespace, make(namespace)), query, memory, **named)


def _with_memory(namespace: Any, attention: Any) -> Any:
    """Attention whose key and value are one tensor."""

    class Attending(namespace.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = attention

        def forward(self, query: Any, memory: Any, **named: Any) -> Any:
            return self.attention(query, memory, memory, **named)

    return Attending()


def test_attention_of_other_sizes_and_ranks():
    compare(lambda n: n.nn.MultiheadAttention(4, 2, kdim=3, vdim=5), f(3, 2, 4), f(6, 2, 3), f(6, 2, 5))
    compare(lambda n: n.nn.MultiheadAttention(4, 2), f(3, 4), f(6, 4), f(6, 4), key_padding_mask=b(6))
    compare(lambda n: _of_itself(n, n.nn.MultiheadAttention(6, 3)), f(3, 2, 6))


def _of_itself(namespace: Any, attention: Any) -> Any:
    class Attending(namespace.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = attention

        def forward(self, x: Any) -> Any:
            return self.attention(x, x, x)

    return Attending()


LAYERS = [
    {}, {"norm_first": True}, {"batch_first": True, "activation": "gelu"}, {"bias": False, "layer_norm_eps": 0.1},
]  # fmt: skip


@pytest.mark.parametrize("options", LAYERS)
def test_layers_are_torchs(options: dict[str, Any]):
    settings = {"dim_feedforward": 6, "dropout": 0.0, **options}
    x, memory = f(3, 3, 4), (f(3, 5, 4) if options.get("batch_first") else f(5, 3, 4))
    encoder = lambda n: n.nn.TransformerEncoderLayer(4, 2, **settings)  # noqa: E731
    decoder = lambda n: n.nn.TransformerDecoderLayer(4, 2, **settings)  # noqa: E731
    compare(encoder, x)
    compare(encoder, x, src_mask=CAUSAL, is_causal=True)
    compare(encoder, x, src_key_padding_mask=b(3, 3))
    compare(decoder, x, memory, tgt_mask=CAUSAL, memory_key_padding_mask=b(3, 5))
    compare(lambda n: n.nn.TransformerEncoder(encoder(n), 2, n.nn.LayerNorm(4)), x)
    compare(lambda n: n.nn.TransformerDecoder(decoder(n), 2), x, memory)
    small = {"num_encoder_layers": 1, "num_decoder_layers": 1, **settings}
    compare(lambda n: n.nn.Transformer(4, 2, **small), memory, x, tgt_mask=CAUSAL)


def test_text_and_masks_are_torchs():
    texts = []
    for n in (fg, torch):
        layer = n.nn.TransformerEncoderLayer(8, 2, activation=n.nn.GELU())
        texts.append(repr(n.nn.TransformerEncoder(layer, 3)))
    assert texts[0] == texts[1]
    masks = [n.nn.Transformer.generate_square_subsequent_mask(4) for n in (fg, torch)]
    same(*masks, "mask")


def test_dropout_in_attention():
    fg.manual_seed(0)
    layer = fg.nn.MultiheadAttention(4, 2, dropout=0.5)
    x = fg.randn(3, 2, 4)
    assert not fg.allclose(layer(x, x, x)[0], layer(x, x, x)[0])
    layer.eval()
    assert fg.equal(layer(x, x, x)[0], layer(x, x, x)[0])


def test_second_derivatives_of_attention():
    arrays = [f(2, 3, 4), f(2, 5, 4), f(2, 5, 4), b(3, 5)]
    found = []
    for namespace in (fg, torch):
        q, k, v, mask = (namespace.tensor(a) for a in arrays)
        inputs = [t.requires_grad_() for t in (q, k, v)]
        out = namespace.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        first = namespace.autograd.grad((out * out).sum(), inputs, create_graph=True)
        found.append(namespace.autograd.grad(sum((g * g).sum() for g in first), inputs))
    same(*found, "second gradients")


ERRORS = [
    (lambda nn: nn.MultiheadAttention(5, 2), None, AssertionError), (lambda nn: nn.MultiheadAttention(0, 2), None, ValueError), (lambda nn: nn.TransformerEncoderLayer(4, 2, activation="tanh"), None, RuntimeError),
    (lambda nn: nn.MultiheadAttention(4, 2), [(3, 4), (5, 2, 4), (5, 2, 4)], AssertionError), (lambda nn: nn.MultiheadAttention(4, 2), [(3, 2, 6), (5, 2, 6), (5, 2, 6)], AssertionError),
    (lambda nn: nn.MultiheadAttention(4, 2), [(3, 2, 4), (5, 2, 4), (6, 2, 4)], AssertionError), (lambda nn: nn.Transformer(4, 2, 1, 1, 4), [(3, 2, 4), (3, 3, 4)], RuntimeError), (lambda nn: nn.Transformer(4, 2, 1, 1, 4), [(3, 2, 5), (3, 2, 4)], RuntimeError),
]  # fmt: skip


@pytest.mark.parametrize(("make", "sizes", "kind"), ERRORS)
def test_errors_are_torchs(make: Any, sizes: Any, kind: type[Exception]):
    for namespace in (fg, torch):
        with pytest.raises(kind):
            layer = make(namespace.nn)
            layer(*(namespace.zeros(size) for size in sizes))


@pytest.mark.parametrize("extra", [{}, {"add_zero_attn": True}, {"add_bias_kv": True}], ids=str)
@pytest.mark.parametrize("shape", [(3, 5), (7, 5), (3, 6), (3, 7), (1, 5), (3, 1), (7, 6), (5,)], ids=str)
def test_padding_masks_that_do_not_fit_are_refused_as_in_torch(
    shape: tuple[int, ...], extra: dict[str, bool]
):
    def outcome(lib):
        layer = lib.nn.MultiheadAttention(8, 2, **extra)
        x = lib.ones(5, 3, 8)
        try:
            return tuple(layer(x, x, x, key_padding_mask=lib.zeros(shape, dtype=lib.bool))[0].shape)
        except AssertionError as error:
            plain = len(shape) == 2 and not extra  # PyTorch counts keys that it adds
            return str(error).splitlines()[0].split(": ")[-1] if plain else AssertionError

    assert outcome(fg) == outcome(torch)
