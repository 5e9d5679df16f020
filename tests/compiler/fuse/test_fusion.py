"""What a kernel computes once although several passes need it, and loops that accumulate many at a time."""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_checks import check, tensor

import fusegrad as fg

F = fg.nn.functional


@pytest.fixture(autouse=True)
def seeded():
    fg.manual_seed(0)


def compiled(f: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
    """What the compiled function gives, and the function."""
    g = fg.jit(f)
    g(*args)
    result = g(*args)
    assert g.stats.compiled_calls == 1
    return result, g


def close(a: fg.Tensor, b: fg.Tensor) -> None:
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=3e-6, atol=1e-7)


def exponentials(g: Any) -> list[int]:
    """How often each of its kernels computes exp."""
    return [len(re.findall(r"\bexp(?:_nonpositive)?\(", k.kernel.text)) for k in g.kernels().forward]


ROWS = fg.tensor(
    [
        [1.0, 2.0, -3.0, 0.5],
        [1e4, -1e4, 0.0, 88.0],
        [math.inf, 1.0, 2.0, 3.0],
        [-math.inf, -math.inf, 1.0, 2.0],
        [-math.inf] * 4,
        [math.nan, 1.0, 2.0, 3.0],
        [-200.0, 0.0, -90.0, -104.0],
    ]
)


@pytest.mark.parametrize(
    "x", [ROWS, fg.randn(5, 301), fg.randn(3, 16), fg.randn(2, 3, 70)], ids=["rows", "301", "16", "3d"]
)
def test_a_softmax_computes_its_exponentials_once(x: fg.Tensor):
    y, g = compiled(lambda x: F.softmax(x, -1), x)
    close(y, F.softmax(x, -1))
    assert exponentials(g) == [1]


@pytest.mark.parametrize("x", [ROWS, fg.randn(5, 301)], ids=["rows", "301"])
def test_log_softmax_and_its_gradient_compute_them_once(x: fg.Tensor):
    def loss(x, weight):
        return (F.log_softmax(x, 1) * weight).sum()

    weight = fg.randn(*x.shape)
    (value, gradient), g = compiled(fg.value_and_grad(loss), x, weight)
    expected = x.clone().requires_grad_()
    loss(expected, weight).backward()
    np.testing.assert_allclose(value.numpy(), loss(x, weight).numpy(), rtol=1e-5)
    np.testing.assert_allclose(gradient.numpy(), expected.grad.numpy(), rtol=1e-5, atol=1e-6)
    assert sum(exponentials(g)) == 1


NOWHERE_ABOVE_ZERO: dict[str, Callable[..., Any]] = {
    "softmax": lambda x: F.softmax(x, 0),
    "log_softmax": lambda x: F.log_softmax(x, 1),
    "by hand": lambda x: (x - x.amax(1, keepdim=True)).exp(),
    "without gradient": lambda x: (x - x.amax(1, keepdim=True).detach()).exp(),
    "of all": lambda x: (x - x.amax()).exp(),
    "with its place": lambda x: (x - x.max(dim=0, keepdim=True).values).exp(),
    "from the smallest": lambda x: (x.amin(1, keepdim=True) - x).exp(),
    "a square taken negative": lambda x: (-x * x).exp(),
    "of a square": lambda x: (-(x**2) / 2).exp(),
    "a distance": lambda x: (-0.5 * (x - x[:, :1]).square().sum(1)).exp(),
    "of a size": lambda x: (-x.abs().T.sqrt() - 0.25).exp(),
    "of a product": lambda x: (x.abs() * -x.sigmoid()).exp(),
    "the lesser": lambda x: fg.minimum(x, -x.exp()).exp(),
    "less and less": lambda x: (-x.abs() - fg.maximum(x, x.relu())).exp(),
}
PERHAPS_ABOVE_ZERO: dict[str, Callable[..., Any]] = {
    "of another row": lambda x: (x - x.amax(1)).exp(),
    "of another tensor": lambda x: (x - (x * 0.5).amax(1, keepdim=True)).exp(),
    "the smallest": lambda x: (x - x.amin(1, keepdim=True)).exp(),
    "from the largest": lambda x: (x.amax(1, keepdim=True) - x).exp(),
    "and something put back": lambda x: (x - x.amax(1, keepdim=True) + 1).exp(),
    "a cube": lambda x: (-(x**3)).exp(),
    "twice negative": lambda x: (-x.abs() * -2.0).exp(),
    "over what may be -0": lambda x: (-x.abs() / (-x.relu() * -1.0)).exp(),
    "over -0": lambda x: (-x.abs() / -0.0).exp(),
    "the greater": lambda x: fg.maximum(x, -x.exp()).exp(),
    "whole numbers": lambda x: (-x.isfinite().to(fg.uint8)).to(fg.float32).exp(),
    "a difference": lambda x: (x.abs() - x.exp()).exp(),
}


