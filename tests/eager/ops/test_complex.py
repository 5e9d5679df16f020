"""Complex numbers: values and gradients are PyTorch's, which point to steepest ascent."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg

_random = np.random.default_rng(0)
Z = _random.normal(size=(3, 3)) + 1j * _random.normal(size=(3, 3))
W = _random.normal(size=(3, 1)) + 1j * _random.normal(size=(3, 1))
X = _random.normal(size=(3, 3))
ONE = """reciprocal square exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh
tanh asinh acosh atanh sigmoid sinc abs angle sgn neg conj real imag""".split()


def results(namespace: Any, use: Any, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The value, first gradients and second gradients."""
    inputs = [namespace.tensor(a, requires_grad=True) for a in arrays]
    value = use(namespace, *inputs)
    first = namespace.autograd.grad(weighted(namespace, value), inputs, create_graph=True)
    found = [value, *first]
    curved = [g for g in first if g.requires_grad]
    if curved:
        total = sum(weighted(namespace, g * g) for g in curved)
        second = namespace.autograd.grad(total, inputs, allow_unused=True)
        found += [namespace.zeros_like(x) if g is None else g for g, x in zip(second, inputs, strict=True)]
    return [t.detach().resolve_conj().numpy(force=True) for t in found]


def weighted(namespace: Any, value: Any) -> Any:
    if value.is_complex():
        value = namespace.view_as_real(value.resolve_conj())
    weights = np.linspace(0.5, 1.5, value.numel()).reshape(tuple(value.shape))
    return (value * namespace.tensor(weights)).sum()


def check(use: Any, *arrays: np.ndarray) -> None:
    ours, theirs = (results(namespace, use, list(arrays)) for namespace in (fg, torch))
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_tensor(name: str):
    check(lambda m, z: getattr(m, name)(z), Z)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow"])
def test_functions_of_two_tensors(name: str):
    use = lambda m, x, y: getattr(m, name)(x, y)  # noqa: E731
    check(use, Z, W)
    check(use, X, W)
    check(use, Z, X)


@pytest.mark.parametrize(
    "use",
    [
        lambda m, z: z**3,
        lambda m, z: z**0.5,
        lambda m, z: z ** (1 + 2j),
        lambda m, z: (2 - 1j) ** z,
        lambda m, z: z * 1j + 2,
        lambda m, z: m.where(m.real(z) > 0, z, 2j * z),
        lambda m, z: (z @ z).abs(),
        lambda m, z: m.addcmul(z, z, z),
        lambda m, z: m.lerp(z, z * z, 0.3),
        lambda m, z: z.mean(0) * z,
    ],
)
def test_formulas(use):
    check(use, Z)


def test_made_of_real_numbers():
    check(lambda m, x, y: m.complex(x, y) ** 2, X, X.T.copy())
    check(lambda m, x, y: m.polar(x, y) ** 2, np.abs(X), X)
    check(lambda m, x: m.view_as_complex(x) ** 2, X[:, :2].copy())
    check(lambda m, x: x.cdouble() * (1 + 1j) * x, X)


def test_parts_are_views():
    for namespace in (fg, torch):
        z = namespace.tensor([1 + 2j, 3 + 0j])
        z.real.mul_(2)
        z.imag[0] = 9.0
        namespace.view_as_real(z)[1, 1] = 5.0
        assert z.tolist() == [2 + 9j, 6 + 5j]
        assert namespace.view_as_complex(namespace.tensor([[1.0, 2.0]])).tolist() == [1 + 2j]


def test_errors():
    x = fg.ones(3)
    for wrong in (
        lambda: fg.imag(x),
        lambda: fg.view_as_real(x),
        lambda: fg.view_as_complex(x),
        lambda: fg.view_as_complex(fg.ones(2, 3).t()),
        lambda: fg.complex(x, x.double()),
        lambda: fg.polar(x.int(), x.int()),
        lambda: fg.sign(x * 1j),
        lambda: x * 1j < x,
        lambda: fg.floor(x * 1j),
    ):
        with pytest.raises(RuntimeError):
            wrong()


@pytest.mark.parametrize(
    "use",
    [
        lambda m, z: m.prod(z),
        lambda m, z: m.prod(z, 1),
        lambda m, z: m.cumprod(z, 0),
        lambda m, z: m.linalg.det(z),
        lambda m, z: m.cat(list(m.linalg.slogdet(z[None]))),
        lambda m, z: m.logsumexp(z, 0),
        lambda m, z: m.cov(z),
        lambda m, z: m.nn.functional.conv1d(z[None], z[:, :2].reshape(1, 3, 2), padding=1),
        lambda m, z: m.nn.functional.conv_transpose1d(z[None], z[:, :2].reshape(3, 1, 2), stride=2),
    ],
)
def test_products_and_what_is_made_of_them(use):
    check(use, Z)


def test_a_product_with_a_zero():
    check(lambda m, z: m.prod(z * m.tensor([0.0, 1.0, 1.0]), 1), Z)


