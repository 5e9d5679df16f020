"""Systems of equations, inverses, determinants and Cholesky's factors: by factors that native code computes.

    v0, v1 = linalg_solve_ex(a, b, check=True)            # info is 0 for all

becomes

    l0, l1, l2 = lu_factor_turned(a)                      # l2 is a check
    l3 = lu_solve_turned(l0, l1, b, transposed=False)
    l4 = permute(l3, dims=(1, 0))
    l5 = full(shape=(), value=0)

The same matrix is factored once, for its transpose as well: gradients solve with that. Whether a matrix that
is singular but for rounding is an error, and what its inverse is, eager decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.compiler.base.solver_ops import (
    CHOLESKY,
    FACTOR,
    LU_INVERSE,
    LU_SOLVE,
    TRIANGULAR,
    Solver,
    is_doubted,
)
from fusegrad.compiler.lower.rewriter import Rewriter
from fusegrad.eager.core import dtypes
from fusegrad.eager.core.op import REGISTRY
from fusegrad.tracer.ir.graph import Value
from fusegrad.tracer.ir.symbolic_sizes import likely

# Of single matrices with more rows than this NumPy, whose LAPACK has threads, is as fast.
LARGEST = 400


def _is_native(x: Value) -> bool:
    """Whether native code does it sooner than NumPy."""
    sides = [likely(n) for n in x.shape]
    return all(sides) and (sides[-1] <= LARGEST or math.prod(sides[:-2]) > 1)


def _is_certain(b: Rewriter, x: Value, op: Solver = FACTOR) -> bool:
    """Whether it is native, and no such matrix was found to be singular, or nearly so, at this line."""
    return _is_native(x) and not is_doubted(b.source, op, x.type)


def _across(rank: int) -> tuple[int, ...]:
    return (*range(rank - 2), rank - 1, rank - 2)


def _turned(b: Rewriter, x: Value) -> Value:
    """The transpose of each matrix: of a transpose, what that is one of."""
    dims = _across(len(x.shape))
    equation = b.producer.get(x)
    if equation is not None and equation.op.name == "permute" and tuple(equation.params["dims"]) == dims:
        source: Value = equation.inputs[0]
        return source
    return b.op("permute", x, dims=dims)


def _is_turned(b: Rewriter, x: Value) -> bool:
    equation = b.producer.get(x)
    return (
        equation is not None
        and equation.op.name == "permute"
        and tuple(equation.params["dims"]) == _across(len(x.shape))
    )


def _factored(b: Rewriter, a: Value) -> tuple[Value, Value, Value, bool]:
    """The factors, exchanges and soundness of a matrix, and whether they are those of its transpose."""
    transposed = _is_turned(b, a)
    factors, pivots, sound = b.several(FACTOR, (_turned(b, a) if transposed else a,), {})
    return factors, pivots, sound, transposed


def _info(b: Rewriter, x: Value) -> Value:
    """What LAPACK says of matrices with which all went well."""
    return b.full(x.shape[:-2], 0, np.dtype(np.int32))


def _inverse(b: Rewriter, x: Value, check: bool) -> tuple[Value, Value] | None:
    if not _is_certain(b, x):
        return None
    factors, pivots, sound, transposed = _factored(b, x)
    b.demand(sound)
    turned = b.equation(LU_INVERSE, (factors, pivots), {})
    return turned if transposed else _turned(b, turned), _info(b, x)


def _solve(b: Rewriter, a: Value, right: Value, check: bool) -> tuple[Value, Value] | None:
    if not _is_certain(b, a) or not all(likely(n) for n in right.shape):
        return None
    factors, pivots, sound, transposed = _factored(b, a)
    b.demand(sound)
    turned = b.equation(LU_SOLVE, (factors, pivots, right), {"transposed": transposed})
    return _turned(b, turned), _info(b, a)


def _triangular(
    b: Rewriter, a: Value, right: Value, upper: bool, left: bool, unitriangular: bool
) -> Value | None:
    if not _is_native(a) or not all(likely(n) for n in right.shape):
        return None
    params = {"upper": upper, "left": left, "unitriangular": unitriangular}
    return _turned(b, b.equation(TRIANGULAR, (a, right), params))


def _cholesky(b: Rewriter, x: Value, upper: bool, check: bool) -> tuple[Value, Value] | None:
    if not _is_certain(b, x, CHOLESKY):
        return None
    turned, sound = b.several(CHOLESKY, (x,), {"upper": upper})
    b.demand(sound)
    return _turned(b, turned), _info(b, x)


def _pivots_of(b: Rewriter, x: Value) -> tuple[Value, Value]:
    """The diagonal of U, and which rows were exchanged with another one."""
    factors, pivots, _, _ = _factored(b, x)
    rank = len(x.shape)
    diagonal = b.op("diagonal", factors, offset=0, dim1=rank - 2, dim2=rank - 1)
    own = b.op("add", b.arange(x.shape[-1], 0, 1, dtype=dtypes.int32), 1)
    return diagonal, b.op("ne", pivots, own)


def _last(x: Value) -> tuple[int, ...]:
    return (len(x.shape) - 1,)


def _determinant(b: Rewriter, x: Value) -> Value | None:
    if not _is_native(x):
        return None
    diagonal, exchanged = _pivots_of(b, x)
    signed = b.op("where", exchanged, b.op("neg", diagonal), diagonal)
    return b.op("prod", signed, dim=_last(diagonal), keepdim=False)


def _log_determinant(b: Rewriter, x: Value) -> tuple[Value, Value] | None:
    if not _is_native(x):
        return None
    diagonal, exchanged = _pivots_of(b, x)
    sign = b.op("sign", diagonal)
    signs = b.op("where", exchanged, b.op("neg", sign), sign)
    logs = b.op("log", b.op("abs", diagonal))
    dim = _last(diagonal)
    return b.op("prod", signs, dim=dim, keepdim=False), b.op("sum", logs, dim=dim, keepdim=False)


def _cofactors(b: Rewriter, x: Value) -> Value | None:
    """Of a matrix that has an inverse: its transpose, times the determinant."""
    determinant = _determinant(b, x) if _is_certain(b, x) else None
    if determinant is None:
        return None
    factors, pivots, sound, transposed = _factored(b, x)
    b.demand(sound)
    turned = b.equation(LU_INVERSE, (factors, pivots), {})
    whole = _turned(b, turned) if transposed else turned
    return b.op("mul", b.reshape(determinant, (*determinant.shape, 1, 1)), whole)


def _eigenvalues(b: Rewriter, x: Value, UPLO: str) -> Value | None:
    """Where vectors are asked for as well, which is what a gradient does, both are found at once."""
    if not b.is_asked("linalg_eigh", *b.original.inputs, UPLO=UPLO):
        return None
    return _eigenvectors(b, x, UPLO)[0]


def _eigenvectors(b: Rewriter, x: Value, UPLO: str) -> tuple[Value, ...]:
    return b.several(REGISTRY["linalg_eigh"], (x,), {"UPLO": UPLO})


RULES: dict[str, Callable[..., Any]] = {
    "linalg_inv_ex": _inverse,
    "linalg_solve_ex": _solve,
    "linalg_solve_triangular": _triangular,
    "linalg_cholesky_ex": _cholesky,
    "linalg_det": _determinant,
    "linalg_slogdet": _log_determinant,
    "linalg_cofactors": _cofactors,
    "linalg_eigvalsh": _eigenvalues,
    "linalg_eigh": _eigenvectors,
}
