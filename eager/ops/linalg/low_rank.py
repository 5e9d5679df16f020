"""Singular values of large matrices of low rank, found in a random subspace."""

from __future__ import annotations

from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.linalg.contraction import matmul
from fusegrad.eager.ops.linalg.decomposition import svd, svd_result
from fusegrad.eager.ops.linalg.matrices import check_matrix
from fusegrad.eager.ops.linalg.orthogonal import qr
from fusegrad.eager.ops.reduce import reduction
from fusegrad.eager.ops.shape.shape import adjoint


def _approximate_basis(A: Tensor, q: int, niter: int) -> Tensor:
    """Q with `q` orthonormal columns such that Q Q^T A is about A."""
    from fusegrad.eager.random.random import randn  # it is made of ops

    basis = qr(matmul(A, randn(A.array.shape[-1], q, dtype=A.dtype)))[0]
    for _ in range(niter):
        basis = qr(matmul(adjoint(A), basis))[0]
        basis = qr(matmul(A, basis))[0]
    return basis


def svd_lowrank(A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None) -> Any:
    """(U, S, V) of A - M, about: `q` should be a little more than its rank. Source: `torch.svd_lowrank`.

    niter: how often the random subspace is improved.
    """
    check_matrix("svd_lowrank", A)
    if M is not None:
        A = A - M
    wide = A.array.shape[-2] < A.array.shape[-1]
    tall = adjoint(A) if wide else A
    basis = _approximate_basis(tall, 6 if q is None else q, 2 if niter is None else niter)
    left, values, right = svd(matmul(adjoint(basis), tall), full_matrices=False)
    left, other = matmul(basis, left), adjoint(right)
    return svd_result(other, values, left) if wide else svd_result(left, values, other)


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> Any:
    """(U, S, V): the principal directions of A's rows as V's columns. Source: `torch.pca_lowrank`."""
    most = min(check_matrix("pca_lowrank", A).array.shape[-2:])
    q = min(6, most) if q is None else q
    if not 0 <= q <= most:
        raise failure(
            ValueError, f"q(={q}) must be non-negative integer and not greater than min(m, n)={most}"
        )
    if niter < 0:
        raise failure(ValueError, f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - reduction.mean(A, -2, keepdim=True) if center else A, q, niter)
