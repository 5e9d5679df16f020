"""Loops whose conditions on the index hold in one range: it is run without them."""

from __future__ import annotations

import re
from typing import Any

import hypothesis.strategies as st
import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given, settings

import fusegrad as fg
from fusegrad.compiler.codegen.functions import module_text
from fusegrad.compiler.codegen.index_set_splitting import interior
from fusegrad.compiler.kernel.ir import Buffer, Compute, Kernel, Load, Loop, Progression, Store
from fusegrad.compiler.llvm.target import Target

F = fg.nn.functional
X, Y = (Buffer(name, "f32", ("i0",), (1,)) for name in "xy")


def shifted(lower: str = "ge", upper: str = "lt"):
    """`y[i] = x[i] if i + k0 >= k1 and i + k0 < k2 and fact else 0`."""
    return [
        Progression("t0", "i0", 0, 1, "i64"),
        Compute("t1", "add", ("t0", "k0"), "i64"),
        Compute("t2", lower, ("t1", "k1"), "bool"),
        Compute("t3", upper, ("t1", "k2"), "bool"),
        Compute("t4", "and_", ("t2", "t3"), "bool"),
        Compute("t5", "and_", ("t4", "fact"), "bool"),
        Load("t6", X, (), "t5"),
        Store(Y, "t6"),
    ]


def test_bounds_and_facts_of_a_condition():
    found = interior("i0", shifted())
    assert found is not None
    assert {(b.op, b.index, b.limit) for b in found.bounds} == {("ge", "t1", "k1"), ("lt", "t1", "k2")}
    assert found.facts == ("fact",)
    assert found.names == {"t2", "t3", "t4", "t5", "fact"}
    assert [s.target for s in found.before] == ["t0", "t1"]


def test_only_what_the_bounds_need_is_computed_before_the_loop():
    body = shifted()
    body.insert(0, Compute("t8", "div", ("k3", "k4"), "i64"))  # by zero, perhaps, in a loop that does not run
    body.insert(1, Compute("t9", "mul", ("k0", 2), "i64"))
    body[3] = Compute("t1", "add", ("t0", "t9"), "i64")
    found = interior("i0", body)
    assert found is not None and [s.target for s in found.before] == ["t9", "t0", "t1"]


def test_no_interior_where_the_condition_says_more_or_nothing():
    assert interior("i0", shifted("eq")) is None
    assert interior("i1", shifted()) is None  # nothing varies along it
    body = shifted()
    body[5] = Compute("t5", "or_", ("t4", "fact"), "bool")
    assert interior("i0", body) is None


def test_a_number_on_the_left_is_a_bound_on_the_other_side():
    body = shifted()
    body[2] = Compute("t2", "lt", ("k1", "t1"), "bool")
    found = interior("i0", body)
    assert found is not None and ("gt", "t1", "k1") in {(b.op, b.index, b.limit) for b in found.bounds}


def padded(x, left: int, right: int):
    return F.pad(x * 2, (left, right)) + 1


def written(x, left: int, right: int):
    y = x * 3
    y[1:-1, left : x.shape[1] - right] = x[1:-1, : x.shape[1] - right - left] + x[2:, left + right :]
    return y


def cumulated(x, left: int, right: int):
    return F.pad(x, (left, right)).sum(), F.pad(x, (left, right)).amax(1)


@settings(max_examples=60, deadline=None)
@given(
    function=st.sampled_from([padded, written, cumulated]),
    columns=st.integers(1, 70),
    left=st.integers(0, 40),
    right=st.integers(0, 40),
)
def test_shifted_rows_are_as_eager_has_them(function, columns: int, left: int, right: int):
    columns += left + right  # so that there is something left of it
    x = fg.randn(5, columns)
    compiled = fg.jit(lambda x: function(x, left, right))
    expected = function(x, left, right)
    for _ in range(2):
        found = compiled(x)
        pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
        for ours, theirs in pairs:
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-5)
    assert compiled.stats.compiled_calls == 1


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_rows_outside_are_left_alone(rows: int):
    def inside(x):
        y = x * 2
        y[1:-1, 1:-1] = 0.5 * (x[2:, 1:-1] + x[:-2, 1:-1])
        return y

    x = fg.randn(rows, 100)
    compiled = fg.jit(inside)
    compiled(x)
    np.testing.assert_array_equal(compiled(x).numpy(), inside(x).numpy())


def test_the_interior_tests_no_lane():
    def step(x):
        y = x * 2
        y[1:-1, 1:-1] = x[1:-1, :-2] + x[1:-1, 2:]
        return y

    compiled = fg.jit(step)
    x = fg.randn(64, 512)
    compiled(x), compiled(x)
    (kernel,) = compiled.kernels().forward
    # One loop asks before each access to x; the other loads whole vectors.
    text = module_text(kernel.kernel, "k", Target(32))
    assert len(re.findall(r"call <8 x float> @llvm.masked.load", text)) >= 2
    assert len(re.findall(r"= load <8 x float>", text)) >= 2


BESIDE: dict[str, Any] = {
    "rows": lambda x, y: fg.cat([x, y], 0),
    "columns": lambda x, y: fg.cat([x, y], 1),
    "three": lambda x, y: fg.cat([x * 2, y, x], 0),
    "rolled": lambda x, y: fg.roll(x, 5, 0) * 2,
    "padded": lambda x, y: F.pad(x, (0, 0, 3, 2)) * 2,
}


@pytest.mark.parametrize("name", BESIDE)
def test_nothing_is_read_where_no_lane_asks(name: str) -> None:
    """There may be no memory there, of which the processor finds out slowly: 10 ms where 0.1 were enough."""
    compiled = fg.jit(lambda x, y: BESIDE[name](x, y))
    x, y = fg.randn(64, 512), fg.randn(64, 512)
    for _ in range(2):
        np.testing.assert_array_equal(compiled(x, y).numpy(), BESIDE[name](x, y).numpy())
    for kernel in compiled.kernels().forward:
        reads, label = [], ""
        for line in module_text(kernel.kernel, "k", Target(32)).splitlines():
            if line.endswith(":"):
                label = line
            if re.search(r"= call .* @llvm.masked.load", line):
                reads.append(label)
        assert reads and all(label.startswith("then") for label in reads), reads


def test_numbers_that_the_condition_decides_between_are_chosen_anew_in_the_interior():
    """There the condition is true; outside a part of it is one of all lanes."""
    body = shifted()
    body[-1:] = [
        Compute("t7", "select", ("t5", "k3", 2.0), "f32"),
        Compute("t8", "mul", ("t6", "t7"), "f32"),
        Store(Y, "t8"),
    ]
    numbers = [("k0", "i64"), ("k1", "i64"), ("k2", "i64"), ("fact", "bool"), ("k3", "f32")]
    kernel = Kernel(("i0",), (X,), (Y,), tuple(numbers), (Loop(("i0",), "vector", tuple(body)),))
    text = module_text(kernel, "k", Target(32))
    assert re.search(r"select i1 \S+, float", text)
    llvm.parse_assembly(text).verify()  # raises where a value does not reach its use