@pytest.mark.parametrize("name", [*NOWHERE_ABOVE_ZERO, *PERHAPS_ABOVE_ZERO])
def test_exponentials_of_what_is_nowhere_above_zero(name: str):
    function = (NOWHERE_ABOVE_ZERO | PERHAPS_ABOVE_ZERO)[name]
    for x in (fg.randn(37, 37), ROWS[:, :1].expand(7, 7), F.pad(ROWS, (0, 3, 0, 0))):
        found, g = compiled(function, x)
        np.testing.assert_allclose(found.numpy(), function(x).numpy(), rtol=1e-5, atol=1e-6)
        short = any("exp_nonpositive(" in k.kernel.text for k in g.kernels().forward)
        assert short == (name in NOWHERE_ABOVE_ZERO)


def test_several_results_each_hold_what_they_should():
    def f(x):
        e = (x - x.amax(1, keepdim=True)).exp()
        return e, e / e.sum(1, keepdim=True), F.log_softmax(x, 1), x.tanh() * x.tanh().sum(1, keepdim=True)

    x = fg.randn(6, 45)
    found, g = compiled(f, x)
    for ours, theirs in zip(found, f(x), strict=True):
        close(ours, theirs)
    assert sum(exponentials(g)) == 1


def test_without_a_result_of_its_kind_there_is_no_place_to_keep_anything():
    x = fg.randn(6, 45)
    for f in (
        lambda x: F.softmax(x * 2, 1).sum(),
        lambda x: F.softmax(x, 1).double(),
        lambda x: F.softmax(x, 1) > 0.02,
        lambda x: (F.softmax(x, 1).sum(0), x.exp().sum()),
    ):
        found, _ = compiled(f, x)
        for ours, theirs in zip(*((r if isinstance(r, tuple) else (r,)) for r in (found, f(x))), strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5)


def test_memory_that_is_read_again_is_not_written_early():
    def f(x):
        x.copy_(F.softmax(x, 1) + x * 0.5)

    ours, theirs = fg.randn(6, 45), fg.zeros(6, 45)
    theirs.copy_(ours)
    g = fg.jit(f)
    for _ in range(5):
        g(ours)
        f(theirs)
        close(ours, theirs)
    assert g.stats.compiled_calls == 4


SIZES = [1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 200, 256, 1000]


@pytest.mark.parametrize("name", ["sum", "amax", "amin", "prod", "any", "all"])
@pytest.mark.parametrize("dtype", [fg.float32, fg.float64, fg.int64, fg.bool], ids=str)
def test_reductions_of_any_length(name: str, dtype: Any):
    reduce = getattr(fg, name)
    g = fg.jit(lambda x: (reduce(x, 1), reduce(x.T, 0)))
    draw = np.random.default_rng(0)
    for size in SIZES:
        x = draw.integers(0, 3, (3, size)) if name != "prod" else draw.integers(0, 2, (3, size)) * 2 - 1
        x = fg.tensor(x.astype(str(dtype).removeprefix("torch.").removeprefix("fusegrad.")))
        for _ in range(2):
            for ours in g(x):
                np.testing.assert_array_equal(ours.numpy(), reduce(x, 1).numpy())


