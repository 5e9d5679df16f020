"""`cfunc`: functions of tensors as C functions, for SciPy, Numba and ctypes, from several threads."""

from __future__ import annotations

import ctypes
import math
import threading
from typing import Any

import numba
import numpy as np
import pytest
from scipy import LowLevelCallable, integrate, optimize

import fusegrad as fg
from fusegrad.compiler.library import driver
from fusegrad.compiler.library.api import ExportError


def addresses(*arrays: np.ndarray) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(array.ctypes.data) for array in arrays]


def test_numbers_go_by_value() -> None:
    wave = fg.cfunc(lambda x, rate: fg.exp(-x) * fg.sin(rate * x), (0.5, 3.0))
    assert wave.signature == "double f(double, double)"
    assert wave(1.0, 2.0) == pytest.approx(math.exp(-1) * math.sin(2), rel=1e-14)
    assert wave.address == ctypes.cast(wave.ctypes, ctypes.c_void_p).value
    assert wave.native_name.endswith(".value") and callable(wave.__wrapped__)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32"])
def test_numbers_of_all_kinds(dtype: str) -> None:
    square = fg.cfunc(lambda x: x * x + 1, (fg.tensor(3, dtype=getattr(fg, dtype)),))
    assert [square(n) for n in (0, 2, -5)] == [1, 5, 26]


def test_scipy_integrates_and_finds_roots() -> None:
    bell = fg.cfunc(lambda x: fg.exp(-x * x), (0.5,))
    found, _ = integrate.quad(LowLevelCallable(bell.ctypes), -6, 6)
    assert found == pytest.approx(math.sqrt(math.pi), rel=1e-12)
    cubic = fg.cfunc(lambda x: x**3 - 2 * x - 5, (1.0,))
    assert optimize.brentq(cubic.ctypes, 1, 3) == pytest.approx(2.0945514815423265)


def test_numba_calls_it_from_four_threads_without_the_lock() -> None:
    curve = fg.cfunc(lambda x: fg.tanh(x) * x, (0.5,)).ctypes

    @numba.njit(nogil=True)
    def total(start: float, count: int) -> float:
        found = 0.0
        for number in range(count):
            found += curve(start + number * 1e-3)
        return found

    results: dict[int, float] = {}

    def work(number: int) -> None:
        results[number] = total(float(number), 1000)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for number, found in results.items():
        x = number + np.arange(1000) * 1e-3
        assert found == pytest.approx((np.tanh(x) * x).sum(), rel=1e-12)
    assert len(results) == 4


def value_and_gradient(x: fg.Tensor) -> tuple[fg.Tensor, fg.Tensor]:
    x = x.detach().requires_grad_()
    value = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
    value.backward()
    return value.detach(), x.grad  # type: ignore[return-value]


def test_arrays_go_by_address_and_gradients_are_results() -> None:
    rosenbrock = fg.cfunc(value_and_gradient, (fg.zeros(5, dtype=fg.float64),))
    assert rosenbrock.signature == "int32_t f(const float64 *, float64 *, float64 *)"
    x, value, gradient = np.linspace(-1, 2, 5), np.empty(()), np.empty(5)
    assert rosenbrock(*addresses(x, value, gradient)) == 0
    assert value == pytest.approx(optimize.rosen(x))
    np.testing.assert_allclose(gradient, optimize.rosen_der(x))
    assert rosenbrock(None, *addresses(value, gradient)) == driver.Code.NO_ADDRESS


def test_what_was_found_outside_stays_as_it_was() -> None:
    weight = fg.tensor(2.0, dtype=fg.float64)
    scaled = fg.cfunc(lambda x: x * weight, (1.0,))
    with fg.no_grad():
        weight.fill_(7.0)
    assert scaled(3.0) == 6.0
    assert fg.cfunc(lambda x: x * weight, (1.0,))(3.0) == 21.0
    assert scaled(3.0) == 6.0


def test_where_there_is_no_answer() -> None:
    table = fg.arange(4.0)
    looked_up = fg.cfunc(lambda i: table[i], (2,))
    assert looked_up(3) == 3.0 and looked_up(-4) == 0.0 and math.isnan(looked_up(4))


def test_branches_and_loops() -> None:
    def root(x: Any) -> Any:
        if x < 0:
            return x * float("nan")
        y = x * 0 + 1
        while abs(y * y - x) > 1e-9 * (1 + x):
            y = (y + x / y) / 2
        return y

    native = fg.cfunc(root, (2.0,))
    for x in (0.0, 2.0, 9.0, 1e6):
        assert math.isclose(native(x), x**0.5, abs_tol=1e-4)
    assert math.isnan(native(-1.0))


REFUSED: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "an op of NumPy's": (lambda x: fg.fmod(x, 0.3), (2.0,), "fmod has no native code.*test_cfunc.py"),
    "other objects": (lambda x: x, ("text",), "an argument is a str"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    function, args, words = REFUSED[case]
    with pytest.raises(ExportError, match=f"(?s){words}"):
        fg.cfunc(function, args)
