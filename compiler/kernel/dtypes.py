"""Dtypes of kernels: a name goes in; how it is stored, computed with, accumulated and multiplied comes out.

This table is the one place that says so. What has no row (float16, bfloat16) is left to NumPy, op by op, and
complex numbers are pairs of those that have one (`lower/complex_pairs.py`); a dtype that is stored narrower
than it is computed with, as bfloat16 would be, is a row whose `compute` and `accumulate` name another one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fusegrad.eager.core.dtypes import FROM_NUMPY


@dataclass(frozen=True, slots=True)
class KernelDtype:
    """How kernels treat numbers of one dtype.

    name: as kernels print it. kind: "b", "u", "i" or "f", as NumPy's. size: bytes in memory.
    register: its LLVM type. memory: the dtype as which it is loaded and stored.
    compute: the dtype that an op's operands are converted to; each result is rounded to its own dtype again.
    accumulate: the dtype in which the sums of blocks are added up. wider: that of running sums, as in eager,
    and of functions that lose too much in its own.
    bits: integers of the same width. product: BLAS's routine for matrices of it; "" where there is none.
    """

    name: str
    kind: str
    size: int
    register: str
    memory: str
    compute: str
    accumulate: str
    wider: str
    bits: str = ""
    product: str = ""

    @property
    def mangled(self) -> str:
        """How names of LLVM's intrinsics end for it."""
        return self.name if self.kind == "f" else f"i{8 * self.size}"


def _integer(name: str, kind: str, size: int, register: str, memory: str) -> KernelDtype:
    return KernelDtype(name, kind, size, register, memory, name, name, name)


DTYPES: dict[str, KernelDtype] = {
    row.name: row
    for row in (
        _integer("bool", "b", 1, "i1", memory="u8"),
        _integer("u8", "u", 1, "i8", memory="u8"),
        _integer("i8", "i", 1, "i8", memory="i8"),
        _integer("i16", "i", 2, "i16", memory="i16"),
        _integer("i32", "i", 4, "i32", memory="i32"),
        _integer("i64", "i", 8, "i64", memory="i64"),
        KernelDtype("f32", "f", 4, "float", "f32", "f32", "f64", wider="f64", bits="i32", product="sgemm"),
        KernelDtype("f64", "f", 8, "double", "f64", "f64", "f64", wider="f64", bits="i64", product="dgemm"),
    )
}
# What a Python number is taken for where nothing else says so.
DEFAULT_FLOAT = "f32"


def is_float(dtype: str) -> bool:
    """Whether a dtype of kernels has fractions."""
    return DTYPES[dtype].kind == "f"


def memory_type(dtype: str) -> str:
    """The LLVM type of an element in memory."""
    return DTYPES[DTYPES[dtype].memory].register


def has_kernels(dtype: np.dtype) -> bool:
    """Whether kernels take arrays of a NumPy dtype."""
    return FROM_NUMPY[dtype].short in DTYPES


def product_dtype(dtype: np.dtype) -> KernelDtype | None:
    """The dtype of kernels for matrix products of a NumPy dtype; None where they are left to NumPy."""
    row = DTYPES.get(FROM_NUMPY[dtype].short) if dtype in FROM_NUMPY else None
    return row if row is not None and row.product else None
