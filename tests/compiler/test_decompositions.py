"""What the compiler takes apart gives what the op itself gives, of every dtype: values and dtypes.

Floating-point dtypes that kernels have are in `test_ops_compiled.py`, with gradients.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_samples import SAMPLES, Sample

import fusegrad as fg
from fusegrad.compiler.lower.lowering import LOWERED
from fusegrad.eager.core.families import Composite, Elementwise
from fusegrad.eager.core.op import REGISTRY
from fusegrad.eager.ops.reduce import reduction

DTYPES = "bool uint8 int8 int16 int32 int64 float16 complex64 complex128".split()
SOME_DTYPES = "bool uint8 int32 float16 complex64".split()
TAKEN_APART = [name for name in SAMPLES if name in LOWERED or isinstance(REGISTRY.get(name), Composite)]
COMPOSED = [
    name
    for name, op in REGISTRY.items()
    if isinstance(op, Elementwise) and callable(op.scalar) and name in SAMPLES
]
CASES = [
    *((name, dtype) for name in TAKEN_APART for dtype in DTYPES),
    *((name, dtype) for name in COMPOSED for dtype in SOME_DTYPES),
]
TOLERANCE = {"float16": 3e-3, "complex64": 3e-5, "float32": 3e-5}


def operands(sample: Sample, dtype: str) -> list[fg.Tensor]:
    """The sample's floats as another dtype: whole numbers of some size, or with imaginary parts."""
    found = []
    for array in sample.inputs:
        if array.dtype.kind == "f":
            kind = np.dtype(dtype).kind
            if kind in "bui":
                array = np.nan_to_num(array, nan=1.0, posinf=9.0, neginf=-9.0) * 3
            parts = array + 1j * np.roll(np.nan_to_num(array), 1) if kind == "c" else array
            array = (np.abs(parts) if kind == "u" else parts).astype(dtype)
        found.append(fg.tensor(array))
    return found


def flat(result: Any) -> list[fg.Tensor]:
    if isinstance(result, fg.Tensor):
        return [result]
    return [t for r in result for t in flat(r)] if isinstance(result, (list, tuple)) else []


def outcome(function: Any, given: list[fg.Tensor]) -> list[np.ndarray] | type[Exception]:
    """The results, or what was raised."""
    try:
        return [t.numpy() for t in flat(function(*given))]
    except Exception as error:
        return type(error)


def check(call: Any, sample: Sample, dtype: str) -> None:
    expected = outcome(call, operands(sample, dtype))
    compiled = fg.jit(call)
    for _ in range(3):
        found = outcome(compiled, operands(sample, dtype))
        if isinstance(expected, type) or isinstance(found, type):
            kinds = [r if isinstance(r, type) else type(None) for r in (found, expected)]
            assert issubclass(*kinds) or issubclass(*reversed(kinds)), (found, expected)
            continue
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
            rtol = TOLERANCE.get(theirs.dtype.name, 1e-10)
            np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol)


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_what_is_taken_apart_gives_what_the_op_gives(name: str, dtype: str):
    for sample in SAMPLES[name]:
        if not sample.random:
            check(lambda *x, call=sample.call: call(fg, *x), sample, dtype)


def test_a_decomposition_that_forgets_imaginary_parts_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reduction, "squared_size", lambda x: x * x)
    sample = Sample(fg.linalg.vector_norm, [np.arange(7.0)])  # of a shape that nothing is known of yet
    with pytest.raises(AssertionError):
        check(sample.call, sample, "complex128")


def test_a_variance_that_is_small_beside_the_mean():
    x = (1e4 + 1e-2 * np.random.default_rng(0).standard_normal((50, 1000))).astype("f4")
    truth = x.astype("f8").var(1, ddof=1)
    compiled = fg.jit(lambda x: x.var(1))
    for _ in range(3):
        np.testing.assert_allclose(compiled(fg.from_numpy(x)).numpy(), truth, rtol=1e-6)
