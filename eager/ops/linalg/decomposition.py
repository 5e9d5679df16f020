"""Decompositions of matrices: singular values, eigenvalues, LDL.

NumPy and LAPACK compute; the gradient rules are PyTorch's, as compositions of public ops. They hold
for matrices whose singular values or eigenvalues differ where the loss asks for vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Opaque
from fusegrad.eager.core.memory_order import as_first, columns, rows
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
    check_square,
    identity,
    imaginary_diagonal,
    lapack,
    real_dtype,
    same_batch,
    scaled_diagonal,
    skew,
)
from fusegrad.eager.ops.linalg.solving import _solve
from fusegrad.eager.ops.pointwise.declare_pointwise import unknown
from fusegrad.eager.ops.results import return_type


def _quotient(numerator: Tensor, denominator: Tensor) -> Tensor:
    """The quotient, with 0 / 0 as 0: what does not depend on vectors has no part in their gradient."""
    idle = ops.logical_and(ops.eq(numerator, 0), ops.eq(denominator, 0))
    return numerator / ops.where(idle, 1.0, denominator)


def _gaps(values: Tensor) -> Tensor:
    """values[j] - values[i] at place (i, j), and ones on the diagonal."""
    return values[..., None, :] - values[..., :, None] + identity(values.array.shape[-1], values)


def _converged(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`function`, with NumPy's failure to converge as ours."""

    def run(x: np.ndarray, **params: Any) -> Any:
        try:
            return function(x, **params)
        except np.linalg.LinAlgError as error:
            if name.startswith("linalg.eig") and not np.isfinite(x).all():
                wrong = f"torch.{name}: input tensor should not contain infs or NaNs."
                raise failure(RuntimeError, wrong) from None
            raise failure(
                LinAlgError,
                f"{name}: The algorithm failed to converge because the input matrix is ill-conditioned or "
                f"holds values that are not finite ({error})",
            ) from None

    return run


# Singular values.


def _svd_types(types: Sequence[TensorType], full_matrices: bool) -> tuple[TensorType, ...]:
    (*batch, rows, columns), dtype = types[0]
    count = min(rows, columns)
    left, right = (rows, columns) if full_matrices else (count, count)
    return (
        TensorType((*batch, rows, left), dtype),
        TensorType((*batch, right, columns), dtype),
        TensorType((*batch, count), real_dtype(dtype)),
    )


