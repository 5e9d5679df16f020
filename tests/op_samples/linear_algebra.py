"""Decompositions, systems of equations and functions of matrices.

Where vectors are only defined up to their sign, the samples ask for what does not depend on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegrad.eager.core.op import REGISTRY, bind
from fusegrad.eager.ops.linalg.solving import cofactors
from op_samples.table import add, f


def regular(*size: int) -> np.ndarray:
    """Square matrices that are far from singular."""
    return f(*size) + 5 * np.eye(size[-1])


def distinct(*size: int) -> np.ndarray:
    """Square matrices whose eigenvalues, and singular values, lie well apart."""
    return 0.1 * f(*size) + np.diag(np.arange(1.0, size[-1] + 1))


def definite(fg: Any, x: Any) -> Any:
    """A positive-definite matrix made of any."""
    return x @ x.mT + 2 * fg.eye(x.shape[-1], dtype=x.dtype)


def symmetric(x: Any) -> Any:
    return x + x.mT


# Systems of equations.

for _shape in ((3, 3), (2, 3, 3), (0, 3, 3), (2, 0, 0)):
    add("linalg_inv_ex", lambda fg, x: fg.linalg.inv_ex(x), regular(*_shape))
    add("linalg_det", lambda fg, x: fg.linalg.det(x), regular(*_shape))
    add("linalg_slogdet", lambda fg, x: fg.linalg.slogdet(x)[::-1], regular(*_shape))
    add("linalg_cholesky_ex", lambda fg, x: fg.linalg.cholesky_ex(definite(fg, x)), f(*_shape))
    add("matrix_exp", lambda fg, x: fg.linalg.matrix_exp(x), f(*_shape))
add("linalg_inv_ex", lambda fg, x: fg.linalg.matrix_power(x, -3), regular(3, 3))
add("linalg_inv_ex", lambda fg, x: fg.linalg.tensorinv(x.reshape(2, 2, 4)), regular(4, 4))
add("linalg_svdvals", lambda fg, x: fg.linalg.cond(x), regular(2, 3, 3))
add("linalg_cholesky_ex", lambda fg, x: fg.linalg.cholesky(definite(fg, x), upper=True), f(2, 3, 3))


def _cofactors(fg: Any, x: Any) -> Any:
    """What fusegrad's gradient of det is made of."""
    if fg.__name__ == "torch":
        return fg.linalg.det(x)[..., None, None] * fg.linalg.inv(x).mT
    return cofactors(x)


add("linalg_cofactors", _cofactors, regular(2, 3, 3))
add("linalg_cofactors", _cofactors, 0.3 * regular(4, 4))

for _a, _b in (
    ((3, 3), (3, 2)),
    ((2, 3, 3), (3, 2)),
    ((3, 3), (2, 3, 1)),
    ((3, 3), (3,)),
    ((2, 3, 3), (2, 3)),
):
    add("linalg_solve_ex", lambda fg, a, b: fg.linalg.solve(a, b), regular(*_a), f(*_b))
add("linalg_solve_ex", lambda fg, a, b: fg.linalg.solve(a, b, left=False), regular(3, 3), f(2, 3))
add("linalg_solve_ex", lambda fg, a, b: fg.linalg.tensorsolve(a, b), regular(6, 6), f(6))
for _upper, _left, _unit in ((True, True, False), (False, True, True), (True, False, False)):
    add(
        "linalg_solve_triangular",
        lambda fg, a, b, upper=_upper, left=_left, unit=_unit: fg.linalg.solve_triangular(
            a, b, upper=upper, left=left, unitriangular=unit
        ),
        regular(2, 3, 3),
        f(3, 3),
    )
for _upper in (False, True):
    add(
        "cholesky_solve",
        lambda fg, b, factor, upper=_upper: fg.cholesky_solve(b, factor, upper=upper),
        f(2, 3, 2),
        regular(3, 3),
    )
    add(
        "cholesky_inverse",
        lambda fg, factor, upper=_upper: fg.cholesky_inverse(factor, upper=upper),
        regular(2, 3, 3),
    )

# LU and QR.

for _shape in ((3, 3), (4, 3), (3, 4)):
    _matrices = regular(2, 4, 4)[:, : _shape[0], : _shape[1]]
    add("linalg_lu_factor_ex", lambda fg, x: fg.linalg.lu_factor_ex(x), _matrices)
    for _part in (1, 2):
        add("linalg_lu_factor_ex", lambda fg, x, part=_part: fg.linalg.lu(x)[part], _matrices)
    add("lu_permutation", lambda fg, x: fg.linalg.lu(x)[::-1], f(2, *_shape), gradients=False)
    add("linalg_qr", lambda fg, x: fg.linalg.qr(x), _matrices)
    add("linalg_qr", lambda fg, x: fg.linalg.qr(x)[::-1], _matrices)
    add("geqrf", lambda fg, x: fg.geqrf(x), f(2, *_shape), gradients=False)
