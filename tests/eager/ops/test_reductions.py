"""Reductions, scans and sorting against PyTorch, over shapes, layouts and numbers that are seldom tested."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from oracle import torch

import fusegrad as fg

FLOATS = ["float32", "float64"]
INTEGERS = ["bool", "uint8", "int8", "int32", "int64"]
EXAMPLES = settings(max_examples=100, deadline=None, derandomize=True)

# Quarters, so that sums are exact in any order; zeros of both signs, and what is not finite.
_quarters = st.integers(-24, 24).map(lambda n: n / 4)
_special = st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, 2.0])


def shapes(min_dims: int = 0, max_side: int = 3) -> Any:
    return hnp.array_shapes(min_dims=min_dims, max_dims=3, min_side=0, max_side=max_side)


def elements(dtype: str, finite: bool = False) -> Any:
    if dtype in FLOATS:
        return _quarters if finite else st.one_of(_quarters, _special)
    if dtype == "bool":
        return st.booleans()
    limits = np.iinfo(dtype)
    near = st.integers(max(-3, limits.min), 3)
    return st.one_of(near, st.sampled_from([int(limits.min), int(limits.max)]))


@st.composite
def arrays(draw: Any, dtypes: list[str], min_dims: int = 0, max_side: int = 3, finite: bool = False) -> Any:
    """Arrays of all layouts: transposed, with gaps, backwards."""
    dtype = draw(st.sampled_from(dtypes))
    size = draw(shapes(min_dims, max_side))
    x = draw(hnp.arrays(dtype, size, elements=elements(dtype, finite), fill=st.nothing()))
    layout = draw(st.sampled_from(["plain", "transposed", "backwards", "gaps"]))
    if layout == "transposed":
        return np.asarray(np.array(x.T, order="C").T)
    if layout == "backwards" and x.ndim:
        return np.flip(np.flip(x).copy())
    if layout == "gaps" and x.ndim:
        return np.repeat(x, 2, axis=-1)[..., ::2]
    return x


def outcome(call: Callable[[Any, Any], Any], library: Any, array: np.ndarray) -> Any:
    """The parts of what `call` gives, as arrays, or the exception."""
    array = np.asarray(array)  # NumPy's functions give numbers of 0-d arrays
    # Torch knows no negative strides.
    x = fg.from_numpy(array) if library is fg else torch.from_numpy(np.array(array, order="C"))
    try:
        result = call(library, x)
    except Exception as error:
        return error
    return [part.detach().numpy() for part in (result if isinstance(result, tuple) else (result,))]


def check(call: Callable[[Any, Any], Any], array: np.ndarray) -> None:
    """The same values, dtypes and shapes as torch's, or the same kind of error."""
    ours, theirs = outcome(call, fg, array), outcome(call, torch, array)
    if isinstance(theirs, Exception):
        assert isinstance(ours, type(theirs)), (ours, theirs)
        return
    if isinstance(ours, Exception):
        raise ours
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        tolerance = 1e-10 if a.dtype == np.float64 else 2e-5
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def dims(x: np.ndarray) -> Any:
    """A dimension; where there are elements, sometimes one that is not there."""
    if not x.size:  # torch does not always look at it then
        return st.integers(-max(x.ndim, 1), max(x.ndim, 1) - 1)
    return st.integers(-x.ndim - 1, x.ndim)


REDUCED = ["sum", "mean", "amax", "amin", "any", "all", "nansum", "nanmean", "logsumexp", "var", "std"]
ALONG = ["prod", "argmax", "argmin", "max", "min"]


@EXAMPLES
@given(arrays(FLOATS + INTEGERS), st.data())
def test_reductions_over_a_dimension(x: np.ndarray, data: Any):
    name = data.draw(st.sampled_from(REDUCED + ALONG))
    dim, keepdim = data.draw(dims(x)), data.draw(st.booleans())
    check(lambda library, t: getattr(library, name)(t, dim, keepdim=keepdim), x)


@EXAMPLES
@given(arrays(FLOATS + INTEGERS), st.data())
def test_reductions_over_several_dimensions(x: np.ndarray, data: Any):
    name = data.draw(st.sampled_from([*REDUCED, "count_nonzero"]))
    every = list(range(-x.ndim, x.ndim)) or [0, -1]
    # Of two errors at once, a dimension given twice and no elements, either may be told.
    most = 3 if x.size else 1
    dim = tuple(data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=most)))
    check(lambda library, t: getattr(library, name)(t, dim), x)


