"""Slices, pads, concatenations and what picks by order: index arithmetic in the kernels."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from kernel_checks import check, check_printed, program_of, tensor

import fusegrad as fg
from fusegrad.compiler.codegen import kernel_cache
from fusegrad.compiler.llvm.target import Target, host
from fusegrad.compiler.program.program import Program, viewed
from fusegrad.tracer.ir.text import parse_graph

F = fg.nn.functional
Function = Callable[..., Any]


def kinds(program: Any) -> list[str]:
    return [step.kind for step in program.steps]


def set_inside(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
    z = x.clone()
    z[1:-1] = y.tanh() * 2
    return z


def laplacian(u: fg.Tensor) -> fg.Tensor:
    return u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]


def wave_step(u: fg.Tensor, before: fg.Tensor) -> fg.Tensor:
    after = before.clone()
    after[1:-1, 1:-1] = 2 * u[1:-1, 1:-1] - before[1:-1, 1:-1] + 0.1 * laplacian(u)
    return after


ONE: dict[str, tuple[Function, list[fg.Tensor]]] = {
    "differences": (lambda x: x[1:-1] + x[2:] * 2, [tensor(40)]),
    "stencil": (lambda x: laplacian(x).tanh(), [tensor(12, 30)]),
    "pad": (lambda x: F.pad(x, (1, 2), value=3.0) * 2, [tensor(5, 7)]),
    "pad on all sides": (lambda x: F.pad(x * 2, (1, 2, 3, 0)), [tensor(5, 7)]),
    "pad that cuts": (lambda x: F.pad(x, (-1, 2, 1, -2)) + 1, [tensor(5, 7)]),
    "pad, reflect": (lambda x: F.pad(x, (2, 3), mode="reflect") + 1, [tensor(5, 7)]),
    "cat": (lambda x, y: fg.cat([x, y]).tanh(), [tensor(5, 7), tensor(3, 7)]),
    "cat of what is computed": (lambda x, y: fg.cat([x * 2, y + 1, x], 1), [tensor(5, 7), tensor(5, 2)]),
    "cat of two dtypes": (lambda x, y: fg.cat([x, y]), [tensor(5), tensor(3, dtype="f8")]),
    "cat with nothing": (
        lambda x, y: fg.cat([x, y]) + 1,
        [tensor(5, 3), tensor(0, 3)],
    ),
    "stack": (lambda x, y: fg.stack([x, y], 1) * 2, [tensor(5, 7), tensor(5, 7, seed=1)]),
    "roll": (lambda x: fg.roll(x, 2, 0) + fg.roll(x, -1, 1) - x, [tensor(5, 7)]),
    "flip": (lambda x: x.flip(0) + x, [tensor(5, 7)]),
    "written slice": (set_inside, [tensor(9, 4), tensor(7, 4, seed=1)]),
    "written slice of one number": (
        lambda x: fg.slice_scatter(x * 1, x[:2] * 0 + 5, 0, 1, 3),
        [tensor(9, 4)],
    ),
    "written column": (lambda x: x.select_scatter(x[:, 0] * 3, 1, 2) + 1, [tensor(9, 4)]),
    "every second": (lambda x, y: x.slice_scatter(y, 0, 1, 9, 2) * 2, [tensor(9, 4), tensor(4, 4, seed=1)]),
    "wave equation": (wave_step, [tensor(20, 24), tensor(20, 24, seed=1)]),
    "argmax": (lambda x: x.argmax(1), [tensor(5, 40)]),
    "argmax of all": (lambda x: x.argmax(), [tensor(5, 40)]),
    "argmin, kept": (lambda x: x.argmin(1, keepdim=True) + 1, [tensor(5, 40)]),
    "max and where": (lambda x: x.max(1), [tensor(5, 40)]),
    "min of whole numbers": (lambda x: (x * 3).int().min(1), [tensor(5, 40)]),
    "any and all": (lambda x: ((x > 1).any(1), (x > -3).all(1), (x > 0).any()), [tensor(5, 40)]),
}


@pytest.mark.parametrize("name", ONE)
def test_one_kernel(name: str):
    function, args = ONE[name]
    program = check(function, *args)
    assert kinds(program) == ["kernel"], program.describe()


MORE: dict[str, tuple[Function, list[fg.Tensor]]] = {
    "argmax of columns": (lambda x: x.argmax(0), [tensor(40, 5)]),
    "min of columns": (lambda x: x.min(0), [tensor(40, 5)]),
    "amax in the middle": (lambda x: x.amax(1), [tensor(4, 20, 5)]),
    "cat of many": (lambda x: fg.cat([x, x * 2, x + 1, x.exp(), x.sum(0, keepdim=True)]), [tensor(4, 5)]),
    "stack of many": (lambda x: fg.stack([x * i for i in range(6)]), [tensor(4, 5)]),
}


@pytest.mark.parametrize("name", MORE)
def test_no_numpy(name: str):
    function, args = MORE[name]
    program = check(function, *args)
    assert set(kinds(program)) <= {"kernel", "loops"}, program.describe()


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
@pytest.mark.parametrize("dim", [0, 1, None])
def test_the_first_extreme_counts_and_the_first_nan(dtype: str, dim: int | None):
    array = np.random.default_rng(0).integers(-2, 3, (33, 37)).astype(dtype)
    if dtype[0] == "f":
        array[3:5, 4:30:7] = np.nan
        array[7, ::3] = np.inf
        array[9] = -np.inf
    x = fg.from_numpy(array)
    results = [lambda x: x.argmax(dim), lambda x: x.argmin(dim)]
    if dim is not None:
        results += [lambda x: x.max(dim), lambda x: x.min(dim)]
    for function in results:
        program, inputs, expected = program_of(function, x)
        arrays = program.run(inputs)
        for value, theirs in zip(program.graph.outputs, expected, strict=True):
            index, chain = program.locate(value)
            np.testing.assert_array_equal(viewed(arrays[index], chain), theirs.numpy())


def derived(function: Function, *args: fg.Tensor) -> Any:
    """The function jitted, its gradients compared with eager's."""
    jitted = fg.jit(function)
    for _ in range(6):
        mine = [a.detach().clone().requires_grad_() for a in args]
        theirs = [a.detach().clone().requires_grad_() for a in args]
        ours, expected = jitted(*mine), function(*theirs)
        np.testing.assert_allclose(ours.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
        weights = fg.from_numpy(np.linspace(0.5, 1.5, expected.numel()).astype("f4"))
        for result in (ours, expected):
            result.backward() if not result.ndim else (result.reshape(-1) * weights).sum().backward()
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-5, atol=1e-6)
    assert jitted.stats.compiled_calls >= 5
    return jitted


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ((x[1:] - x[:-1]) ** 2).sum(),
        lambda x: (x[1:-1] * x[2:]).tanh(),
        lambda x: x[:, 1] * x[:, 2:].sum(1),
        lambda x: x[::2, 1::3].exp(),
        lambda x: x[3] + x[1],
        lambda x: x.unbind(0)[2] * x[0],
        lambda x: fg.roll(x, (1, -2), (0, 1)) * x,
        lambda x: F.pad(x, (1, -1, 0, 2)).tanh(),
        lambda x: fg.cat([x, x * 2], 1).tanh(),
        lambda x: fg.stack([x, x.exp(), x * 2, x + 1], 1).tanh(),
        lambda x: laplacian(x).square().mean(),
        lambda x: wave_step(x, x * 2).square().mean(),
        lambda x: x.max(1)[0] * 2,
        lambda x: x.min(0)[0].exp(),
        lambda x: x[None, 2:, None].tanh(),
    ],
)
def test_gradients_of_slices_and_picks_need_no_numpy(function: Function):
    jitted = derived(function, tensor(8, 9))
    ((variant,),) = (entry.variants for entry in jitted.entries.values())
    (leaf,) = [s for s in variant.tree.root.walk() if s.path is not None]
    for program in (leaf.code.program, leaf.backward.program):
        assert set(kinds(program)) <= {"kernel", "loops"}, program.describe()


