"""Deferred runs and memory that somebody else sees: NumPy's code, another thread, other views of it."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import fusegrad as fg

pytestmark = pytest.mark.usefixtures("always_deferred")


def test_memory_that_numpy_code_holds_is_read_at_once():
    array = np.ones(4, np.float32)
    seen: list[Any] = []

    @fg.jit
    def f(x):
        y = x * 2 + x
        array[0] += 1  # nobody is told of this write
        seen.insert(99, y.tolist()[0])
        return y

    x = fg.from_numpy(array)
    for _ in range(6):
        f(x)
    assert seen == [3.0 * k for k in range(1, 7)]


def test_memory_given_to_numpy_is_read_at_once():
    x = fg.ones(4)
    view = x[1:].numpy()
    seen: list[Any] = []

    @fg.jit
    def f(x):
        y = x * 2 + x
        view[:] = 7
        seen.insert(99, y.tolist())
        view[:] = 1
        return y

    for _ in range(5):
        f(x)
    assert seen == [[3.0] * 4] * 5


def test_memory_given_to_numpy_meanwhile_is_not_read_late():
    seen: list[Any] = []

    @fg.jit
    def f(x):
        y = x * 2 + x
        array = x.numpy()
        array[:] = 7
        seen.insert(99, y.tolist())
        array[:] = 1
        return y

    for _ in range(5):
        f(fg.ones(4))
    assert seen == [[3.0] * 4] * 5


def test_views_share_memory_with_what_they_are_views_of():
    log = []

    @fg.jit
    def f(x):
        log.insert(99, 1)
        y = x * 2 + 1
        row, turned = y[0], y.T
        assert turned.stride() == (1, 3) and not turned.is_contiguous()
        assert turned.contiguous() is not turned and y.contiguous() is y
        return y, row, turned

    for _ in range(5):
        y, row, turned = f(fg.ones(2, 3))
        row.zero_()
        assert y.tolist() == [[0, 0, 0], [3, 3, 3]]
        assert turned[:, 0].tolist() == [0, 0, 0] and y._version == row._version == 1
    assert f.stats.compiled_calls >= 3


def test_what_nobody_holds_is_not_kept():
    log = []

    @fg.jit
    def f(x):
        log.insert(99, 1)
        return ((x * 2).tanh() * 3).sum()

    x = fg.ones(4, requires_grad=True)
    gc.disable()
    try:
        for _ in range(5):
            result = f(x)
            reference = weakref.ref(result)
            node = weakref.ref(result.array)
            del result
            assert reference() is None and node() is None
    finally:
        gc.enable()


def test_what_shares_the_memory_of_a_tensor_has_its_values():
    log: list[int] = []

    def f(x):
        log.insert(99, 1)
        parameter = fg.nn.Parameter(x * 2)
        buffer = fg.nn.Buffer(x * 3)
        copied = copy.copy(x * 4)
        layer = fg.nn.Linear(2, 2).double()
        with fg.no_grad():
            layer.weight.fill_(1.0)
        return parameter * 5 + buffer * 6 + copied * 7 + layer.weight.sum()

    jitted = fg.jit(f)
    for i in range(5):
        found = jitted(fg.full((3,), float(i)))
        np.testing.assert_array_equal(found.detach().numpy(), np.full(3, i * 56.0 + 4))
    assert jitted.stats.compiled_calls >= 2
