"""The vector functions: at most 2 ulp from the true value, and right at the ends of the range."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.compiler.vector_math import FUNCTIONS

REFERENCE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "log": np.log,
    "log1p": np.log1p,
}
# float32 is judged by double precision, double by the 80-bit long double of x86.
WIDER = {"float32": np.float64, "float64": np.longdouble}
SPECIAL = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    1.0,
    -1.0,
    88.0,
    -88.0,
    89.0,
    -104.0,
    710.0,
    -746.0,
    1e300,
    -1e300,
]


def samples(name: str, dtype: str) -> np.ndarray:
    """Dense and spread over all magnitudes, both signs."""
    generator = np.random.default_rng(3)
    limits = np.finfo(dtype)
    exponents = generator.uniform(np.log2(limits.tiny) - 4, np.log2(limits.max) - 0.1, 40_000)
    spread = np.exp2(exponents) * generator.choice([-1, 1], exponents.size)
    dense = [generator.uniform(-b, b, 40_000) for b in (0.1, 1.0, 10.0, 100.0, 800.0)]
    near_one = 1 + generator.uniform(-0.5, 0.5, 40_000)
    with np.errstate(over="ignore"):  # the special values of float64 are infinite in float32
        values = np.concatenate([spread, *dense, near_one, SPECIAL]).astype(dtype)
    return np.abs(values) if name == "log" else values


def compiled(name: str, values: np.ndarray) -> np.ndarray:
    """The function by a compiled kernel."""
    function = fg.jit(lambda x: getattr(fg, name)(x))
    tensor = fg.from_numpy(values)
    function(tensor)
    result = function(tensor).numpy()
    assert function.stats.compiled_calls == 1
    return result


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_within_two_units_in_the_last_place(name: str, dtype: str):
    if np.finfo(WIDER[dtype]).precision <= np.finfo(dtype).precision:
        pytest.skip("no wider type to judge by on this machine")
    values = samples(name, dtype)
    with np.errstate(all="ignore"):
        exact = REFERENCE[name](values.astype(WIDER[dtype]))
        rounded = exact.astype(dtype)
        result = compiled(name, values)
        unit = np.spacing(np.abs(rounded)).astype(WIDER[dtype])
        error = np.abs(result.astype(WIDER[dtype]) - exact) / unit
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(result[~finite], rounded[~finite])
    # sigmoid is 1 / (1 + exp(-x)) as in eager: where exp(-x) is infinite it is 0, not denormal.
    if name == "sigmoid":
        finite &= np.abs(rounded) >= np.finfo(dtype).tiny
    worst = values[finite][np.argmax(error[finite])]
    assert error[finite].max() <= 2, f"{error[finite].max():.2f} ulp at {worst!r}"


@pytest.mark.parametrize("name", ["expm1", "tanh", "log1p"])
def test_the_sign_of_zero_is_kept(name: str):
    result = compiled(name, np.array([0.0, -0.0], np.float32))
    assert np.signbit(result).tolist() == [False, True]
