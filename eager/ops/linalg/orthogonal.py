"""QR: orthogonal factors, and the reflectors that LAPACK keeps them as."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.families import Opaque
from fusegrad.eager.core.memory_order import columns, rows
from fusegrad.eager.core.op import TensorType, bind
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.linalg.matrices import (
    PerMatrix,
    check_matrix,
    check_same_dtype,
    identity,
    imaginary_diagonal,
    lapack,
    scaled_diagonal,
    skew,
)
from fusegrad.eager.ops.linalg.solving import solve_triangular
from fusegrad.eager.ops.pointwise.declare_pointwise import unknown
from fusegrad.eager.ops.results import return_type


def _qr_types(types: Sequence[TensorType], mode: str) -> tuple[TensorType, TensorType]:
    (*batch, rows, columns), dtype = types[0]
    inner = rows if mode == "complete" else min(rows, columns)
    size = (0,) if mode == "r" else (*batch, rows, inner)
    return TensorType(size, dtype), TensorType((*batch, inner, columns), dtype)


def _qr_numpy(x: np.ndarray, mode: str) -> tuple[np.ndarray, np.ndarray]:
    if mode == "r":
        triangle: Any = np.linalg.qr(x, mode="r")
        return np.empty(0, x.dtype), triangle
    if not x.size and mode == "complete":  # NumPy leaves Q's memory as it found it
        rows = x.shape[-2]
        return np.broadcast_to(np.eye(rows, dtype=x.dtype), (*x.shape[:-2], rows, rows)).copy(), x.copy()
    q, r = np.linalg.qr(x, mode="complete" if mode == "complete" else "reduced")
    return q, r


def _qr_gradient(g: list[Tensor], x_type: TensorType, out: Tensor, out1: Tensor, mode: str) -> Tensor:
    (g_q, g_r), q, r = g, out, out1
    rows, columns = x_type.shape[-2:]
    if mode == "r" or (mode == "complete" and rows > columns):
        wrong = (
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'"
            if mode == "r"
            else "The QR decomposition is not differentiable when mode='complete' and nrows > ncols"
        )
        raise failure(RuntimeError, f"linalg.qr: {wrong}; use mode='reduced'")
    inner = ops.matmul(g_r, ops.adjoint(r)) - ops.matmul(ops.adjoint(q), g_q)
    if rows >= columns:
        upper = ops.triu(inner)
        if inner.is_complex():
            upper = upper - imaginary_diagonal(inner)
        both = upper + ops.adjoint(ops.triu(inner, 1))
        return solve_triangular(ops.adjoint(r), g_q + ops.matmul(q, both), upper=False, left=False)
    square, turning = ops.narrow(r, -1, 0, rows), ops.tril(-skew(inner))
    if inner.is_complex():
        turning = turning + imaginary_diagonal(inner)
    turned = solve_triangular(ops.adjoint(square), ops.matmul(q, turning), upper=False, left=False)
    padding = ops.zeros((*q.array.shape[:-1], columns - rows), dtype=q.dtype)
    return ops.cat([turned, padding], -1) + ops.matmul(q, g_r)


_qr = Opaque("linalg_qr", "x", _qr_numpy, _qr_types, {"x": _qr_gradient}, None, "", columns)
_Qr = return_type("linalg_qr", ("Q", "R"))


def qr(A: Tensor, mode: str = "reduced") -> Any:
    """(Q, R) with A = Q R. Source: `torch.linalg.qr`.

    mode: "reduced" (Q has as many columns as A, or rows), "complete" (Q is square) or "r" (Q is empty).
    """
    if mode not in ("reduced", "complete", "r"):
        raise failure(
            RuntimeError, f"qr received unrecognized mode {mode!r}: it must be 'reduced', 'complete' or 'r'"
        )
    return _Qr(*bind(_qr, (check_matrix("linalg.qr", A),), {"mode": mode}))


@public(name="qr", method=True)
def qr_of(input: Tensor, some: bool = True) -> Any:
    """`linalg.qr`, reduced or complete. Source: `torch.qr`."""
    return qr(input, "reduced" if some else "complete")


def _geqrf_numpy(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return lapack("geqrf", x)(x)[:2]


def _geqrf_types(types: Sequence[TensorType]) -> tuple[TensorType, TensorType]:
    size, dtype = types[0]
    return types[0], TensorType((*size[:-2], min(size[-2:])), dtype)


_geqrf = PerMatrix(
    "geqrf", "x", _geqrf_numpy, _geqrf_types, {"x": unknown("geqrf")}, (2,), order=(columns, rows)
)
_Geqrf = return_type("geqrf", ("a", "tau"))


@public(method=True)
def geqrf(input: Tensor) -> Any:
    """(a, tau): R on and above the diagonal, Q's reflectors below it. Source: `torch.geqrf`."""
    return _Geqrf(*bind(_geqrf, (check_matrix("geqrf", input, "input"),)))


