"""Parameters and gradients for tests of optimizers, ours and PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

SHAPES = [(3, 4), (4,), (), (2, 0), (95, 90), (5, 1, 2)]  # one that is cut into blocks


def parameters(namespace, shapes=SHAPES, dtype="float64", seed=0):
    data = np.random.default_rng(seed)
    return [namespace.tensor(data.normal(size=s).astype(dtype), requires_grad=True) for s in shapes]


def set_gradients(namespace, tensors, step, skipped=()):
    data = np.random.default_rng(1000 + step)
    for i, tensor in enumerate(tensors):
        values = data.normal(size=tuple(tensor.shape))
        if tensor.is_complex():
            values = values + 1j * data.normal(size=tuple(tensor.shape))
        gradient = namespace.tensor(values).to(tensor.dtype)
        tensor.grad = None if i in skipped else gradient


def assert_same(ours, theirs, rtol=1e-11):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=rtol, atol=rtol / 10)


def refused(kind, match, function):
    with pytest.raises(kind, match=match):
        function()
