"""Eager's matrix products, on the pool of the compiled loops.

Once something was compiled, threads of BLAS's own beside those of the pool would starve each other: see
`matmul.py`. What a product of new sizes needs is compiled beside the program, and NumPy computes it until it
is there; at once where results must not depend on the clock, or eager has no kernels.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np

from fusegrad.compiler.base.background import Work, Worker
from fusegrad.compiler.gemm.matmul import is_shared, product_addresses, product_block
from fusegrad.compiler.kernel.dtypes import product_dtype
from fusegrad.compiler.native.calls import Call, Calls, Slot
from fusegrad.compiler.runtime import threads
from fusegrad.eager.core import large
from fusegrad.eager.core.families import Layout
from fusegrad.eager.core.settings import setting as determinism
from fusegrad.eager.core.sizes import broadcast_shapes
from fusegrad.eager.ops.linalg.contraction import set_product

# Below these many multiplications OpenBLAS stays on one thread, and so may be called directly:
# with matrices, and with a vector.
NUMPY_PRODUCT = 1 << 18
NUMPY_VECTOR = 9216
MOST_KNOWN = 512

# The native call and the shape of the result, by how operands lie; None for what is left to NumPy, or not
# there yet.
_Prepared = tuple[Calls, tuple[int, ...]] | None
_known: dict[tuple[Any, ...], _Prepared] = {}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_known.clear)  # nobody goes on there with what was asked for


def matmul(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`numpy.matmul` for eager, on the pool of the compiled loops; what it cannot do goes to NumPy."""
    if x.ndim and y.ndim:
        size = x.size * (y.shape[-1] if y.ndim > 1 else 1)
        if size > (NUMPY_PRODUCT if x.ndim > 1 and y.ndim > 1 else NUMPY_VECTOR):
            key = x.shape, x.strides, x.dtype, y.shape, y.strides, y.dtype
            if determinism.wanted or not large.answers.enabled:
                prepared = _prepared(*key)
            else:
                prepared = _known[key] if key in _known else _asked(key)
            if prepared is not None:
                calls, shape = prepared
                result = np.empty(shape, x.dtype)
                calls.run(x, y, result)
                return result
    product: np.ndarray = np.matmul(x, y)
    return product


def _asked(key: tuple[Any, ...]) -> _Prepared:
    """Have a product prepared beside the program; what there is of it now."""

    def prepare(work: Work[object]) -> None:
        _known[key] = _prepared(*key)

    if len(_known) >= MOST_KNOWN:
        _known.clear()
    _known[key] = None
    _worker().ask(Work(prepare, "a product"))
    return _known[key]


@functools.cache
def _worker() -> Worker:
    return Worker(aside=False)


def wait() -> None:
    """Until all is there that was asked for. Raises what failed, where faults are raised."""
    _worker().wait()


@functools.lru_cache(MOST_KNOWN)
def _prepared(
    x_shape: tuple[int, ...],
    x_strides: tuple[int, ...],
    x_dtype: np.dtype,
    y_shape: tuple[int, ...],
    y_strides: tuple[int, ...],
    y_dtype: np.dtype,
) -> _Prepared:
    """The native call for operands that lie so, and the shape of the result."""
    size = x_dtype.itemsize
    strides = (*x_strides, *y_strides)
    known = x_dtype == y_dtype and product_dtype(x_dtype) is not None
    if not known or 0 in (*x_shape, *y_shape) or any(s < 0 or s % size for s in strides):
        return None
    x = Layout(x_shape, tuple(s // size for s in x_strides))
    y = Layout(y_shape, tuple(s // size for s in y_strides))
    block = product_block(x, y, size, ((1, 0), (2, 0), (3, 0)))
    if block is None:
        return None
    rows = x_shape[-2:-1] if len(x_shape) > 1 else ()
    columns = y_shape[-1:] if len(y_shape) > 1 else ()
    shape = (*broadcast_shapes(x_shape[:-2], y_shape[:-2]), *rows, *columns)
    address, _ = product_addresses(x_dtype, block)
    slots = [
        Slot("x", x_shape, x_dtype, x_strides, False),
        Slot("y", y_shape, y_dtype, y_strides, False),
        Slot("result", shape, x_dtype, None, True),
    ]
    return Calls([Call(address, block, is_shared(block), "eager's product")], lambda: slots), shape


@functools.cache
def share_pool() -> None:
    """From now on eager's products run on the pool too: an eager step next to a compiled one is safe."""
    if threads.pool_size() > 1:
        set_product(matmul)