def _reflectors(name: str, input: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    """(V, T) with H_1 H_2 ... H_k = I - V T V^T, for reflectors H_i = I - tau_i v_i v_i^T.

    T is the inverse of diag(1 / tau) + the upper triangle of V^T V, written so that tau may be 0.
    """
    check_same_dtype(name, input, tau)
    rows, count = input.array.shape[-2], tau.array.shape[-1]
    ones = ops.narrow(identity(rows, input), -1, 0, count)
    vectors = ops.tril(ops.narrow(input, -1, 0, count), -1) + ones
    products = ops.triu(ops.matmul(ops.adjoint(vectors), vectors), 1)
    factor = solve_triangular(tau[..., None] * products, scaled_diagonal(tau), upper=True, unitriangular=True)
    return vectors, factor


@public(name="orgqr", method=True)
def householder_product(input: Tensor, tau: Tensor) -> Tensor:
    """The first columns of the product of the reflectors that `geqrf` gives.

    input: [..., m, n] with m >= n; tau: [..., k] with k <= n. Source: `torch.linalg.householder_product`.
    """
    name = "linalg.householder_product"
    check_matrix(name, input, "input")
    if tau.array.dtype != input.array.dtype:
        raise failure(
            RuntimeError,
            f"{name}: tau dtype {tau.dtype.scalar} does not match input dtype {input.dtype.scalar}",
        )
    rows, columns = input.array.shape[-2:]
    if rows < columns or columns < tau.array.shape[-1] or input.array.shape[:-2] != tau.array.shape[:-1]:
        raise failure(
            RuntimeError,
            f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1], and "
            "input.shape[-1] must be greater than or equal to tau.shape[-1], "
            f"with the same batch dimensions; got {list(input.array.shape)} and {list(tau.array.shape)}",
        )
    vectors, factor = _reflectors(name, input, tau)
    top = ops.adjoint(ops.narrow(vectors, -2, 0, columns))
    return ops.narrow(identity(rows, input), -1, 0, columns) - ops.matmul(vectors, ops.matmul(factor, top))


@public(method=True)
def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """Q times `other` (`other` times Q; Q transposed), for the Q of `geqrf`. Source: `torch.ormqr`."""
    name = "ormqr"
    check_matrix(name, input, "input")
    check_matrix(name, other, "other")
    check_same_dtype(name, input, other)
    side, (rows, columns), count = -2 if left else -1, input.array.shape[-2:], tau.array.shape[-1:]
    batch = list(input.array.shape[:-2])
    wrong = ""
    if not count or count[0] > min(other.array.shape[side], columns):
        wrong = f"tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1]), or less"
    elif other.array.shape[side] != rows:
        wrong = f"other.shape[{side}] must be equal to input.shape[-2]"
    for what, found in (("tau", tau.array.shape[:-1]), ("other", other.array.shape[:-2])):
        if not wrong and list(found) != batch:
            wrong = (
                f"Expected batch dimensions of {what} to be equal to input.shape[:-2], but got {list(found)}"
            )
    if wrong:
        sizes = [list(t.array.shape) for t in (input, tau, other)]
        raise failure(RuntimeError, f"{name}: {wrong}, got {sizes}")
    vectors, factor = _reflectors(name, input, tau)
    factor = ops.adjoint(factor) if transpose else factor
    if left:
        return other - ops.matmul(vectors, ops.matmul(factor, ops.matmul(ops.adjoint(vectors), other)))
    return other - ops.matmul(ops.matmul(ops.matmul(other, vectors), factor), ops.adjoint(vectors))
