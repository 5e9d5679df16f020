"""Linear algebra in native code gives what LAPACK gives, however the operands lie."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fusegrad.compiler.base.solver_ops import CHOLESKY, FACTOR, LU_INVERSE, LU_SOLVE, TRIANGULAR
from fusegrad.compiler.gemm import blas
from fusegrad.compiler.gemm.small_solvers import SMALL
from fusegrad.compiler.program.program import Program
from fusegrad.eager.core.families import layout_of
from fusegrad.eager.core.op import TensorType, wrap
from fusegrad.tracer.ir.graph import Equation, Graph, Value

SIDES = [*range(1, SMALL + 5)]
BATCHES = [(), (1,), (2,), (7,), (3, 2)]
TOLERANCE = {"f4": 2e-4, "f8": 1e-11}


def laid(array, how):
    """The same numbers in other memory."""
    if how == "by columns":
        return array.swapaxes(-1, -2).copy().swapaxes(-1, -2)
    if how == "with gaps":
        wide = np.zeros(tuple(2 * n for n in array.shape), array.dtype)
        part = wide[tuple(slice(None, None, 2) for _ in array.shape)]
        part[...] = array
        return part
    if how == "backward":
        return array[..., ::-1, ::-1].copy()[..., ::-1, ::-1]
    if how == "repeated" and array.ndim > 2:
        return np.broadcast_to(array[:1], array.shape)
    return array


LAYOUTS = ["by rows", "by columns", "with gaps", "backward", "repeated"]


def native(op, arrays, params):
    """What a program of one equation gives."""
    values = [Value(f"x{i}", TensorType(a.shape, a.dtype)) for i, a in enumerate(arrays)]
    made = op.infer([v.type for v in values], params)
    types = (made,) if isinstance(made, TensorType) else made
    outputs = tuple(Value(f"y{i}", t) for i, t in enumerate(types))
    graph = Graph(tuple(values), (Equation(op, tuple(values), params, outputs),), outputs)
    program = Program(graph, {v: layout_of(a) for v, a in zip(values, arrays, strict=True)})
    assert [s.kind for s in program.steps if s.kind != "kernel"] == ["solver"]
    found = program.finish().run(arrays)
    return [found[program.arrays[v]] for v in outputs]


def agree(op, arrays, **params):
    expected = op.evaluate([wrap(a) for a in arrays], params)
    expected = expected if type(expected) is tuple else (expected,)
    found = native(op, arrays, params)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        limit = TOLERANCE[arrays[0].dtype.str[1:]]
        np.testing.assert_allclose(ours, theirs, limit, limit * max(1, np.abs(theirs).max(initial=0)))
    return found


def matrices(batch, rows, dtype, seed=0):
    random = np.random.default_rng(seed)
    dominant = 2 * np.eye(rows) * random.choice([-1, 1], (*batch, rows, 1))
    return (random.normal(size=(*batch, rows, rows)) / rows**0.5 + dominant[..., ::-1]).astype(dtype)


def cases():
    for number, (rows, batch) in enumerate(itertools.product(SIDES, BATCHES)):
        yield rows, batch, ("f4", "f8")[number % 2], LAYOUTS[number % len(LAYOUTS)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("rows", "batch", "dtype", "how"), [*cases()])
def test_factors_and_solutions(rows, batch, dtype, how):
    a = laid(matrices(batch, rows, dtype), how)
    factors, pivots, sound = agree(FACTOR, [a])
    assert sound
    for columns, transposed in ((1, False), (3, True), (rows, False)):
        b = np.random.default_rng(1).normal(size=(*batch, rows, columns)).astype(dtype)
        agree(LU_SOLVE, [factors, pivots, laid(b, how)], transposed=transposed)
    (turned,) = agree(LU_INVERSE, [factors, pivots])
    np.testing.assert_allclose(a @ turned.swapaxes(-1, -2), np.eye(rows) + 0 * a, atol=2e-4)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("rows", "batch", "dtype", "how"), [*cases()])
def test_choleskys_factors(rows, batch, dtype, how):
    half = matrices(batch, rows, dtype)
    whole = laid((half @ half.swapaxes(-1, -2)).astype(dtype), how)
    # One triangle is read.
    for upper, noise in ((False, np.triu), (True, np.tril)):
        agree(CHOLESKY, [laid(whole + noise(half, 1 if not upper else -1), how)], upper=upper)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("rows", "batch", "dtype", "how"), [*cases()])
def test_triangular_systems(rows, batch, dtype, how):
    a = laid(matrices(batch, rows, dtype) + 3 * np.eye(rows, dtype=dtype), how)
    for upper, left, unit, columns in itertools.product((0, 1), (0, 1), (0, 1), (1, 4)):
        sides = (rows, columns) if left else (columns, rows)
        b = laid(np.random.default_rng(1).normal(size=(*batch, *sides)).astype(dtype), how)
        scaled = laid(np.asarray(a / rows, dtype), how) if unit else a
        agree(TRIANGULAR, [scaled, b], upper=bool(upper), left=bool(left), unitriangular=bool(unit))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("rows", [3, SMALL, SMALL + 1])
def test_batches_that_threads_share(rows, dtype):
    a = matrices((1000,), rows, dtype)
    factors, pivots, _ = agree(FACTOR, [a])
    agree(LU_SOLVE, [factors, pivots, a[..., :2]], transposed=False)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("batch", [(), (2,), (9,)])
@pytest.mark.parametrize("rows", [1, 2, 3, 8, SMALL, SMALL + 1, 40])
def test_what_may_be_singular_is_not_sound(rows, batch, dtype):
    def sound(op, spoilt, **params):
        return bool(native(op, [spoilt], params)[-1])

    good = matrices(batch, rows, dtype)
    definite = good @ good.swapaxes(-1, -2)
    last = (*(n - 1 for n in batch), slice(None), slice(None))
    for value in (0, np.nan):
        for op, matrix, params in ((FACTOR, good, {}), (CHOLESKY, definite, {"upper": False})):
            spoilt = matrix.copy()
            spoilt[last] = value
            assert sound(op, matrix, **params)
            assert not sound(op, spoilt, **params)
    negative = definite.copy()
    negative[last] -= 2 * np.trace(negative[last]) * np.eye(rows, dtype=dtype)
    assert not sound(CHOLESKY, negative, upper=False)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("rows", [2, 3, 8, SMALL + 1])
def test_what_lapack_finds_to_be_singular_is_not_sound(rows, dtype):
    random = np.random.default_rng(0)
    refused = 0
    for _ in range(60):
        a = random.integers(-3, 4, (rows, rows)).astype(dtype)
        a[-1] = a[0] + a[rows // 2]  # where rounding makes no zero of this, a pivot is small
        a = a[random.permutation(rows)]
        try:
            np.linalg.inv(a)
        except np.linalg.LinAlgError:
            refused += 1
            assert not native(FACTOR, [a], {})[-1]
    assert refused > 3


def test_scipy_has_all_routines():
    assert blas._scipy_routines().keys() == blas.routines().keys()
