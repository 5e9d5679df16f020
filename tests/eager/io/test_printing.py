"""Tensors, parameters and modules print as PyTorch prints them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp
from oracle import torch

import fusegrad as fg

DTYPES = [
    "float16",
    "float32",
    "float64",
    "int8",
    "uint8",
    "int32",
    "int64",
    "bool",
    "complex64",
    "complex128",
]
SPECIAL = [0.0, -0.0, 1.0, -2.0, 0.5, 1e-5, 123456.0, 1e9, 1e-30, float("nan"), float("inf"), float("-inf")]


@pytest.fixture(autouse=True)
def usual_options():
    yield
    for namespace in (fg, torch):
        namespace.set_printoptions(profile="default")


def assert_same_text(array, prepare=lambda namespace, tensor: tensor):
    texts = [repr(prepare(ns, ns.from_numpy(np.array(array)))) for ns in (fg, torch)]
    assert texts[0] == texts[1]


def elements(dtype):
    kind = np.dtype(dtype).kind
    if kind in "fc":
        scaled = st.builds(lambda m, e: m * 10.0**e, st.integers(-9999, 9999), st.integers(-12, 8))
        real = st.one_of(st.sampled_from(SPECIAL), scaled, st.integers(-1000, 1000).map(float))
        return real if kind == "f" else st.builds(complex, real, real)
    return hnp.from_dtype(np.dtype(dtype))


@st.composite
def arrays(draw):
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=7))
    pool = draw(st.lists(elements(dtype), min_size=1, max_size=6))
    count = int(np.prod(shape))
    chosen = np.random.default_rng(draw(st.integers(0, 99))).integers(0, len(pool), count)
    with np.errstate(all="ignore"):
        return np.array([pool[i] for i in chosen], dtype).reshape(shape)


@given(arrays())
@settings(max_examples=300, deadline=None)
def test_any_tensor(array):
    assert_same_text(array)


@given(arrays(), st.data())
@settings(max_examples=150, deadline=None)
def test_any_options(array, data):
    options = {
        "precision": data.draw(st.integers(0, 8)),
        "threshold": data.draw(st.integers(0, 60)),
        "edgeitems": data.draw(st.integers(0, 3)),
        "linewidth": data.draw(st.integers(10, 120)),
        "sci_mode": data.draw(st.sampled_from([None, True, False])),
    }
    for namespace in (fg, torch):
        namespace.set_printoptions(**options)
    assert_same_text(array)


@pytest.mark.parametrize(
    "shape", [(1001,), (2000, 2), (3, 1000), (11, 11, 11), (7, 7, 7, 7), (2, 600), (1, 2, 700)]
)
@pytest.mark.parametrize("dtype", ["float32", "int64", "complex64", "bool"])
def test_large_tensors_are_summarised(shape, dtype):
    values = np.random.default_rng(0).normal(size=shape) * 100
    assert_same_text(values.astype(dtype))
    for profile in ("short", "full"):
        for namespace in (fg, torch):
            namespace.set_printoptions(profile=profile)
        if profile == "short" or np.prod(shape) < 1500:
            assert_same_text(values.astype(dtype))


@pytest.mark.parametrize("shape", [(), (3,), (20,), (0,), (0, 3), (4, 30)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_suffixes(shape, dtype):
    values = np.random.default_rng(0).normal(size=shape).astype(dtype)
    assert_same_text(values, lambda ns, t: t.requires_grad_())
    assert_same_text(values, lambda ns, t: t.requires_grad_() * 2)
    assert_same_text(values, lambda ns, t: ns.nn.Parameter(t))
    assert_same_text(values, lambda ns, t: ns.nn.Parameter(t, requires_grad=False))


def test_the_default_dtype_needs_no_suffix():
    try:
        for namespace in (fg, torch):
            namespace.set_default_dtype(namespace.float64)
        for dtype in ("float32", "float64", "complex64", "complex128"):
            assert_same_text(np.ones(3, dtype))
            assert_same_text(np.ones((0, 2), dtype))
    finally:
        for namespace in (fg, torch):
            namespace.set_default_dtype(namespace.float32)


def test_str_format_and_containers():
    for namespace in (fg, torch):
        x = namespace.tensor(1.25)
        assert f"{x:.3f} {x}" == "1.250 1.25"
        assert str(namespace.ones(2)) == "tensor([1., 1.])"
        assert f"{namespace.ones(2)}" == "tensor([1., 1.])"
        assert str([namespace.tensor(2)]) == "[tensor(2)]"
        with pytest.raises(TypeError):
            format(namespace.ones(2), ".2f")


def test_subclasses_have_their_names():
    texts = []
    for namespace in (fg, torch):
        kind = type("Colour", (namespace.Tensor,), {})
        tensor = namespace.arange(30.0)
        if namespace is fg:
            tensor.__class__ = kind
        else:
            tensor = tensor.as_subclass(kind)
        texts.append(repr(tensor))
    assert texts[0] == texts[1] and texts[0].startswith("Colour(")


def test_unknown_profile():
    with pytest.raises(ValueError, match="profile"):
        fg.set_printoptions(profile="long")
