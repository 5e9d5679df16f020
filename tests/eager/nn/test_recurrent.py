# ruff: noqa: E501  (one layer a line reads as the table that it is)
"""Recurrent layers and cells against torch's, and sequences of different lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from layer_twins import array, compare, flat, loss_of, same, twins
from oracle import torch

import fusegrad as fg

_random = np.random.default_rng(5)


def f(*shape: int) -> np.ndarray:
    return _random.uniform(-1.0, 1.0, shape)


OPTIONS = [
    {}, {"bias": False}, {"num_layers": 2}, {"bidirectional": True}, {"num_layers": 2, "bidirectional": True, "batch_first": True, "dropout": 0.0}, {"batch_first": True},
]  # fmt: skip
KINDS = [
    ("RNN", {}),
    ("RNN", {"nonlinearity": "relu"}),
    ("GRU", {}),
    ("LSTM", {}),
    ("LSTM", {"proj_size": 2}),
]
LAYERS = [
    pytest.param(name, {**own, **options}, id=f"{name}-{own}-{options}")
    for name, own in KINDS
    for options in OPTIONS
]


def state(name: str, options: dict[str, Any], *rows: int) -> Any:
    """States before the first step, for sizes of 3 units."""
    count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    if name != "LSTM":
        return f(count, *rows, 3)
    return f(count, *rows, options.get("proj_size", 3)), f(count, *rows, 3)


@pytest.mark.parametrize(("name", "options"), LAYERS)
def test_layers_are_torchs(name: str, options: dict[str, Any]):
    make = lambda namespace: getattr(namespace.nn, name)(4, 3, **options)  # noqa: E731
    x = f(2, 5, 4) if options.get("batch_first") else f(5, 2, 4)
    compare(make, x)
    compare(make, x, state(name, options, 2))
    compare(make, f(5, 4))
    compare(make, f(5, 4), state(name, options))
    compare(make, f(1, 1, 4))


@pytest.mark.parametrize("sort", [True, False])
@pytest.mark.parametrize(("name", "options"), LAYERS)
def test_packed_sequences_are_torchs(name: str, options: dict[str, Any], sort: bool):
    lengths = [5, 3, 3, 1] if sort else [3, 1, 5, 3]
    x, start = f(5, 4, 4), state(name, options, 4)
    ours, theirs = twins(lambda namespace: getattr(namespace.nn, name)(4, 3, **options))
    found = []
    for namespace, layer in ((fg, ours), (torch, theirs)):
        rnn = namespace.nn.utils.rnn
        given = namespace.tensor(x).requires_grad_()
        first = tuple(namespace.tensor(s) for s in start) if name == "LSTM" else namespace.tensor(start)
        packed, last = layer(
            rnn.pack_padded_sequence(given, namespace.tensor(lengths), enforce_sorted=sort), first
        )
        padded, back = rnn.pad_packed_sequence(packed, padding_value=-1.0)
        assert back.tolist() == lengths
        loss_of(namespace, (padded, last)).backward()
        found.append((padded, last, given.grad, *(p.grad for p in layer.parameters())))
    same(*found, "results and gradients")


CELLS = [
    ("RNNCell", {}),
    ("RNNCell", {"nonlinearity": "relu", "bias": False}),
    ("GRUCell", {}),
    ("GRUCell", {"bias": False}),
    ("LSTMCell", {}),
    ("LSTMCell", {"bias": False}),
]


@pytest.mark.parametrize(("name", "options"), CELLS)
def test_cells_are_torchs(name: str, options: dict[str, Any]):
    make = lambda namespace: getattr(namespace.nn, name)(4, 3, **options)  # noqa: E731
    for rows in ((2,), ()):
        given = (f(*rows, 3), f(*rows, 3)) if name == "LSTMCell" else f(*rows, 3)
        compare(make, f(*rows, 4))
        compare(make, f(*rows, 4), given)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_second_derivatives_are_torchs(name: str):
    ours, theirs = twins(lambda namespace: getattr(namespace.nn, name)(3, 2, 2))
    found = []
    for namespace, layer in ((fg, ours), (torch, theirs)):
        x = namespace.tensor(np.linspace(-1, 1, 24).reshape(4, 2, 3)).requires_grad_()
        inputs = [x, *layer.parameters()]
        first = namespace.autograd.grad(loss_of(namespace, layer(x)), inputs, create_graph=True)
        found.append(namespace.autograd.grad(sum((g * g).sum() for g in first), inputs))
    same(*found, "second gradients")


def test_weights_are_listed_and_drawn_as_torchs():
    for make in (
        lambda nn: nn.LSTM(4, 300, 2, bidirectional=True, proj_size=7),
        lambda nn: nn.GRUCell(4, 300),
    ):
        ours, theirs = make(fg.nn), make(torch.nn)
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert a.abs().max().item() <= 300**-0.5 and abs(a.std().item() - b.std().item()) < 0.002
    layer = fg.nn.LSTM(4, 3, 2, proj_size=2)
    assert [[w is layer.get_parameter(n) for w, n in zip(ws, ns, strict=True)] for ws, ns in zip(layer.all_weights, (
        ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_hr_l0"],
        ["weight_ih_l1", "weight_hh_l1", "bias_ih_l1", "bias_hh_l1", "weight_hr_l1"],
    ), strict=True)] == [[True] * 5] * 2  # fmt: skip


def test_dropout_between_layers():
    fg.manual_seed(0)
    layer = fg.nn.GRU(3, 4, 2, dropout=0.5)
    x = fg.randn(5, 2, 3)
    assert not fg.allclose(layer(x)[0], layer(x)[0])
    layer.eval()
    assert fg.equal(layer(x)[0], layer(x)[0])
    with pytest.warns(UserWarning, match="num_layers greater than 1"):
        fg.nn.GRU(3, 4, dropout=0.5)


ERRORS = [
    (lambda nn: nn.LSTM(4, 3), lambda t: (t(5, 2, 3),), RuntimeError), (lambda nn: nn.LSTM(4, 3), lambda t: (t(4),), ValueError), (lambda nn: nn.GRU(4, 3), lambda t: (t(5, 2, 4), t(1, 3, 3)), RuntimeError),
    (lambda nn: nn.GRU(4, 3), lambda t: (t(5, 2, 4).double(),), ValueError), (lambda nn: nn.RNN(4, 3), lambda t: (t(5, 4), t(1, 2, 3)), RuntimeError),
    (lambda nn: nn.LSTMCell(4, 3), lambda t: (t(2, 2, 4),), ValueError), (lambda nn: nn.GRUCell(4, 3), lambda t: (t(2, 5),), RuntimeError), (lambda nn: nn.RNN(4, 3, nonlinearity="x"), None, ValueError),
    (lambda nn: nn.GRU(4, 3, proj_size=2), None, ValueError), (lambda nn: nn.LSTM(4, 3, proj_size=3), None, ValueError), (lambda nn: nn.GRU(4, 0), None, ValueError), (lambda nn: nn.GRU(4, 3, dropout=2), None, ValueError),
    (lambda nn: nn.GRU(4, 3, bias=1), None, TypeError),
]  # fmt: skip


@pytest.mark.parametrize(("make", "inputs", "kind"), ERRORS)
def test_errors_are_torchs(make: Any, inputs: Any, kind: type[Exception]):
    for namespace in (fg, torch):
        with pytest.raises(kind):
            layer = make(namespace.nn)
            layer(*inputs(namespace.zeros))


# Sequences of different lengths.


def test_packing_is_torchs():
    pieces = [f(n, 2) for n in (4, 2, 1)]
    found = []
    for namespace in (fg, torch):
        rnn = namespace.nn.utils.rnn
        sequences = [namespace.tensor(p) for p in pieces]
        packed = rnn.pack_sequence(sequences)
        mixed = rnn.pack_sequence(sequences[::-1], enforce_sorted=False)
        padded = [
            rnn.pad_sequence(sequences, batch_first=first, padding_value=0.5, padding_side=side)
            for first in (True, False)
            for side in ("left", "right")
        ]
        again = rnn.pad_packed_sequence(mixed, batch_first=True, total_length=6)
        parts = rnn.unpad_sequence(padded[1], namespace.tensor([4, 2, 1]), batch_first=True)
        found.append(
            [
                packed.data,
                packed.batch_sizes,
                mixed.data,
                mixed.batch_sizes,
                mixed.sorted_indices,
                mixed.unsorted_indices,
                *padded,
                *again,
                *parts,
                *rnn.unpack_sequence(mixed),
            ]
        )
        with pytest.raises(RuntimeError, match="sorted"):
            rnn.pack_sequence(sequences[::-1])
        with pytest.raises(RuntimeError, match="greater than 0"):
            rnn.pack_padded_sequence(padded[3], [4, 2, 0])
        with pytest.raises(ValueError, match="total_length"):
            rnn.pad_packed_sequence(packed, total_length=2)
    assert len(flat(found[0])) == len(found[0])
    same(*found, "packing")
    assert array(found[0][0]).shape == (7, 2)