@EXAMPLES
@given(arrays(FLOATS + INTEGERS), st.data())
def test_reductions_of_all_elements(x: np.ndarray, data: Any):
    names = ["sum", "mean", "prod", "max", "min", "median", "nanmedian", "var", "std", "any", "all", "argmax"]
    name = data.draw(st.sampled_from(names))
    if name in ("median", "nanmedian") and (x.dtype == bool or not x.size):
        x = x.astype(np.float64)  # torch refuses bools, and of no integers it gives what it pleases
    check(lambda library, t: getattr(library, name)(t), x)


@EXAMPLES
@given(arrays(FLOATS), st.sampled_from([0, 0.5, 1, 1.5, 2, 3, math.inf, -math.inf, -1]), st.data())
def test_norms(x: np.ndarray, ord: float, data: Any):
    dim = data.draw(st.one_of(st.none(), dims(x)))
    check(lambda library, t: library.linalg.vector_norm(t, ord, dim), x)


@EXAMPLES
@given(arrays(["uint8", "int8", "int32", "int64", "float32"], finite=True), st.data())
def test_the_dtype_asked_for(x: np.ndarray, data: Any):
    """Integers wrap around in it, as they do in int64 without it."""
    name = data.draw(st.sampled_from(["sum", "prod", "cumsum", "cumprod", "nansum"]))
    dtype = data.draw(st.sampled_from([None, "bool", "int8", "int32", "int64", "float64"]))
    if dtype == "bool" and name.startswith("cum"):
        return  # which torch has not
    if x.dtype.kind == "f" and (x < 0).any() and dtype not in (None, "float64"):
        x = np.abs(x)  # where a product overflows an integer, C leaves open what becomes of it

    def call(library: Any, t: Any) -> Any:
        return getattr(library, name)(t, 0, dtype=None if dtype is None else getattr(library, dtype))

    check(call, x)


@EXAMPLES
@given(arrays(FLOATS + INTEGERS), st.data())
def test_scans(x: np.ndarray, data: Any):
    name = data.draw(st.sampled_from(["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"]))
    dim = data.draw(dims(x))
    check(lambda library, t: getattr(library, name)(t, dim), x)


@EXAMPLES
@given(arrays(FLOATS + INTEGERS, max_side=6), st.booleans(), st.data())
def test_sorting_is_stable_with_nan_last(x: np.ndarray, descending: bool, data: Any):
    dim = data.draw(dims(x))
    check(lambda library, t: tuple(library.sort(t, dim=dim, descending=descending, stable=True)), x)


PICKED: dict[str, Callable[[Any, int, int], Any]] = {
    "topk": lambda t, k, dim: t.topk(k, dim)[0],
    "smallest": lambda t, k, dim: t.topk(k, dim, largest=False)[0],
    "kthvalue": lambda t, k, dim: t.kthvalue(k, dim)[0],
    "median": lambda t, k, dim: t.median(dim)[0],
    "nanmedian": lambda t, k, dim: t.nanmedian(dim)[0],
    "mode": lambda t, k, dim: t.mode(dim)[0],
    "aminmax": lambda t, k, dim: tuple(t.aminmax(dim=dim)),
}


@EXAMPLES
@given(arrays(FLOATS + INTEGERS, max_side=6), st.sampled_from(sorted(PICKED)), st.integers(0, 4), st.data())
def test_values_picked_by_order(x: np.ndarray, name: str, k: int, data: Any):
    """Where equal elements stand is not specified: values are compared."""
    dim = data.draw(dims(x))
    if name == "mode" and x.dtype.kind == "f":
        x = np.nan_to_num(x)  # torch's order among NaNs is that of an unstable sort
    if x.dtype == bool or (not x.ndim and k == 0):
        x = np.ones(2)  # torch refuses bools (not as numbers); of no number it gives what was in memory
    check(lambda _, t: PICKED[name](t, k, dim), x)


