"""What compiled code gives lies in memory as what eager gives: the same `stride()`, also of views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from layouts import arrangements, placed, seen
from op_samples.table import SAMPLES

import fusegrad as fg

LAID_OUT = [
    (op, number)
    for op, samples in SAMPLES.items()
    for number, sample in enumerate(samples)
    if any(np.ndim(x) > 1 and np.size(x) for x in sample.inputs)
]


def check(function: Callable[..., Any], calls: Sequence[Sequence[Any]]) -> Any:
    """Compare each call with eager's; gives the jitted function."""
    jitted = fg.jit(function)
    for number, args in enumerate(calls):
        found, expected = seen(jitted(*args)), seen(function(*args))
        assert found == expected, f"call {number}: {[a.stride() for a in args]}"
    return jitted


@pytest.mark.one_in(3)
@pytest.mark.parametrize("op, number", LAID_OUT[:: max(1, len(LAID_OUT) // 250)])
@pytest.mark.filterwarnings("ignore")
def test_results_lie_as_eagers_do(op: str, number: int) -> None:
    sample = SAMPLES[op][number]
    ways = list(arrangements([np.asarray(x) for x in sample.inputs]))
    _, arrays = ways[(len(op) + number) % len(ways)]
    tensors = [placed(fg, a) for a in arrays]
    try:
        sample.call(fg, *tensors)
    except RuntimeError:
        return  # values are repeated, and make a matrix singular
    check(lambda *args: sample.call(fg, *args), [tensors] * 3)


# Of results that are views, what they are views of lies so that they have eager's strides.
VIEWS: dict[str, Callable[[Any], Any]] = {
    "a part": lambda x: (x.t() * 2)[:2],
    "a column": lambda x: (x.t() * 2)[:, 1],
    "turned back": lambda x: (x.t() * 2).t(),
    "a dimension more": lambda x: (x.t() * 2).unsqueeze(1),
    "other sizes": lambda x: (x.t() * 2).reshape(2, 2, -1),
    "of three dimensions": lambda x: (x.reshape(2, 2, -1).permute(2, 0, 1) + 1)[1:],
    "of the order of LAPACK": lambda x: fg.linalg.inv(x)[:2],
    "of several ops": lambda x: (x.t() * 2 + x).exp().t()[1:],
    "two of them": lambda x: [(x.t() * 2)[:2], (x.t() + 1)[:, :2]],
    "with a gradient": lambda x: (x.t() * x).t()[1:],
    "of an argument": lambda x: (x.t().clone()[1:], x.flip(0).t()),
    "of what is written": lambda x: x.t().clone().mul_(2)[1:],
    "with gaps": lambda x: (x @ x).as_strided((3,), (2,), 1),
    "with elements several times": lambda x: (x @ x).as_strided((2, 3), (1, 1)),
    "of memory that is written": lambda x: (lambda y: (y.as_strided((3, 2), (3, 2)), y.mul_(2)))(x @ x),
    "that is written": lambda x: (lambda y: (y.as_strided((3,), (3,)).mul_(2), y))(x @ x),
}


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", VIEWS)
def test_views_lie_as_eagers_do(name: str, requires_grad: bool) -> None:
    x = (fg.rand(4, 4) + fg.eye(4) * 4).requires_grad_(requires_grad)
    check(VIEWS[name], [[x]] * 3 + [[x.t()]] * 3)


@pytest.mark.parametrize("name", [n for n in VIEWS if "LAPACK" not in n and "other sizes" not in n])
def test_views_of_any_size_lie_as_eagers_do(name: str) -> None:
    calls = [[fg.rand(n, n)] for n in (4, 4, 6, 6, 8, 10, 10, 12)]
    check(VIEWS[name], calls)


# What is given as a result, where eager's does not lie in row-major order, and what reads it as well.
GIVEN: dict[str, Callable[[Any], Any]] = {
    "turned": lambda x: x.t().clone(),
    "windows": lambda x: x.unfold(0, 2, 1).clone(),
    "moved": lambda x: x.reshape(2, 2, -1).permute(2, 0, 1) + 1,
    "channels last": lambda x: x.reshape(1, 2, 2, -1).clone(memory_format=fg.channels_last),
    "written": lambda x: x.t().clone().mul_(2),
}
READERS: dict[str, Callable[[Any], Any]] = {
    "in one row": lambda y: y.reshape(-1) * 2,
    "in two rows": lambda y: y.reshape(2, -1).exp(),
    "flattened": lambda y: y.flatten(0, 1) + 1,
    "joined": lambda y: fg.cat([y.reshape(-1), y.reshape(-1)[1:]]),
    "elements": lambda y: y.reshape(-1)[fg.tensor([3, 1])],
    "a product": lambda y: y.mT @ y,
    "a product of rows": lambda y: y.reshape(2, -1) @ y.reshape(2, -1).t(),
    "a sum": lambda y: y.sum(0).reshape(-1),
    "sorted": lambda y: y.reshape(-1).sort()[0],
    "running sums": lambda y: y.reshape(-1).cumsum(0),
    "windows of it": lambda y: y.reshape(-1).unfold(0, 3, 2) * 1,
}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("reader", READERS)
def test_results_that_do_not_lie_in_rows_are_read_as_well(given: str, reader: str) -> None:
    def function(x: fg.Tensor) -> Any:
        y = GIVEN[given](x)
        return y, READERS[reader](y)

    x = fg.rand(4, 4)
    jitted = check(function, [[x]] * 3)
    assert jitted.stats.compiled_calls >= 2
    for found, expected in zip(jitted(x), function(x), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-5)


def test_what_reads_the_memory_reads_what_it_does_in_eager() -> None:
    """A view works or does not, and other strides read other elements, in compiled code as in eager."""

    def read(x: fg.Tensor) -> Any:
        y = x.t() * 2
        return y.as_strided((3,), (2,), 1) * 1, y.cumsum(0).view(-1) * 1, y.sort(1)[0].as_strided((4,), (1,))

    x = fg.rand(4, 5)
    jitted = fg.jit(read)
    for _ in range(3):
        for found, expected in zip(jitted(x), read(x), strict=True):
            np.testing.assert_allclose(found.numpy(), expected.numpy())
    assert jitted.stats.compiled_calls


# Gradients, which lie as the leaf does, whatever made them.
DERIVED: dict[str, Callable[[Any, Any], Any]] = {
    "a product": lambda w, x: x @ w.t(),
    "a product of vectors": lambda w, x: x[0] @ w.t(),
    "a batch of products": lambda w, x: fg.stack([x, x + 1]) @ w.t(),
    "an elementwise op": lambda w, x: w.t()[0] * x[:, 0] * 2,
    "two products": lambda w, x: x @ w.t() + (x * 2) @ w.t(),
    "a scan": lambda w, x: w.t().cumsum(0) * 3,
    "a solution": lambda w, x: fg.linalg.solve(w[:, :3].t() + 4 * fg.eye(3), x[:3, :3]),
}


def gradient_within(w: Any, x: Any, function: Callable[[Any, Any], Any]) -> Any:
    leaf = (w.detach() * 1).requires_grad_()
    (function(leaf, x) ** 2).sum().backward()
    return leaf.grad


def gradient_of_an_argument(w: Any, x: Any, function: Callable[[Any, Any], Any]) -> Any:
    w.grad = None
    (function(w, x) ** 2).sum().backward()
    return w.grad * 1


@pytest.mark.parametrize("step", [gradient_within, gradient_of_an_argument])
@pytest.mark.parametrize("name", DERIVED)
def test_gradients_lie_as_eagers_do(name: str, step: Callable[..., Any]) -> None:
    draw, function = np.random.default_rng(0), DERIVED[name]
    jitted = fg.jit(lambda w, x: step(w, x, function))
    for _ in range(3):
        w, x = (fg.from_numpy(draw.uniform(0.1, 1, shape)) for shape in ((3, 6), (3, 6)))
        ours, theirs = w.clone().requires_grad_(), w.clone().requires_grad_()
        found, expected = jitted(ours, x), step(theirs, x, function)
        assert found.stride() == expected.stride()
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-9)
        if theirs.grad is not None:
            assert ours.grad is not None and ours.grad.stride() == theirs.grad.stride()
    assert jitted.stats.compiled_calls
