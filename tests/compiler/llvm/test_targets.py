"""Code for less than the machine has, as Numba's settings ask for it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fusegrad.compiler.codegen import kernel_cache

PROGRAM = """
import fusegrad as fg
from fusegrad.compiler.codegen import kernel_cache

@fg.jit
def loss(x, w):
    h = fg.tanh(x @ w) * fg.exp(-x @ w) + fg.log(fg.sigmoid(x @ w)) + fg.erf(x).sum()
    return (h.max(1)[0] * h[:, ::2].mean(1)).sum() + fg.nn.functional.log_softmax(h, 1).pow(2).mean()

fg.manual_seed(0)
x, w = fg.randn(37, 50), fg.randn(50, 45, requires_grad=True)
for dtype in (fg.float32, fg.float64):
    args = x.to(dtype), w.detach().to(dtype).requires_grad_()
    expected = fg.value_and_grad(loss.__wrapped__, 1)(*args)
    for _ in range(3):
        found = fg.value_and_grad(loss, 1)(*args)
    for a, b in zip(found, expected):
        assert fg.allclose(a, b, rtol=1e-4, atol=1e-4), (a, b)
assert loss.stats.compiled_calls, loss.explain()
print(kernel_cache.vector_bytes())
"""


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        ({"NUMBA_ENABLE_AVX": "0"}, 16),
        ({"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}, 16),
        ({"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "+avx2,+fma"}, 32),
    ],
)
def test_vectors_are_no_longer_than_numba_is_told(settings: dict[str, str], most: int):
    command = [sys.executable, "-c", PROGRAM]
    run = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) == min(most, kernel_cache.vector_bytes())
