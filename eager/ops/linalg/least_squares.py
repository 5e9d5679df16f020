"""Pseudo-inverses, ranks and least squares: what singular values decide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Opaque
from fusegrad.eager.core.op import TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.linalg.matrices import (
    PerMatrix,
    check_matrix,
    check_square,
    real_dtype,
    same_batch,
    scipy_linalg,
)
from fusegrad.eager.ops.results import return_type


def _tolerances(size: Sequence[int], dtype: np.dtype, atol: Any, rtol: Any) -> tuple[Any, Any]:
    """Both tolerances. By default the relative one is that of the dtype, unless an absolute one is given."""
    for name, given in (("atol", atol), ("rtol", rtol)):
        if isinstance(given, Tensor) and given.array.dtype.kind == "c":
            raise failure(RuntimeError, f"{name} tensor of complex type is not supported.")
    if rtol is None:
        rtol = float(np.finfo(dtype).eps) * max(size[-2:])
        if isinstance(atol, Tensor):
            rtol = ops.cast(ops.le(atol, 0), atol.dtype) * rtol
        elif atol is not None and atol > 0:
            rtol = 0.0
    return (0.0 if atol is None else atol), rtol


def _cutoff(values: np.ndarray, atol: Any, rtol: Any) -> np.ndarray:
    """Up to which size a singular value counts as zero; one for all of a matrix."""
    largest = np.max(values, axis=-1, keepdims=True, initial=0)
    absolute, relative = (np.asarray(t)[..., None] for t in (atol, rtol))
    return np.maximum(absolute, relative * largest)


def _pinv_numpy(x: np.ndarray, atol: Any, rtol: Any, hermitian: bool) -> np.ndarray:
    if hermitian:
        values, left = np.linalg.eigh(x)
        right = left.mT.conj()
    else:
        left, values, right = np.linalg.svd(x, full_matrices=False)
    kept = np.abs(values) > _cutoff(np.abs(values), atol, rtol)
    inverse = np.where(kept, 1 / np.where(kept, values, 1), 0).astype(values.dtype)
    return np.matmul(right.mT.conj() * inverse[..., None, :], left.mT.conj())


def _pinv_type(types: Sequence[Any], hermitian: bool) -> TensorType:
    (*_, rows, columns), dtype = types[0]
    return TensorType((*_rank_type(types, hermitian).shape, columns, rows), dtype)


def _pinv_gradient(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """PyTorch's two forms; each avoids products of the longer side."""
    pseudo, g_t, pseudo_t = out, ops.adjoint(g), ops.adjoint(out)
    if x.array.shape[-2] <= x.array.shape[-1]:
        k = ops.matmul(g_t, pseudo)
        k_pseudo = ops.matmul(k, pseudo_t)
        return (
            k_pseudo
            - ops.adjoint(ops.matmul(pseudo, k))
            - ops.matmul(ops.matmul(x, pseudo), k_pseudo)
            + ops.matmul(ops.matmul(pseudo_t, pseudo), g_t - ops.matmul(k, x))
        )
    k = ops.matmul(pseudo, g_t)
    pseudo_k = ops.matmul(pseudo_t, k)
    return (
        pseudo_k
        - ops.adjoint(ops.matmul(k, pseudo))
        + ops.matmul(ops.matmul(g_t - ops.matmul(x, k), pseudo), pseudo_t)
        - ops.matmul(ops.matmul(pseudo_k, pseudo), x)
    )


_pinv = Opaque(
    "linalg_pinv",
    "x atol rtol",
    _pinv_numpy,
    _pinv_type,
    {"x": _pinv_gradient, "atol": None, "rtol": None},
)


