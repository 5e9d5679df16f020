"""Systems of equations: inverses, solutions, determinants, and the factors that serve them (LU, Cholesky).

NumPy and LAPACK compute; the gradient rules are compositions of public ops, so that they can be
traced and derived again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.autograd.views import owned
from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import AnalyticOpaque, Opaque
from fusegrad.eager.core.memory_order import columns, rows
from fusegrad.eager.core.op import TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.linalg.matrices import (
    INT32,
    LinAlgError,
    PerMatrix,
    check_floating,
    check_matrix,
    check_same_dtype,
    check_sides,
    check_square,
    lapack,
    raise_where,
    real_dtype,
    same_batch,
    scipy_linalg,
)
from fusegrad.eager.ops.results import return_type
from fusegrad.eager.ops.shape.order import matrix_transpose

_SINGULAR = (
    "The diagonal element {} is zero, the inversion could not be completed because the input matrix "
    "is singular."
)
_UNSOLVABLE = "The solver failed because the input matrix is singular (the diagonal element {} of U is zero)."
_INDEFINITE = (
    "The factorization could not be completed because the input is not positive-definite "
    "(the leading minor of order {} is not positive-definite)."
)


def _reported(
    function: Callable[..., np.ndarray], routine: str, x: np.ndarray, *others: np.ndarray, **options: Any
) -> tuple[np.ndarray, np.ndarray]:
    """`function(x, *others)` of NumPy for a batch, and LAPACK's info for each matrix (0: all went well).

    NumPy does not say which matrix failed. Then `routine`, the factorisation that it is done with, is asked
    matrix by matrix; the results of those that failed are NaN.
    """
    info = np.zeros(x.shape[:-2], INT32)
    try:
        return function(x, *others, **options), info
    except np.linalg.LinAlgError:
        pass
    results = np.full((others or (x,))[-1].shape, np.nan, x.dtype)
    for place in np.ndindex(info.shape):
        try:
            results[place] = function(x[place], *(o[place] for o in others), **options)
        except np.linalg.LinAlgError:
            triangle = {"lower": 0 if options.get("upper") else 1} if routine == "potrf" else {}
            info[place] = lapack(routine, x)(x[place], **triangle)[-1]
    return results, info


def _with_info(types: Sequence[TensorType], **params: Any) -> tuple[TensorType, TensorType]:
    """The types of a result like the last input, and of the info for each matrix of the first."""
    return types[-1], TensorType(types[0].shape[:-2], INT32)


# Inverse and solution.


def _inv_numpy(x: np.ndarray, check: bool) -> tuple[np.ndarray, np.ndarray]:
    inverse, info = _reported(np.linalg.inv, "getrf", x)
    if check:
        raise_where(info, "linalg.inv", _SINGULAR)
    return inverse, info


_inv = Opaque(
    "linalg_inv_ex",
    "x",
    _inv_numpy,
    _with_info,
    {"x": lambda g, out: -ops.matmul(ops.adjoint(out), ops.matmul(g[0], ops.adjoint(out)))},
    order=(columns, rows),
)
_InvEx = return_type("linalg_inv_ex", ("inverse", "info"))


def inv_ex(A: Tensor, *, check_errors: bool = False) -> Any:
    """(inverse, info): the inverses, and 0 or the place of the zero pivot. Source: `torch.linalg.inv_ex`.

    The inverse of a singular matrix is NaN.
    """
    return _InvEx(*bind(_inv, (check_square("linalg.inv", A),), {"check": check_errors}))


def inv(A: Tensor) -> Tensor:
    """The inverse of each matrix [..., n, n]. Source: `torch.linalg.inv`.

    Raises LinAlgError for a singular one.

    >>> import fusegrad as fg
    >>> fg.linalg.inv(fg.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return inv_ex(A, check_errors=True)[0]


@public(method=True)
def inverse(input: Tensor) -> Tensor:
    """`linalg.inv`. Source: `torch.inverse`."""
    return inv(input)


def _solve_numpy(a: np.ndarray, b: np.ndarray, check: bool) -> tuple[np.ndarray, np.ndarray]:
    solution, info = _reported(np.linalg.solve, "getrf", a, b)
    if check:
        raise_where(info, "linalg.solve", _UNSOLVABLE)
    return solution, info


def _solution_gradient(g: list[Tensor], a: Tensor) -> Tensor:
    return bind(_solve, (ops.adjoint(a), g[0]), {"check": False})[0]


_solve = Opaque(
    "linalg_solve_ex",
    "a b",
    _solve_numpy,
    _with_info,
    {
        "a": lambda g, a, out: -ops.matmul(_solution_gradient(g, a), ops.adjoint(out)),
        "b": _solution_gradient,
    },
    order=(columns, rows),
)
_SolveEx = return_type("linalg_solve_ex", ("result", "info"))


def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    """(result, info): as `solve`, with info in place of an error. Source: `torch.linalg.solve_ex`."""
    name = "linalg.solve"
    check_square(name, A)
    check_floating(name, B, "B")
    check_same_dtype(name, A, B)
    vector = B.array.ndim == 1 or (A.array.ndim - 1 == B.array.ndim and B.array.shape == A.array.shape[:-1])
    if vector and not left:
        raise failure(
            RuntimeError, f"{name}: Vector broadcasting of the left hand side is not supported for left=False"
        )
    columns = ops.unsqueeze(B, -1) if vector else B
    check_sides(name, A, columns, left)
    a, b = same_batch(name, A, columns)
    if not left:
        a, b = ops.adjoint(a), ops.adjoint(b)
    result, info = bind(_solve, (a, b), {"check": check_errors})
    if vector:
        result = owned(ops.squeeze(result, -1))
    return _SolveEx(result if left else owned(ops.adjoint(result)), info)


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X with A X = B (X A = B for `left=False`); B may be a vector. Source: `torch.linalg.solve`.

    Raises LinAlgError for a singular A.

    >>> import fusegrad as fg
    >>> fg.linalg.solve(fg.tensor([[2.0, 0.0], [0.0, 4.0]]), fg.tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    return solve_ex(A, B, left=left, check_errors=True)[0]


# Triangular systems.


def _triangle(x: Tensor, upper: bool, unitriangular: bool) -> Tensor:
    """The part of a gradient that a triangular matrix has elements for."""
    off = 1 if unitriangular else 0
    return ops.triu(x, off) if upper else ops.tril(x, -off)


def _triangular_numpy(
    a: np.ndarray, b: np.ndarray, upper: bool, left: bool, unitriangular: bool
) -> np.ndarray:
    trsm = scipy_linalg().get_blas_funcs("trsm", (a,))
    solution: np.ndarray = trsm(1.0, a, b, side=not left, lower=not upper, diag=unitriangular)
    return solution


def _substituted(a: np.ndarray, b: np.ndarray, upper: bool, left: bool, unitriangular: bool) -> np.ndarray:
    """The same for a batch: row after row, each of all matrices at once."""
    if not left:
        a, b, upper = a.swapaxes(-1, -2), b.swapaxes(-1, -2), not upper
    x, rows = np.array(b, order="C"), a.shape[-1]
    for done in range(rows):
        row = rows - 1 - done if upper else done
        known = slice(row + 1, rows) if upper else slice(0, row)
        if done:
            x[..., row, :] -= (a[..., row, known, None] * x[..., known, :]).sum(-2)
        if not unitriangular:
            with np.errstate(divide="ignore", invalid="ignore"):
                x[..., row, :] /= a[..., row, row, None]
    return x if left else np.ascontiguousarray(x.swapaxes(-1, -2))


def _triangular_gradient(g: Tensor, a: Tensor, upper: bool, left: bool, unitriangular: bool) -> Tensor:
    return solve_triangular(ops.adjoint(a), g, upper=not upper, left=left, unitriangular=unitriangular)


def _triangular_factor_gradient(
    g: Tensor, a: Tensor, out: Tensor, upper: bool, left: bool, unitriangular: bool
) -> Tensor:
    b_gradient = _triangular_gradient(g, a, upper, left, unitriangular)
    whole = ops.matmul(b_gradient, ops.adjoint(out)) if left else ops.matmul(ops.adjoint(out), b_gradient)
    return -_triangle(whole, upper, unitriangular)


_solve_triangular = PerMatrix(
    "linalg_solve_triangular",
    "a b",
    _triangular_numpy,
    lambda types, **_: types[1],
    {"a": _triangular_factor_gradient, "b": _triangular_gradient},
    of_many=_substituted,
    order=columns,
)


def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """X with A X = B (X A = B) for triangular A; a zero on its diagonal gives inf.

    Source: `torch.linalg.solve_triangular`.
    upper: whether A's upper triangle is read, or its lower; unitriangular: its diagonal counts as ones.
    """
    name = "linalg.solve_triangular"
    check_square(name, A)
    check_same_dtype(name, A, B)
    check_sides(name, A, B, left)
    params = {"upper": bool(upper), "left": bool(left), "unitriangular": bool(unitriangular)}
    return bind(_solve_triangular, same_batch(name, A, B), params)


_TriangularSolve = return_type("triangular_solve", ("solution", "cloned_coefficient"))


@public(method=True)
def triangular_solve(
    input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    """(solution, cloned_coefficient) of A X = `input` for triangular A. Source: `torch.triangular_solve`."""
    name = "triangular_solve"
    a, right = same_batch(name, check_square(name, A), check_matrix(name, input, "b"))
    matrix, kept = (ops.transpose(a, -2, -1), not upper) if transpose else (a, upper)
    solution = solve_triangular(matrix, right, upper=kept, unitriangular=unitriangular)
    return _TriangularSolve(solution, ops.clone(a))


# Cholesky's factor.


def half_diagonal(x: Tensor) -> Tensor:
    """The lower triangle of each matrix with half the diagonal: what a symmetric change gives its factor."""
    return ops.tril(x) - ops.tril(ops.triu(x)) * 0.5


def _cholesky_numpy(x: np.ndarray, upper: bool, check: bool) -> tuple[np.ndarray, np.ndarray]:
    factor, info = _reported(np.linalg.cholesky, "potrf", x, upper=upper)
    if check:
        raise_where(info, "linalg.cholesky", _INDEFINITE)
    return factor, info


def _cholesky_gradient(g: list[Tensor], out: Tensor, upper: bool) -> Tensor:
    lower, gradient = (ops.adjoint(out), ops.adjoint(g[0])) if upper else (out, g[0])
    inner = half_diagonal(ops.matmul(ops.adjoint(lower), gradient))
    left = solve_triangular(ops.adjoint(lower), inner, upper=True)
    whole = solve_triangular(lower, left, upper=False, left=False)
    return (whole + ops.adjoint(whole)) * 0.5


_cholesky = Opaque(
    "linalg_cholesky_ex",
    "x",
    _cholesky_numpy,
    _with_info,
    {"x": _cholesky_gradient},
    order=(columns, rows),
)
_CholeskyEx = return_type("linalg_cholesky_ex", ("L", "info"))


def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    """(L, info): as `cholesky`, with info in place of an error. Source: `torch.linalg.cholesky_ex`."""
    check_square("linalg.cholesky", A)
    return _CholeskyEx(*bind(_cholesky, (A,), {"upper": bool(upper), "check": check_errors}))


def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """The triangular L with A = L L^T (U^T U for `upper`). Source: `torch.linalg.cholesky`.

    Raises LinAlgError for a matrix that is not positive-definite.
    """
    return cholesky_ex(A, upper=upper, check_errors=True)[0]


@public(name="cholesky", method=True)
def cholesky_of(input: Tensor, upper: bool = False) -> Tensor:
    """`linalg.cholesky` in its older form. Source: `torch.cholesky`."""
    return cholesky(input, upper=upper)


def _cholesky_solve_numpy(b: np.ndarray, factor: np.ndarray, upper: bool) -> np.ndarray:
    solution: np.ndarray = lapack("potrs", factor)(factor, b, lower=not upper)[0]
    return solution


def _factor_gradient(both: Tensor, factor: Tensor, upper: bool) -> Tensor:
    """Of a factor whose A = L L^T has a gradient half of `both`; not cut to the triangle, as in PyTorch."""
    return -ops.matmul(factor, both) if upper else -ops.matmul(both, factor)


def _cholesky_solve_gradient(g: Tensor, factor: Tensor, out: Tensor, upper: bool) -> Tensor:
    change = ops.matmul(cholesky_solve(g, factor, upper), ops.adjoint(out))
    return _factor_gradient(change + ops.adjoint(change), factor, upper)


_cholesky_solve = PerMatrix(
    "cholesky_solve",
    "b factor",
    _cholesky_solve_numpy,
    lambda types, upper: types[0],
    {"b": lambda g, factor, upper: ops.cholesky_solve(g, factor, upper), "factor": _cholesky_solve_gradient},
    order=columns,
)


@public(method=True)
def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """X with A X = `input`, from the Cholesky factor of A. Source: `torch.cholesky_solve`."""
    name = "cholesky_solve"
    check_square(name, input2, "L")
    check_same_dtype(name, input2, input)
    check_sides(name, input2, input, True)
    factor, right = same_batch(name, input2, input)
    return bind(_cholesky_solve, (right, factor), {"upper": bool(upper)})


def _cholesky_inverse_numpy(factor: np.ndarray, upper: bool) -> np.ndarray:
    triangle, zero = lapack("potri", factor)(factor, lower=not upper)
    if zero > 0:
        raise failure(
            LinAlgError,
            f"cholesky_inverse: The diagonal element {zero} is zero, the inversion could not be completed "
            "because the input matrix is singular.",
        )
    lower = triangle.T.conj() if upper else triangle
    return np.tril(lower) + np.tril(lower, -1).T.conj()


def _cholesky_inverse_gradient(g: Tensor, factor: Tensor, out: Tensor, upper: bool) -> Tensor:
    both = ops.matmul(out, ops.matmul(g + ops.adjoint(g), out))
    return _factor_gradient(both, factor, upper)


_cholesky_inverse = PerMatrix(
    "cholesky_inverse",
    "factor",
    _cholesky_inverse_numpy,
    lambda types, upper: types[0],
    {"factor": _cholesky_inverse_gradient},
    (2,),
    order=columns,
)


@public(method=True)
def cholesky_inverse(input: Tensor, upper: bool = False) -> Tensor:
    """The inverse of A, from its Cholesky factor. Source: `torch.cholesky_inverse`."""
    return bind(_cholesky_inverse, (check_square("cholesky_inverse", input, "L"),), {"upper": upper})


# Determinants.


def _cofactors_numpy(x: np.ndarray) -> np.ndarray:
    """det(x) times the inverse's transpose, from singular values: right for singular matrices too."""
    left, values, right = np.linalg.svd(x)
    n = values.shape[-1]
    others = np.where(np.eye(n, dtype=bool), values.dtype.type(1), values[..., None, :]).prod(-1)
    sign = np.linalg.det(left) * np.linalg.det(right)
    if x.dtype.kind == "c":
        left, right = left.conj(), right.conj()
    return np.matmul(left * (others * sign[..., None])[..., None, :], right)


def _cofactors_gradient(g: Tensor, x: Tensor) -> Tensor:
    """Of det(x) * inv(x)^T."""
    transposed = matrix_transpose(bind(_inv, (x,), {"check": False})[0])
    whole = _det(x)[..., None, None] * transposed
    weight = ops.sum(g * transposed, (-2, -1), keepdim=True)
    return weight * whole - ops.matmul(transposed, ops.matmul(matrix_transpose(g), whole))


_cofactors = AnalyticOpaque(
    "linalg_cofactors", "x", _cofactors_numpy, lambda types: types[0], {"x": _cofactors_gradient}
)


def cofactors(x: Tensor) -> Tensor:
    """The gradient of each matrix's determinant: det(x) times the transposed inverse, where there is one."""
    return bind(_cofactors, (check_square("linalg.det", x),))


_det_op = AnalyticOpaque(
    "linalg_det",
    "x",
    np.linalg.det,
    lambda types: TensorType(types[0].shape[:-2], types[0].dtype),
    {"x": lambda g, x: g[..., None, None] * cofactors(x)},
    refuses="",
)


def _det(x: Tensor) -> Tensor:
    return bind(_det_op, (x,))


@public(method=True)
def det(A: Tensor) -> Tensor:
    """The determinant of each matrix. Source: `torch.linalg.det`."""
    return _det(check_square("linalg.det", A))


def _slogdet_types(types: Sequence[TensorType]) -> tuple[TensorType, TensorType]:
    size, dtype = types[0]
    return TensorType(size[:-2], dtype), TensorType(size[:-2], real_dtype(dtype))


def _slogdet_gradient(g: list[Tensor], x: Tensor, out: Tensor) -> Tensor:
    """The sign of a complex determinant is e^(i angle), and it turns with the matrix."""
    grown = g[1]
    if ops.is_complex(out):
        grown = ops.complex(grown, -ops.imag(ops.conj(g[0]) * out))
    return grown[..., None, None] * ops.adjoint(bind(_inv, (x,), {"check": False})[0])


_slogdet = Opaque(
    "linalg_slogdet",
    "x",
    lambda x: tuple(np.linalg.slogdet(x)),
    _slogdet_types,
    {"x": _slogdet_gradient},
    refuses="",
)
_Slogdet = return_type("linalg_slogdet", ("sign", "logabsdet"))


@public(method=True)
def slogdet(A: Tensor) -> Any:
    """(sign, logabsdet) of each determinant; (0, -inf) if singular. Source: `torch.linalg.slogdet`."""
    return _Slogdet(*bind(_slogdet, (check_square("linalg.slogdet", A),)))


@public(method=True)
def logdet(input: Tensor) -> Tensor:
    """The logarithm of each determinant; NaN for a negative one of real numbers. Source: `torch.logdet`."""
    sign, size = slogdet(input)
    if input.is_complex():
        return ops.log(sign) + size
    return ops.where(ops.lt(sign, 0), float("nan"), size)