def _svd_numpy(x: np.ndarray, full_matrices: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    left, values, right = np.linalg.svd(x, full_matrices)
    return left, right, values


def _svd_gradient(g: list[Tensor], x_type: TensorType, out: Tensor, out1: Tensor, out2: Tensor) -> Tensor:
    rows, columns = x_type.shape[-2:]
    count = min(rows, columns)
    g_left, g_right, g_values = ops.narrow(g[0], -1, 0, count), ops.narrow(g[1], -2, 0, count), g[2]
    left, right, values = ops.narrow(out, -1, 0, count), ops.narrow(out1, -2, 0, count), out2
    gaps = _gaps(values * values)
    along_left, along_right = ops.matmul(ops.adjoint(left), g_left), ops.matmul(right, ops.adjoint(g_right))
    from_left = _quotient(skew(along_left), gaps) * values[..., None, :]
    from_right = values[..., :, None] * _quotient(skew(along_right), gaps)
    inner = from_left + from_right + scaled_diagonal(g_values)
    if left.is_complex():  # the phases of a pair of vectors are one, of which no loss may ask
        phase = bind(_PHASE, (along_left + along_right,))
        inner = inner + _quotient(imaginary_diagonal(along_left - phase / 2), values[..., None, :])
    gradient = ops.matmul(left, ops.matmul(inner, right))
    if rows > columns:
        beyond = _quotient(g_left, values[..., None, :])
        gradient = gradient + ops.matmul(
            beyond - ops.matmul(left, ops.matmul(ops.adjoint(left), beyond)), right
        )
    elif rows < columns:
        beyond = _quotient(g_right, values[..., :, None])
        gradient = gradient + ops.matmul(
            left, beyond - ops.matmul(ops.matmul(beyond, ops.adjoint(right)), right)
        )
    return gradient


_svd = Opaque("linalg_svd", "x", _converged(_svd_numpy, "linalg.svd"), _svd_types, {"x": _svd_gradient})
_Svd = return_type("linalg_svd", ("U", "S", "Vh"))
svd_result = return_type("svd", ("U", "S", "V"))


def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """(U, S, Vh) with A = U diag(S) Vh, S from large to small. Source: `torch.linalg.svd`.

    full_matrices: square U and Vh; else only the columns that A = U diag(S) Vh needs. The gradient of
    the vectors is finite where the singular values differ.
    """
    if driver is not None:
        raise failure(RuntimeError, f"linalg.svd: keyword argument `driver` is only for CUDA, got {driver!r}")
    left, right, values = bind(_svd, (check_matrix("linalg.svd", A),), {"full_matrices": bool(full_matrices)})
    return _Svd(left, values, right)


@public(name="svd", method=True)
def svd_of(input: Tensor, some: bool = True, compute_uv: bool = True) -> Any:
    """(U, S, V) with input = U diag(S) V^T. Source: `torch.svd`; without `compute_uv`, U and V are zeros."""
    if compute_uv:
        left, values, right = svd(input, full_matrices=not some)
        return svd_result(left, values, ops.adjoint(right))
    rows, columns = check_matrix("svd", input, "input").array.shape[-2:]
    batch = input.array.shape[:-2]
    left, right = (ops.expand(identity(n, input) * 0, (*batch, n, n)) for n in (rows, columns))
    return svd_result(left, svdvals(input), right)


def _svdvals_types(types: Sequence[TensorType]) -> TensorType:
    size, dtype = types[0]
    return TensorType((*size[:-2], min(size[-2:])), real_dtype(dtype))


def _svdvals_gradient(g: Tensor, x: Tensor) -> Tensor:
    left, _, right = svd(x, full_matrices=False)
    return ops.matmul(left * g[..., None, :], right)


_svdvals = Opaque(
    "linalg_svdvals",
    "x",
    _converged(lambda x: np.linalg.svd(x, compute_uv=False), "linalg.svdvals"),
    _svdvals_types,
    {"x": _svdvals_gradient},
    "LinalgSvdBackward0",
)


def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values, from large to small. Source: `torch.linalg.svdvals`."""
    return bind(_svdvals, (check_matrix("linalg.svdvals", A),))


# Eigenvalues.


def _phase_checked(along: np.ndarray) -> np.ndarray:
    turning = np.diagonal(along, 0, -2, -1).imag
    if not np.allclose(turning, 0, atol=1e-2):
        raise RuntimeError(
            "complex vectors are specified up to multiplication by e^{i phi}, and the loss function "
            "depends on this quantity, making it ill-defined; use what does not depend on it, like .abs()"
        )
    return along.copy()


_PHASE = Opaque(
    "linalg_phase_check",
    "along",
    _phase_checked,
    lambda types: types[0],
    {"along": lambda g: g},
    order=as_first,
)


def _along(vectors: Tensor, g: Tensor) -> Tensor:
    """vectors^H g: what a loss asks of eigenvectors, in their own basis; it must not ask for their phase."""
    along = ops.matmul(ops.adjoint(vectors), g)
    return bind(_PHASE, (along,)) if ops.is_complex(along) else along


def _eigh_types(types: Sequence[TensorType], UPLO: str) -> tuple[TensorType, TensorType]:
    size, dtype = types[0]
    return TensorType(size[:-1], real_dtype(dtype)), types[0]


def _eigh_gradient(g: list[Tensor], out: Tensor, out1: Tensor) -> Tensor:
    values, vectors = out, out1
    inner = _quotient(skew(_along(vectors, g[1])) * 0.5, _gaps(values)) + scaled_diagonal(g[0])
    return ops.matmul(vectors, ops.matmul(inner, ops.adjoint(vectors)))


_eigh = Opaque(
    "linalg_eigh",
    "x",
    _converged(lambda x, UPLO: tuple(np.linalg.eigh(x, UPLO)), "linalg.eigh"),
    _eigh_types,
    {"x": _eigh_gradient},
)
_Eigh = return_type("linalg_eigh", ("eigenvalues", "eigenvectors"))


def _triangle_name(name: str, UPLO: str) -> str:
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise failure(RuntimeError, f"{name}: Expected UPLO argument to be 'L' or 'U', but got {UPLO!r}")
    return UPLO.upper()


def eigh(A: Tensor, UPLO: str = "L") -> Any:
    """(eigenvalues, eigenvectors) of symmetric matrices, in ascending order. Source: `torch.linalg.eigh`.

    UPLO: whether the lower or the upper triangle is read.
    """
    check_square("linalg.eigh", A)
    return _Eigh(*bind(_eigh, (A,), {"UPLO": _triangle_name("linalg.eigh", UPLO)}))


def _eigvalsh_gradient(g: Tensor, x: Tensor, UPLO: str) -> Tensor:
    vectors = eigh(x, UPLO)[1]
    return ops.matmul(vectors * g[..., None, :], ops.adjoint(vectors))


_eigvalsh = Opaque(
    "linalg_eigvalsh",
    "x",
    _converged(lambda x, UPLO: np.linalg.eigvalsh(x, UPLO), "linalg.eigvalsh"),
    lambda types, UPLO: TensorType(types[0].shape[:-1], real_dtype(types[0].dtype)),
    {"x": _eigvalsh_gradient},
    "LinalgEighBackward0",
)


def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of symmetric matrices, in ascending order. Source: `torch.linalg.eigvalsh`."""
    check_square("linalg.eigvalsh", A)
    return bind(_eigvalsh, (A,), {"UPLO": _triangle_name("linalg.eigvalsh", UPLO)})


def _complex(dtype: np.dtype) -> np.dtype:
    return np.result_type(dtype, np.complex64)


def _eig_numpy(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """NumPy gives real results where all are real; PyTorch's are complex always."""
    wide = _complex(x.dtype)
    values, vectors = np.linalg.eig(x)
    return values.astype(wide), vectors.astype(wide)


def _eig_types(types: Sequence[TensorType]) -> tuple[TensorType, TensorType]:
    size, dtype = types[0]
    return TensorType(size[:-1], _complex(dtype)), TensorType(size, _complex(dtype))


def _unwound(inner: Tensor, vectors: Tensor, x_type: TensorType) -> Tensor:
    """vectors^-H inner vectors^H: from the eigenvectors' basis to that of a matrix of `x_type`."""
    turned = bind(_solve, (ops.adjoint(vectors), ops.matmul(inner, ops.adjoint(vectors))), {"check": False})[
        0
    ]
    return turned if x_type.dtype.kind == "c" else ops.real(turned)


def _eig_gradient(g: list[Tensor], x_type: TensorType, out: Tensor, out1: Tensor) -> Tensor:
    values, vectors = out, out1
    along = _along(vectors, g[1])
    lengths = ops.cast(ops.real(ops.diagonal(along, 0, -2, -1)), values.dtype)
    across = along - ops.matmul(ops.adjoint(vectors), vectors) * lengths[..., None, :]
    off_diagonal = ops.triu(across, 1) + ops.tril(across, -1)
    return _unwound(_quotient(off_diagonal, ops.conj(_gaps(values))) + scaled_diagonal(g[0]), vectors, x_type)


_eig = Opaque("linalg_eig", "x", _converged(_eig_numpy, "linalg.eig"), _eig_types, {"x": _eig_gradient})
_eigvals = Opaque(
    "linalg_eigvals",
    "x",
    _converged(lambda x: np.linalg.eigvals(x).astype(_complex(x.dtype)), "linalg.eigvals"),
    lambda types: _eig_types(types)[0],
    {"x": lambda g, x, x_type: _unwound(scaled_diagonal(g), eig(x)[1], x_type)},
)
_Eig = return_type("linalg_eig", ("eigenvalues", "eigenvectors"))


def eig(A: Tensor) -> Any:
    """(eigenvalues, eigenvectors), complex, in no order. Source: `torch.linalg.eig`."""
    return _Eig(*bind(_eig, (check_square("linalg.eig", A),)))


def eigvals(A: Tensor) -> Tensor:
    """The complex eigenvalues, in no order. Source: `torch.linalg.eigvals`."""
    return bind(_eigvals, (check_square("linalg.eigvals", A),))


# LDL.


def _ldl_numpy(x: np.ndarray, hermitian: bool) -> tuple[np.ndarray, np.ndarray, int]:
    routine = "hetrf" if hermitian and x.dtype.kind == "c" else "sytrf"
    factors, pivots, info = lapack(routine, x)(x, lower=1)
    return np.tril(factors), pivots, info


def _ldl_types(types: Sequence[TensorType], **_: Any) -> tuple[TensorType, TensorType, TensorType]:
    size, _dtype = types[0]
    return types[0], TensorType(size[:-1], INT32), TensorType(size[:-2], INT32)


_ldl_factor = PerMatrix(
    "linalg_ldl_factor_ex",
    "x",
    _ldl_numpy,
    _ldl_types,
    {"x": unknown("linalg_ldl_factor_ex")},
    (2,),
    "linalg.ldl_factor: the matrix is singular: D[{0},{0}] is zero",
    order=(columns, rows, rows),
)
_LdlFactor = return_type("linalg_ldl_factor", ("LD", "pivots"))
_LdlFactorEx = return_type("linalg_ldl_factor_ex", ("LD", "pivots", "info"))


def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """(LD, pivots, info): `ldl_factor` with info for errors. Source: `torch.linalg.ldl_factor_ex`."""
    check_square("linalg.ldl_factor", A)
    return _LdlFactorEx(*bind(_ldl_factor, (A,), {"hermitian": bool(hermitian), "check": check_errors}))


def ldl_factor(A: Tensor, *, hermitian: bool = False) -> Any:
    """(LD, pivots) of symmetric matrices, as LAPACK's sytrf gives them. Source: `torch.linalg.ldl_factor`."""
    return _LdlFactor(*ldl_factor_ex(A, hermitian=hermitian, check_errors=True)[:2])


def _ldl_solve_numpy(factors: np.ndarray, pivots: np.ndarray, b: np.ndarray, hermitian: bool) -> np.ndarray:
    routine = "hetrs" if hermitian and factors.dtype.kind == "c" else "sytrs"
    solution: np.ndarray = lapack(routine, factors)(factors, pivots, b, lower=1)[0]
    return solution


_ldl_solve = PerMatrix(
    "linalg_ldl_solve",
    "factors pivots b",
    _ldl_solve_numpy,
    lambda types, hermitian: types[2],
    {"factors": unknown("linalg_ldl_solve"), "pivots": None, "b": unknown("linalg_ldl_solve")},
    (2, 1, 2),
    order=columns,
)


def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """X with A X = B, from `ldl_factor(A)`. Source: `torch.linalg.ldl_solve`."""
    name = "linalg.ldl_solve"
    check_square(name, LD, "LD")
    check_floating(name, B, "B")
    check_same_dtype(name, LD, B)
    if LD.array.shape[:-1] != pivots.array.shape or LD.array.shape[-1] != B.array.shape[-2]:
        raise failure(
            RuntimeError,
            f"{name}: LD {list(LD.array.shape)}, pivots {list(pivots.array.shape)} and "
            f"B {list(B.array.shape)} do not fit each other",
        )
    factors, right = same_batch(name, LD, B)
    batch = factors.array.shape[:-1]
    exchanged = ops.cast(ops.expand(pivots, batch), "int32")
    return bind(_ldl_solve, (factors, exchanged, right), {"hermitian": bool(hermitian)})