def pinv(
    A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """The pseudo-inverse: singular values up to max(atol, rtol * the largest) count as zero.

    hermitian: A is symmetric (eigenvalues serve). rcond: the older name of rtol. Source: `torch.linalg.pinv`.
    """
    name = "linalg.pinv"
    (check_square if hermitian else check_matrix)(name, A)
    if isinstance(rcond, Tensor) and rcond.array.dtype.kind == "c":
        raise failure(RuntimeError, f"{name}: rcond tensor of complex type is not supported.")
    rtol = rcond if rtol is None else rtol
    tolerances = _tolerances(A.array.shape, A.array.dtype, atol, rtol)
    return bind(_pinv, (A, *tolerances), {"hermitian": bool(hermitian)})


@public(method=True)
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """`linalg.pinv` with a relative tolerance. Source: `torch.pinverse`."""
    return pinv(input, rcond)


def _rank_numpy(x: np.ndarray, atol: Any, rtol: Any, hermitian: bool) -> Any:
    values = np.abs(np.linalg.eigvalsh(x)) if hermitian else np.linalg.svd(x, compute_uv=False)
    return np.sum(values > _cutoff(values, atol, rtol), axis=-1, dtype=np.int64)


def _rank_type(types: Sequence[Any], hermitian: bool) -> TensorType:
    batches = [types[0].shape[:-2], *(t.shape for t in types[1:] if isinstance(t, TensorType))]
    return TensorType(np.broadcast_shapes(*batches), np.dtype(np.int64))


_rank = Opaque("linalg_matrix_rank", "x atol rtol", _rank_numpy, _rank_type, None)


def matrix_rank(
    A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """How many singular values are larger than max(atol, rtol * the largest).

    tol: the older form, an absolute tolerance alone. Source: `torch.linalg.matrix_rank`.
    """
    name = "linalg.matrix_rank"
    (check_square if hermitian else check_matrix)(name, A)
    if tol is not None:
        atol, rtol = tol, 0.0
    tolerances = _tolerances(A.array.shape, A.array.dtype, atol, rtol)
    return bind(_rank, (A, *tolerances), {"hermitian": bool(hermitian)})


def _lstsq_numpy(
    a: np.ndarray, b: np.ndarray, rcond: float, driver: str
) -> tuple[np.ndarray, int, np.ndarray | float]:
    solution, _, rank, values = scipy_linalg().lstsq(a, b, cond=rcond, lapack_driver=driver)
    return solution, rank, 0.0 if values is None else values


def _lstsq_types(types: Sequence[TensorType], **_: Any) -> tuple[TensorType, TensorType, TensorType]:
    a, b = types
    (*batch, rows, columns), dtype = a
    return (
        TensorType((*batch, columns, b.shape[-1]), dtype),
        TensorType(tuple(batch), np.dtype(np.int64)),
        TensorType((*batch, min(rows, columns)), real_dtype(dtype)),
    )


_lstsq = PerMatrix(
    "linalg_lstsq",
    "a b",
    _lstsq_numpy,
    _lstsq_types,
    {
        "a": lambda g, a, b: _pinv_gradient(ops.matmul(g[0], ops.adjoint(b)), a, pinv(a)),
        "b": lambda g, a: ops.matmul(ops.adjoint(pinv(a)), g[0]),
    },
)
_Lstsq = return_type("linalg_lstsq", ("solution", "residuals", "rank", "singular_values"))
_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """(solution, residuals, rank, singular_values): X with the least ||A X - B||.

    Source: `torch.linalg.lstsq`.
    driver: LAPACK's "gels", "gelsy" (the default), "gelsd" or "gelss"; rank is empty for the first, the
    singular values are given by the last two. residuals are given where A is taller than wide and of
    full rank, except by "gelsy"; else they are empty.
    """
    name = "linalg.lstsq"
    if A.array.ndim < 2:
        raise failure(RuntimeError, f"{name}: input must have at least 2 dimensions, got {A.array.ndim}")
    check_matrix(name, A)
    if A.array.dtype != B.array.dtype:
        dtypes = f"got input's dtype {A.dtype.scalar} and other's dtype {B.dtype.scalar}"
        wrong = f"Expected input and other to have the same dtype, but {dtypes}"
        raise failure(RuntimeError, f"{name}: {wrong}")
    if not B.array.ndim:
        raise failure(RuntimeError, f"{name}: other must have at least 1 dimension")
    driver = "gelsy" if driver is None else driver
    if driver not in _DRIVERS:
        raise failure(
            RuntimeError,
            f"{name}: parameter `driver` should be one of ({', '.join(_DRIVERS)}), got {driver!r}",
        )
    vector = B.array.ndim == 1 or (A.array.ndim - 1 == B.array.ndim and B.array.shape == A.array.shape[:-1])
    columns = ops.unsqueeze(B, -1) if vector else B
    rows, unknowns = A.array.shape[-2:]
    if columns.array.ndim < 2 or columns.array.shape[-2] != rows:
        last = -1 if vector or B.array.ndim == 1 else -2
        raise failure(
            RuntimeError,
            f"{name}: input.size(-2) should match other.size({last}), got {list(A.array.shape)} "
            f"and {list(B.array.shape)}",
        )
    if rcond is None:
        rcond = float(np.finfo(A.array.dtype).eps) * max(rows, unknowns)
    a, b = same_batch(name, A, columns)
    params = {"rcond": float(rcond), "driver": "gelsy" if driver == "gels" else driver}
    solution, rank, values = bind(_lstsq, (a, b), params)
    residuals = ops.zeros(0, dtype=values.dtype)
    if rows > unknowns and (
        driver == "gels" or (driver != "gelsy" and bool(ops.all(ops.eq(rank, unknowns))))
    ):
        missed = ops.matmul(a, solution) - b
        residuals = ops.sum(ops.real(missed * ops.conj(missed)), -2)
    if vector:
        solution = ops.squeeze(solution, -1)
    empty = ops.zeros(0, dtype=values.dtype)
    return _Lstsq(
        solution,
        residuals,
        ops.zeros(0, dtype="int64") if driver == "gels" else rank,
        ops.detach(values) if driver in ("gelsd", "gelss") else empty,
    )
