"""Random programs of views by strides that reach outside of what they are taken of, and of writes into them.

`as_strided` of a view goes by the memory that it lies in: what is written there is written into the base, and
derived from there, also where the view itself has no elements. Beside PyTorch: values and gradients.

    python tests/eager/autograd/writes/test_random_strides.py 0 20000    # the seeds to run
"""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.eager.autograd import views
from fusegrad.eager.ops.shape import strided


def view_of(lib: Any, draw: random.Random, v: Any) -> Any:
    kind = draw.random()
    if kind < 0.25:
        return v[draw.randint(0, 1) :]
    if kind < 0.35 and v.dim() > 1:
        return v.t()
    if kind < 0.75:
        count, step, start = draw.randint(1, 4), draw.choice([1, 2, 3]), draw.randint(0, 3)
        if draw.random() < 0.6:
            return v.as_strided((count,), (step,), start)
        return v.as_strided((2, count), (step * 2, 1) if count <= 2 * step else (4, 1), start)
    return v.narrow(0, 0, max(1, v.shape[0] - 1)) if kind < 0.85 else v


def write(lib: Any, draw: random.Random, x: Any, v: Any, terms: list[Any]) -> None:
    kind = draw.random()
    if kind < 0.4:
        v.mul_(draw.randint(2, 4))
    elif kind < 0.6:
        v.add_(lib.ones_like(v) * x.reshape(-1)[0])
    elif kind < 0.7:
        v.copy_(v.detach() * 2)
    elif kind < 0.8:
        terms.append(v.sum() ** 2)


def outcome(lib: Any, seed: int) -> Any:
    """The loss, its gradient, and where and what all views are; or that an error was raised."""
    draw = random.Random(seed)
    x = lib.arange(12.0).reshape(draw.choice([(12,), (3, 4)])).requires_grad_()
    seen, terms = [x * 2], []
    try:
        for _ in range(draw.randint(1, 5)):
            seen.append(view_of(lib, draw, draw.choice(seen)))
            write(lib, draw, x, draw.choice(seen), terms)
        loss = sum([*terms, *[(v * v.detach()).sum() for v in seen]])
        (gradient,) = lib.autograd.grad(loss, x)
    except RuntimeError:
        return "raised"
    lies = [(v.tolist(), tuple(v.stride()), v.storage_offset()) for v in seen if v.numel()]
    return loss.item(), gradient.tolist(), lies


def differing(seeds: range) -> list[int]:
    return [seed for seed in seeds if outcome(fg, seed) != outcome(torch, seed)]


def test_values_and_gradients_are_torchs() -> None:
    assert differing(range(600)) == []


@pytest.mark.parametrize("mechanism", ["base", "versions", "seen from there"])
def test_a_planted_fault_is_found(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if mechanism == "base":
        monkeypatch.setattr(views, "begin_at_base", lambda target: None)
    elif mechanism == "versions":
        from fusegrad.eager.core import op

        monkeypatch.setattr(op, "_shares", np.may_share_memory)
    else:
        monkeypatch.setattr(strided, "_reaches", lambda given, target: True)
    assert differing(range(600))


def test_views_without_elements_begin_where_torchs_do() -> None:
    found = []
    for lib in (fg, torch):
        x = lib.arange(12.0).reshape(3, 4)
        empty = [x[3:], x[:, 4:], x[1:1], x[2, 1:][3:], x.t()[4:], x[3:].t(), x[1:1].unsqueeze(0), x[5:]]
        found.append([v.storage_offset() for v in empty])
        found[-1] += [x[3:].as_strided((2,), (1,), 1).tolist(), x[2, 2:2].as_strided((2,), (1,)).tolist()]
    assert found[0] == found[1]


if __name__ == "__main__":
    print(differing(range(int(sys.argv[1]), int(sys.argv[2]))))
