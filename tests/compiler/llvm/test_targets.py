"""Code for less than the machine has, as Numba's settings ask for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from kernel_checks import program_of

import fusegrad as fg
from fusegrad.compiler.codegen.functions import module_text
from fusegrad.compiler.llvm import target as llvm_target
from fusegrad.compiler.llvm.target import Target, host

PROGRAM = """
import fusegrad as fg
from fusegrad.compiler.llvm.target import host

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
print(host().vector_bytes)
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
    outside = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    run = subprocess.run(command, env={**outside, **settings}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) <= most and int(run.stdout) in (16, 32)


@pytest.mark.parametrize("target", [Target(16), Target(32), Target(64), Target(64, avx512=True)])
def test_code_can_be_written_for_any_machine(target: Target):
    """By what the text names: vectors of the width, and AVX-512's instructions where they may be used."""
    x = fg.linspace(0, 1, 100)
    (bound,) = program_of(lambda x: fg.log(x) + x, x)[0].kernels
    text = module_text(bound.kernel, "kernel", target)
    assert f'"prefer-vector-width"="{8 * target.vector_bytes}"' in text
    assert f"<{2 * target.lanes(4)} x float>" in text  # two vectors, since there is a logarithm
    assert ("@llvm.x86.avx512" in text) == target.avx512


def test_the_host_has_a_cache_and_vectors_that_its_registers_hold():
    assert host().cache_bytes >= 1 << 18
    assert host().vector_registers == (32 if host().vector_bytes == 64 else 16)


def test_nobody_else_asks_which_instructions_there_are():
    folder = Path(llvm_target.__file__).parent.parent
    asking = re.compile(r"get_host_cpu|_tm_features|NUMBA_CPU|SkylakeX|/sys/devices/system/cpu/cpu0")
    asks = {p.name for p in folder.rglob("*.py") if asking.search(p.read_text())}
    assert asks == {"target.py"}
