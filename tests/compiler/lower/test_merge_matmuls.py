"""Small products gathered into large ones, and what is joined computed in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given, settings

import fusegrad as fg
from fusegrad.compiler.lower.merge_matmuls import gathered
from fusegrad.tracer.ir.graph import Graph, Value, check


def steps(g: Any) -> list[str]:
    """The kinds of the steps of the joint program, or of all."""
    return [step.kind for segment in g.segments() for step in segment.code.program.steps]


def agree(f: Callable[..., Any], *args: Any) -> Any:
    """`f` compiled gives what it gives eagerly; the compiled function."""
    g = fg.jit(f)
    expected = f(*args)
    for _ in range(3):
        found = g(*args)
        for ours, theirs in zip(flat(found), flat(expected), strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=2e-5, atol=2e-6)
            assert ours.stride() == theirs.stride()
    assert g.stats.compiled_calls == 2, str(g.explain())
    return g


def flat(value: Any) -> list[fg.Tensor]:
    return [t for v in value for t in flat(v)] if isinstance(value, (list, tuple)) else [value]


def scan(x, w, u, b):
    h = fg.zeros(x.shape[1], u.shape[0])
    for row in x:
        h = fg.tanh(row @ w + h @ u + b)
    return (h * h).sum()


def scan_arguments(length: int = 9) -> tuple[fg.Tensor, ...]:
    return fg.randn(length, 4, 6), fg.randn(6, 5) * 0.3, fg.randn(5, 5) * 0.3, fg.randn(5)


def test_a_loop_over_slices_multiplies_them_at_once():
    g = agree(lambda *args: fg.value_and_grad(scan, (1, 2, 3))(*args), *scan_arguments())
    found = steps(g)
    # All inputs at once, the states one by one there and back, two gradients of weights.
    assert found.count("product") == 1 + 9 + 8 + 2
    assert "loops" not in found and "opaque" not in found


def test_names_that_are_taken_stay_what_they_are():
    """Stretches of a graph are gathered again after the whole has been."""
    traced = fg.jit(scan)
    traced(*scan_arguments())
    graph = traced.segments()[0].path.capture.graph
    once = gathered(graph)
    given = {v.name for v in graph.inputs} | {v.name for e in graph.equations for v in e.outputs}
    new = [v for e in once.equations for v in e.outputs if v.name not in given]
    assert new
    # The same names, of something else.
    others = tuple([Value(v.name, graph.inputs[0].type) for v in new])
    again = gathered(Graph((*graph.inputs, *others), graph.equations, (*graph.outputs, *others)))
    check(again)
    assert len(again.equations) == len(once.equations)


@pytest.mark.parametrize("length", [1, 3, 4, 40])
def test_loops_of_any_length(length: int):
    agree(lambda *args: fg.value_and_grad(scan, (0, 1, 2, 3))(*args), *scan_arguments(length))


def test_slices_in_any_order():
    x, w = fg.randn(8, 3, 4), fg.randn(4, 5)
    places = {
        "backwards": range(7, -1, -1),
        "some": [2, 3, 4, 5],
        "twice": [0, 1, 1, 2, 3, 0],
        "with gaps": [0, 2, 4, 6],
        "few": [0, 1],
    }
    for name, order in places.items():
        g = agree(lambda x, w, order=order: sum([(x[i] @ w).tanh() for i in order]), x, w)
        assert (steps(g).count("product") == 1) is (name in ("backwards", "some", "twice")), name


def test_slices_of_other_kinds_are_multiplied_apart():
    x, w = fg.randn(6, 6, 6), fg.randn(6, 6)
    for take in (
        lambda x, i: x[:, i],
        lambda x, i: x[i].T,
        lambda x, i: x[i, :, 1:],
        lambda x, i: x[i : i + 1],
    ):
        agree(
            lambda x, w, take=take: [fg.tanh(take(x, i) @ w[: take(x, i).shape[-1]]) for i in range(5)], x, w
        )


def test_a_product_that_is_returned_is_there():
    x, w = fg.randn(6, 3, 4), fg.randn(4, 5)

    def f(x, w):
        made = [x[i] @ w for i in range(6)]
        return made[2], made[4], sum(made)

    agree(f, x, w)


def test_sums_of_products():
    a, b = fg.randn(7, 3, 4), fg.randn(7, 3, 5)

    def plain(a, b):
        return sum([fg.tanh(a[i]).T @ fg.tanh(b[i]) for i in range(7)])

    assert steps(agree(plain, a, b)).count("product") == 1

    def with_others(a, b):
        total = fg.tanh(a[0].T @ a[1][:, :1]) * fg.ones(1, 5)
        for i in range(7):
            total = total + fg.tanh(a[i]).T @ b[i] + i
        return total * 2, total

    agree(with_others, a, b)

    def one_is_returned(a, b):
        made = [fg.tanh(a[i]).T @ b[i] for i in range(7)]
        return sum(made), made[3]

    agree(one_is_returned, a, b)

    def of_two_shapes(a, b):
        made = [fg.tanh(a[i][: 1 + i % 2]).T @ b[i][: 1 + i % 2] for i in range(7)]
        return made[0] + made[1] + made[2] + made[3] + made[4] + made[5]

    agree(of_two_shapes, a, b)

    def a_sum_that_is_read_twice(a, b):
        made = [fg.tanh(a[i]).T @ b[i] for i in range(7)]
        half = made[0] + made[1] + made[2] + made[3]
        return half * half.sum(), half + made[4] + made[5]

    agree(a_sum_that_is_read_twice, a, b)


@pytest.mark.parametrize(("rows", "products"), [(20, 1), (100, 5)])
def test_large_products_of_few_rows_are_added_up_at_once(rows: int, products: int) -> None:
    """Of many rows, each is as large as pays."""

    def plain(a, b):
        return sum([fg.tanh(a[i]).T @ fg.tanh(b[i]) for i in range(5)]) * (1 / rows)

    g, operands = fg.jit(plain), (fg.randn(5, rows, 512), fg.randn(5, rows, 512))
    np.testing.assert_allclose(g(*operands).numpy(), plain(*operands).numpy(), rtol=2e-5, atol=2e-6)
    assert steps(g).count("product") == products


def joined(x, y):
    return fg.cat([x.exp(), y.tanh(), x @ y.T @ y, y * 2]) + 1


def test_what_is_joined_is_computed_in_its_place():
    x, y = fg.randn(3, 5), fg.randn(4, 5)
    found = steps(agree(joined, x, y))
    assert "loops" not in found and "opaque" not in found


JOINS: dict[str, Callable[..., Any]] = {
    "returned": lambda x, y: fg.cat([x.exp(), y.tanh(), x * 2, y * 2]),
    "a part is returned": lambda x, y: (p := x.exp(), fg.cat([p, y.tanh(), x * 2, y * 2]) * 3),
    "a part is an input": lambda x, y: fg.cat([x, y.tanh(), x * 2, y * 2]) * 3,
    "a part twice": lambda x, y: (p := x.exp(), fg.cat([p * 2, y.tanh(), p * 2, y * 2]) * 3)[1],
    "a part is a view": lambda x, y: fg.cat([(y * 2).T[:3, :3] @ x, x.exp(), (y * 3)[1:], x * 2]) * 3,
    "in two": lambda x, y: [fg.cat(2 * [p := x.exp()] + 2 * [y.tanh()]) * 2, fg.cat([p, p, p, y]) * 3],
    "of columns": lambda x, y: fg.cat([x.exp(), x.tanh(), x * 2, x * 3], 1) * 2,
    "of joined ones": lambda x, y: fg.cat(
        [fg.cat([x + i for i in range(5)]) * 1, y, *(x * i for i in range(20))]
    ),
    "read on": lambda x, y: (p := x.exp(), fg.cat([p, p * 2, y.tanh(), y]) @ p.T)[1],
    "of numbers of NumPy's": lambda x, y: fg.cat([x.sort(1).values, x.exp(), y * 2, y * 3]) * 2,
    "stacked": lambda x, y: fg.stack([x.exp(), x.tanh(), x * 2, x * 3, x * 4]) * 2,
    "derived": lambda x, y: fg.grad(lambda x, y: (joined(x, y) ** 2).sum(), (0, 1))(x, y),
}


@pytest.mark.parametrize("name", JOINS)
def test_joins_of_all_kinds(name: str):
    agree(JOINS[name], fg.randn(3, 5), fg.randn(4, 5))


def test_what_is_joined_into_memory_that_is_read_is_not_put_there_early():
    def f(x):
        x.copy_(fg.cat([x[1:] * 2, x[:1].exp(), x[2:3] + 1, x[:1] - 1])[:4] + x[3])

    def g_(x):
        total = x.sum()
        x.copy_(fg.cat([x[3:] * 2, x[:1].tanh(), x[1:2] + total, x[:1] - x[3:]]))

    for function in (f, g_):
        ours, theirs = fg.randn(4, 5), fg.zeros(4, 5)
        theirs.copy_(ours)
        jitted = fg.jit(function)
        for _ in range(4):
            jitted(ours)
            function(theirs)
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5)
        assert jitted.stats.compiled_calls == 3


def test_joins_of_changing_lengths():
    log: list[int] = []

    def f(x, y):
        log.append(1)
        return (fg.cat([x.exp(), y.tanh(), x * 2, y * 2]) * 3).sum(1)

    g = fg.jit(f)
    for n in (3, 4, 5, 7, 3, 1, 9):
        x, y = fg.randn(n, 5), fg.randn(n + 1, 5)
        # Terms of a sum may cancel out, so what rounding leaves is no share of the sum.
        np.testing.assert_allclose(g(x, y).numpy(), f(x, y).numpy(), rtol=1e-5, atol=1e-5)


def _rows(x):
    return sum((x[t] * (t - 2.5) for t in range(len(x))), fg.zeros(x.shape[1:]))


def _columns(x):
    return sum((x[:, t] * (t - 2.5) for t in range(x.shape[1])), fg.zeros(x.shape[0], *x.shape[2:]))


def _elements_of_rows(x):
    return sum((x[..., t] * (t - 2.5) for t in range(x.shape[-1])), fg.zeros(x.shape[:-1]))


def _some_rows_backwards(x):
    return sum((x[t] * (t - 2.5) for t in (6, 5, 4, 2, 1)), fg.zeros(x.shape[1:]))


def _neighbours(x):
    return sum((x[t] * x[t + 1] for t in range(len(x) - 1)), fg.zeros(x.shape[1:]))


def _neighbours_between(x):
    pairs = [x[t] * x[t + 1] for t in range(len(x) - 1)]
    return sum(pairs[:3]) + (x * 0.1).sum(0) + sum(pairs[3:])


def _rows_and_all(x):
    return _rows(x) + (x * 3).sum(0)


def _rows_between(x):
    rows = [x[t] * (t - 2.5) for t in range(len(x))]
    return sum(rows[:3]) + (x * 3).sum(0) + (x * 0.1).sum(0) + sum(rows[3:])


@pytest.mark.parametrize(
    ("function", "whole"),
    [
        (_rows, True), (_columns, True), (_elements_of_rows, True), (_some_rows_backwards, True),
        (_neighbours, True), (_rows_and_all, True), (_rows_between, False),
        (_neighbours_between, False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("shape", [(7, 6), (7, 6, 5)])
def test_gradients_of_slices_lie_one_behind_the_other(
    function: Callable[..., fg.Tensor], whole: bool, shape: tuple[int, ...]
):
    def derived(x, w):
        return fg.grad(lambda x: (function(x) * w).sum())(x)

    jitted = fg.jit(derived)
    for seed in range(3):
        x = fg.tensor(np.random.default_rng(seed).standard_normal(shape), dtype=fg.float32)
        # What is derived is multiplied by zeros, some of them negative, too.
        w = fg.tensor([0.0, -0.0, 1.5, -1.0, fg.inf], dtype=fg.float32)[: function(x).shape[-1], ...]
        w = w if len(w) == function(x).shape[-1] else fg.cat([w, w])[: function(x).shape[-1]]
        ours, theirs = jitted(x, w).numpy(), derived(x, w).numpy()
        np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(np.signbit(ours), np.signbit(theirs))
    assert jitted.stats.compiled_calls == 2
    # Otherwise each element asks for each slice whether it lies in it.
    asks = any(" if " in k.kernel.text or "select(" in k.kernel.text for k in jitted.kernels().forward)
    assert asks != whole


TERMS: dict[str, Callable[..., fg.Tensor]] = {
    "x @ w": lambda x, y, h, w, u, b: x @ w,
    "y @ w": lambda x, y, h, w, u, b: y @ w,
    "h @ w": lambda x, y, h, w, u, b: h @ w,
    "h @ u": lambda x, y, h, w, u, b: h @ u,
    "y @ u.T": lambda x, y, h, w, u, b: y @ u.T,
    "tanh(x @ u) @ w": lambda x, y, h, w, u, b: fg.tanh(x @ u) @ w,
    "b": lambda x, y, h, w, u, b: b,
    "b * h": lambda x, y, h, w, u, b: b * h,
    "b[0] + u[1]": lambda x, y, h, w, u, b: b[0] + u[1],
    "h": lambda x, y, h, w, u, b: h,
}


@settings(max_examples=60, deadline=None)
@given(names=st.lists(st.sampled_from([*TERMS]), min_size=1, max_size=5), length=st.integers(3, 7))
@example(names=["x @ w", "y @ w", "b"], length=6)  # the same gradient meets `w` twice, and `b` once
@example(names=["x @ w", "b", "b"], length=5)
def test_loops_of_any_body(names: list[str], length: int):
    def loop(x, y, w, u, b):
        h = fg.zeros(4, 5, dtype=fg.float64)  # since such loops amplify roundings
        for t in range(length):
            h = fg.tanh(sum((TERMS[name](x[t], y[t], h, w, u, b) for name in names), h * 0.5))
        # So that all have gradients, whatever the body reads.
        return (h * h).sum() + sum((z * z).sum() for z in (x, y, w, u, b))

    fg.manual_seed(length)
    shapes = ((length, 4, 5), (length, 4, 5), (5, 5), (5, 5), (5,))
    arguments = [fg.randn(*shape, dtype=fg.float64) * 0.4 for shape in shapes]
    agree(lambda *args: fg.value_and_grad(loop, (0, 1, 2, 3, 4))(*args), *arguments)
