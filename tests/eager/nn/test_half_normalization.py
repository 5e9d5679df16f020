"""Normalizing layers of half precision, also where the squares of their inputs overflow, against torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from oracle import torch
from planted import finds

import fusegrad as fg
from fusegrad.eager.ops.nn import normalization

LAYERS = {
    "BatchNorm1d": lambda nn: nn.BatchNorm1d(4),
    "BatchNorm1d of no statistics": lambda nn: nn.BatchNorm1d(4, track_running_stats=False),
    "BatchNorm1d that evaluates": lambda nn: nn.BatchNorm1d(4).eval(),
    "InstanceNorm1d": lambda nn: nn.InstanceNorm1d(4, affine=True),
    "GroupNorm": lambda nn: nn.GroupNorm(2, 4),
    "LayerNorm": lambda nn: nn.LayerNorm((4, 6)),
    "LayerNorm without weights": lambda nn: nn.LayerNorm(6, elementwise_affine=False),
    "RMSNorm": lambda nn: nn.RMSNorm(6),
    "LocalResponseNorm": lambda nn: nn.LocalResponseNorm(2),
}
DTYPES = ("float16", "bfloat16")


def _values(library: Any, layer: str, dtype: str, size: float) -> list[np.ndarray]:
    """The output, the gradient of the input, and the running statistics of a float32 layer."""
    kind = getattr(library, dtype)
    data = np.random.default_rng(0).standard_normal((5, 4, 6)) * size
    x = library.tensor(data.tolist(), dtype=kind, requires_grad=True)
    made = LAYERS[layer](library.nn).to(kind)
    y = made(x)
    assert y.dtype is kind
    y.backward(library.arange(120.0).reshape(5, 4, 6).to(kind) / 64)
    mixed = LAYERS[layer](library.nn)
    if any(True for _ in mixed.buffers()):
        mixed(x.detach())
    found = [y, x.grad, *(b for b in mixed.buffers() if b.ndim)]
    return [np.array(t.detach().double().tolist()) for t in found]


def differences() -> Iterator[str]:
    for layer in LAYERS:
        for dtype in DTYPES:
            for size in (1.0, 3000.0):
                if layer == "LocalResponseNorm" and size > 1:
                    continue  # torch computes that one in half
                rough = 2e-2 if dtype == "bfloat16" else 4e-3
                both = (_values(library, layer, dtype, size) for library in (fg, torch))
                for ours, theirs in zip(*both, strict=True):
                    scale = max(np.abs(theirs).max(), 1 / size)  # gradients cancel
                    if not np.allclose(ours, theirs, rtol=rough, atol=rough * scale):
                        yield f"{layer} of {dtype}, size {size}: {ours.ravel()[:3]}, {theirs.ravel()[:3]}"


def test_layers_have_the_values_of_torch() -> None:
    assert not "\n".join(differences())


def test_the_table_finds_layers_computed_in_half(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normalization.dtypes, "opmath", lambda dtype: dtype)
    assert finds(test_layers_have_the_values_of_torch)


def test_rows_without_inputs_fit_no_labels_alone() -> None:
    """The CTC loss of no steps is 0 for no labels, and infinite for some."""
    scores = np.random.default_rng(0).standard_normal((2, 3, 5))

    def given(m: Any) -> Any:
        x = m.tensor(scores.tolist()).log_softmax(2).requires_grad_()
        targets, inputs, lengths = (
            m.tensor([[1, 2], [3, 4], [1, 1]]),
            m.tensor([0, 2, 0]),
            m.tensor([0, 1, 1]),
        )
        loss = m.nn.functional.ctc_loss(x, targets, inputs, lengths, reduction="none", zero_infinity=True)
        loss.sum().backward()
        return [*loss.tolist(), *x.grad.reshape(-1).tolist()]

    assert given(fg) == pytest.approx(given(torch), abs=1e-6)
