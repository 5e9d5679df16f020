"""The ops of small linear algebra that native code computes: factors, and what is solved with them.

What eager offers (`solve`, `inv`, `det`, Cholesky's factor) comes down to these (`lower/linear_algebra.py`
says how), so that a matrix is factored once for a solution, a determinant and their gradients. They exist in
the compiler only.

Factors and solutions lie as LAPACK has them, column after column: each such result is *turned*, which is to
say that its rows are the columns of the matrix that is meant, and readers see it through a transposition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.op import Op, Params, TensorType
from fusegrad.eager.ops.linalg.matrices import INT32, scipy_linalg
from fusegrad.tracer.ir.graph import Equation, Source
from fusegrad.tracer.ir.symbolic_sizes import likely

_BOOL = np.dtype(bool)


class Solver(Op):
    """An op of matrices [..., n, n], one by one. Not in the registry of ops: eager does not know it.

    one: what it does with the arrays of one entry of the batch. types: the types of its results. ranks: of
    what `one` is given. Where the last result has no dimensions, it says whether all entries are sound.
    """

    family = "solver"

    def __init__(
        self, name: str, one: Callable[..., Any], types: Callable[..., Any], ranks: tuple[int, ...]
    ) -> None:
        self.name, self.arguments, self.variadic = name, ("operands",), True
        self.rules, self.saves, self._grad_name = None, False, f"{name}Backward0"
        self.one, self.types, self.ranks = one, types, ranks

    def infer(self, types: Sequence[Any], params: Params) -> Any:
        return self.types(*types)

    def evaluate(self, args: Sequence[Any], params: Params) -> Any:
        arrays = [a.array for a in args]
        types = self.types(*[TensorType(a.shape, a.dtype) for a in arrays])
        made = [np.ones(t.shape, t.dtype) for t in (types if isinstance(types[0], TensorType) else (types,))]
        for place in np.ndindex(arrays[0].shape[: arrays[0].ndim - self.ranks[0]]):
            for whole, part in zip(made, self.one(*(a[place] for a in arrays), **params), strict=True):
                if whole.ndim:
                    whole[place] = part
                else:
                    whole &= part
        return made[0] if len(made) == 1 else tuple(made)


# A pivot that is at most so many roundings of what it was computed from, and so many more for each row, may
# be that of a singular matrix (or of one that is not positive-definite). Rounding decides what LAPACK says of
# it, so nobody decides here: eager does. Errors grow by each small pivot before.
SINGULAR, INDEFINITE = (256, 2), (4, 2)


def doubtful(dtype: np.dtype, roundings: tuple[int, int], rows: int) -> float:
    """What a pivot is at most, beside what it was computed from, of a matrix that may be singular."""
    return (roundings[0] + roundings[1] * rows) * float(np.finfo(dtype).eps)


# The lines and ops, with rows and dtype of the matrices, at which there was doubt: what is captured there is
# left to NumPy from then on, so that only the first such call is made twice.
_doubted: set[tuple[Source | None, Solver, int, np.dtype]] = set()


def note_doubt(equation: Equation) -> None:
    """There was doubt about a matrix that an op has factored."""
    shape, dtype = equation.outputs[0].type
    assert isinstance(equation.op, Solver)
    _doubted.add((equation.source, equation.op, likely(shape[-1]), dtype))


def is_doubted(source: Source | None, op: Solver, matrix: TensorType) -> bool:
    """Whether there was doubt about such a matrix, factored by an op at a line."""
    return (source, op, likely(matrix.shape[-1]), matrix.dtype) in _doubted


def _lapack(name: str, array: np.ndarray) -> Any:
    return scipy_linalg().get_lapack_funcs(name, (array,))


def _factor_one(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
    factors, pivots, _ = _lapack("getrf", a)(a)
    largest = np.abs(np.triu(factors)).max(0)
    sound = bool((np.abs(np.diagonal(factors)) > doubtful(a.dtype, SINGULAR, len(a)) * largest).all())
    return factors.T, pivots + 1, sound


def _solve_one(turned: np.ndarray, pivots: np.ndarray, b: np.ndarray, transposed: bool) -> tuple[np.ndarray]:
    return (_lapack("getrs", b)(turned.T, pivots - 1, b, trans=int(transposed))[0].T,)


def _inverse_one(turned: np.ndarray, pivots: np.ndarray) -> tuple[np.ndarray]:
    return _solve_one(turned, pivots, np.eye(len(pivots), dtype=turned.dtype), False)


def _cholesky_one(a: np.ndarray, upper: bool) -> tuple[np.ndarray, bool]:
    factor, info = _lapack("potrf", a)(a, lower=not upper, clean=1)
    sound = np.diagonal(factor) ** 2 > doubtful(a.dtype, INDEFINITE, len(a)) * np.diagonal(a)
    return factor.T, not info and bool(sound.all())


def _triangular_one(
    a: np.ndarray, b: np.ndarray, upper: bool, left: bool, unitriangular: bool
) -> tuple[np.ndarray]:
    trsm = scipy_linalg().get_blas_funcs("trsm", (a,))
    return (trsm(1.0, a, b, side=not left, lower=not upper, diag=unitriangular).T,)


def _turned(b: TensorType) -> TensorType:
    return TensorType((*b.shape[:-2], b.shape[-1], b.shape[-2]), b.dtype)


_SOUND = TensorType((), _BOOL)

# (the factors L and U in one, turned; the rows exchanged, counted from 1; whether no matrix may be singular)
FACTOR = Solver("lu_factor_turned", _factor_one, lambda a: (a, TensorType(a.shape[:-1], INT32), _SOUND), (2,))
# The solution, turned. Params: whether it is that of the transposed system.
LU_SOLVE = Solver("lu_solve_turned", _solve_one, lambda turned, pivots, b: _turned(b), (2, 1, 2))
# The inverse, turned.
LU_INVERSE = Solver("lu_inverse_turned", _inverse_one, lambda turned, pivots: turned, (2, 1))
# (the factor, turned; whether all matrices are positive-definite beyond doubt)
CHOLESKY = Solver("cholesky_turned", _cholesky_one, lambda a: (a, _SOUND), (2,))
# The solution, turned. Params: those of `solve_triangular`.
TRIANGULAR = Solver("solve_triangular_turned", _triangular_one, lambda a, b: _turned(b), (2, 2))
