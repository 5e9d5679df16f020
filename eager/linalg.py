"""Linear algebra. Laid out as `torch.linalg`."""

from __future__ import annotations

from fusegrad.eager.core.public import gather
from fusegrad.eager.ops.linalg.contraction import matmul
from fusegrad.eager.ops.linalg.decomposition import (
    eig,
    eigh,
    eigvals,
    eigvalsh,
    ldl_factor,
    ldl_factor_ex,
    ldl_solve,
    svd,
    svdvals,
)
from fusegrad.eager.ops.linalg.least_squares import lstsq, matrix_rank, pinv
from fusegrad.eager.ops.linalg.lu import lu, lu_factor, lu_factor_ex, lu_solve
from fusegrad.eager.ops.linalg.matrices import LinAlgError
from fusegrad.eager.ops.linalg.matrix_functions import (
    cond,
    cross,
    diagonal,
    matrix_exp,
    matrix_norm,
    matrix_power,
    multi_dot,
    norm,
    tensorinv,
    tensorsolve,
    vander,
    vecdot,
)
from fusegrad.eager.ops.linalg.orthogonal import householder_product, qr
from fusegrad.eager.ops.linalg.solving import (
    cholesky,
    cholesky_ex,
    det,
    inv,
    inv_ex,
    slogdet,
    solve,
    solve_ex,
    solve_triangular,
)
from fusegrad.eager.ops.reduce.reduction import vector_norm
from fusegrad.eager.ops.shape.out import give_forms as _give_forms

_give_forms("fusegrad.linalg", globals())
__all__ = gather("fusegrad.linalg", globals())