add("linalg_qr", lambda fg, x: fg.linalg.qr(x, "complete"), regular(3, 3))
add("linalg_qr", lambda fg, x: fg.linalg.qr(x, "complete"), f(4, 3), gradients=False)
add("lu_permutation", lambda fg, x, b: fg.linalg.lu_solve(*fg.linalg.lu_factor(x), b), regular(3, 3), f(3, 2))
add(
    "linalg_solve_triangular", lambda fg, x, t: fg.linalg.householder_product(x, t), 0.3 * f(2, 4, 3), f(2, 2)
)
add(
    "linalg_solve_triangular", lambda fg, x, t, y: fg.ormqr(x, t, y, True, True), 0.3 * f(4, 3), f(3), f(4, 2)
)

# Singular values and eigenvalues.

for _shape in ((3, 3), (4, 3), (3, 4)):
    add(
        "linalg_svd",
        lambda fg, x: _leading(*fg.linalg.svd(x, full_matrices=False)),
        distinct(4, 4)[: _shape[0], : _shape[1]],
    )
    add("linalg_svd", lambda fg, x: fg.linalg.svd(x)[1], distinct(4, 4)[: _shape[0], : _shape[1]])
    add("linalg_svdvals", lambda fg, x: fg.linalg.svdvals(x), f(2, *_shape))
    add("linalg_pinv", lambda fg, x: fg.linalg.pinv(x), regular(4, 4)[: _shape[0], : _shape[1]])
    add("linalg_matrix_rank", lambda fg, x: fg.linalg.matrix_rank(x, atol=0.5, rtol=0.1), f(2, *_shape))


def _leading(u: Any, s: Any, vh: Any) -> Any:
    """The best approximation of rank two."""
    return (u[..., :2] * s[..., None, :2]) @ vh[..., :2, :]


add("linalg_pinv", lambda fg, x: fg.linalg.pinv(symmetric(x), hermitian=True), distinct(3, 3))
add("linalg_svdvals", lambda fg, x: fg.linalg.matrix_norm(x, "nuc"), f(2, 3, 4))
for _uplo in "LU":
    add("linalg_eigvalsh", lambda fg, x, u=_uplo: fg.linalg.eigvalsh(symmetric(x), UPLO=u), distinct(2, 3, 3))
    add(
        "linalg_eigh",
        lambda fg, x, u=_uplo: _smallest(*fg.linalg.eigh(symmetric(x), u)),
        0.5 * distinct(3, 3),
    )


def _smallest(values: Any, vectors: Any) -> Any:
    """The part of a symmetric matrix with the two smallest eigenvalues."""
    return (vectors[..., :2] * values[..., None, :2]) @ vectors[..., :2].mT


# Their order is LAPACK's choice too.
add("linalg_eig", lambda fg, x: fg.linalg.eig(x)[1].abs().sum(-1), distinct(3, 3))
add("linalg_eigvals", lambda fg, x: fg.sort(fg.real(fg.linalg.eigvals(x)))[0], distinct(2, 3, 3))


def _phase_check(fg: Any, x: Any) -> Any:
    """What passes it comes out as it is."""
    given = fg.complex(x, x - x.mT)
    return fg.abs(given if fg.__name__ == "torch" else bind(REGISTRY["linalg_phase_check"], (given,)))


add("linalg_phase_check", _phase_check, f(2, 3, 3))

# Least squares and LDL.

for _driver in ("gelsy", "gelsd", "gels"):
    add(
        "linalg_lstsq",
        lambda fg, a, b, driver=_driver: fg.linalg.lstsq(a, b, driver=driver)[:1],
        regular(2, 4, 4)[..., :3],
        f(2, 4, 2),
    )
add("linalg_lstsq", lambda fg, a, b: fg.linalg.lstsq(a, b, driver="gelss")[1:], regular(4, 4)[:, :3], f(4, 2))
add("linalg_ldl_factor_ex", lambda fg, x: fg.linalg.ldl_factor_ex(symmetric(x)), f(2, 3, 3), gradients=False)
add(
    "linalg_ldl_solve",
    lambda fg, x, b: fg.linalg.ldl_solve(*fg.linalg.ldl_factor(symmetric(x)), b),
    f(2, 3, 3),
    f(2, 3, 2),
    gradients=False,
)

# Fourier transforms. What is compared has gradients, so it is real.

for _norm in (None, "ortho", "forward"):
    add(
        "fft_r2c",
        lambda fg, x, norm=_norm: fg.view_as_real(fg.fft.rfft(x, norm=norm)),
        f(2, 5),
    )
    add(
        "fft_c2r",
        lambda fg, x, norm=_norm: fg.fft.irfft2(x, s=(4, 5), norm=norm),
        f(3, 4),
    )
    add(
        "fft_c2c",
        lambda fg, x, norm=_norm: fg.view_as_real(fg.fft.fftn(x, s=(3, 2), norm=norm)),
        f(2, 4),
    )
