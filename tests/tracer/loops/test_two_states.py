"""Two states that meet as a row and as a column, of which fusion found a group that no nest holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.tracer.ir import rolled
from fusegrad.tracer.loops import rolling


def states(x: fg.Tensor, y: fg.Tensor, w: fg.Tensor, h: fg.Tensor) -> Any:
    n, k = len(x), 3
    a, b, c = h, h * 0.5, h + 1
    v = [h]
    wide = fg.zeros(3, n, dtype=h.dtype)
    t = k - 2
    while 57 - 3 >= t:  # noqa: SIM300
        v.append(fg.sin(c * b + y[t - 5]))
        b = fg.tanh(fg.tanh(x[k + t - k] * 0.5 + b * 0.5))
        wide[1:, 0 + t] *= 0.5
        a = fg.tanh((b[:, None] * c) @ y[n - 1 - t])
        t += 1
    loss = (a * a).sum() + (b * c).sum() + (fg.cat(v) * 0.5).mean() + (wide * wide.roll(1, 1)).sum()
    loss = loss + (fg.stack(v, -1)[0] ** 2).sum()
    loss = loss + (fg.stack(v, -1)[0] ** 2).sum()
    return loss, [b, h - 1]


def test_they_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling, "FEWEST_SMALL", 16)
    monkeypatch.setattr(rolling, "LONG", 16)
    monkeypatch.setattr(rolling, "LONG_ROUND", 1 << 30)
    monkeypatch.setattr(rolled, "MANY", 100)
    derived = fg.value_and_grad(states, (0, 1, 2, 3), has_aux=True)
    draw, jitted, alone = np.random.default_rng(0), fg.jit(derived), fg.jit(states)
    x = [fg.from_numpy(draw.standard_normal(shape) * 0.5) for shape in ((57, 3), (57, 3), (3, 3), (3,))]
    (expected, _), gradients = derived(*x)
    for _ in range(2):
        (value, _), found = jitted(*x)
        for a, b in zip((expected, *gradients), (value, *found), strict=True):
            np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(alone(*x)[0].numpy(), expected.numpy(), rtol=1e-9)
