"""`jit(contract=True)` rounds a product and the sum that it goes into once, where eager rounds twice."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import fusegrad as fg

DTYPES = [fg.float32, fg.float64]


def polynomial(x: fg.Tensor) -> fg.Tensor:
    y = x * 0.3 + 1.7
    for factor in (0.7, -1.3, 0.11, 2.9):
        y = y * x + factor
    return y


def draws(dtype: Any, count: int = 1003) -> list[fg.Tensor]:
    draw = np.random.default_rng(0)
    return [fg.tensor(draw.normal(size=count), dtype=dtype) for _ in range(3)]


def replayed(function: Any, *args: Any) -> Any:
    function(*args)
    result = function(*args)
    assert function.stats.compiled_calls >= 1, function.explain()
    return result


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_product_and_a_sum_are_rounded_at_least_as_well(dtype: Any):
    """Within half a unit of the product's last place of eager, and half a unit of the exact sum."""
    a, b, c = draws(dtype)
    for sign in (1, -1):
        found = replayed(fg.jit(lambda a, b, c, s: a * b + s * c, contract=True), a, b, c, sign).numpy()
        expected = (a * b + sign * c).numpy()
        room = np.spacing(np.abs((a * b).numpy())) / 2 + np.spacing(np.abs(expected))
        assert (np.abs(found - expected) <= room).all()
    if dtype is fg.float32:
        exact = a.double() * b.double() + c.double()  # the product is exact in double precision
        once = replayed(fg.jit(lambda a, b, c: a * b + c, contract=True), a, b, c).numpy()
        assert (once != (a * b + c).numpy()).any()  # else nothing is contracted on this machine
        np.testing.assert_array_equal(once, exact.numpy().astype(np.float32))


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_too(dtype: Any):
    x = draws(dtype)[0]
    derive = fg.value_and_grad(lambda x: polynomial(x).sum())
    value, slope = replayed(fg.jit(derive, contract=True), x)
    expected, wanted = derive(x)
    tolerance = 1e-5 if dtype is fg.float32 else 1e-13
    np.testing.assert_allclose(value.numpy(), expected.numpy(), tolerance)
    np.testing.assert_allclose(slope.numpy(), wanted.numpy(), tolerance, tolerance * 10)
    loss = fg.jit(lambda x: polynomial(x).sum(), contract=True)
    for _ in range(8):
        leaf = x.clone().requires_grad_()
        loss(leaf).backward()
        np.testing.assert_allclose(leaf.grad.numpy(), wanted.numpy(), tolerance, tolerance * 10)
    kernels = loss.kernels()
    assert kernels.joint
    for kernel in (*kernels.forward, *kernels.backward, *kernels.joint):
        assert "# products and sums contracted" in kernel.kernel.text


def test_what_does_not_ask_for_it_is_rounded_as_in_eager():
    """Kernels that are alike but for that are not one kernel, whichever is compiled first."""
    (x, *_) = draws(fg.float32)
    both = [fg.jit(polynomial, contract=True), fg.jit(polynomial), fg.jit(polynomial, contract=True)]
    first, plain, second = (replayed(jitted, x).numpy() for jitted in both)
    np.testing.assert_array_equal(plain, polynomial(x).numpy())
    np.testing.assert_array_equal(first, second)
    assert (first != plain).any()
    assert "contracted" not in "".join(k.kernel.text for k in both[1].kernels().forward)


def test_rounds_of_a_loop_are_contracted():
    def decayed(x: fg.Tensor) -> fg.Tensor:
        for _ in range(300):
            x = x * 0.99 + 0.01
        return x

    (x, *_) = draws(fg.float64)
    jitted = fg.jit(decayed, contract=True)
    np.testing.assert_allclose(replayed(jitted, x).numpy(), decayed(x).numpy(), 1e-12)
    assert all(kernel.kernel.contracted for kernel in jitted.kernels().forward)


def test_elementary_functions_are_as_ever():
    (x, *_) = draws(fg.float64)
    for function in (fg.exp, fg.sin, fg.tanh, fg.erf, lambda x: fg.log(fg.abs(x))):
        found = [replayed(fg.jit(function, contract=contract), x).numpy() for contract in (True, False)]
        np.testing.assert_array_equal(*found)


def test_in_deterministic_mode_and_as_a_decorator_and_from_a_pickle():
    (x, *_) = draws(fg.float32)
    expected = replayed(fg.jit(polynomial, contract=True), x).tolist()
    again = pickle.loads(pickle.dumps(fg.jit(contract=True)(polynomial)))
    assert again.contract and replayed(again, x).tolist() == expected
    fg.use_deterministic_algorithms(True)
    try:
        assert fg.jit(polynomial, contract=True)(x).tolist() == expected
    finally:
        fg.use_deterministic_algorithms(False)
