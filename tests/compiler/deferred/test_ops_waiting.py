"""Every op asked for with tensors that have no values yet: in deferred runs, and in first calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from op_samples import SAMPLES, Sample

import fusegrad as fg
from fusegrad.compiler.deferred import op_trie
from fusegrad.eager.core.stand_in import stand_in
from fusegrad.tracer.record import later

CASES = [
    pytest.param(s, id=f"{name}-{k}") for name, samples in SAMPLES.items() for k, s in enumerate(samples)
]
log: list[int] = []


@pytest.fixture(autouse=True)
def all_that_can_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(later, "LARGE", 0)
    monkeypatch.setattr(op_trie.Plan, "note", lambda *_: None)
    monkeypatch.setattr(op_trie.Plan, "defers", lambda self: True)


def results(function: Callable[..., Any], sample: Sample) -> list[Any]:
    """What a call gives, as arrays and Python values, or the error that it raises."""
    fg.manual_seed(5)
    tensors = [fg.tensor(a.astype("f4") if a.dtype.kind == "f" else a) for a in sample.inputs]
    for tensor in tensors:
        tensor.requires_grad_(tensor.dtype.is_floating_point)
    try:
        return flat(function(*tensors))
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        return [type(error)]


def flat(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [x for item in value for x in flat(item)]
    return [value.detach().numpy() if isinstance(value, fg.Tensor) else value]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("is_open", [True, False], ids=["deferred", "first call"])
@pytest.mark.parametrize("sample", CASES)
def test_an_op_waits_for_its_operands(sample: Sample, is_open: bool) -> None:
    def function(*tensors: Any) -> Any:
        if is_open:
            log.insert(99, 1)
        return sample.call(fg, *[t if t.dtype == fg.bool else t * 1 for t in tensors])

    jitted = fg.jit(function)
    expected = results(function, sample)
    # The first two open runs are recorded, and learn the ops; in the third all of them wait.
    for _ in range(3 if is_open else 1):
        found = results(jitted, sample)
        assert len(found) == len(expected)
        for mine, other in zip(found, expected, strict=True):
            if isinstance(other, np.ndarray):
                assert (mine.shape, mine.dtype) == (other.shape, other.dtype)
                np.testing.assert_allclose(mine, other, rtol=2e-3, atol=1e-4)
            else:
                assert mine == other


@pytest.mark.parametrize("strides", [(16, 4), (4, 12), (0, 4), (32, -8), (-16, 4), (16, 8)])
def test_a_stand_in_lies_as_its_values_will(strides: tuple[int, ...]):
    made = stand_in((3, 3), np.dtype("f4"), strides)
    assert made.strides == strides and made.shape == (3, 3)
    assert stand_in((3, 0), np.dtype("f4"), strides).shape == (3, 0)


def test_a_copy_of_a_part_that_waits_is_a_copy():
    def function(x: fg.Tensor) -> list[fg.Tensor]:
        seen.insert(99, len(seen))  # so that the body runs
        z = x * 2
        part = z[:, 1:]
        copied, dense = part.contiguous(), part.is_contiguous()
        part.neg_()
        return [copied * 1, z * 1, fg.tensor(dense)]

    seen: list[int] = []
    jitted = fg.jit(function)
    for k in range(5):
        x = fg.arange(12.0).reshape(3, 4) + k
        assert all(map(fg.equal, jitted(x), function(x)))
    assert jitted.stats.compiled_calls >= 3
