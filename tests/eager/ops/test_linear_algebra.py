"""Linear algebra: what the table of samples does not say. Losses here do not depend on LAPACK's signs."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg


def gradient(library: Any, loss: Callable[..., Any], *arrays: np.ndarray) -> list[np.ndarray]:
    leaves = [library.tensor(a, requires_grad=True) for a in arrays]
    return [g.numpy() for g in library.autograd.grad(loss(library, *leaves), leaves)]


def same_gradients(loss: Callable[..., Any], *arrays: np.ndarray, **tolerance: float) -> None:
    for ours, theirs in zip(gradient(fg, loss, *arrays), gradient(torch, loss, *arrays), strict=True):
        np.testing.assert_allclose(ours, theirs, **{"rtol": 1e-9, "atol": 1e-11, **tolerance})


def random(*size: int) -> np.ndarray:
    return np.random.default_rng(3).normal(size=size)


# Gradients.


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("size", [(4, 4), (5, 3), (3, 5), (2, 4, 3)])
def test_gradients_of_singular_vectors_do_not_need_the_others_signs(size: tuple[int, ...], full: bool):
    def loss(library: Any, x: Any) -> Any:
        u, s, vh = library.linalg.svd(x, full_matrices=full)
        best = u[..., :1] @ vh[..., :1, :]
        return (best * best * s[..., None, :1]).sum() + (s**3).sum() + (best[..., 0, 0] ** 3).sum()

    same_gradients(loss, random(*size))


def test_values_of_equal_size_have_gradients_where_vectors_have_none():
    weights = np.array([1.0, 2.0, 3.0])
    same = 2 * np.eye(3)
    for name in ("svdvals", "eigvalsh"):
        result = gradient(fg, lambda lib, x, n=name: getattr(lib.linalg, n)(x).sum(), same)[0]
        np.testing.assert_allclose(result, np.eye(3), atol=1e-12)
    for pick in (lambda lib, x: lib.linalg.svd(x)[1], lambda lib, x: lib.linalg.eigh(x)[0]):
        result = gradient(fg, lambda lib, x, p=pick: (p(lib, x) * lib.tensor(weights)).sum(), same)[0]
        np.testing.assert_allclose(np.sort(np.diagonal(result)), weights)


def test_a_loss_of_all_eigenvectors_is_that_of_a_matrix_function():
    def loss(library: Any, x: Any) -> Any:
        values, vectors = library.linalg.eigh(x + x.mT)
        return (((vectors * library.exp(values)[..., None, :]) @ vectors.mT) ** 2).sum()

    same_gradients(loss, random(2, 4, 4), rtol=1e-7)
    direct = gradient(fg, lambda lib, x: (lib.linalg.matrix_exp(x + x.mT) ** 2).sum(), random(2, 4, 4))[0]
    np.testing.assert_allclose(gradient(fg, loss, random(2, 4, 4))[0], direct, rtol=1e-7)


def test_complex_eigenvalues_have_real_gradients():
    same_gradients(lambda lib, x: (lib.linalg.eigvals(x).abs() ** 2).sum(), random(4, 4))
    same_gradients(lambda lib, x: (lib.linalg.eig(x)[1].abs() ** 3).sum(), random(4, 4))


def test_det_has_its_cofactors_as_gradient_where_there_is_no_inverse():
    rank_two = random(3, 2) @ random(2, 3)
    (ours,) = gradient(fg, lambda lib, x: lib.linalg.det(x), rank_two)
    expected = [
        [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(rank_two, i, 0), j, 1)) for j in range(3)]
        for i in range(3)
    ]
    np.testing.assert_allclose(ours, expected, atol=1e-12)
    (zero,) = gradient(fg, lambda lib, x: lib.det(x), np.zeros((3, 3)))
    np.testing.assert_array_equal(zero, np.zeros((3, 3)))


def test_third_derivatives():
    def third(library: Any, x: Any) -> Any:
        value = (library.linalg.inv(x) ** 2).sum()
        for _ in range(2):
            value = (library.autograd.grad(value, x, create_graph=True)[0] ** 2).sum()
        return value

    same_gradients(third, random(3, 3) + 4 * np.eye(3))


def test_qr_without_gradient_says_which_mode_has_one():
    for mode, size in (("r", (3, 3)), ("complete", (4, 3))):
        x = fg.tensor(random(*size), requires_grad=True)
        with pytest.raises(RuntimeError, match="reduced"):
            fg.linalg.qr(x, mode)[1].sum().backward()


# Results.


def test_results_have_torchs_fields():
    a, b = random(3, 3) + 3 * np.eye(3), random(3, 2)
    spd = a @ a.T
    for call in (
        lambda lib, x: lib.linalg.svd(x(a)),
        lambda lib, x: lib.linalg.eigh(x(spd)),
        lambda lib, x: lib.linalg.eig(x(a)),
        lambda lib, x: lib.linalg.qr(x(a)),
        lambda lib, x: lib.linalg.slogdet(x(a)),
        lambda lib, x: lib.linalg.inv_ex(x(a)),
        lambda lib, x: lib.linalg.solve_ex(x(a), x(b)),
        lambda lib, x: lib.linalg.cholesky_ex(x(spd)),
        lambda lib, x: lib.linalg.lu(x(a)),
        lambda lib, x: lib.linalg.lu_factor(x(a)),
        lambda lib, x: lib.linalg.lu_factor_ex(x(a)),
        lambda lib, x: lib.linalg.ldl_factor_ex(x(spd)),
        lambda lib, x: lib.linalg.lstsq(x(a), x(b)),
        lambda lib, x: lib.triangular_solve(x(b), x(a)),
    ):
        ours, theirs = call(fg, fg.tensor), call(torch, torch.tensor)
        names = [n for n in dir(theirs) if not n.startswith("_") and n not in dir(tuple)]
        names = [n for n in names if not n.startswith("n_")]
        assert names
        for name in names:
            part, other = getattr(ours, name), getattr(theirs, name)
            assert part.shape == tuple(other.shape) and repr(part.dtype) == repr(other.dtype), name


@pytest.mark.parametrize("driver", [None, "gels", "gelsy", "gelsd", "gelss"])
def test_lstsq_gives_what_its_driver_computes(driver: str | None):
    a, b = random(5, 3), random(5, 2)
    ours = fg.linalg.lstsq(fg.tensor(a), fg.tensor(b), driver=driver)
    theirs = torch.linalg.lstsq(torch.tensor(a), torch.tensor(b), driver=driver)
    for part, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(part.numpy(), other.numpy(), atol=1e-12)


def test_info_says_which_matrix_failed_and_where():
    good, bad = np.eye(3), np.diag([1.0, 0.0, 2.0])
    x = np.stack([good, bad])
    for call in (
        lambda lib, x: lib.linalg.inv_ex(x)[1],
        lambda lib, x: lib.linalg.cholesky_ex(x)[1],
        lambda lib, x: lib.linalg.lu_factor_ex(x)[2],
        lambda lib, x: lib.linalg.solve_ex(x, x)[1],
        lambda lib, x: lib.linalg.ldl_factor_ex(x)[2],
    ):
        assert call(fg, fg.tensor(x)).tolist() == call(torch, torch.tensor(x)).tolist() == [0, 2]
    inverse = fg.linalg.inv_ex(fg.tensor(x)).inverse
    np.testing.assert_array_equal(inverse[0].numpy(), good)
    assert np.isnan(inverse[1].numpy()).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_dtypes_stay_and_complex_matrices_have_values(dtype: str):
    parts = random(2, 4, 4), random(2, 4, 4)[::-1]
    a = (parts[0] + 1j * parts[1] if dtype.startswith("c") else parts[0]).astype(dtype)
    b = a[:, :, :2]
    rtol = 1e-4 if dtype in ("float32", "complex64") else 1e-10
    for call in (
        lambda lib, a, b: lib.linalg.solve(a, b),
        lambda lib, a, b: lib.linalg.inv(a),
        lambda lib, a, b: lib.linalg.det(a),
        lambda lib, a, b: lib.linalg.pinv(b),
        lambda lib, a, b: lib.linalg.svdvals(b),
        lambda lib, a, b: lib.linalg.matrix_exp(a * 0.1),
        lambda lib, a, b: lib.linalg.eigvalsh(a @ a.mH),
        lambda lib, a, b: lib.linalg.cholesky(a @ a.mH),
        lambda lib, a, b: lib.linalg.vecdot(a, a),
        lambda lib, a, b: lib.linalg.solve_triangular(a, b, upper=True),
        lambda lib, a, b: lib.linalg.lu(b)[2],
        lambda lib, a, b: lib.linalg.lstsq(b, a)[0],
    ):
        ours, theirs = call(fg, fg.tensor(a), fg.tensor(b)), call(torch, torch.tensor(a), torch.tensor(b))
        assert repr(ours.dtype) == repr(theirs.dtype)
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=rtol, atol=rtol)
    values, vectors = fg.linalg.eig(fg.tensor(a))
    np.testing.assert_allclose(
        (fg.tensor(a.astype(vectors.numpy().dtype)) @ vectors).numpy(),
        (vectors * values[..., None, :]).numpy(),
        atol=1e-4 if rtol == 1e-4 else 1e-10,
    )


@pytest.mark.parametrize("size", [(0, 3, 3), (2, 0, 0), (0, 0), (0, 0, 3, 3)])
def test_empty_batches_and_matrices(size: tuple[int, ...]):
    x = np.zeros(size)
    for call in (
        lambda lib, x: lib.linalg.inv(x),
        lambda lib, x: lib.linalg.solve(x, x),
        lambda lib, x: lib.linalg.solve_triangular(x, x, upper=False),
        lambda lib, x: lib.linalg.det(x),
        lambda lib, x: lib.linalg.slogdet(x),
        lambda lib, x: lib.linalg.cholesky(x),
        lambda lib, x: lib.linalg.lu_factor(x),
        lambda lib, x: lib.linalg.lu(x),
        lambda lib, x: lib.linalg.qr(x),
        lambda lib, x: lib.linalg.svd(x),
        lambda lib, x: lib.linalg.eigh(x),
        lambda lib, x: lib.linalg.eigvals(x),
        lambda lib, x: lib.linalg.pinv(x),
        lambda lib, x: lib.linalg.matrix_rank(x),
        lambda lib, x: lib.linalg.matrix_exp(x),
        lambda lib, x: lib.linalg.matrix_power(x, 3),
        lambda lib, x: lib.linalg.lstsq(x, x).solution,
        lambda lib, x: lib.cholesky_solve(x, x),
        lambda lib, x: lib.geqrf(x),
    ):
        ours, theirs = call(fg, fg.tensor(x)), call(torch, torch.tensor(x))
        pairs = zip(ours, theirs, strict=True) if isinstance(theirs, tuple) else [(ours, theirs)]
        for part, other in pairs:
            np.testing.assert_array_equal(part.numpy(), other.numpy())


def test_low_rank_decompositions_find_what_has_low_rank():
    a = random(20, 3) @ random(3, 15)
    u, s, v = fg.svd_lowrank(fg.tensor(a), q=5)
    np.testing.assert_allclose(((u * s) @ v.mT).numpy(), a, atol=1e-9)
    np.testing.assert_allclose(s.numpy()[:3], np.linalg.svd(a)[1][:3])
    u, s, v = fg.pca_lowrank(fg.tensor(a.T))
    np.testing.assert_allclose(((u * s) @ v.mT).numpy(), a.T - a.T.mean(0), atol=1e-9)


def test_beta_zero_leaves_the_input_out():
    nan = fg.full((2, 2), float("nan"))
    ones = fg.ones(2, 2)
    assert fg.addmm(nan, ones, ones, beta=0).tolist() == [[2, 2], [2, 2]]
    assert (
        fg.addmm(fg.ones(2, 2).long(), ones.long(), ones.long(), beta=1.7, alpha=2.9).tolist() == [[5, 5]] * 2
    )
    x = fg.zeros(2, 2)
    x.addmm_(ones, ones, alpha=2)
    assert x.tolist() == [[4, 4], [4, 4]]


def test_half_precision_adds_up_in_single_precision():
    x = np.full((1, 4096), 1.0, np.float16)
    assert (fg.tensor(x) @ fg.tensor(x.T)).item() == 4096


def test_einsum_takes_lists_of_subscripts():
    x, y = random(2, 3), random(3, 4)
    ours = fg.einsum(fg.tensor(x), [0, 1], fg.tensor(y), [1, 30], [30, 0])
    np.testing.assert_allclose(ours.numpy(), (x @ y).T)
    assert fg.einsum(fg.tensor(x), [0, ...], [..., 0]).shape == (3, 2)
    with pytest.raises(ValueError, match="52"):
        fg.einsum(fg.tensor(x), [0, 52])


# Errors.

_EYE, _ZERO = np.eye(3), np.zeros((3, 3))
_BATCH = np.stack([_EYE, _ZERO])
_ERRORS: list[tuple[Callable[..., Any], list[str]]] = [
    (lambda t: fg.linalg.inv(t(_BATCH)), ["linalg.inv", "Batch element 1", "singular"]),
    (lambda t: fg.linalg.inv(t(_BATCH[None])), ["linalg.inv", "Batch element 1"]),
    (lambda t: fg.linalg.solve(t(_BATCH), t(_BATCH)), ["linalg.solve", "Batch element 1", "singular"]),
    (lambda t: fg.linalg.cholesky(t(-_BATCH)), ["linalg.cholesky", "Batch element 0", "order 1"]),
    (lambda t: fg.linalg.svd(t(_EYE * np.nan)), ["linalg.svd", "not finite"]),
]


@pytest.mark.parametrize(("call", "words"), _ERRORS)
def test_a_matrix_that_cannot_be_taken_raises_a_linalg_error(call: Callable[..., Any], words: list[str]):
    with pytest.raises(fg.linalg.LinAlgError) as caught:
        call(fg.tensor)
    assert isinstance(caught.value, RuntimeError)
    for word in [*words, "test_linear_algebra.py"]:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t: fg.linalg.inv(t(np.ones((2, 3)))), ["linalg.inv", "square", "[2, 3]"]),
        (lambda t: fg.linalg.det(t(np.ones(3))), ["linalg.det", "2 dimensions", "[3]"]),
        (lambda t: fg.linalg.eigh(t(np.ones((3, 2)))), ["linalg.eigh", "[3, 2]"]),
        (lambda t: fg.linalg.inv(t(np.ones((3, 3), int))), ["linalg.inv", "int64", ".to("]),
        (lambda t: fg.linalg.qr(t(np.ones((3, 3), np.float16))), ["linalg.qr", "float16"]),
        (lambda t: fg.linalg.solve(t(_EYE), t(np.ones((2, 2)))), ["linalg.solve", "[3, 3]", "[2, 2]"]),
        (lambda t: fg.linalg.solve(t(_EYE), t(np.ones(3, np.float32))), ["float64", "float32"]),
        (lambda t: fg.linalg.multi_dot([t(_EYE)]), ["multi_dot", "at least 2"]),
        (lambda t: fg.linalg.cross(t(np.ones(4)), t(np.ones(4))), ["linalg.cross", "length 3", "[4]"]),
        (lambda t: fg.addmm(t(np.ones((5, 2))), t(_EYE), t(_EYE)), ["addmm", "[5, 2]", "[3, 3]"]),
        (lambda t: fg.addmm(t(np.ones((2, 3, 3))), t(_EYE), t(_EYE)), ["addmm", "[2, 3, 3]"]),
        (lambda t: fg.baddbmm(t(_EYE), t(_EYE), t(_EYE)), ["bmm", "[3, 3]"]),
        (lambda t: fg.tensordot(t(_EYE), t(np.ones((2, 3))), 1), ["tensordot", "size 3", "size 2"]),
        (lambda t: fg.einsum("ij,jk", t(_EYE), t(np.ones((2, 2)))), ["einsum", "'j'", "3", "2"]),
        (lambda t: fg.einsum("i.j", t(_EYE)), ["einsum", "'.'"]),
        (lambda t: fg.fft.fft(t(np.ones(0))), ["fft.fft", "data points (0)"]),
        (lambda t: fg.fft.rfft(t(np.ones(2, complex))), ["fft.rfft", "real", "complex128"]),
    ],
)
def test_arguments_that_do_not_fit_are_named(call: Callable[..., Any], words: list[str]):
    with pytest.raises(RuntimeError) as caught:
        call(fg.tensor)
    for word in [*words, "test_linear_algebra.py"]:
        assert word in str(caught.value)


# Fourier transforms.


def test_a_spectrum_goes_back_and_keeps_its_precision():
    x = random(3, 5).astype(np.float32)
    spectrum = fg.fft.rfft(fg.tensor(x))
    assert spectrum.dtype == fg.complex64 and spectrum.shape == (3, 3)
    back = fg.fft.irfft(spectrum, n=5)
    assert back.dtype == fg.float32
    np.testing.assert_allclose(back.numpy(), x, rtol=1e-5, atol=1e-6)


def test_a_filter_in_the_frequencies_has_gradients():
    mask = np.array([1.0, 0.5, 0.0, 0.25])

    def loss(library: Any, x: Any) -> Any:
        spectrum = library.fft.rfft(x, norm="ortho") * library.tensor(mask)
        return (library.fft.irfft(spectrum, n=7, norm="ortho") ** 2).sum()

    same_gradients(loss, random(2, 7))


# Memory.


@pytest.mark.parametrize(
    "call",
    [
        lambda x: fg.linalg.inv(x),
        lambda x: fg.linalg.svd(x).S,
        lambda x: fg.linalg.eigh(x + x.mT).eigenvectors,
        lambda x: fg.linalg.qr(x).Q,
        lambda x: fg.linalg.lu_factor(x).LU,
        lambda x: fg.linalg.slogdet(x).logabsdet,
        lambda x: fg.linalg.pinv(x),
        lambda x: fg.fft.irfft(fg.fft.rfft(x)),
    ],
)
def test_nothing_is_left_for_the_garbage_collector(call: Callable[..., Any]):
    call(fg.tensor(random(3, 3), requires_grad=True)).sum().backward()  # what is imported or cached once
    gc.collect()
    gc.disable()
    try:
        x = fg.tensor(random(3, 3), requires_grad=True)
        call(x).sum().backward()
        del x
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
@pytest.mark.parametrize("unitriangular", [False, True])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("rows", [1, 2, 3, 16, 17])
def test_triangular_systems_of_a_batch_are_as_one_by_one(rows, upper, left, unitriangular, dtype):
    draw = np.random.default_rng(rows)
    a = (draw.normal(size=(10, 9, rows, rows)) / rows + 2 * np.eye(rows)).astype(dtype)
    b = draw.normal(size=(10, 9, rows, 5) if left else (10, 9, 5, rows)).astype(dtype)
    options = {"upper": upper, "left": left, "unitriangular": unitriangular}
    found = fg.linalg.solve_triangular(fg.from_numpy(a), fg.from_numpy(b), **options).numpy()
    wanted = [
        fg.linalg.solve_triangular(fg.from_numpy(one), fg.from_numpy(other), **options).numpy()
        for one, other in zip(a.reshape(90, *a.shape[2:]), b.reshape(90, *b.shape[2:]), strict=True)
    ]
    tolerance = 1e-4 if dtype == "f4" else 1e-11
    np.testing.assert_allclose(found.reshape(90, *found.shape[2:]), np.stack(wanted), tolerance, tolerance)


def test_a_zero_on_the_diagonal_of_one_of_a_batch_gives_inf_there():
    a = np.tile(np.tril(np.ones((3, 3))), (50, 1, 1))
    a[7, 1, 1] = 0
    x = fg.linalg.solve_triangular(fg.from_numpy(a), fg.ones(50, 3, 1, dtype=fg.float64) * 2, upper=False)
    one = fg.linalg.solve_triangular(fg.from_numpy(a[7]), fg.ones(3, 1, dtype=fg.float64) * 2, upper=False)
    np.testing.assert_array_equal(x[7].numpy(), one.numpy())
    assert np.isfinite(np.delete(x.numpy(), 7, 0)).all()