@EXAMPLES
@given(
    arrays(FLOATS, max_side=5),
    st.sampled_from(["linear", "lower", "higher", "midpoint", "nearest"]),
    st.data(),
)
def test_quantiles(x: np.ndarray, interpolation: str, data: Any):
    dim, keepdim = data.draw(st.one_of(st.none(), dims(x))), data.draw(st.booleans())
    name = data.draw(st.sampled_from(["quantile", "nanquantile"]))
    q = data.draw(st.sampled_from([0.0, 0.25, 1.0, [0.0, 0.5, 1.0]]))

    def call(library: Any, t: Any) -> Any:
        places = library.tensor(q, dtype=t.dtype) if isinstance(q, list) else q
        return getattr(library, name)(t, places, dim, keepdim, interpolation=interpolation)

    check(call, x)


@EXAMPLES
@given(arrays(FLOATS + INTEGERS, max_side=4), st.data())
def test_distinct_values(x: np.ndarray, data: Any):
    dim = data.draw(st.one_of(st.none(), dims(x)))
    name = data.draw(st.sampled_from(["unique", "unique_consecutive"]))
    if x.dtype.kind == "f" and (dim is not None or name == "unique"):
        x = np.nan_to_num(x)  # torch sorts NaNs, and slices with NaNs, in no order

    def call(library: Any, t: Any) -> Any:
        return getattr(library, name)(t, return_inverse=True, return_counts=True, dim=dim)

    check(call, x)


@EXAMPLES
@given(
    arrays(["float32", "int64"], max_side=6),
    arrays(["float32", "int64"], min_dims=1, max_side=6),
    st.booleans(),
)
def test_binary_search(x: np.ndarray, boundaries: np.ndarray, right: bool):
    sequence = np.sort(np.nan_to_num(boundaries.reshape(-1), posinf=9, neginf=-9)).astype(x.dtype)
    check(lambda library, t: library.bucketize(t, library.tensor(sequence), right=right), x)


@EXAMPLES
@given(arrays(FLOATS, max_side=6, finite=True), st.integers(1, 5), st.data())
def test_histograms(x: np.ndarray, bins: int, data: Any):
    low, high = data.draw(st.sampled_from([(0, 0), (-2, 2), (-1.5, 4), (3, 1)]))
    check(lambda library, t: library.histc(t, bins, low, high), x)
    check(lambda library, t: tuple(library.histogram(t, bins)), x)


@EXAMPLES
@given(arrays(FLOATS + INTEGERS, max_side=5), st.integers(-1, 3), st.data())
def test_differences(x: np.ndarray, n: int, data: Any):
    dim = data.draw(dims(x))
    check(lambda library, t: library.diff(t, n, dim), x)


DIFFERENTIABLE = {
    "prod": lambda library, x, d: x.prod(d),
    "prod of all": lambda library, x, d: x.prod(),
    "cumprod": lambda library, x, d: x.cumprod(d),
    "amax": lambda library, x, d: x.amax(d),
    "amin of all": lambda library, x, d: x.amin(),
    "max of all": lambda library, x, d: x.max(),
    "median of all": lambda library, x, d: x.median(),
    "var": lambda library, x, d: x.var(d),
    "var of all": lambda library, x, d: x.var(),
    "std": lambda library, x, d: x.std(d, correction=0),
    "logsumexp": lambda library, x, d: x.logsumexp(d),
    "logcumsumexp": lambda library, x, d: x.logcumsumexp(d),
    "norm 2": lambda library, x, d: x.norm(dim=d),
    "norm 1": lambda library, x, d: x.norm(1, dim=d),
    "norm 3": lambda library, x, d: x.norm(3, dim=d),
    "norm 1.5": lambda library, x, d: x.norm(1.5, dim=d),
    "norm 0.5": lambda library, x, d: x.norm(0.5, dim=d),
    "norm inf": lambda library, x, d: x.norm(math.inf, dim=d),
    "cummax": lambda library, x, d: x.cummax(d)[0],
    "sort": lambda library, x, d: library.sort(x, dim=d, stable=True)[0],
    "nanmean": lambda library, x, d: x.nanmean(d),
    "diff": lambda library, x, d: x.diff(dim=d),
    "quantile": lambda library, x, d: x.quantile(0.3),
}


