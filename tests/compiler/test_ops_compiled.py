"""Every op of the table, compiled: values and gradients equal eager's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_samples import SAMPLES, Sample

import fusegrad as fg

# Ops whose runs cannot be replayed, because they draw random numbers, write in place, or give
# shapes that depend on data. Everything else must be answered by compiled code.
OPEN = "writes into|changes requires_grad|draws random|depends on|leave through|in place|unknown|random"

CASES = [
    pytest.param(name, sample, dtype, id=f"{name}-{number}-{dtype}")
    for name, samples in SAMPLES.items()
    for number, sample in enumerate(samples)
    for dtype in ("float32", "float64")
    if not sample.random
]


def make_inputs(sample: Sample, dtype: str) -> list[fg.Tensor]:
    """Fresh leaf tensors for a sample."""
    tensors = []
    for array in sample.inputs:
        floating = array.dtype.kind == "f"
        data = array.astype(dtype) if floating else array
        tensors.append(fg.tensor(data, requires_grad=floating and sample.gradients))
    return tensors


def flat(result: Any) -> list[Any]:
    """The tensors of a result."""
    if isinstance(result, fg.Tensor):
        return [result]
    return [t for r in result for t in flat(r)] if isinstance(result, (list, tuple)) else []


def run(function: Any, sample: Sample, dtype: str) -> tuple[list[fg.Tensor], list[Any]]:
    """Results and gradients (under a non-uniform cotangent)."""
    inputs = make_inputs(sample, dtype)
    outputs = flat(function(fg, *inputs))
    roots = [o for o in outputs if o.requires_grad]
    if roots:
        total = roots[0].sum() * 0
        for root in roots:
            weights = np.linspace(0.5, 1.5, root.numel()).reshape(root.shape).astype(root.dtype.name)
            total = total + (root * fg.tensor(weights)).sum()
        total.backward()
    return outputs, [t.grad for t in inputs]


def close(ours: fg.Tensor | None, theirs: fg.Tensor | None, dtype: str) -> None:
    """Equal types, and values within the rounding of the dtype."""
    if theirs is None or ours is None:
        assert ours is theirs
        return
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    a, b = ours.detach().numpy(), theirs.detach().numpy()
    if a.dtype.kind in "biu":
        np.testing.assert_array_equal(a, b)
    else:
        rtol = 2e-5 if dtype == "float32" else 1e-12
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol, equal_nan=True)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "sample", "dtype"), CASES)
def test_compiled_equals_eager(name: str, sample: Sample, dtype: str):
    function = fg.jit(sample.call)
    run(function, sample, dtype)
    expected, expected_gradients = run(sample.call, sample, dtype)
    outputs, gradients = run(function, sample, dtype)
    for ours, theirs in zip(outputs, expected, strict=True):
        close(ours, theirs, dtype)
        if theirs.grad_fn is not None:
            assert ours.grad_fn.name() == theirs.grad_fn.name()
    for ours, theirs in zip(gradients, expected_gradients, strict=True):
        close(ours, theirs, dtype)
    reasons = [r for e in function.entries.values() for r in e.reasons]
    given_up = [e.given_up for e in function.entries.values() if "compiler failed" in e.given_up]
    assert not given_up
    if function.stats.compiled_calls == 0:
        text = "; ".join(map(str, reasons))
        assert any(word in text for word in OPEN.split("|")) or "view" in text, text
