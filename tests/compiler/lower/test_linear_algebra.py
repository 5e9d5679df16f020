"""Compiled linear algebra: PyTorch's values and derivatives, eager's errors, nothing left to NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg

RANDOM = np.random.default_rng(0)
# Each with the arguments that it takes: a matrix like any other, a definite one, columns.
PROGRAMS = {
    "solve": ("a b", lambda lib, a, b: (lib.linalg.solve(a, b) ** 2).sum()),
    "solve from the right": ("a c", lambda lib, a, c: (lib.linalg.solve(a, c, left=False) ** 2).sum()),
    "solve turned": ("a b", lambda lib, a, b: (lib.linalg.solve(a.mT, b) * lib.linalg.solve(a, b)).sum()),
    "inverse": ("a", lambda lib, a: (lib.linalg.inv(a) ** 2).sum()),
    "inverse turned": ("a", lambda lib, a: (lib.linalg.inv(a.mT) ** 3).sum()),
    "determinant": ("a", lambda lib, a: lib.linalg.det(a).sum()),
    "its logarithm": ("a", lambda lib, a: lib.linalg.slogdet(a)[1].sum()),
    "its sign": ("a", lambda lib, a: (lib.linalg.slogdet(a)[0] * lib.linalg.slogdet(a)[1]).sum()),
    "cholesky": ("s", lambda lib, s: (lib.linalg.cholesky(s) ** 3).sum()),
    "cholesky upper": ("s", lambda lib, s: (lib.linalg.cholesky(s, upper=True) ** 3).sum()),
    "whitened": (
        "s b",
        lambda lib, s, b: (
            (lib.linalg.solve_triangular(lib.linalg.cholesky(s), b, upper=False) ** 2).sum()
            + lib.log(lib.diagonal(lib.linalg.cholesky(s), dim1=-2, dim2=-1)).sum()
        ),
    ),
    "triangular": ("s b", lambda lib, s, b: (lib.linalg.solve_triangular(s, b, upper=True) ** 2).sum()),
    "triangular from the right": (
        "s c",
        lambda lib, s, c: (lib.linalg.solve_triangular(s, c, upper=False, left=False) ** 2).sum(),
    ),
}


def given(names, rows, batch, dtype):
    """The arguments of a program."""
    a = RANDOM.normal(size=(*batch, rows, rows)) / rows**0.5
    a += (2 * np.eye(rows) * RANDOM.choice([-1, 1], (rows, 1)))[..., ::-1]
    known = {
        "a": a,
        "s": a @ a.swapaxes(-1, -2) + np.eye(rows),
        "b": RANDOM.normal(size=(*batch, rows, 2)),
        "c": RANDOM.normal(size=(*batch, 2, rows)),
    }
    return [known[name].astype(dtype) for name in names.split()]


def close(ours, theirs, dtype):
    limit = 3e-4 if dtype == "f4" else 1e-9
    assert ours.dtype == np.dtype(dtype)
    np.testing.assert_allclose(ours, theirs, limit, limit * max(1e-3, np.abs(theirs).max(initial=0)))


def left_to_numpy(jitted):
    steps = [step for segment in jitted.segments() for step in segment.code.program.steps]
    assert any(step.kind == "solver" for step in steps)
    return [step.equations[0].op.name for step in steps if step.kind == "opaque"]


SIZES = [(1, ()), (2, (3,)), (3, (40,)), (5, (2, 3)), (8, ()), (16, (1,)), (17, (2,)), (30, ())]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_torchs(name, size):
    names, program = PROGRAMS[name]
    number = [*PROGRAMS].index(name) + SIZES.index(size)
    dtype = ("f4", "f8")[number % 2]
    arrays = given(names, *size, dtype)
    places = tuple(range(len(arrays)))
    jitted = fg.jit(fg.value_and_grad(lambda *args: program(fg, *args), places))
    for _ in range(3):
        value, gradients = jitted(*map(fg.from_numpy, arrays))
    assert left_to_numpy(jitted) == []
    exact = [torch.tensor(a.astype("f8"), requires_grad=True) for a in arrays]
    expected = program(torch, *exact)
    close(value.numpy(), expected.detach().numpy(), dtype)
    for ours, theirs in zip(gradients, torch.autograd.grad(expected, exact), strict=True):
        close(ours.numpy(), theirs.numpy(), dtype)


@pytest.mark.parametrize("name", PROGRAMS)
def test_second_derivatives_are_torchs(name):
    names, program = PROGRAMS[name]
    arrays = given(names, 4, (3,), "f8")

    def second(lib, *args):
        gradients = lib.autograd.grad(program(lib, *args), args, create_graph=True)
        total = sum((g * g).sum() for g in gradients)
        return lib.autograd.grad(total, args)

    def ours_of(*args):
        return second(fg, *[a.requires_grad_() for a in args])

    jitted = fg.jit(ours_of)
    for _ in range(3):
        ours = jitted(*map(fg.tensor, arrays))
    exact = [torch.tensor(a, requires_grad=True) for a in arrays]
    for mine, theirs in zip(ours, second(torch, *exact), strict=True):
        close(mine.numpy(), theirs.numpy(), "f8")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_backward_of_its_own(name):
    names, program = PROGRAMS[name]
    arrays = given(names, 6, (2,), "f8")
    jitted = fg.jit(lambda *args: program(fg, *args))
    for _ in range(3):
        leaves = [fg.tensor(a, requires_grad=True) for a in arrays]
        jitted(*leaves).backward()
    exact = [torch.tensor(a, requires_grad=True) for a in arrays]
    program(torch, *exact).backward()
    for ours, theirs in zip(leaves, exact, strict=True):
        close(ours.grad.numpy(), theirs.grad.numpy(), "f8")


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 0), (0, 0)])
def test_nothing_at_all(shape):
    def functions(x):
        return fg.linalg.inv(x), fg.linalg.det(x), fg.linalg.cholesky(x), fg.linalg.solve(x, x)

    jitted = fg.jit(functions)
    for _ in range(3):
        found = jitted(fg.zeros(shape))
    for ours, theirs in zip(found, functions(fg.zeros(shape)), strict=True):
        assert fg.equal(ours, theirs)
        assert ours.shape == theirs.shape


def outcome(function, *args):
    try:
        return function(*args)
    except fg.linalg.LinAlgError as error:
        return str(error)


REFUSED = {
    "inverse": fg.linalg.inv,
    "solve": lambda x: fg.linalg.solve(x, x + 1),
    "cholesky": fg.linalg.cholesky,
}


@pytest.mark.parametrize(("rows", "batch"), [(1, ()), (3, ()), (3, (5,)), (20, ()), (20, (2, 2))])
@pytest.mark.parametrize("name", REFUSED)
def test_errors_are_eagers(name, rows, batch):
    function = REFUSED[name]
    jitted = fg.jit(function)
    good = np.broadcast_to(3 * np.eye(rows), (*batch, rows, rows)).copy()
    for _ in range(4):
        jitted(fg.tensor(good))
    bad = good.copy()
    bad[(-1,) * len(batch)][-1] = 0
    said = outcome(jitted, fg.tensor(bad))
    assert isinstance(said, str)
    assert said == outcome(function, fg.tensor(bad))
    assert fg.equal(jitted(fg.tensor(good)), function(fg.tensor(good)))


@pytest.mark.parametrize("rows", [2, 20])
def test_what_eager_makes_of_singular_matrices_stays(rows):
    def functions(x):
        inverse, info = fg.linalg.inv_ex(x)
        return inverse, info, fg.linalg.det(x), *fg.linalg.slogdet(x), *fg.linalg.cholesky_ex(x)

    jitted = fg.jit(functions)
    good = 3 * np.eye(rows)
    for _ in range(4):
        jitted(fg.tensor(good))
    bad = good.copy()
    bad[0] = 0
    for ours, theirs in zip(jitted(fg.tensor(bad)), functions(fg.tensor(bad)), strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("rows", [3, 20])
@pytest.mark.parametrize("name", ["det", "slogdet"])
def test_gradients_of_singular_matrices_are_eagers(name, rows):
    def loss(x):
        found = getattr(fg.linalg, name)(x)
        return found if name == "det" else found[1]

    jitted = fg.jit(loss)
    good = 3 * np.eye(rows)
    bad = good.copy()
    bad[0] = 0
    for array in (good, good, good, good, bad):
        ours, theirs = (fg.tensor(array, requires_grad=True) for _ in range(2))
        jitted(ours).backward()
        loss(theirs).backward()
        np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), 1e-12)


@pytest.mark.parametrize("name", REFUSED)
def test_nearly_singular_matrices_are_replayed_by_numpy(name):
    function = REFUSED[name]
    jitted = fg.jit(lambda x: function(x))
    array = np.eye(12)
    array[-2:, -2:] = 1
    array[-1, -1] += 2 * np.finfo("f8").eps
    near = fg.tensor(array)
    for _ in range(6):
        assert fg.equal(jitted(near), function(near))
    assert jitted.stats.compiled_calls == 4
    assert jitted.stats.compiles == 2


def test_eigenvalues_and_vectors_are_found_at_once():
    def loss(x):
        return (fg.linalg.eigvalsh(x) ** 3).sum()

    (array,) = given("s", 6, (2,), "f8")
    jitted = fg.jit(fg.value_and_grad(loss))
    for _ in range(3):
        value, gradient = jitted(fg.tensor(array))
    steps = [step for segment in jitted.segments() for step in segment.code.program.steps]
    assert [s.equations[0].op.name for s in steps if s.kind == "opaque"] == ["linalg_eigh"]
    exact = torch.tensor(array, requires_grad=True)
    expected = (torch.linalg.eigvalsh(exact) ** 3).sum()
    close(value.numpy(), expected.detach().numpy(), "f8")
    close(gradient.numpy(), torch.autograd.grad(expected, exact)[0].numpy(), "f8")


@pytest.mark.parametrize("offset", [-2, -1, 0, 1, 3])
@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (2, 5, 3)])
def test_diagonals_are_written_by_kernels(offset, shape):
    def write(x, values):
        return fg.diagonal_scatter(x, values, offset, -2, -1) * 2

    x = fg.tensor(RANDOM.normal(size=shape))
    values = fg.diagonal(x, offset, -2, -1).clone() + 5
    jitted = fg.jit(write)
    for _ in range(3):
        found = jitted(x, values)
    assert fg.equal(found, write(x, values))
    assert {step.kind for s in jitted.segments() for step in s.code.program.steps} == {"kernel"}