@settings(EXAMPLES, max_examples=250)
@given(arrays(["float64"], min_dims=1, finite=True), st.sampled_from(sorted(DIFFERENTIABLE)), st.data())
def test_gradients_with_ties_zeros_and_few_elements(x: np.ndarray, name: str, data: Any):
    dim = data.draw(st.integers(0, x.ndim - 1))

    def gradient(library: Any, t: Any) -> Any:
        t.requires_grad_()
        result = DIFFERENTIABLE[name](library, t, dim)
        weights = np.arange(1.0, result.numel() + 1).reshape(tuple(result.shape))
        (result * library.tensor(weights)).sum().backward()
        return t.grad

    if name == "quantile":
        x = np.unique(x)  # equal elements share their gradient in no order
    check(gradient, x)


# Accuracy.


@pytest.mark.parametrize("shape, dim", [((1_000_000, 2), 0), ((2000, 3, 300), (0, 2)), ((3, 300_000), 1)])
@pytest.mark.parametrize("name", ["sum", "mean", "norm"])
def test_long_sums_keep_their_digits(name: str, shape: tuple[int, ...], dim: Any):
    """NumPy itself, adding row by row, loses three digits here."""
    x = np.random.default_rng(0).random(shape, dtype=np.float32) + np.float32(0.1)
    exact = getattr(torch, name)(torch.from_numpy(x).double(), dim=dim).numpy()
    ours = getattr(fg, name)(fg.from_numpy(x), dim=dim).numpy()
    np.testing.assert_allclose(ours, exact, rtol=1e-6)
    transposed = fg.from_numpy(np.asfortranarray(x))
    np.testing.assert_allclose(getattr(fg, name)(transposed, dim=dim).numpy(), exact, rtol=1e-6)


def test_variance_far_from_zero_keeps_its_digits():
    x = np.float32(1e4) + np.random.default_rng(0).integers(0, 3, 10_000).astype(np.float32) * np.float32(
        2**-10
    )
    exact = x.astype(np.float64).var(ddof=1)
    assert fg.var(fg.from_numpy(x)).item() == pytest.approx(exact, rel=1e-4)


def test_half_precision_adds_up_in_single():
    ones = np.ones(60_000, np.float16)
    assert fg.from_numpy(ones).sum().item() == 60_000
    assert fg.from_numpy(np.ones(70_000, np.float16)).mean().item() == 1
    check(lambda library, t: t.cumsum(0), np.full(5_000, 1.001, np.float16))
    check(lambda library, t: t.norm(), np.full(100, 300.0, np.float16))
    check(lambda library, t: t.var(), np.full(100, 300.0, np.float16))


# What programs see besides the numbers.


def test_results_with_parts_have_names_and_print():
    x = fg.tensor([3.0, 1.0, 2.0])
    assert x.aminmax().max.item() == 3
    assert x.cummax(0).indices.tolist() == [0, 0, 0]
    assert repr(x.kthvalue(2)) == repr(torch.tensor([3.0, 1.0, 2.0]).kthvalue(2))


def test_each_nan_is_distinct():
    x = fg.tensor([math.nan, 1.0, math.nan])
    assert fg.unique(x).isnan().tolist() == [False, True, True]


def test_inplace_forms():
    x = fg.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.cumsum_(0).tolist() == [[1, 2], [4, 6]]
    assert x.cumprod_(1).tolist() == [[1, 2], [4, 24]]
    assert np.allclose(x.renorm_(2, 0, 1.0).norm(dim=1).tolist(), 1)


def test_a_shape_that_depends_on_values_keeps_a_function_eager():
    function = fg.jit(lambda x: fg.unique(x).sum() * 2)
    for values in ([1.0, 1.0, 2.0], [1.0, 2.0, 3.0]):
        assert function(fg.tensor(values)).item() == 2 * sum(set(values))


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: fg.max(fg.ones(0)), "dim"),
        (lambda: fg.tensor([1, 2]).mean(), "dtype=float32"),
        (lambda: fg.topk(fg.ones(3), 5), "k=5"),
        (lambda: fg.cdist(fg.ones(2, 3), fg.ones(2, 4)), "float32[2, 4]"),
        (lambda: fg.quantile(fg.ones(3), 1.5), "1.5"),
        (lambda: fg.cov(fg.ones(3), fweights=fg.tensor([-1, 1, 1])), "negative"),
    ],
)
def test_errors_say_what_was_given(call: Callable[[], Any], text: str):
    with pytest.raises(RuntimeError, match="test_reductions") as caught:
        call()
    assert text in str(caught.value)