POOLS: dict[str, Function] = {
    "max": lambda x: F.max_pool2d(x, 2).tanh(),
    "max, overlapping": lambda x: F.max_pool2d(x, 3, 2, 1).tanh(),
    "max, one step": lambda x: F.max_pool2d(x, 3, 1),
    "max, dilated": lambda x: F.max_pool2d(x, 2, 2, dilation=2),
    "max, one dimension": lambda x: F.max_pool1d(x[0], 3, ceil_mode=True),
    "max, indices": lambda x: F.max_pool2d(x, 2, return_indices=True)[0] * 2,
    "mean": lambda x: F.avg_pool2d(x, 2) * 3,
    "mean, overlapping": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "mean, padding left out": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
    "mean, own divisor": lambda x: F.avg_pool2d(x, 2, divisor_override=3),
}


@pytest.mark.parametrize("name", POOLS)
def test_pools_need_no_numpy(name: str):
    x = tensor(2, 3, 9, 10)
    assert kinds(check(POOLS[name], x)) == ["kernel"]
    jitted = derived(POOLS[name], x)
    ((variant,),) = (entry.variants for entry in jitted.entries.values())
    (leaf,) = [s for s in variant.tree.root.walk() if s.path is not None]
    for program in (leaf.code.program, leaf.backward.program):
        assert set(kinds(program)) <= {"kernel", "loops"}, program.describe()


