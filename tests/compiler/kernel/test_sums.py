"""How exact sums of kernels are: at most twice as far from the truth as NumPy's of the same numbers in a row.

NumPy adds pairwise along contiguous memory; whatever the axes, kernels must not be worse. What rounding the
result alone may cost is allowed on top.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.codegen import accumulation, functions

Function = Callable[..., Any]
Dims = tuple[int, ...]
SHAPES: list[tuple[tuple[int, ...], Dims]] = [
    *(((n,), (0,)) for n in (10, 100, 127, 129, 1000, 4000, 40000, 400_001, 4_000_000)),
    ((64, 40000), (1,)),
    ((3, 400_000), (1,)),
    ((1000, 100), (1,)),
    ((1000, 130), (1,)),
    ((40000, 64), (0,)),
    ((1000, 1000), (0,)),
    ((300, 301), (0,)),
    ((400_000, 3), (0,)),
    ((17, 5000), (0,)),
    ((1 << 20, 1), (0,)),
    ((1000, 1000), (0, 1)),
    ((30, 200, 301), (0, 2)),
    ((30, 200, 301), (1,)),
    ((200, 30, 301), (0,)),
    ((100, 100, 100), (0, 1)),
    ((100, 100, 100), (1, 2)),
]
# All alike, so that what is lost in each step adds up; of one sign; and with a mean that hides the rest.
DATA: dict[str, Callable[[tuple[int, ...]], np.ndarray]] = {
    "alike": lambda shape: np.full(shape, 1.1, np.float32),
    "positive": lambda shape: np.random.default_rng(0).random(shape, np.float32),
    "ramp": lambda shape: np.linspace(0.1, 3, int(np.prod(shape)), dtype=np.float32).reshape(shape),
}


def in_rows(x: np.ndarray, dims: Dims) -> np.ndarray:
    """The numbers of each sum side by side."""
    kept = [d for d in range(x.ndim) if d not in dims]
    rows = np.ascontiguousarray(x.transpose(*kept, *dims))
    return rows.reshape(*(x.shape[d] for d in kept), -1)


def log_sum(total: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    def function(rows: np.ndarray) -> np.ndarray:
        largest = rows.max(-1, keepdims=True)
        return np.log(total(np.exp(rows - largest))) + largest[..., 0]

    return function


def variance(rows: np.ndarray) -> np.ndarray:
    count = rows.shape[-1]
    away = rows - rows.sum(-1, keepdims=True) / count
    return (away * away).sum(-1) / count


# What is compiled, and the same with NumPy's sums along rows, in the dtype of these.
REDUCTIONS: dict[str, tuple[Function, Callable[[np.ndarray], np.ndarray]]] = {
    "sum": (lambda x, dims: x.sum(dims), lambda rows: rows.sum(-1)),
    "of squares": (lambda x, dims: (x * x).sum(dims), lambda rows: (rows * rows).sum(-1)),
    "mean": (lambda x, dims: (x * 2).mean(dims), lambda rows: (rows * 2).sum(-1) / rows.shape[-1]),
    "norm": (
        lambda x, dims: fg.linalg.vector_norm(x, dim=dims),
        lambda rows: np.sqrt((rows * rows).sum(-1)),
    ),
    "logsumexp": (lambda x, dims: fg.logsumexp(x, dims), log_sum(lambda rows: rows.sum(-1))),
    "var": (lambda x, dims: fg.var(x, dims, correction=0), variance),
}


def errors(ours: np.ndarray, truth: np.ndarray) -> float:
    return float(np.max(np.abs(ours.astype(np.float64) - truth) / np.abs(truth), initial=0))


def check(function: Function, alike: Callable[[np.ndarray], np.ndarray], x: np.ndarray, dims: Dims) -> None:
    compiled = fg.jit(lambda x: function(x, dims))
    for _ in range(3):
        ours = compiled(fg.from_numpy(x)).numpy()
    compare(ours, alike, in_rows(x, dims))


def compare(ours: np.ndarray, alike: Callable[[np.ndarray], np.ndarray], rows: np.ndarray) -> None:
    truth = alike(rows.astype(np.float64))
    bound = 2 * errors(alike(rows), truth) + 2 * np.finfo(np.float32).eps
    assert errors(ours, truth) <= bound


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("shape", "dims"), SHAPES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_sums_are_as_exact_as_numpys(name: str, shape: tuple[int, ...], dims: Dims):
    function, alike = REDUCTIONS[name]
    for kind, data in DATA.items():
        if (name, kind) != ("var", "alike"):  # which is 0
            check(function, alike, data(shape), dims)


@pytest.mark.parametrize(("shape", "dims"), SHAPES)
def test_so_are_gradients_of_what_was_broadcast(shape: tuple[int, ...], dims: Dims):
    compiled = fg.jit(lambda x, y: (x * y).sum())
    for data in DATA.values():
        x, size = data(shape), [1 if d in dims else n for d, n in enumerate(shape)]
        for _ in range(3):
            y = fg.ones(size).requires_grad_()
            compiled(fg.from_numpy(x), y).backward()
        compare(y.grad.numpy().reshape(-1), lambda rows: rows.sum(-1).reshape(-1), in_rows(x, dims))


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
def test_sums_of_strided_rows_and_of_other_lengths(dims: Dims):
    for shape in ((3000, 40), (40, 3000), (257, 500), (1000, 129), (1, 5000), (5000, 1), (333, 334)):
        x = DATA["alike"]((shape[0] * 2, shape[1] + 3))[::2, :-3]
        check(lambda x, dims: (x * x).sum(dims), lambda rows: (rows * rows).sum(-1), x, dims)


@pytest.mark.parametrize(("shape", "dims"), [((40000,), (0,)), ((40000, 64), (0,)), ((64, 40000), (1,))])
def test_a_sum_of_one_number_after_the_other_is_found(
    shape: tuple[int, ...], dims: Dims, monkeypatch: pytest.MonkeyPatch
):
    for module in (accumulation, functions):
        monkeypatch.setattr(module, "BLOCK", 1 << 40)
    with pytest.raises(AssertionError):
        check(lambda x, dims: (x * x + 0).sum(dims), lambda r: (r * r).sum(-1), DATA["alike"](shape), dims)


def test_a_branch_on_a_round_sum_goes_where_eager_goes():
    def branch(x: fg.Tensor) -> fg.Tensor:
        return x * 0 if x.sum() > 4 else x + 1

    compiled = fg.jit(branch)
    for k in (1, 9, 1, 9, 1, 9):
        compiled(fg.ones(40000) * k / 40000)
    x = fg.ones(40000) * 4 / 40000
    assert compiled(x)[0] == branch(x)[0]
