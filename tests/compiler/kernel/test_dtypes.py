"""The table of dtypes: one row says all, for what is there and for what may come."""

from __future__ import annotations

import llvmlite.binding as llvm
import numpy as np
import pytest
from kernel_checks import program_of

import fusegrad as fg
from fusegrad.compiler.kernel.dtypes import DTYPES, KernelDtype, has_kernels, memory_type, product_dtype
from fusegrad.eager.core.dtypes import FROM_SHORT

HALF = KernelDtype("f16", "f", 2, "half", "f16", compute="f32", accumulate="f32", wider="f32")


def test_rows_are_as_numpy_has_them():
    for name, row in DTYPES.items():
        dtype = FROM_SHORT[name].numpy
        assert (row.name, row.kind, row.size) == (name, dtype.kind, dtype.itemsize)
        assert DTYPES[row.memory].size == row.size  # an array's element, whatever it is in registers
        for other in (row.compute, row.accumulate, row.wider):
            assert DTYPES[other].size >= row.size and DTYPES[other].kind == row.kind
    assert memory_type("bool") == "i8"


@pytest.mark.parametrize("name", ["float16", "complex64", "complex128"])
def test_other_dtypes_are_left_to_numpy(name: str):
    assert not has_kernels(np.dtype(name)) and product_dtype(np.dtype(name)) is None


@pytest.mark.skipif(not llvm.get_host_cpu_features().get("f16c"), reason="the machine converts no halves")
def test_a_dtype_that_is_computed_in_a_wider_one_is_one_more_row(monkeypatch: pytest.MonkeyPatch):
    """Each op's result is rounded as eager rounds it; a sum is rounded once, at its end."""
    monkeypatch.setitem(DTYPES, "f16", HALF)
    x = (fg.arange(1003) % 17 - 8).to(fg.float16) / 8

    def elementwise(x: fg.Tensor) -> fg.Tensor:
        return (x * 1.125 + x * x).maximum(x - 0.25)

    program, inputs, (eager,) = program_of(elementwise, x)
    assert [step.kind for step in program.steps] == ["kernel"]
    (place, _) = program.locate(program.graph.outputs[0])
    found = program.run(inputs)[place]
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, eager.numpy())

    program, inputs, _ = program_of(lambda x: (x + 8.0).sum(), x)
    (kernel,) = program.kernels
    assert 'identity("add", f32)' in kernel.kernel.text
    exact = (x.numpy() + np.float16(8)).astype(np.float64).sum()
    (place, _) = program.locate(program.graph.outputs[0])
    assert program.run(inputs)[place] == np.float16(exact)
