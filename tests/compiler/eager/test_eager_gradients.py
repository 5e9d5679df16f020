"""Gradient rules of ops on large arrays: several ops in one program, once that is there."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg

ROUNDS = 5
SHAPE = (250, 300)


def programs(kernels):
    """How many gradient rules have programs."""
    return sum(key[0] == "gradients" and known.program is not None for key, known in kernels._known.items())


def values(*shape, dtype="f4", seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


LABELS = np.random.default_rng(3).integers(0, 300, 250)
IMAGES = (4, 8, 40, 40)

# By name: the function, the shapes of what it derives, and whether its rules are more than an op each.
FUNCTIONS = {
    "square": (lambda lib, F, x: x * x, [SHAPE], True),
    "row": (lambda lib, F, x, y: x * y, [SHAPE, (300,)], True),
    "column": (lambda lib, F, x, y: x / y, [SHAPE, (250, 1)], True),
    "add": (lambda lib, F, x, y: x + y, [SHAPE, SHAPE], False),
    "tanh": (lambda lib, F, x: lib.tanh(x), [SHAPE], True),
    "transposed": (lambda lib, F, x: lib.tanh(x.T), [SHAPE], True),
    "every other": (lambda lib, F, x: F.gelu(x[:, ::2]), [(400, 600)], True),
    "gelu": (lambda lib, F, x: F.gelu(x), [SHAPE], True),
    "power": (lambda lib, F, x: (x.abs() + 1) ** 2.5, [SHAPE], True),
    "softmax": (lambda lib, F, x: lib.softmax(x, -1), [SHAPE], True),
    "log softmax, first": (lambda lib, F, x: lib.log_softmax(x, 0), [SHAPE], True),
    "logsumexp": (lambda lib, F, x: lib.logsumexp(x, 1), [SHAPE], True),
    "var": (lambda lib, F, x: x.var(1), [SHAPE], True),
    "norm": (lambda lib, F, x: x.norm(), [SHAPE], True),
    "largest": (lambda lib, F, x: x.amax(1), [SHAPE], True),
    "cross entropy": (lambda lib, F, x: F.cross_entropy(x, lib.from_numpy(LABELS)), [SHAPE], True),
    "layer norm": (lambda lib, F, x, w, b: F.layer_norm(x, (300,), w, b), [SHAPE, (300,), (300,)], True),
    "batch norm": (
        lambda lib, F, x, w, b: F.batch_norm(x, None, None, w, b, True),
        [IMAGES, (8,), (8,)],
        True,
    ),
    "linear": (lambda lib, F, x, w, b: F.linear(x, w, b), [SHAPE, (64, 300), (64,)], True),
    "product": (lambda lib, F, x, y: x @ y, [SHAPE, (300, 70)], True),
    "convolution": (
        lambda lib, F, x, w, b: F.conv2d(x, w, b, 2, 1),
        [IMAGES, (6, 8, 3, 3), (6,)],
        True,
    ),
    "transposed convolution": (
        lambda lib, F, x, w: F.conv_transpose2d(x, w, stride=2, padding=1),
        [IMAGES, (8, 6, 4, 4)],
        True,
    ),
    "pool": (lambda lib, F, x: F.max_pool2d(x, 3, 2, 1), [IMAGES], True),
    "sum": (lambda lib, F, x: x.sum(1), [SHAPE], False),
    "reshape": (lambda lib, F, x: x.reshape(300, 250), [SHAPE], False),
}


def derived(lib, name, leaves, rounds=1, between=lambda: None):
    """The gradients, after so many rounds."""
    for _ in range(rounds):
        for leaf in leaves:
            leaf.grad = None
        result = FUNCTIONS[name][0](lib, lib.nn.functional, *leaves)
        given = values(*result.shape, dtype=leaves[0].detach().numpy().dtype, seed=7)
        result.backward(lib.from_numpy(np.asarray(given)))
        between()
    return [leaf.grad for leaf in leaves]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_pytorchs(name, dtype, kernels):
    arrays = [values(*shape, dtype=dtype, seed=i) for i, shape in enumerate(FUNCTIONS[name][1])]
    ours, theirs = ([lib.tensor(a, requires_grad=True) for a in arrays] for lib in (fg, torch))
    plain = derived(fg, name, ours)
    found = derived(fg, name, ours, ROUNDS, kernels.wait)
    assert (programs(kernels) > 0) == FUNCTIONS[name][2]
    tolerance = 2e-5 if dtype == "f4" else 1e-11
    for a, b, c in zip(found, derived(torch, name, theirs), plain, strict=True):
        assert (a.shape, a.dtype, a.stride()) == (c.shape, c.dtype, c.stride())
        scale = float(b.abs().max())
        np.testing.assert_allclose(a.numpy(), b.numpy(), 10 * tolerance, tolerance * scale)


@pytest.mark.parametrize("name", [n for n, (_, shapes, _) in FUNCTIONS.items() if shapes[0] == SHAPE])
def test_gradients_lie_apart_from_all_else(name, kernels):
    """Whoever holds a gradient may write there, and later gradients go elsewhere."""
    leaves = [fg.tensor(values(*s, seed=i), requires_grad=True) for i, s in enumerate(FUNCTIONS[name][1])]
    held = []
    for _ in range(ROUNDS + 3):
        held.append(derived(fg, name, leaves))
        kernels.wait()
    arrays = [g.numpy() for gradients in held for g in gradients]
    copies = [a.copy() for a in arrays]
    for i, array in enumerate(arrays):
        assert not any(np.shares_memory(array, other) for other in (*arrays[:i], *(x.array for x in leaves)))
    derived(fg, name, leaves, 3)
    assert all((a == c).all() for a, c in zip(arrays, copies, strict=True))


def test_what_somebody_holds_is_never_written_again(kernels):
    """Views, NumPy's arrays and buffers keep memory; a weak reference does not."""
    x = fg.tensor(values(*SHAPE), requires_grad=True)
    (gradient,) = derived(fg, "gelu", [x], ROUNDS, kernels.wait)
    part = gradient[3:5].numpy()
    buffer = memoryview(gradient.numpy().reshape(-1))
    kept, gone = (part.copy(), bytes(buffer)), weakref.ref(gradient)
    x.grad = gradient = None
    gc.collect()
    assert gone() is None
    for _ in range(6):
        derived(fg, "gelu", [fg.tensor(values(*SHAPE, seed=9), requires_grad=True)])
    assert (part == kept[0]).all() and bytes(buffer) == kept[1]