def test_what_pytorch_does_not_take_points_to_steepest_ascent():
    w = fg.tensor(np.vander(np.linspace(0.2, 1, 3)) * (1 + 2j))
    for use in (
        lambda z: fg.nn.functional.layer_norm(z, (3,), z[0], z[1]),
        lambda z: fg.nn.functional.layer_norm(z, (3,)),
        lambda z: z.scatter_reduce(0, fg.tensor([[0, 1, 0]] * 3), z * w, "prod"),
        lambda z: fg.gru_cell(z, z, fg.cat([w, w, w]), fg.cat([w, w, w])),
    ):
        assert fg.autograd.gradcheck(use, (fg.tensor(Z, requires_grad=True),))


@pytest.mark.parametrize("order", [0.5, 1, 1.5, 2, 3, np.inf, -np.inf, -1])
@pytest.mark.parametrize("dim", [None, 1])
def test_norms(order: float, dim: Any):
    check(lambda m, z: m.linalg.vector_norm(z, order, dim), Z)


@pytest.mark.parametrize(
    "use",
    [
        lambda m, z: m.nn.functional.l1_loss(z, z * z, reduction="sum"),
        lambda m, z: m.nn.functional.l1_loss(z, m.ones(3, 3)),
        lambda m, z: m.nn.functional.normalize(z, p=1),
        lambda m, z: m.logdet(z),
    ],
)
def test_losses_and_sizes(use: Any):
    check(use, Z)


PARTS = [
    lambda m, u, s, v: u.abs(),
    lambda m, u, s, v: v.abs() * s.sum(),
    lambda m, u, s, v: u @ v,
    lambda m, u, s, v: u @ (s[..., None] ** 3 * v),
]


@pytest.mark.parametrize("shape", [(3, 3), (2, 2, 4), (4, 2)])
@pytest.mark.parametrize("part", PARTS)
def test_singular_vectors(part: Any, shape: tuple[int, ...]):
    random = np.random.default_rng(1)
    z = random.normal(size=shape) + 1j * random.normal(size=shape)
    check(lambda m, z: part(m, *m.linalg.svd(z, full_matrices=False)), z)
    with pytest.raises(RuntimeError, match="making it ill-defined"):
        fg.linalg.svd(fg.tensor(z, requires_grad=True))[0].real.sum().backward()


@pytest.mark.parametrize("shape", [(3, 3), (2, 2, 4), (4, 2)])
def test_orthogonal_and_triangular(shape: tuple[int, ...]):
    random = np.random.default_rng(1)
    z = random.normal(size=shape) + 1j * random.normal(size=shape)
    check(lambda m, z: m.linalg.qr(z)[0], z)
    check(lambda m, z: m.linalg.qr(z)[1], z)
    check(lambda m, z: (lambda q, r: q.real.sum() * r.imag.exp())(*m.linalg.qr(z)), z)


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_a_system_from_its_factors(adjoint: bool, left: bool):
    check(lambda m, z: m.linalg.lu_solve(*m.linalg.lu_factor(z), z, adjoint=adjoint, left=left), Z)


def test_eigenvectors():
    check(lambda m, z: (m.linalg.eig(z)[1].abs() ** 3).sum(), Z)
    check(lambda m, x: (m.linalg.eig(x)[1].abs() ** 3).sum(), X)


@pytest.mark.parametrize("decompose", [lambda x: fg.linalg.eig(x), lambda x: fg.linalg.eigh(x + x.mH)])
def test_a_loss_of_the_phase_of_eigenvectors_is_refused(decompose):
    z = fg.tensor(Z, requires_grad=True)
    with pytest.raises(RuntimeError, match="depends on this quantity"):
        weighted(fg, decompose(z)[1]).backward()


@pytest.mark.parametrize("kind", [np.complex64, np.complex128])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean"])
def test_scatter_reduce_rounds_as_the_ops_do(kind: type, reduce: str):
    random = np.random.default_rng(0)
    x, values = (random.normal(size=(n, 3)) + 1j * random.normal(size=(n, 3)) for n in (5, 90))
    x, values = fg.tensor(x.astype(kind)), fg.tensor(values.astype(kind))
    index = fg.tensor(random.integers(0, 5, (90, 3)))
    expected, counts = x.clone(), fg.ones(5, 3, dtype=x.dtype)
    for i in range(90):
        for j in range(3):
            at = int(index[i, j]), j
            expected[at] = expected[at] * values[i, j] if reduce == "prod" else expected[at] + values[i, j]
            counts[at] += 1
    if reduce == "mean":
        expected /= counts
    assert fg.equal(x.scatter_reduce(0, index, values, reduce), expected)


SPECIAL = [0j, 1 + 0.5j] + [complex(a, b) for a in (1, np.inf, -np.inf, np.nan) for b in (0, np.inf, np.nan)]


def test_running_sums_of_exponentials_of_infinities_are_pytorchs():
    rows = np.array(list(itertools.product(SPECIAL, repeat=3))).T
    ours = fg.logcumsumexp(fg.tensor(rows), 0).numpy()
    theirs = torch.logcumsumexp(torch.tensor(rows), 0).numpy()
    np.testing.assert_allclose(ours.real, theirs.real, rtol=1e-12)
    np.testing.assert_allclose(ours.imag, theirs.imag, rtol=1e-12)
