"""Products with short sides are nests: one kernel with what comes before and after, and eager's values."""

from __future__ import annotations

import numpy as np
import pytest

import fusegrad as fg

# Left and right shapes, and whether the products are nests: their own, and those of both gradients.
SHAPES = [
    ((100, 3, 3), (100, 3, 3), True),
    ((100, 2, 4), (100, 4, 5), True),
    ((70, 1, 4), (70, 4, 1), True),
    ((5, 20, 4, 4), (20, 4, 2), True),
    ((200, 2, 3), (3, 4), True),
    ((300, 3), (3, 4), True),
    ((300, 1), (1, 5), True),
    ((4, 500), (500, 2), False),  # of the gradients the columns are long
    ((3, 3), (3, 3), False),
    # Two vectors, if they are short.
    ((5,), (5,), True),
    ((64, 1), (1, 1), True),
    ((1, 9), (9, 1), True),
    ((7, 1), (1, 9), False),  # its gradients are of matrices and vectors
    ((65,), (65,), False),
    ((300, 8), (8, 8), False),
    ((100, 8, 8), (100, 8, 8), False),
]


def tensor(shape, dtype, seed):
    return fg.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(dtype))


def loss(x, y):
    return ((x * 2) @ y).sin().sum()


def kinds(jitted):
    return {step.kind for segment in jitted.segments() for step in segment.code.program.steps}


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("left", "right", "thin"), SHAPES)
def test_values_and_gradients_are_eagers(left, right, thin, dtype):
    derived = fg.value_and_grad(loss, (0, 1))
    jitted = fg.jit(derived)
    x, y = tensor(left, dtype, 0), tensor(right, dtype, 1)
    for _ in range(3):
        value, gradients = jitted(x, y)
    expected, wanted = derived(x, y)
    tolerance = 1e-4 if dtype == "f4" else 1e-12
    np.testing.assert_allclose(value.numpy(), expected.numpy(), tolerance, 10 * tolerance)
    for ours, theirs in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), tolerance, 10 * tolerance)
    assert ("product" not in kinds(jitted)) == thin


def test_what_is_no_number_reaches_what_it_reaches_in_eager():
    x, y = tensor((80, 3, 3), "f4", 0).numpy(), tensor((80, 3, 3), "f4", 1).numpy()
    x[3, 1, 1], y[4, 0, 2], x[5, 2], y[5, :, 2] = np.nan, np.inf, 0.0, np.inf
    jitted = fg.jit(fg.matmul)
    for _ in range(3):
        result = jitted(fg.from_numpy(x), fg.from_numpy(y)).numpy()
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(result, x @ y, 1e-5, 1e-6)
    assert kinds(jitted) == {"kernel"}


def test_one_form_serves_batches_of_all_sizes():
    @fg.jit
    def rotated(x, y):
        return (x @ y).sum(-1)

    for size in (100, 120, 140, 160, 3, 200):
        x, y = tensor((size, 3, 3), "f4", size), tensor((size, 3, 3), "f4", size + 1)
        np.testing.assert_allclose(
            rotated(x, y).numpy(), (x.numpy() @ y.numpy()).sum(-1), rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize(
    ("left", "right"), [((0, 3, 3), (0, 3, 3)), ((100, 3, 0), (100, 0, 3)), ((3,), (3, 300))]
)
def test_what_is_empty_or_a_vector_is_right(left, right):
    x, y = tensor(left, "f4", 0), tensor(right, "f4", 1)
    jitted = fg.jit(fg.matmul)
    for _ in range(3):
        np.testing.assert_allclose(jitted(x, y).numpy(), x.numpy() @ y.numpy(), 1e-5, 1e-6)
