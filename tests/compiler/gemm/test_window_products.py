"""Convolutions without columns in memory, beside PyTorch's."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg
from fusegrad.compiler.base.window_ops import CORRELATED, CORRELATED_BIAS, KERNEL_GRADIENT
from fusegrad.eager.core.op import wrap

F = fg.nn.functional

# Images, channels, rows, columns; channels of the result, kernel; stride, padding, dilation.
CASES = {
    "one channel": ((2, 1, 9, 9), (5, (3, 3)), (1, 0, 1)),
    "padded": ((2, 3, 9, 11), (5, (3, 3)), (1, 1, 1)),
    "rows of four": ((2, 3, 6, 6), (4, (3, 3)), (1, 0, 1)),
    "by two": ((3, 5, 12, 12), (70, (3, 3)), (2, 1, 1)),
    "by two, and what is left": ((3, 5, 13, 12), (7, (3, 3)), (2, 0, 1)),
    "four by four by two": ((4, 8, 16, 16), (16, (4, 4)), (2, 1, 1)),
    "one by one by two": ((2, 8, 16, 17), (9, (1, 1)), (2, 0, 1)),
    "steps of their own": ((2, 6, 21, 17), (9, (3, 2)), ((2, 3), (1, 0), 1)),
    "steps longer than the kernel": ((2, 3, 20, 21), (4, (2, 2)), (3, 0, 1)),
    "five by five": ((2, 70, 14, 14), (33, (5, 5)), (1, 2, 1)),
    "spread": ((1, 16, 40, 40), (130, (3, 3)), (1, 1, 2)),
    "spread, by two": ((2, 4, 19, 23), (6, (3, 3)), (2, 2, 3)),
    "long rows": ((1, 2, 5, 100), (3, (2, 7)), (1, (0, 3), 1)),
    "many channels": ((2, 150, 8, 8), (140, (3, 3)), (1, 1, 1)),
    "a kernel as large as the image": ((3, 4, 4, 9), (6, (4, 6)), (1, 0, 1)),
    # Vectors of columns lie in one row: nothing is packed.
    "rows of a vector": ((3, 5, 7, 16), (9, (3, 3)), (1, 1, 1)),
    "rows of two vectors": ((2, 5, 33, 32), (37, (3, 5)), (1, (1, 2), 1)),
    "rows of three vectors, by two": ((2, 4, 12, 96), (130, (3, 4)), (2, 1, 1)),
    "rows of a vector, spread": ((2, 150, 5, 18), (6, (2, 3)), (1, (0, 1), 2)),
}
RANDOM = np.random.default_rng(11)


def drawn():
    """A convolution of sizes that nobody chose."""
    kernel = tuple(int(k) for k in RANDOM.integers(1, 6, 2))
    stride, padding = (tuple(int(n) for n in RANDOM.integers(low, 4, 2)) for low in (1, 0))
    dilation = tuple(int(n) for n in RANDOM.integers(1, 3, 2))
    size = tuple(
        d * (k - 1) + int(n) for k, d, n in zip(kernel, dilation, RANDOM.integers(4, 30, 2), strict=True)
    )
    images, channels, out = (int(n) for n in RANDOM.integers(1, (4, 20, 90)))
    return (images, channels, *size), (out, kernel), (stride, padding, dilation)


CASES |= {f"drawn {number}": drawn() for number in range(24)}


def arrays(name, dtype):
    shape, (out, kernel), _ = CASES[name]
    draw = np.random.default_rng(5)
    return [draw.normal(size=s).astype(dtype) for s in (shape, (out, shape[1], *kernel), (out,))]


def results(lib, convolve, given, seed=3):
    """The result, and the gradients of all."""
    leaves = [lib.tensor(a, requires_grad=True) for a in given]
    made = convolve(*leaves)
    made.backward(lib.tensor(np.random.default_rng(seed).normal(size=made.shape).astype(given[0].dtype)))
    return [t.detach().numpy() for t in (made, *(leaf.grad for leaf in leaves))]


def compiled(name):
    return fg.jit(lambda *given: F.conv2d(*given, *CASES[name][2]))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_pytorchs(name, dtype):
    function, given = compiled(name), arrays(name, dtype)
    for _ in range(3):
        ours = results(fg, function, given)
    assert function.stats.compiled_calls == 2
    theirs = results(torch, lambda *t: torch.nn.functional.conv2d(*t, *CASES[name][2]), given)
    for a, b in zip(ours, theirs, strict=True):
        scale = np.abs(b).max()
        np.testing.assert_allclose(
            a, b, 1e-4 if dtype == "f4" else 1e-11, (1e-5 if dtype == "f4" else 1e-13) * scale
        )


# Images, channels, rows, columns; channels of the result, kernel; stride, padding, rows and columns more.
TRANSPOSED = {
    "four by four by two": ((2, 3, 8, 8), (4, (4, 4)), (2, 1, 0)),
    "three by three by two": ((2, 3, 8, 8), (4, (3, 3)), (2, 1, 1)),
    "more than half of the columns": ((2, 3, 9, 10), (70, (3, 3)), (2, 0, 0)),
    "steps of their own": ((3, 40, 7, 8), (5, (5, 5)), ((2, 3), (2, 1), 0)),
    "one step": ((2, 3, 8, 8), (4, (2, 3)), ((1, 3), 0, 0)),
    "seven by seven by three": ((1, 5, 8, 9), (3, (7, 7)), (3, 2, (1, 2))),
    "padded by more than a step": ((2, 4, 9, 9), (6, (6, 6)), (2, 5, 1)),
    "kernels shorter than steps": ((2, 4, 9, 9), (6, (2, 2)), (3, 0, 1)),
}


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_ones_are_pytorchs(name, dtype):
    shape, (out, kernel), given = TRANSPOSED[name]
    draw = np.random.default_rng(5)
    leaves = [draw.normal(size=s).astype(dtype) for s in (shape, (shape[1], out, *kernel), (out,))]
    function = fg.jit(lambda *tensors: F.conv_transpose2d(*tensors, *given))
    for _ in range(3):
        ours = results(fg, function, leaves)
    assert function.stats.compiled_calls == 2
    theirs = results(torch, lambda *t: torch.nn.functional.conv_transpose2d(*t, *given), leaves)
    for a, b in zip(ours, theirs, strict=True):
        tolerance = 1e-5 if dtype == "f4" else 1e-13
        np.testing.assert_allclose(a, b, 10 * tolerance, tolerance * np.abs(b).max())


def test_no_columns_are_in_memory():
    x, weight, bias = arrays("padded", "f4")
    function = compiled("padded")
    for _ in range(3):
        results(fg, function, (x, weight, bias))
    said = str(function.explain())
    assert CORRELATED_BIAS.name in said and CORRELATED.name in said and KERNEL_GRADIENT.name in said
    assert "unfold" not in said


def test_what_is_no_number_stays_where_it_is():
    x, weight, bias = arrays("padded", "f4")
    x[0, 1, 4, 5], x[1, 2, 0, 0], x[1, 0, 8, 10] = np.nan, np.inf, -np.inf
    function = compiled("padded")
    for _ in range(3):
        ours = results(fg, function, (x, weight, bias))
    theirs = results(torch, lambda *t: torch.nn.functional.conv2d(*t, *CASES["padded"][2]), (x, weight, bias))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(np.isfinite(a), np.isfinite(b))
        np.testing.assert_allclose(a[np.isfinite(a)], b[np.isfinite(b)], 1e-4, 1e-4)


def test_operands_that_lie_otherwise():
    x, weight, bias = arrays("padded", "f4")
    turned, cut = x.transpose(0, 1, 3, 2).copy(), np.concatenate([x, x, x])
    expected = results(
        torch, lambda *t: torch.nn.functional.conv2d(*t, *CASES["padded"][2]), (x, weight, bias)
    )[0]
    function = compiled("padded")
    for _ in range(3):
        across = function(fg.tensor(turned).transpose(2, 3), fg.tensor(weight), fg.tensor(bias))
        part = function(fg.tensor(cut)[2:4], fg.tensor(weight), fg.tensor(bias))
    np.testing.assert_allclose(across.numpy(), expected, 1e-4, 1e-4)
    np.testing.assert_allclose(part.numpy(), expected, 1e-4, 1e-4)


def test_batches_of_many_sizes():
    _, weight, bias = arrays("by two", "f4")
    function = compiled("by two")
    for count in (1, 2, 3, 5, 8, 2, 13):
        x = np.random.default_rng(count).normal(size=(count, 5, 12, 12)).astype("f4")
        ours = results(fg, function, (x, weight, bias))
        theirs = results(
            torch, lambda *t: torch.nn.functional.conv2d(*t, *CASES["by two"][2]), (x, weight, bias)
        )
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, 1e-3, 1e-4 * np.abs(b).max())


@pytest.mark.parametrize("name", ["padded", "by two", "spread", "many channels"])
def test_bits_do_not_depend_on_the_number_of_threads(name):
    function, given = compiled(name), arrays(name, "f4")
    for _ in range(3):
        several = results(fg, function, given)
    before = fg.get_num_threads()
    fg.set_num_threads(1)
    try:
        alone = results(fg, function, given)
    finally:
        fg.set_num_threads(before)
    for a, b in zip(alone, several, strict=True):
        np.testing.assert_array_equal(a, b)


def test_calls_of_several_threads():
    function, given = compiled("padded"), arrays("padded", "f4")
    for _ in range(3):
        expected = results(fg, function, given)
    wrong = []

    def work():
        for _ in range(20):
            if not all((a == b).all() for a, b in zip(results(fg, function, given), expected, strict=True)):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_numpys_way_says_the_same():
    """What the ops say that they do, beside a convolution."""
    draw = np.random.default_rng(1)
    images, weight, bias = (
        draw.normal(size=(2, 3, 1, 6, 7)),
        draw.normal(size=(4, 3, 2, 3)),
        draw.normal(size=4),
    )
    params = {"count": (5, 5), "taps": tuple(i * 7 + j for i in range(2) for j in range(3))}
    given = [wrap(a) for a in (weight.reshape(4, -1), images, bias)]
    x, w, b = (torch.tensor(a, requires_grad=True) for a in (images[:, :, 0], weight, bias))
    expected = torch.nn.functional.conv2d(x, w, b)
    np.testing.assert_allclose(CORRELATED_BIAS.evaluate(given, params), expected.detach().numpy())
    plain = CORRELATED.evaluate(given[:2], params) + bias[:, None, None]
    np.testing.assert_allclose(plain, expected.detach().numpy())
    y = draw.normal(size=expected.shape)
    expected.backward(torch.tensor(y))
    found = KERNEL_GRADIENT.evaluate([wrap(y), given[1]], params)
    np.testing.assert_allclose(found, w.grad.numpy().reshape(4, -1))
