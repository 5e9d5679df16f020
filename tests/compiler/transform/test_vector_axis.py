"""Kernels whose vectors run along an axis of rows, which every lane goes through by itself."""

from __future__ import annotations

import math

import llvmlite.binding as llvm
import numpy as np
import pytest
from kernel_checks import check, program_of, tensor

import fusegrad as fg
from fusegrad.compiler.codegen.functions import module_text
from fusegrad.compiler.kernel.ir import Loop
from fusegrad.compiler.llvm.target import Target
from fusegrad.compiler.transform import vector_axis


def softmax(x):
    e = fg.exp(x - x.amax(-1, True))
    return e / e.sum(-1, True)


def mixture(x, means, scales):
    z = (x[:, None] - means) * fg.exp(-scales)
    return fg.logsumexp(-0.5 * z * z - scales, 1), (z * z).sum(0), z.sum()


def pairwise(x, y):
    d = ((x[:, None] - y) ** 2).sum(-1)
    return fg.exp(-d), d.sum()


def extremes(x):
    return x.amax(-1), x.amin(-1), x.amax(), x.amin(0)


def standardised(x):
    centred = x - x.mean(0)
    return centred / fg.sqrt((centred * centred).mean(0) + 1e-5)


def counted(x):
    return (x > 0).sum(-1), (x > 0).any(-1), (x * 2).sum(0)


def normalised(x):
    return x / fg.sqrt((x * x).sum(0))


# The function, the shapes of its arguments for n rows of k, and whether the rows are unrolled.
FUNCTIONS = {
    "softmax": (softmax, lambda n, k: [(n, k)]),
    "mixture": (mixture, lambda n, k: [(n,), (k,), (k,)]),
    "pairwise": (pairwise, lambda n, k: [(5, k), (n, k)]),
    "extremes": (extremes, lambda n, k: [(n, k)]),
    "counted": (counted, lambda n, k: [(n, k)]),
    "normalised": (normalised, lambda n, k: [(k, n)]),
    "three short": (lambda x, y: (x[:, :, :, None] * y[:, None]).sum(2), lambda n, k: [(n, 2, k), (n, k, 2)]),
    "transposed": (lambda x: softmax(x.mT), lambda n, k: [(k, n)]),
    "part of a row": (lambda x: softmax(x[:, 1:]), lambda n, k: [(n, k + 1)]),
    "every other row": (lambda x: softmax(x[::2]), lambda n, k: [(2 * n, k)]),
}


@pytest.fixture
def another_axis(monkeypatch, axes_for_wide_vectors):
    """Another axis of vectors wherever one can be, on all machines the same."""
    monkeypatch.setattr(vector_axis, "WORTH", math.inf)
    monkeypatch.setattr(vector_axis, "SOME_WORK", 0)


def loops(program):
    return [loop for bound in program.kernels for loop in bound.kernel.loops()]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    ("rows", "row"), [(264, 3), (167, 7), (279, 4), (130, 5), (131, 6), (200, 9), (297, 10)]
)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows_are_unrolled_and_equal_eager(name, rows, row, dtype, another_axis):
    function, shapes = FUNCTIONS[name]
    args = [tensor(*shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes(rows, row))]
    program = check(function, *args, rtol=1e-5 if dtype == "f4" else 1e-12)
    assert any(loop.kind == "unrolled" for loop in loops(program)), program.kernels


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
@pytest.mark.parametrize("shape", [(40, 64), (300, 70), (3000, 130)])
def test_lanes_go_through_long_rows(shape, dtype, another_axis):
    function = standardised if dtype != "i4" else lambda x: x - x.sum(0)
    x = fg.from_numpy((np.random.default_rng(0).normal(size=shape) * 9).astype(dtype))
    program = check(function, x, rtol=1e-5 if dtype == "f4" else 1e-11)
    vectors = [s for s in loops(program) if any(isinstance(inner, Loop) for inner in s.body)]
    assert any(loop.kind in ("chunked", "vector") for loop in vectors), program.kernels


