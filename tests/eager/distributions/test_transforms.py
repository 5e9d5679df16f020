"""Transforms and constraints beside PyTorch's: results, inverses, log-determinants, shapes, texts."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import torch

import fusegrad as fg

V = [[0.3, -1.2, 2.0], [0.1, 0.5, -0.4]]
UP = [[0.3, 1.2, 2.0], [0.1, 0.5, 0.4]]
MATRIX = [[0.5, 0.2], [-0.3, 1.0]]
# The transform, of a library's module, and an argument.
TRANSFORMS = {
    "exp": (lambda t, lib: t.ExpTransform(), V),
    "exp, inverse": (lambda t, lib: t.ExpTransform().inv, UP),
    "sigmoid": (lambda t, lib: t.SigmoidTransform(), V),
    "tanh": (lambda t, lib: t.TanhTransform(), V),
    "softplus": (lambda t, lib: t.SoftplusTransform(), V),
    "power": (lambda t, lib: t.PowerTransform(lib.tensor(2.5, dtype=lib.float64)), UP),
    "power, several": (lambda t, lib: t.PowerTransform(lib.tensor([2.0, -1.0, 0.5], dtype=lib.float64)), UP),
    "affine": (lambda t, lib: t.AffineTransform(1.0, -2.0), V),
    "affine, tensors": (lambda t, lib: t.AffineTransform(lib.ones(3), lib.tensor([1.0, 2.0, -3.0])), V),
    "affine, events": (lambda t, lib: t.AffineTransform(1.0, lib.tensor([1.0, 2.0, -3.0]), event_dim=1), V),
    "composed": (lambda t, lib: t.ComposeTransform([t.AffineTransform(1.0, 2.0), t.ExpTransform()]), V),
    "composed, inverse": (
        lambda t, lib: t.ComposeTransform([t.AffineTransform(1.0, 2.0), t.ExpTransform()]).inv,
        UP,
    ),
    "composed, of parts": (
        lambda t, lib: t.ComposeTransform([t.TanhTransform(), t.StickBreakingTransform()]),
        V,
    ),
    "nothing": (lambda t, lib: t.ComposeTransform([]), V),
    "independent": (lambda t, lib: t.IndependentTransform(t.ExpTransform(), 1), V),
    "reshape": (lambda t, lib: t.ReshapeTransform((3,), (3, 1)), V),
    "stick breaking": (lambda t, lib: t.StickBreakingTransform(), V),
    "correlation": (lambda t, lib: t.CorrCholeskyTransform(), V),
    "stack": (
        lambda t, lib: t.StackTransform([t.ExpTransform(), t.TanhTransform(), t.ExpTransform()], -1),
        V,
    ),
    "cat": (lambda t, lib: t.CatTransform([t.ExpTransform(), t.TanhTransform()], -1, [1, 2]), V),
    "cumulative": (
        lambda t, lib: t.CumulativeDistributionTransform(lib.distributions.Normal(lib.zeros(3), 2.0)),
        V,
    ),
}
WITHOUT_DETERMINANT = {
    "softmax": (lambda t, lib: t.SoftmaxTransform(), V),
    "abs": (lambda t, lib: t.AbsTransform(), UP),
    "lower": (lambda t, lib: t.LowerCholeskyTransform(), MATRIX),
    "positive definite": (lambda t, lib: t.PositiveDefiniteTransform(), MATRIX),
}
BOTH = {**TRANSFORMS, **WITHOUT_DETERMINANT}


def seen(lib, name):
    """All that a transform says of its argument."""
    make, values = BOTH[name]
    transform = make(lib.distributions.transforms, lib)
    x = lib.tensor(values, dtype=lib.float64, requires_grad=True)
    y = transform(x)
    back = transform.inv(y)
    found = [y, back]
    if name in TRANSFORMS:
        found.append(transform.log_abs_det_jacobian(x, y))
        found += [lib.autograd.grad(found[-1].sum() + y.square().sum(), x)[0]]
    shapes = [tuple(transform.forward_shape(x.shape)), tuple(transform.inverse_shape(y.shape))]
    dims = [transform.domain.event_dim, transform.codomain.event_dim, transform.bijective]
    inside = [bool(transform.codomain.check(y).all()), bool(transform.domain.check(x).all())]
    return found, (shapes, dims, inside)


@pytest.mark.parametrize("name", BOTH)
def test_transforms(name):
    (mine, facts), (other, expected) = seen(fg, name), seen(torch, name)
    assert facts == expected
    for one, two in zip(mine, other, strict=True):
        np.testing.assert_allclose(one.detach().numpy(), two.detach().numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", BOTH)
def test_equality_and_cache(name):
    t = fg.distributions.transforms
    make, values = BOTH[name]
    transform = make(t, fg)
    assert transform.inv.inv == transform
    assert transform != t.ReshapeTransform((2,), (2,))
    cached = transform.with_cache(1)
    x = fg.tensor(values, dtype=fg.float64)
    assert cached.inv(cached(x)) is x
    assert cached.with_cache(1) is cached


def test_the_inverse_of_a_cached_result_is_the_argument():
    """tanh loses what its inverse would need: policies of reinforcement learning count on this."""
    squash = fg.distributions.transforms.TanhTransform(cache_size=1)
    policy = fg.distributions.TransformedDistribution(fg.distributions.Normal(0.0, 1.0), [squash])
    x = fg.tensor([20.0])
    y = squash(x)
    assert y.item() == 1.0 and policy.log_prob(y).isfinite().all()


CONSTRAINTS = [
    "boolean", "real", "positive", "nonnegative", "nonnegative_integer", "positive_integer", "unit_interval",
    "real_vector", "simplex", "one_hot", "lower_triangular", "lower_cholesky", "corr_cholesky", "square",
    "symmetric", "positive_definite", "positive_semidefinite", "interval(-1.0, 2.0)", "greater_than(1.0)",
    "greater_than_eq(1.0)", "less_than(2.0)", "half_open_interval(0.0, 1.0)", "integer_interval(0, 2)",
    "multinomial(2)", "independent(constraints.positive, 1)",
    "stack([constraints.real, constraints.positive], -1)",
    "cat([constraints.real, constraints.positive], -1)",
]  # fmt: skip
VALUES = [
    [[0.0, 1.0], [1.0, 0.0]],
    [[0.3, 0.7], [1.0, 1.0]],
    [[2.0, -1.0], [0.5, float("nan")]],
    [[1.0, 0.0], [0.6, 0.8]],
    [[2.0, 0.3], [0.3, 1.0]],
    [[-1.0, 0.0], [0.0, -1.0]],
]


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints(name):
    found = []
    for lib in (fg, torch):
        constraints = lib.distributions.constraints
        constraint = eval(f"constraints.{name}", {"constraints": constraints})
        checks = [constraint.check(lib.tensor(v)).tolist() for v in VALUES]
        found.append((checks, constraint.event_dim, constraint.is_discrete))
        if not name.startswith(("stack", "cat")):
            found[-1] = (*found[-1], repr(constraint))
    assert found[0] == found[1]


@pytest.mark.parametrize("registry", ["transform_to", "biject_to"])
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_transforms_to_constraints(registry, name):
    found = []
    for lib in (fg, torch):
        constraints = lib.distributions.constraints
        constraint = eval(f"constraints.{name}", {"constraints": constraints})
        try:
            transform = getattr(lib.distributions, registry)(constraint)
        except NotImplementedError:
            found.append(None)
            continue
        x = lib.tensor([[0.3, -1.2], [0.5, 2.0]], dtype=lib.float64)
        if name == "corr_cholesky":
            x = lib.tensor([0.3, -1.2, 0.7], dtype=lib.float64)
        found.append(transform(x).numpy())
        assert constraint.check(transform(x)).all()
    assert (found[0] is None) == (found[1] is None)
    if found[0] is not None:
        np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


def test_constraints_of_ones_own():
    constraints = fg.distributions.constraints

    class Even(constraints.Constraint):
        def check(self, value):
            return value % 2 == 0

    @fg.distributions.transform_to.register(Even)
    def twice(constraint):
        return fg.distributions.transforms.AffineTransform(0, 2)

    assert fg.distributions.transform_to(Even())(fg.tensor(3.0)) == 6
    with pytest.raises(TypeError, match="Expected constraint"):
        fg.distributions.transform_to.register(int, twice)

    class Upper(fg.distributions.Distribution):
        @constraints.dependent_property(is_discrete=False, event_dim=0)
        def support(self):
            return constraints.greater_than(self.low)

    upper = Upper(validate_args=False)
    upper.low = 2.0
    assert upper.support.lower_bound == 2.0
    assert constraints.is_dependent(Upper.support) and Upper.support.event_dim == 0
    with pytest.raises(ValueError, match="dependent"):
        Upper.support.check(fg.ones(1))


def test_the_inverse_of_an_inverse_is_the_transform():
    T = fg.distributions.transforms
    parts = [T.ExpTransform(), T.AffineTransform(1.0, 2.0)]
    for made in (parts[0], T.ComposeTransform(parts), T.ComposeTransform([])):
        assert made.inv.inv is made
        assert made.inv.inv.inv == made.inv


@pytest.mark.parametrize("diag", [-2, -1, 0, 1])
def test_lower_triangles_as_vectors(diag):
    matrix = fg.arange(32.0).reshape(2, 4, 4).requires_grad_()
    vector = fg.distributions.utils.tril_matrix_to_vec(matrix, diag)
    again = fg.distributions.utils.vec_to_tril_matrix(vector, diag)
    assert fg.equal(again, matrix.tril(diag))
    again.sum().backward()
    assert fg.equal(matrix.grad, fg.ones(2, 4, 4).tril(diag))


def test_lower_triangles_of_no_square_are_refused():
    with pytest.raises(ValueError, match="cannot be expressed as"):
        fg.distributions.utils.vec_to_tril_matrix(fg.ones(4))
    with pytest.raises(ValueError, match=r"diag \(3\) provided is outside \[-3, 2\]"):
        fg.distributions.utils.tril_matrix_to_vec(fg.ones(3, 3), 3)