@pytest.mark.parametrize("name", ["amax", "amin", "sum"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_nan_anywhere_is_found(name: str, dtype: Any, sign: int):
    reduce = getattr(fg, name)
    g, among_others = fg.jit(lambda x: reduce(x, 1)), fg.jit(lambda x: reduce(x.tanh() + x * 2, 1))
    size = 150
    x = np.tile(np.arange(size, dtype=dtype), (size, 1)) * sign
    x[:, 5], x[:, 80] = np.inf, -np.inf if name != "sum" else 0
    for f in (g, among_others, fg.jit(lambda x: reduce(x))):
        assert not np.isnan(f(fg.tensor(x)).numpy()).any()
    np.fill_diagonal(x, np.nan)
    for _ in range(2):
        assert np.isnan(g(fg.tensor(x)).numpy()).all()
        assert np.isnan(among_others(fg.tensor(x)).numpy()).all()


@pytest.mark.parametrize("rows, columns", [(64, 48), (3, 5), (1, 7), (2000, 3)])
def test_what_follows_a_sum_of_columns_runs_after_its_loop(
    rows: int, columns: int, axes_for_wide_vectors: None
):
    def update(x, mean, scale):
        gradient = fg.where(x > 0, x, 0.0)
        total = gradient.sum(0)
        kept = mean * 0.9 + total * 0.1
        return gradient, kept, total / ((scale * 0.5 + total * total).sqrt() + 1e-3)

    args = fg.randn(rows, columns), fg.randn(columns), fg.rand(columns)
    results, g = compiled(update, *args)
    for ours, theirs in zip(results, update(*args), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=2e-5, atol=1e-5)
    (kernel,) = g.kernels().forward
    # Along the rows, as they lie in memory: every array of theirs is read and written in whole vectors.
    wide = [b for b in (*kernel.kernel.inputs, *kernel.kernel.outputs) if len(b.axes) == 2]
    assert all(buffer.unit for buffer in wide)
    assert wide or rows == 1


def test_what_backward_does_not_read_has_no_array_of_its_own():
    @fg.jit
    def cell(x, w, u):
        return fg.tanh(x @ w + x @ u)

    x, w, u = fg.randn(3, requires_grad=True), fg.randn(3, 3), fg.randn(3, 3)
    for _ in range(2):
        cell(x, w, u).sum().backward()
    (segment,) = cell.segments()
    assert len(segment.code.program.placed().fresh) == 1  # the products lie in the arena
    assert "tanh" in str(segment.code.program.graph) and "tanh" not in str(segment.backward.program.graph)


def made_in_the_function() -> dict[str, Callable[[], fg.Tensor]]:
    """Tensors of 8 x 32 made from nothing, whole or as parts of others."""
    return {
        "whole": lambda: fg.full((8, 32), 0.5),
        "number of a row": lambda: fg.ones(1, 8, 32)[0],
        "first rows": lambda: fg.full((16, 32), 3.0)[:8],
        "part of a range": lambda: fg.arange(64.0)[32:].expand(8, 32),
        "range": lambda: fg.arange(32.0).expand(8, 32),
        "windows": lambda: fg.arange(39.0).unfold(0, 32, 1),
        "turned": lambda: fg.arange(256.0).reshape(32, 8).t(),
        "part of an identity": lambda: fg.eye(32)[4:12],
        "part of a triangle": lambda: fg.ones(9, 32).tril()[1:],
    }


@pytest.mark.one_in(2)
@pytest.mark.parametrize("first", made_in_the_function())
@pytest.mark.parametrize("second", made_in_the_function())
def test_one_op_on_parts_of_what_is_made_inside_and_on_other_tensors(first: str, second: str):
    made = made_in_the_function()

    def function(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
        kept = x.sigmoid() * made[first]() + y.tanh() * made[second]()
        return (kept.tanh() + x.tanh() * y.sigmoid()).sum()

    x, y = (fg.randn(8, 32, dtype=fg.float64, requires_grad=True) for _ in range(2))
    jitted = fg.jit(function)
    for _ in range(3):
        ours, theirs = (fg.autograd.grad(f(x, y), (x, y)) for f in (jitted, function))
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-6, 1e-9)
    text = str(jitted.explain())
    assert jitted.stats.compiled_calls == 2 and "NumPy: mul" not in text, text


# What is read along two axes at once: the points of a set, and all that is between them.
WITH_ITSELF = {
    "differences": lambda x: x[:, None] - x,
    "distances": lambda x: ((x[:, None] - x) ** 2).sum(-1),
    "weights": lambda x: fg.softmax(-((x[:, None] - x) ** 2).sum(-1), -1),
    "attraction": lambda x: ((x[:, None] - x) / (((x[:, None] - x) ** 2).sum(-1, True) + 1)).sum(0),
    "both ways": lambda x: (x[:, None] * x).sum(0) + (x[:, None] * x).sum(1),
    "and once more": lambda x: (x[:, None] - x).sum(0) * x + x.exp(),
    "of three": lambda x: (x[:8, None, None] * x[:8, None] * x[:8]).sum((0, 2)),
    "products": lambda x: (x[:9].reshape(3, 3, 5)[:, :, :, None] * x[:9].reshape(3, 3, 5)[:, :, None]).sum(1),
}


@pytest.mark.parametrize("name", WITH_ITSELF)
def test_what_meets_itself_is_a_kernel(name):
    program = check(WITH_ITSELF[name], tensor(40, 5))
    assert {step.kind for step in program.steps} == {"kernel"}
    gradient = fg.grad(lambda x: (WITH_ITSELF[name](x) * 2).sin().sum())
    jitted, x = fg.jit(gradient), fg.from_numpy(np.random.default_rng(0).normal(size=(40, 5)))
    for _ in range(3):
        found = jitted(x)
    np.testing.assert_allclose(found.numpy(), gradient(x).numpy(), 1e-9, 1e-9)
    kinds = {step.kind for segment in jitted.segments() for step in segment.code.program.steps}
    assert kinds == {"kernel"}


def test_distances_of_a_set_are_one_kernel_forward():
    program = check(lambda x: fg.exp(-((x[:, None] - x) ** 2).sum(-1)).sum(), tensor(60, 3))
    assert len(program.kernels) == 1


def test_a_total_of_what_was_copied_to_another_shape_is_known_early():
    """No one nest copies the labels and counts them under the new shape."""

    def loss(x, labels):
        counted = (labels[:, 1:].reshape(-1) != 0).sum()
        return (x.exp() / counted).sum()

    labels = fg.from_numpy(np.random.default_rng(0).integers(0, 3, (6, 5)))
    x = fg.from_numpy(np.random.default_rng(1).normal(size=(24, 200)))
    jitted = fg.jit(fg.value_and_grad(loss))
    for _ in range(4):
        value, gradient = jitted(x, labels)
    expected, wanted = fg.value_and_grad(loss)(x, labels)
    np.testing.assert_allclose(value.numpy(), expected.numpy())
    np.testing.assert_allclose(gradient.numpy(), wanted.numpy(), atol=1e-12)


def test_long_kernels_are_made_where_the_stack_is_almost_full() -> None:
    """What computes a value is no recursion over what that is computed from."""

    def chain(x: fg.Tensor) -> fg.Tensor:
        for step in range(300):
            x = (x * 0.99).tanh() if step % 7 else x.exp() * 0.1
        return x

    def deeper(depth: int) -> fg.Tensor:
        return fg.jit(chain)(x) if not depth else deeper(depth - 1)

    x = fg.randn(5)
    room = sys.getrecursionlimit() - len(inspect.stack(0))
    np.testing.assert_allclose(deeper(room - 250).numpy(), chain(x).numpy(), rtol=1e-5)