@pytest.mark.parametrize(
    ("times", "kinds"), [(1, {"parallel", "vector", "unrolled"}), (8, {"parallel", "vector", "serial"})]
)
def test_what_would_be_much_code_goes_around_in_a_loop(times, kinds, another_axis):
    def differences(x, y):
        d = x[:, :, None] - y[:, None]
        for _ in range(times):
            d = d * d + x[:, :, None]
        return d.sum(2)

    program = check(differences, tensor(30, 40), tensor(30, 50), rtol=1e-5)
    assert {loop.kind for loop in loops(program)} == kinds


def test_what_is_not_a_number_or_a_zero_of_either_sign_keeps_its_place(another_axis):
    x = tensor(80, 5).numpy()
    x[3, 2], x[7], x[8], x[9, 1] = np.nan, [0.0, -0.0, 0.0, -0.0, -0.0], -0.0, -np.inf
    program, inputs, expected = program_of(extremes, fg.from_numpy(x))
    assert any(loop.kind == "unrolled" for loop in loops(program))
    arrays = program.run(inputs)
    for (place, _), theirs in zip(map(program.locate, program.graph.outputs), expected, strict=True):
        np.testing.assert_array_equal(arrays[place], theirs.numpy())
        np.testing.assert_array_equal(np.signbit(arrays[place]), np.signbit(theirs.numpy()))


def test_sums_along_lanes_are_as_exact_as_others(another_axis):
    x = fg.from_numpy((np.random.default_rng(1).random((20000, 64)) + 1).astype("f4"))
    program, inputs, _ = program_of(lambda x: (x - x.sum(0)).sum(0), x)
    wanted = x.numpy().astype("f8")
    (sums,) = (np.asarray(program.run(inputs)[program.locate(v)[0]]) for v in program.graph.outputs)
    exact = (x.numpy() - wanted.sum(0).astype("f4")).astype("f8").sum(0)
    assert np.abs(sums / exact - 1).max() < 1e-6


def test_a_result_takes_the_memory_of_what_it_is_computed_from(another_axis):
    """Rows are read as a whole before they are written."""

    @fg.jit
    def step(x):
        with fg.no_grad():
            x.copy_(softmax(x * 3) - x)
        return x.sum()

    x, y = tensor(70, 3), tensor(70, 3)
    for _ in range(8):
        step(x)
        y.copy_(softmax(y * 3) - y)
    assert step.stats.compiled_calls > 4
    np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-4, atol=1e-5)


def test_few_rows_stay_in_vectors_of_their_own():
    program = check(softmax, tensor(20, 3))
    assert {loop.kind for loop in loops(program)} == {"parallel", "vector"}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("width", [16, 32, 64])
def test_code_for_vectors_of_all_widths_is_sound(width, name, another_axis):
    """How rows are turned over depends on the lanes: LLVM verifies what is written for other machines."""
    function, shapes = FUNCTIONS[name]
    program, _, _ = program_of(function, *(tensor(*shape) for shape in shapes(300, 6)))
    for bound in program.kernels:
        llvm.parse_assembly(module_text(bound.kernel, "k", Target(width, avx512=width == 64))).verify()


@pytest.mark.parametrize(("row", "unrolled"), [(3, True), (10, True), (33, False), (1000, False)])
def test_the_axis_is_chosen_by_the_work(row, unrolled, monkeypatch):
    """On a machine with vectors of 64 bytes: rows of a thousand fill them, rows of three do not."""
    monkeypatch.setattr(vector_axis, "SOME_WORK", math.inf)  # as it is built
    program, _, _ = program_of(softmax, tensor(30_000 // row, row))
    monkeypatch.undo()
    (bound,) = program.kernels
    chosen = vector_axis.least_work([bound], Target(64, avx512=True))
    assert any(loop.kind == "unrolled" for loop in chosen.kernel.loops()) == unrolled