def test_a_pool_of_nan_and_of_nothing_but_padding():
    array = np.random.default_rng(0).normal(size=(1, 2, 7, 7)).astype("f4")
    array[0, 0, 2:4, 3] = np.nan
    array[0, 1] = -np.inf
    x = fg.from_numpy(array)
    program, inputs, expected = program_of(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), x)
    arrays = program.run(inputs)
    for value, theirs in zip(program.graph.outputs, expected, strict=True):
        index, chain = program.locate(value)
        np.testing.assert_array_equal(viewed(arrays[index], chain), theirs.numpy())


def test_a_spread_prints_as_python_that_runs():
    graph = """def graph(g: f32[2, 3, 4], p: i32[2, 3, 4]) -> tuple[f32[2, 5, 9]]:
    v0: f32[2, 5, 9] = max_pool_put(g, p, size=(5, 9), window=((2, 2, 1, 1), (3, 2, 0, 1)))
    return (v0,)"""
    program = Program(parse_graph(graph)).finish()
    places = np.random.default_rng(0).integers(0, 6, (2, 3, 4)).astype("i4")
    inputs = [tensor(2, 3, 4).numpy(), places]
    arrays = program.run(inputs)
    check_printed(program, inputs, arrays, 1e-6)
    (equation,) = program.graph.equations
    expected = equation.op.evaluate([fg.from_numpy(a) for a in inputs], dict(equation.params))
    np.testing.assert_allclose(arrays[program.locate(equation.output)[0]], expected, rtol=1e-6)


@pytest.fixture
def at_the_end_of_memory() -> Iterator[Callable[[np.ndarray], np.ndarray]]:
    """Copies arrays to where memory ends: what reads beyond them ends the process."""
    page, libc = mmap.PAGESIZE, ctypes.CDLL(None)
    kept: list[tuple[int, int]] = []
    libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, *[ctypes.c_size_t] * 5]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

    def moved(array: np.ndarray) -> np.ndarray:
        pages = -(-array.nbytes // page)
        start = libc.mmap(None, (pages + 1) * page, 3, 0x22, 2**64 - 1, 0)  # private, anonymous
        kept.append((start, (pages + 1) * page))
        assert libc.mprotect(start + pages * page, page, 0) == 0
        place = start + pages * page - array.nbytes
        memory = (ctypes.c_char * array.nbytes).from_address(place)
        result = np.frombuffer(memory, array.dtype).reshape(array.shape)
        result[...] = array
        return result

    yield moved
    for start, size in kept:
        libc.munmap(start, size)


@pytest.mark.skipif(sys.platform != "linux", reason="the fixture is written for Linux")
@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "i4", "?", "u1"])
def test_every_other_element(
    monkeypatch: pytest.MonkeyPatch,
    at_the_end_of_memory: Callable[[np.ndarray], np.ndarray],
    vector_bytes: int,
    dtype: str,
):
    if vector_bytes > host().vector_bytes:
        pytest.skip("this machine has no such vectors")
    monkeypatch.setattr(kernel_cache, "host", lambda: Target(vector_bytes, avx512=vector_bytes == 64))
    draw = np.random.default_rng(0)

    def halves(x: fg.Tensor) -> fg.Tensor:
        return fg.where(x[:, ::2] == x[:, 1::2], x[:, ::2], x[:, 1::2])

    with kernel_cache.cold():
        for columns in (2, 4, 6, 14, 16, 18, 30, 32, 34, 62, 64, 66, 130):
            x = fg.from_numpy(at_the_end_of_memory(draw.integers(0, 3, (3, columns)).astype(dtype)))
            (kernel,) = check(halves, x).kernels
            assert columns == 2 or ":2" in kernel.kernel.text
        # The last element is the last of all.
        x = fg.from_numpy(at_the_end_of_memory(draw.integers(0, 3, 2001).astype(dtype)))
        check(lambda x: x[::2] == x[0], x)
