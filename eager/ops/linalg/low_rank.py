"""Singular values of large matrices of low rank, found in a random subspace."""

from __future__ import annotations

from typing import Any

from fusegrad.eager.core.errors import failure
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.declare import public
from fusegrad.eager.ops.linalg.decomposition import svd, svd_result
from fusegrad.eager.ops.linalg.matrices import check_matrix
from fusegrad.eager.ops.linalg.orthogonal import qr


def _approximate_basis(A: Tensor, q: int, niter: int) -> Tensor:
    """Q with `q` orthonormal columns such that Q Q^T A is about A."""

    basis = qr(ops.matmul(A, ops.randn(A.array.shape[-1], q, dtype=A.dtype)))[0]
    for _ in range(niter):
        basis = qr(ops.matmul(ops.adjoint(A), basis))[0]
        basis = qr(ops.matmul(A, basis))[0]
    return basis


@public
def svd_lowrank(A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None) -> Any:
    """(U, S, V) of A - M, about: `q` should be a little more than its rank. Source: `torch.svd_lowrank`.

    niter: how often the random subspace is improved.
    """
    check_matrix("svd_lowrank", A)
    if M is not None:
        A = A - M
    wide = A.array.shape[-2] < A.array.shape[-1]
    tall = ops.adjoint(A) if wide else A
    basis = _approximate_basis(tall, 6 if q is None else q, 2 if niter is None else niter)
    left, values, right = svd(ops.matmul(ops.adjoint(basis), tall), full_matrices=False)
    left, other = ops.matmul(basis, left), ops.adjoint(right)
    return svd_result(other, values, left) if wide else svd_result(left, values, other)


@public
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
    return svd_lowrank(A - ops.mean(A, -2, keepdim=True) if center else A, q, niter)
