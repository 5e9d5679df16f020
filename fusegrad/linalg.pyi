"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.ops.linalg.contraction import matmul as matmul
from fusegrad.eager.ops.linalg.decomposition import (
    eig as eig,
    eigh as eigh,
    eigvals as eigvals,
    eigvalsh as eigvalsh,
    ldl_factor as ldl_factor,
    ldl_factor_ex as ldl_factor_ex,
    ldl_solve as ldl_solve,
    svd as svd,
    svdvals as svdvals,
)
from fusegrad.eager.ops.linalg.least_squares import lstsq as lstsq, matrix_rank as matrix_rank, pinv as pinv
from fusegrad.eager.ops.linalg.lu import (
    lu as lu,
    lu_factor as lu_factor,
    lu_factor_ex as lu_factor_ex,
    lu_solve as lu_solve,
)
from fusegrad.eager.ops.linalg.matrices import LinAlgError as LinAlgError
from fusegrad.eager.ops.linalg.matrix_functions import (
    cond as cond,
    cross as cross,
    diagonal as diagonal,
    matrix_exp as matrix_exp,
    matrix_norm as matrix_norm,
    matrix_power as matrix_power,
    multi_dot as multi_dot,
    norm as norm,
    tensorinv as tensorinv,
    tensorsolve as tensorsolve,
    vander as vander,
    vecdot as vecdot,
)
from fusegrad.eager.ops.linalg.orthogonal import householder_product as householder_product, qr as qr
from fusegrad.eager.ops.linalg.solving import (
    cholesky as cholesky,
    cholesky_ex as cholesky_ex,
    det as det,
    inv as inv,
    inv_ex as inv_ex,
    slogdet as slogdet,
    solve as solve,
    solve_ex as solve_ex,
    solve_triangular as solve_triangular,
)
from fusegrad.eager.ops.reduce.reduction import vector_norm as vector_norm
