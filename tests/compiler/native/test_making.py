"""Small programs, whose results are made natively along with what they compute."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest
from native_core import native_only

import fusegrad as fg
from fusegrad.compiler.native import making
from fusegrad.compiler.native.making import Making
from fusegrad.compiler.paths.autograd_node import CompiledNode
from fusegrad.compiler.placement import memory_plan
from fusegrad.eager.core import settings
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.tensor import Tensor

FLOAT = np.dtype(np.float32)


def answered(function: Any, *args: Any) -> Any:
    """The function compiled, after as many calls as it takes until a shortcut answers."""
    jitted = fg.jit(function)
    for _ in range(6):
        jitted(*args)
    assert jitted._answer is not None
    return jitted


def test_tensors_are_like_wrapped_ones():
    run = Making(None, made=[(1, (2, 3), FLOAT), (2, (), FLOAT)], tensors=[1, 0]).run
    matrix, number, of_number, of_matrix = run(np.empty(0), np.empty(0))
    assert (matrix.shape, matrix.dtype, number.shape) == ((2, 3), FLOAT, ())
    assert matrix.flags.owndata and matrix.flags.c_contiguous and matrix.flags.writeable
    assert of_matrix.array is matrix and of_number.array is number
    known = wrap(matrix)
    for tensor in (of_matrix, of_number):
        assert type(tensor) is Tensor and gc.is_tracked(tensor)
        for slot in ("needs_grad", "gradient", "grad_fn", "output_index", "version", "alias"):
            assert getattr(tensor, slot) == getattr(known, slot)
        tensor.note = "what users hang on"
        assert vars(tensor) == {"note": "what users hang on"}
    assert of_matrix.version is not of_number.version


def test_an_object_with_the_same_in_its_slots():
    like = CompiledNode.__new__(CompiledNode)
    like.names = ("a", "b")
    (made,) = Making(None, like=like).run()
    assert type(made) is CompiledNode and made is not like and made.names is like.names
    assert not hasattr(made, "leaves")


def test_nothing_is_held_after_a_call():
    like = CompiledNode.__new__(CompiledNode)
    like.leaf = marker = object()
    run = Making(None, made=[(1, (3,), FLOAT)], tensors=[0], like=like).run
    given = np.empty(0)
    run(given)  # what is made at the first call stays
    before = [sys.getrefcount(thing) for thing in (FLOAT, marker, given, CompiledNode, Tensor)]
    for _ in range(100):
        run(given)
    assert [sys.getrefcount(thing) for thing in (FLOAT, marker, given, CompiledNode, Tensor)] == before


@native_only
@pytest.mark.skipif(settings.RED_ZONES, reason="native code makes nothing there")
def test_no_memory_at_any_place():
    """Whatever cannot be had, all that was made before goes, and the next call answers."""
    api = pytest.importorskip("_testcapi")
    x = fg.tensor([0.5, 1.5, 2.5], requires_grad=True)
    run = Making(None, made=[(1, (200,), FLOAT)] * 3, tensors=[0, 2], like=x.sum().grad_fn).run
    given = [np.empty(0)] * 3
    run(*given)
    before = sys.getrefcount(FLOAT)
    failures = 0
    for count in range(30):
        try:
            api.set_nomemory(count)
            try:
                made = run(*given)
            finally:
                api.remove_mem_hooks()
        except MemoryError:
            failures += 1
        else:
            assert len(made) == 6
            del made
    assert failures
    assert sys.getrefcount(FLOAT) == before


@pytest.mark.parametrize("size", [4, 1 << 17])
def test_large_programs_let_other_threads_go_on(size: int, monkeypatch: pytest.MonkeyPatch):
    """What takes long is done without the GIL; both ways give the same."""

    def function(x):
        return fg.exp(x) * x + 1

    x = fg.tensor(np.linspace(-1, 1, size, dtype=np.float32), requires_grad=True)
    jitted = answered(function, x)
    written = jitted._answer.__globals__
    small = any(isinstance(value, Making) and value._alive[0] is not None for value in written.values())
    assert small is (size < making.MOST_WORK)
    monkeypatch.setattr(memory_plan, "MOST_WORK", -1)
    assert np.array_equal(jitted(x).array, answered(function, x)(x).array)


def test_results_in_another_shape_and_twice():
    """Each array is wrapped natively once; what is more than that is wrapped by Python."""

    def function(x):
        y = fg.tanh(x)
        return y, (y * 2).reshape(3, 2), y

    x = fg.tensor(np.arange(6, dtype=np.float32) / 5)
    jitted = answered(function, x)
    for a, b in zip(jitted(x), function(x), strict=True):
        assert np.allclose(a.array, b.array) and a.shape == b.shape and a.stride() == b.stride()
    first, _, again = jitted(x)
    assert first is again


def test_work_is_what_kernels_and_products_do():
    x, w = fg.ones(8, 16), fg.ones(16, 4)
    several = answered(lambda x: (x * 2, x + 1, x - 1), x)
    for jitted, work in (
        (answered(lambda x, w: fg.tanh(x @ w), x, w), 8 * 4 + 8 * 16 * 4 // 8),
        (several, 3 * 8 * 16),
    ):
        (entry,) = jitted.entries.values()
        (variant,) = entry.variants
        placed = variant.tree.root.code.program.placed()
        assert placed.work == work
        assert placed.is_small
