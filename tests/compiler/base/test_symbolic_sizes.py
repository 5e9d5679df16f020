"""Sizes that are left open: what is planned once for all of them is what would be planned for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.codegen import kernel_cache
from fusegrad.compiler.deferred import op_trie as plans
from fusegrad.compiler.runtime import allocator
from fusegrad.nn import functional as F
from fusegrad.tracer.ir.symbolic_sizes import Fixed, Sizes

pytestmark = pytest.mark.usefixtures("always_deferred")


def leaf(*shape: int, seed: int = 0) -> fg.Tensor:
    return fg.tensor(np.random.default_rng(seed).normal(size=shape).astype("f4"), requires_grad=True)


def same(a: fg.Tensor, b: fg.Tensor) -> None:
    assert a.shape == b.shape and a.dtype == b.dtype and a.requires_grad == b.requires_grad
    assert a.stride() == b.stride()
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-5, atol=2e-6)


def like_eager(
    function: Callable[..., Any], inputs: Callable[[int], list[fg.Tensor]], lengths: Any, weights: Any = ()
) -> Any:
    """Call `function` jitted and as it is with inputs of ever new sizes: results and gradients must agree."""
    jitted = fg.jit(function)
    for n in lengths:
        found = []
        for way in (jitted, function):
            given = inputs(n)
            result = way(*given)
            if result.requires_grad:
                result.sum().backward()
            found.append((result, [t.grad for t in (*given, *weights)]))
            for w in weights:
                w.grad = None
        same(found[0][0], found[1][0])
        for a, b in zip(found[0][1], found[1][1], strict=True):
            assert (a is None) == (b is None)
            if a is not None and b is not None:
                same(a, b)
    return jitted


# Ever new sizes.

WEIGHTS = [leaf(6, 16), leaf(16), leaf(16, 10), leaf(10)]


def perceptron(x, labels):
    hidden = F.relu(x @ WEIGHTS[0] + WEIGHTS[1])
    return F.cross_entropy(hidden @ WEIGHTS[2] + WEIGHTS[3], labels)


def batch(n: int) -> list[fg.Tensor]:
    labels = fg.tensor(np.random.default_rng(n).integers(0, 10, n))
    return [leaf(n, 6, seed=n).detach(), labels]


def recurrent(x):
    h = fg.zeros(x.shape[0], 3)
    for k in range(4):
        h = (x[:, k : k + 1] * h + 0.5).tanh()
    return (h * h).mean()


def attention(x):
    q, k, v = (x * 0.5).unflatten(-1, (2, 4)).transpose(1, 2), x.unflatten(-1, (2, 4)).transpose(1, 2), x
    scores = (q @ k.transpose(-1, -2)).softmax(-1)
    return (scores @ v.unflatten(-1, (2, 4)).transpose(1, 2)).transpose(1, 2).flatten(2)


FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[int], list[fg.Tensor]]]] = {
    "a sum divided by the length": (lambda x: (x * 2).sum() / x.shape[0], lambda n: [leaf(n, seed=n)]),
    "a perceptron with a loss": (perceptron, batch),
    "a recurrence over columns": (recurrent, lambda n: [leaf(n, 6, seed=n)]),
    "attention": (attention, lambda n: [leaf(2, n, 8, seed=n)]),
    "a mean and a deviation": (lambda x: (x - x.mean(0)) / (x.std(0) + 1), lambda n: [leaf(n, 4, seed=n)]),
    "layer norm": (lambda x: F.layer_norm(x, (5,)).reshape(-1) * 2, lambda n: [leaf(n, 5, seed=n)]),
    "a transposed input": (lambda x: x.T.tanh() * 2 + 1, lambda n: [leaf(n, 4, seed=n)]),
    "an input with gaps": (lambda x: (x * 3).exp().sum(1), lambda n: [leaf(n, 9, seed=n).detach()[:, 2:7]]),
    "parts of it": (
        lambda x: (x * 2)[: x.shape[0] - 1].sum(0) + (x * x)[-1],
        lambda n: [leaf(n, 4, seed=n)],
    ),
    "put together": (lambda x: fg.cat([x * 2, x.tanh()]).sum(1), lambda n: [leaf(n, 4, seed=n)]),
    "made from the size": (
        lambda x: x * fg.arange(x.shape[0]).float()[:, None] + fg.ones(x.shape[0], 1),
        lambda n: [leaf(n, 4, seed=n)],
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_fifty_lengths_cost_two_compilations(name: str):
    function, inputs = FUNCTIONS[name]
    weights = WEIGHTS if function is perceptron else ()
    jitted = like_eager(function, inputs, range(3, 6), weights)
    kernels = kernel_cache.Statistics.kernels
    for n in range(6, 53):
        jitted(*inputs(n))
    assert jitted.stats.compiles <= 2, str(jitted.explain())
    assert jitted.stats.compiled_calls >= 47
    assert kernel_cache.Statistics.kernels == kernels
    again = like_eager(function, inputs, (3, 4, 5, 30, 17, 8, 2), weights)
    assert again.stats.compiles <= 3


def test_lengths_and_numbers_may_change_at_once():
    jitted = fg.jit(lambda x, rate, power: (x * rate).tanh() + power)
    for n in range(2, 40):
        x = leaf(n, seed=n)
        same(jitted(x, n * 0.1, n), (x * (n * 0.1)).tanh() + n)
    assert jitted.stats.compiles == 2 and jitted.stats.compiled_calls >= 36


def test_sizes_that_come_again_are_replayed():
    jitted = fg.jit(lambda x: (x * 2).tanh())
    for _ in range(8):
        for n in (3, 4):
            jitted(leaf(n))
    text = str(jitted.explain())
    assert "float32[4] requires_grad" in text and "float32[*] requires_grad" in text, text
    assert "compiled for any sizes" in text
    paths = [p for e in jitted.entries.values() for p in e.paths]
    assert len(paths) == 2 and all(p.calls >= 3 for p in paths)


def test_a_function_that_cannot_be_replayed_is_compiled_once_for_all_lengths():
    seen: list[Any] = []

    @fg.jit
    def f(x):
        seen.insert(99, x.shape[0])
        return (x * 2).tanh().sum()

    for n in range(2, 30):
        x = leaf(n, seed=n)
        same(f(x), (x * 2).tanh().sum())
    assert seen == list(range(2, 30))
    assert f.stats.compiles <= 1 and f.stats.compiled_calls >= 25


def test_python_decides_by_sizes_as_ever():
    def f(x):
        if x.shape[0] % 3 == 0:
            return x * 2
        total = x * 0
        for k in range(min(4, x.shape[0])):
            total = total + x[k]
        return total

    like_eager(f, lambda n: [leaf(n, seed=n)], range(1, 20))


def test_sizes_of_one_and_none_broadcast_as_in_eager():
    function = lambda x, y: (x + y) * x  # noqa: E731
    shapes = [
        (3, 1, 1, 4),
        (4, 1, 1, 5),
        (5, 1, 1, 6),
        (1, 1, 1, 7),
        (6, 1, 1, 1),
        (2, 3, 1, 3),
        (0, 1, 1, 3),
    ]
    jitted = fg.jit(function)
    for a, b, c, d in shapes * 3:
        x, y = leaf(a, b), leaf(c, d)
        same(jitted(x, y), function(x, y))


def test_what_is_made_of_one_or_of_no_elements_has_its_own_shape():
    def f(x, n):
        return x * 2 + fg.ones(n).sum() + fg.zeros(n, 2).shape[0]

    jitted = fg.jit(f)
    for length, n in enumerate((3, 4, 5, 1, 6, 0, 2, 1, 7, 0, 5), 2):
        same(jitted(leaf(length), n), f(leaf(length), n))

    def shapes(x, n):
        return fg.arange(n * 2).reshape(2, n) + x.detach().sum().long()

    jitted = fg.jit(shapes)
    for length, n in enumerate((3, 4, 5, 1, 6, 0, 2, 1, 7, 0, 5), 2):
        same(jitted(leaf(length), n), shapes(leaf(length), n))


def test_sizes_that_do_not_fit_raise_what_eager_raises():
    weight = leaf(4, 3)
    caught: list[str] = []

    def f(x):
        y = x * 2
        try:
            return y @ weight
        except RuntimeError as error:
            caught.append(str(error))
            return y

    jitted = fg.jit(f)
    for shape in ((2, 4), (3, 4), (5, 4), (6, 4), (6, 5), (7, 4), (8, 3)):
        same(jitted(leaf(*shape)), f(leaf(*shape)))
    assert len(caught) == 4 and len(set(caught)) == 2 and "cannot be multiplied" in caught[0]


def test_derivatives_of_derivatives_at_new_sizes():
    def f(x):
        return ((x.reshape(-1, 2) * 2).tanh() ** 3).sum() / x.shape[0]

    jitted = fg.jit(f)
    for n in range(2, 24, 2):
        found = []
        for function in (jitted, f):
            x = leaf(n, seed=n)
            (first,) = fg.grad(function(x), x, create_graph=True)
            (second,) = fg.grad((first * first).sum(), x)
            found.append((first, second))
        same(found[0][0].detach(), found[1][0].detach())
        same(found[0][1], found[1][1])
    assert jitted.stats.compiles == 2


def test_a_backward_that_may_be_repeated_at_new_sizes():
    jitted = fg.jit(lambda x: (x.tanh() * x).sum())
    for n in range(2, 20):
        x, y = leaf(n, seed=n), leaf(n, seed=n)
        ours, theirs = jitted(x), (y.tanh() * y).sum()
        for loss in (ours, theirs):
            loss.backward(retain_graph=True)
            loss.backward()
        same(x.grad, y.grad)
    (form,) = [s for e in jitted.entries.values() for s in e.plan.stretches]
    assert form.stretch.parts[0].tree.root.answers.usage.calls >= 10


def test_few_sizes_are_remembered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(plans, "MOST_SIZES", 4)
    jitted = fg.jit(lambda x: x * 2 + 1)
    for n in (*range(2, 30), 5, 6, 28):
        same(jitted(leaf(n)), leaf(n) * 2 + 1)
    endings = [
        ending
        for e in jitted.entries.values()
        for root in e.plan.roots.values()
        for first in root.following.values()
        for second in first.following.values()
        for ending in second.ends.values()
    ]
    assert len(endings) == 1 and len(endings[0].at) == 4
    assert jitted.stats.compiles == 2


def test_results_and_temporaries_of_similar_sizes_share_memory():
    pool = allocator.Pool()
    first = pool.array((1000, 100), np.dtype("f4"))
    address = allocator.data_address(first)
    del first
    assert allocator.data_address(pool.array((1004, 100), np.dtype("f4"))) == address
    assert pool._held < 1.2 * 4e5

    jitted = fg.jit(lambda x: (x @ x.T).tanh() @ x)
    for n in (*range(20, 40), 30, 25):
        jitted(leaf(n, 4).detach())
    (form,) = [s for e in jitted.entries.values() for s in e.plan.stretches]
    arenas = form.stretch.parts[0].tree.root.code.program.blueprint.arenas
    assert len(arenas) == 1 and 39 * 39 * 4 <= len(arenas[0]) < 2 * 39 * 39 * 4 + 1024


def test_blocks_that_nobody_uses_make_room_for_other_sizes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(allocator, "LARGEST_POOL", 1 << 20)
    pool = allocator.Pool()
    held = pool.array((1 << 17,), np.dtype("f4"))
    for size in (1 << 16, 3 << 15, 1 << 16, 3 << 15):
        pool.array((size,), np.dtype("f4"))
    assert pool._held <= 1 << 20
    held[:] = 7
    other = pool.array((1 << 17,), np.dtype("f4"))
    other[:] = 8
    assert (held == 7).all()


def test_what_cannot_be_planned_with_open_sizes_is_planned_for_each(monkeypatch: pytest.MonkeyPatch):
    def refused(*_: Any) -> Any:
        raise Fixed("no")

    monkeypatch.setattr(Sizes, "close", refused)
    jitted = fg.jit(lambda x: (x * 2).tanh())
    for n in range(2, 20):
        same(jitted(leaf(n)), (leaf(n) * 2).tanh())
    assert 1 < jitted.stats.compiles <= 2 + plans.MOST_FORMS


# Results of one part of a stretch that the next part reads.


def test_a_result_that_does_not_lie_in_rows_is_read_right():
    log = []

    def f(x):
        log.insert(99, 1)
        y = x.T * 2
        z = (y * fg.arange(y.shape[1]).float()).sum(0)
        return y * 1 if len(log) < 0 else y + 0, z, y

    jitted = fg.jit(f)
    for n in (3, 3, 3, 3, 4, 5):
        for ours, theirs in zip(jitted(leaf(n, 4)), f(leaf(n, 4)), strict=True):
            same(ours, theirs)
    assert jitted.stats.compiled_calls >= 3


def test_a_view_of_what_an_earlier_part_has_made_is_read_right():
    log = []

    def f(x):
        log.insert(99, 1)
        turned = x.T.tanh().T.T
        y = turned.sum()
        return y, turned * y + fg.arange(turned.shape[1]).float()

    jitted = fg.jit(f)
    for n in (3, 3, 3, 3, 4, 5):
        for ours, theirs in zip(jitted(leaf(n, 4)), f(leaf(n, 4)), strict=True):
            same(ours, theirs)
    assert jitted.stats.compiled_calls >= 3


def test_a_repeated_view_of_a_range_is_read_by_numpy_where_it_is_written():
    def f(x):
        return fg.arange(20).reshape(2, 10) + x.detach().sum().long()

    jitted = fg.jit(f)
    for _ in range(4):
        junk = [np.full((2, 10), 77) for _ in range(50)]
        del junk
        same(jitted(fg.ones(3)), f(fg.ones(3)))
    assert jitted.stats.compiled_calls >= 2


# Expressions in sizes.


def test_equal_polynomials_need_no_guard():
    sizes = Sizes([5, 7])
    n, m = sizes.dims
    assert (n + m) * (n - m) == n * n - m * m and n * m // m == n and (4 * n * m) // 4 == m * n
    assert n * m > n and n != 0 and n >= 2 and -n < 0 and n % n == 0 and 1 % n == 1 and n + 1 != 0
    assert type(n - n + 3) is int and sizes.guards == {}


def test_what_is_true_of_the_hints_alone_is_a_guard():
    sizes = Sizes([5, 7])
    n, m = sizes.dims
    assert n < m and n != 6 and n // 2 == 2 and (m + 1) % 4 == 0 and divmod(m, n) == (1, 2)
    holds = sizes.close()
    assert holds(5, 7) and not holds(7, 5) and not holds(6, 7) and not holds(5, 8)
    with pytest.raises(Fixed):
        assert n < 6


@pytest.mark.parametrize(
    "need",
    [
        lambda n: range(n),
        lambda n: np.empty(n),
        lambda n: np.array([int(n)]),
        lambda n: [0, 1, 2, 3, 4, 5][n],
        lambda n: slice(0, n).indices(9),
        lambda n: "x" * n,
        lambda n: float(n),
        lambda n: n**0.5,
        lambda n: f"{n.number():d}",
        lambda n: (1 / n) * 2,
        lambda n: np.zeros((2, n)),
    ],
)
def test_who_needs_the_number_fixes_it(need: Callable[[Any], Any]):
    sizes = Sizes([5])
    need(sizes.dims[0])
    holds = sizes.close()
    assert holds(5) and not holds(6)


def test_sizes_of_two_plans_do_not_meet():
    (n,), (m,) = Sizes([5]).dims, Sizes([5]).dims
    with pytest.raises(Fixed):
        assert n == m


# The proof: plans with open sizes are the plans for each size, or are refused by a guard.