def test_threads_have_gradients_of_their_own(kernels):
    x = fg.tensor(values(*SHAPE), requires_grad=True)
    (expected,) = (g.numpy() for g in derived(fg, "softmax", [x], ROUNDS, kernels.wait))
    wrong = []

    def work():
        own = fg.tensor(values(*SHAPE), requires_grad=True)
        for _ in range(20):
            (found,) = derived(fg, "softmax", [own])
            if not np.allclose(found.numpy(), expected, 1e-5, 1e-7):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_second_derivatives_hooks_and_what_was_written_are_as_before(kernels):
    x = fg.tensor(values(*SHAPE), requires_grad=True)
    derived(fg, "tanh", [x], ROUNDS, kernels.wait)
    (first,) = fg.autograd.grad(fg.tanh(x).sum(), x, create_graph=True)
    (second,) = fg.autograd.grad(first.sum(), x)
    t = np.tanh(x.detach().numpy())
    np.testing.assert_allclose(second.numpy(), -2 * t * (1 - t * t), 1e-4, 1e-5)
    seen = []
    y = fg.tanh(x)
    y.register_hook(lambda g: seen.append(g.shape) or g * 2)
    x.grad = None
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * (1 - t * t), 1e-4, 1e-5)
    assert seen == [fg.Size(SHAPE)]
    y = fg.tanh(x)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_bits_stay_where_they_must(kernels):
    x = fg.tensor(values(*SHAPE), requires_grad=True)
    fg.set_eager_kernels(False)
    try:
        found = [derived(fg, "gelu", [x])[0].numpy().copy() for _ in range(ROUNDS)]
    finally:
        fg.set_eager_kernels(True)
    assert not kernels._known
    assert all((f == found[0]).all() for f in found)


def test_a_fault_of_a_program_leaves_it_to_the_rules(kernels, faults_are_covered):
    x = fg.tensor(values(*SHAPE), requires_grad=True)
    (expected,) = derived(fg, "gelu", [x], ROUNDS, kernels.wait)
    for key, known in kernels._known.items():
        if key[0] == "gradients" and known.program is not None:
            known.places = [(99, ())]
    (found,) = derived(fg, "gelu", [x])
    np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-4, 1e-5)
