"""What becomes one kernel, how kernels read, and that their text computes what the code does."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from kernel_checks import check, program_of, tensor

import fusegrad as fg
from fusegrad.compiler.codegen import kernel_cache
from fusegrad.compiler.codegen.functions import module_text
from fusegrad.compiler.codegen.kernel_parts import lanes_of
from fusegrad.compiler.kernel.bound_kernel import Argument
from fusegrad.compiler.kernel.ir import Kernel
from fusegrad.compiler.llvm import llvm_jit
from fusegrad.compiler.llvm.target import Target, host
from fusegrad.compiler.program import pipeline
from fusegrad.compiler.program.program import viewed
from fusegrad.compiler.runtime import threads
from fusegrad.tracer.ir import passes

Function = Callable[..., Any]


@pytest.fixture(autouse=True)
def checked_passes(monkeypatch: pytest.MonkeyPatch):
    """Re-run the shape and dtype rules after every pass."""
    monkeypatch.setattr(passes, "CHECK", True)


def chain_of_twenty(x: fg.Tensor) -> fg.Tensor:
    for _ in range(5):
        x = (x * 1.01 + 0.1).tanh().abs()
    return x


def gelu(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
    a = 0.5 * x * (1 + fg.tanh(0.79788456 * (x + 0.044715 * x**3)))
    return (a * fg.sigmoid(y) + fg.exp(-x * x) * y).sum()


def softmax_cross_entropy(x: fg.Tensor, t: fg.Tensor) -> fg.Tensor:
    return fg.nn.functional.cross_entropy(x, t)


FUSED: dict[str, tuple[Function, list[tuple[int, ...]]]] = {
    "chain of twenty": (chain_of_twenty, [(30, 7)]),
    "gelu": (gelu, [(77,), (77,)]),
    "bias and relu": (lambda x, b: (x + b).relu(), [(9, 5), (5,)]),
    "softmax": (lambda x: x.softmax(1), [(6, 37)]),
    "log softmax": (lambda x: x.log_softmax(-1), [(2, 3, 20)]),
    "layer norm": (lambda x, w, b: fg.nn.functional.layer_norm(x, (20,), w, b), [(6, 20), (20,), (20,)]),
    "variance": (lambda x: x.var(1), [(5, 19)]),
    "sum of all": (lambda x: (x * x).mean() * 2, [(7, 11)]),
    "sum of columns": (lambda x: (x * 2).sum(0), [(40, 9)]),
    "columns and elements": (lambda x, y: ((x * y).sum(0), x * y), [(13, 5), (13, 5)]),
    "rows and elements": (lambda x, y: ((x * y).sum(1), x * y), [(13, 5), (13, 5)]),
    "outer dimensions": (lambda x: x.amax((0, 2)), [(4, 5, 6)]),
    "transposed operand": (lambda x, y: x + y.T, [(4, 5), (5, 4)]),
    "expanded": (lambda x, y: x.unsqueeze(1) * y, [(4,), (3,)]),
    "strided view": (lambda x: x[1::2, ::3] * 2, [(7, 10)]),
    "causal mask": (lambda x: x.tril().sum(1), [(6, 6)]),
}


@pytest.mark.parametrize("name", FUSED)
def test_one_kernel(name: str):
    function, shapes = FUSED[name]
    program = check(function, *(tensor(*s, seed=i) for i, s in enumerate(shapes)))
    assert [s.kind for s in program.steps] == ["kernel"]


def test_cross_entropy_is_one_kernel():
    targets = fg.tensor([1, 0, 4, 2])
    program = check(softmax_cross_entropy, tensor(4, 5), targets)
    assert [s.kind for s in program.steps] == ["kernel"]


def test_forward_and_backward_are_one_kernel_each():
    function = fg.jit(gelu)
    x, y = (tensor(50, seed=s).requires_grad_() for s in (0, 1))
    for _ in range(2):
        function(x, y).backward()
    assert len(function.kernels().forward) == len(function.kernels().backward) == 1


@pytest.mark.parametrize("dim", [0, 1, (0, 1)])
def test_a_sum_over_an_expanded_member_counts_every_copy(dim: Any):
    check(lambda x: (x * 2).expand(5, 4).sum(dim), tensor(5, 1))


def test_groups_of_unrelated_shapes_count_nothing_twice():
    def function(x: fg.Tensor, y: fg.Tensor, z: fg.Tensor) -> Any:
        column, row = x[:, :1], x[:1]
        return ((column + row) * 0.1).sum(), (row.T + z) + 0, (column + y).sum(), (z * x.sum()).sum()

    check(function, tensor(5, 4), tensor(5, 4, seed=1), tensor(4, 3, seed=2), rtol=1e-4)


def test_products_read_transposes_as_flags():
    program = check(lambda x, w: (x @ w.T).relu(), tensor(4, 5), tensor(3, 5))
    assert [s.kind for s in program.steps] == ["product", "kernel"]


def test_one_kernel_serves_all_sizes_and_numbers():
    check(lambda x: x * 2 + 1, tensor(10))
    before = kernel_cache.Statistics.kernels
    check(lambda x: x * 5 + 3, tensor(1000))
    assert kernel_cache.Statistics.kernels == before


@pytest.mark.parametrize("size", [1, 2, 7, 8, 15, 16, 17, 31, 33, 64, 65, 1000, 100_003])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sizes_around_the_vector_width(size: int, dtype: str):
    x = tensor(size, dtype=dtype)
    program, inputs, expected = program_of(lambda x: (x * x, x.sum(), x.amax()), x)
    arrays = program.run(inputs)
    for value, theirs in zip(program.graph.outputs, expected, strict=True):
        index, chain = program.locate(value)
        np.testing.assert_allclose(viewed(arrays[index], chain), theirs.array, rtol=1e-4, atol=1e-3)


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch):
    program, inputs, _ = program_of(lambda x: (x.exp().sum(), x.sum(0)), tensor(700, 301))
    several = [a.tobytes() for a in program.run(inputs)]
    monkeypatch.setattr(threads, "threads", lambda: 1)
    assert [a.tobytes() for a in program.run(inputs)] == several


SPECIAL = st.sampled_from([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 3.4e38, 0.5])
OPERATIONS: dict[str, Function] = {
    "arithmetic": lambda x, y: (x + y, x - y, x * y, x / y),
    "order": lambda x, y: (x < y, x <= y, x == y, x != y, x > y, x >= y),
    "choice": lambda x, y: (fg.maximum(x, y), fg.minimum(x, y), fg.where(x > y, x, y), x.relu()),
    "unary": lambda x, y: (-x, x.abs(), x.sign(), x.sqrt(), x.floor(), x.ceil(), x.trunc(), x.isnan()),
}
COMPILED = {name: fg.jit(function) for name, function in OPERATIONS.items()}


@pytest.mark.parametrize("name", OPERATIONS)
@settings(max_examples=60, deadline=None)
@given(data=st.lists(st.tuples(SPECIAL, SPECIAL), min_size=20, max_size=20))
def test_exact_ops_give_eagers_bits(name: str, data: list[tuple[float, float]]):
    columns = np.array(data, np.float32).T
    x, y = (fg.from_numpy(np.ascontiguousarray(c)) for c in columns)
    for ours, theirs in zip(COMPILED[name](x, y), OPERATIONS[name](x, y), strict=True):
        a, b = ours.numpy(), theirs.numpy()
        np.testing.assert_array_equal(a, b)
        if name in ("arithmetic", "unary") and a.dtype.kind == "f":
            known = ~np.isnan(a)
            np.testing.assert_array_equal(np.signbit(a)[known], np.signbit(b)[known])


@settings(max_examples=40, deadline=None)
@given(
    shape=st.lists(st.integers(0, 5), min_size=0, max_size=3),
    squeeze=st.lists(st.booleans(), min_size=3, max_size=3),
    order=st.permutations(range(3)),
    flip=st.booleans(),
)
def test_shapes_strides_and_broadcasts(shape: list[int], squeeze: list[bool], order: list[int], flip: bool):
    full = np.random.default_rng(1).normal(size=shape).astype("f4")
    axes = [a for a in order if a < len(shape)]
    x = full.transpose(axes).copy().transpose(np.argsort(axes))
    if flip and x.ndim:
        x = x[::-1]
    y = full[tuple(slice(0, 1) if s else slice(None) for s in squeeze[: len(shape)])]
    function = fg.jit(lambda x, y: ((x * y + 1).exp(), (x + y).sum(), x.sum(-1) if x.ndim else x))
    tensors = fg.from_numpy(np.asarray(x)), fg.from_numpy(np.asarray(y))
    expected = function(*tensors)
    for ours, theirs in zip(function(*tensors), expected, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-5)


def test_a_kernel_reads_as_python():
    program = check(lambda x, b: (x + b).relu().sum(1), tensor(3, 4), tensor(4))
    (kernel,) = program.kernels
    assert (
        str(kernel.kernel)
        == """def kernel(n0, n1, x0: "f32[i0, i1:1]", x1: "f32[i1:1]", y0: "f32[i0]"):
    for i0 in parallel(n0):
        a0 = identity("add", f32)
        for i1 in vector(n1):
            t0 = x0[i0, i1]
            t1 = x1[i1]
            t2 = t0 + t1
            t3 = maximum(0.0, t2)
            a0 = a0 + t3
        y0[i0] = a0"""
    )
    assert isinstance(kernel.inputs[0], Argument)


@pytest.mark.parametrize("shape", [(0, 4, 6, 5), (2, 4, 0, 5), (2, 3, 4, 0), (2, 0, 6, 5)])
def test_sums_of_no_elements_are_stored(shape: tuple[int, ...]):
    for dims in ((0, 2, 3), (0,), (1, 2), (0, 1, 2)):
        function = fg.jit(lambda x, dims=dims: (x * 2).sum(dims) + 1)
        for _ in range(3):
            junk = [np.full(n, 7.0, np.float32) for n in range(1, 64)]
            del junk
            result = function(fg.ones(*shape))
            np.testing.assert_array_equal(result.numpy(), (fg.ones(*shape) * 2).sum(dims).numpy() + 1)
        assert function.stats.compiled_calls == 2


def prefetches(function: Function, *args: fg.Tensor) -> int:
    """How many prefetches the kernels of a function have for vectors of 64 bytes."""
    program, _, _ = program_of(function, *args)
    texts = (module_text(k.kernel, "kernel", Target(64, avx512=True)) for k in program.kernels)
    return sum(text.count("call void @llvm.prefetch") for text in texts)


def test_rows_that_are_gone_over_twice_have_the_next_one_fetched():
    def centred(x: fg.Tensor) -> fg.Tensor:
        return x - x.mean(1, keepdim=True)

    x = tensor(7, 300)
    assert prefetches(centred, x) == 1
    assert prefetches(lambda x: fg.softmax(x, 1), x) == 2  # two vectors at a time
    assert prefetches(lambda x, y: centred(x + y), x, tensor(300)) == 1  # y is the same in all rows
    assert prefetches(lambda x: centred(x.double()), x) == 0  # half a line a vector
    assert prefetches(lambda x: fg.tanh(x) * 2, x) == prefetches(lambda x: x.sum(1), x) == 0
    check(lambda x: fg.softmax(x, 1), tensor(1, 300))
    check(lambda x: fg.softmax(x, 2), tensor(3, 5, 80).transpose(0, 1))


def test_two_vectors_of_elementary_functions_are_computed_side_by_side():
    (heavy,), (light,) = (
        program_of(f, tensor(40))[0].kernels for f in (lambda x: fg.exp(x) * 2, lambda x: x * 2 + 1)
    )
    assert [lanes_of(heavy.kernel, Target(n)) for n in (16, 32, 64)] == [8, 16, 32]
    assert [lanes_of(light.kernel, Target(n)) for n in (16, 32, 64)] == [4, 8, 16]


def test_of_long_flat_bodies_four_vectors_are_computed_side_by_side():
    def gate(x: fg.Tensor) -> fg.Tensor:
        return fg.tanh(x) * fg.sigmoid(x) + fg.exp(-x)

    def kernel(function: Function, *shape: int) -> Kernel:
        (bound,) = program_of(function, tensor(*shape))[0].kernels
        return bound.kernel

    assert [lanes_of(kernel(gate, 40), Target(n)) for n in (16, 32, 64)] == [8, 32, 64]
    assert lanes_of(kernel(lambda x: fg.erfinv(x), 40), Target(64)) == 64
    rows = kernel(lambda x: gate(x) / gate(x).sum(1, keepdim=True), 6, 37)
    assert lanes_of(rows, Target(64)) == 32  # they may be short
    check(gate, tensor(200))


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("rows", [None, 1, 6])
def test_no_more_vectors_are_side_by_side_than_the_elements_fill(rows, lanes, monkeypatch):
    def gate(x: fg.Tensor) -> tuple[fg.Tensor, ...]:
        y = fg.tanh(x) * fg.sigmoid(x) + fg.exp(-x)
        return y, y.sum(-1), y.amax(-1)

    width, target = 4 * lanes, Target(4 * lanes)
    monkeypatch.setattr(pipeline, "host", lambda: target)
    found = {}
    for n in (2, 3, lanes, lanes + 1, 2 * lanes, 2 * lanes + 1, 9 * lanes):
        x = tensor(n) if rows is None else tensor(rows, n)
        (bound,) = program_of(gate, x)[0].kernels
        found[n] = lanes_of(bound.kernel, target)
        assert f"vectors side by side: {found[n] // lanes}" in bound.kernel.text or not bound.kernel.beside
    most = found[9 * lanes]
    assert most == (2 if rows == 6 else target.most_interleaved) * lanes
    assert found == {n: min(most, lanes << (-(-n // lanes) - 1).bit_length()) for n in found}
    monkeypatch.undo()
    for n in (1, 3, width, width + 1):
        check(gate, tensor(n) if rows is None else tensor(rows, n))


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or host().vector_bytes < 32,
    reason="reads the assembly of AVX2 or AVX-512",
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_vectors_on_the_stack_lie_within_a_line_of_the_cache(dtype: str):
    def long(x: fg.Tensor) -> fg.Tensor:
        return sum((fg.erf(x * i) * fg.exp(x - i) * fg.tanh(x + i) for i in range(5)), x)

    (bound,) = program_of(long, tensor(40).to(getattr(fg, dtype)))[0].kernels
    text = llvm_jit.assembly(module_text(bound.kernel, "kernel", host()))
    kept = re.findall(r"(mov\w+)\s+(?:%[yz]mm\d+, -?\d*\(%rsp\)|-?\d*\(%rsp\), %[yz]mm\d+)", text)
    assert kept
    assert all(move.startswith(("movap", "movdqa")) for move in kept)
