"""A backward of its own does not compute again what the forward has computed, however that was lowered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import fusegrad as fg

F = fg.nn.functional
fg.manual_seed(0)


def definite(x: fg.Tensor) -> fg.Tensor:
    return x @ x.mT + 3 * fg.eye(x.shape[-1], dtype=x.dtype)


# Each with the shapes of its arguments, and how often steps of a kind run backward.
PROGRAMS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], dict[str, int]]] = {
    "convolution": (
        lambda x, w: F.conv2d(x, w, padding=1) ** 2,
        [(4, 8, 10, 10), (8, 8, 3, 3)],
        {"product": 0, "solver": 2},  # products with windows are steps of that kind
    ),
    "its transpose": (
        lambda x, w: F.conv_transpose2d(x, w) ** 2,
        [(2, 4, 9, 9), (4, 3, 3, 3)],
        {"product": 0, "solver": 2},  # products with windows are steps of that kind
    ),
    "solve": (lambda a, b: fg.linalg.solve(a, b) ** 2, [(20, 20), (20, 2)], {"product": 1, "solver": 2}),
    "inverse": (lambda a: fg.linalg.inv(a) ** 2, [(6, 6)], {"product": 2, "solver": 0}),
    "cholesky": (lambda a: fg.linalg.cholesky(definite(a)) ** 2, [(20, 20)], {"product": 3, "solver": 2}),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_backward_repeats_no_product_and_no_solution(name: str):
    program, shapes, expected = PROGRAMS[name]
    jitted = fg.jit(program)
    arrays = [fg.randn(*shape, dtype=fg.float64) for shape in shapes]
    slope: Any = None
    for _ in range(6):
        ours = [a.clone().requires_grad_() for a in arrays]
        result = jitted(*ours)
        slope = fg.randn(*result.shape, dtype=fg.float64) if slope is None else slope
        result.backward(slope)
    theirs = [a.clone().requires_grad_() for a in arrays]
    program(*theirs).backward(slope)
    for mine, other in zip(ours, theirs, strict=True):
        assert fg.allclose(mine.grad, other.grad, 1e-9, 1e-9)
    (leaf,) = jitted.segments()
    kinds = Counter(step.kind for step in leaf.backward.program.steps)
    assert {kind: kinds[kind] for kind in expected} == expected


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x.mT, lambda x: x[0]])
@pytest.mark.parametrize("name", PROGRAMS)
def test_writing_what_is_kept_is_an_error_where_it_is_eagers(name: str, view: Any):
    base, shapes, _ = PROGRAMS[name]

    def program(*args: fg.Tensor) -> Any:
        root = base(*args).abs().sqrt()
        return view(root), (root**3).sum()

    def outcome(function: Any, arrays: Any) -> Any:
        leaves = [a.clone().requires_grad_() for a in arrays]
        seen, total = function(*leaves)
        with fg.no_grad():
            seen.mul_(2)
        try:
            total.backward()
        except RuntimeError:
            return "refused"
        return [leaf.grad for leaf in leaves]

    arrays = [fg.randn(*shape, dtype=fg.float64) for shape in shapes]
    jitted = fg.jit(program)
    for _ in range(6):
        ours, theirs = outcome(jitted, arrays), outcome(program, arrays)
        if "refused" in (ours, theirs):
            assert ours == theirs
        else:
            assert all(fg.allclose(a, b, 1e-9, 1e-9) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x.mT, lambda x: x[0]])
def test_writing_a_solution_that_backward_reads(view: Any):
    def program(a: fg.Tensor, b: fg.Tensor) -> Any:
        x = fg.linalg.solve(a, b)
        return view(x), (x**3).sum()

    for function in (program, fg.jit(program)):
        for _ in range(5):
            a, b = (fg.randn(5, n, dtype=fg.float64, requires_grad=True) for n in (5, 2))
            seen, total = function(a, b)
            with fg.no_grad():
                seen.mul_(2)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                total.backward()
