"""Functions whose derivative nobody knows: a loss through them says so, and loses no part in silence."""

from collections.abc import Callable
from typing import Any

import pytest
from oracle import torch

import fusegrad as fg

# Calls on a vector `x` and a symmetric matrix `a` that need gradients, and `n`, numbers that need none.
CALLS: dict[str, Callable[..., Any]] = {
    "unique": lambda t, x, a, n: t.unique(x),
    "unique, inverse and counts": lambda t, x, a, n: t.unique(x, return_inverse=True, return_counts=True),
    "unique along a dimension": lambda t, x, a, n: t.unique(a, dim=0),
    "unique_consecutive": lambda t, x, a, n: t.unique_consecutive(x),
    "unique_consecutive along a dimension": lambda t, x, a, n: t.unique_consecutive(a, dim=1),
    "unique of what needs none": lambda t, x, a, n: t.unique(n),
    "bincount": lambda t, x, a, n: t.bincount(t.tensor([0, 1, 1]), weights=x),
    "bincount without weights": lambda t, x, a, n: t.bincount(t.tensor([0, 1, 1])),
    "histogram": lambda t, x, a, n: t.histogram(x, 4),
    "histogram of weights": lambda t, x, a, n: t.histogram(n, 4, weight=x),
    "histogramdd": lambda t, x, a, n: t.histogramdd(a, [2, 2, 2])[0],
    "histc": lambda t, x, a, n: t.histc(x, 4),
    "heaviside": lambda t, x, a, n: t.heaviside(x, n),
    "heaviside, its value": lambda t, x, a, n: t.heaviside(n, x),
    "binomial": lambda t, x, a, n: t.binomial(n + 4, x),
    "poisson": lambda t, x, a, n: t.poisson(x),
    "geqrf": lambda t, x, a, n: t.geqrf(a),
    "ldl_factor": lambda t, x, a, n: t.linalg.ldl_factor(a),
    "ldl_factor_ex": lambda t, x, a, n: t.linalg.ldl_factor_ex(a),
    "ldl_solve": lambda t, x, a, n: t.linalg.ldl_solve(a, t.tensor([1, 2, 3], dtype=t.int32), n[:, None]),
    "igamma": lambda t, x, a, n: t.igamma(x, n + 1),
    "zeta": lambda t, x, a, n: t.special.zeta(x + 2, n + 1),
    "nextafter": lambda t, x, a, n: t.nextafter(x, n),
    "searchsorted": lambda t, x, a, n: t.searchsorted(n, x),
    "bucketize": lambda t, x, a, n: t.bucketize(x, n),
    "isin": lambda t, x, a, n: t.isin(x, n),
    "matrix_rank": lambda t, x, a, n: t.linalg.matrix_rank(a),
    "argsort": lambda t, x, a, n: t.argsort(x),
    "multinomial": lambda t, x, a, n: t.multinomial(x, 2),
    "frexp": lambda t, x, a, n: t.frexp(x),
    "bessel_j0": lambda t, x, a, n: t.special.bessel_j0(x),
}


def backward_of_each(t: Any, call: Callable[..., Any]) -> list[Any]:
    """For each result: whether it needs a gradient, and what backward comes to."""
    x = t.tensor([0.25, 0.5, 0.75], dtype=t.float64, requires_grad=True)
    a = t.tensor([[3.0, 1.0, 0.5], [1.0, 4.0, 0.25], [0.5, 0.25, 5.0]], dtype=t.float64, requires_grad=True)
    n = t.tensor([0.0, 1.0, 2.0], dtype=t.float64)
    made = call(t, x, a, n)
    found: list[Any] = []
    for result in made if isinstance(made, tuple) else (made,):
        if not result.requires_grad:
            found.append("none")
            continue
        x.grad = a.grad = None
        try:
            (result.sum() * 2).backward(retain_graph=True)
            found.append([None if g is None else g.tolist() for g in (x.grad, a.grad)])
        except RuntimeError as error:  # of which NotImplementedError is one
            assert "derivative for" in str(error) and "is not implemented" in str(error)
            found.append("not implemented")
    return found


@pytest.mark.parametrize("name", CALLS)
def test_a_derivative_that_nobody_knows_is_an_error_as_in_torch(name: str):
    assert backward_of_each(fg, CALLS[name]) == backward_of_each(torch, CALLS[name])


@pytest.mark.parametrize("zeros", [0, 1, 2])
@pytest.mark.parametrize("name", ["scatter_reduce", "index_reduce"])
def test_second_derivatives_of_products_of_several_zeros_are_refused(name: str, zeros: int):
    found = []
    for t in (fg, torch):
        x = t.tensor([1.5, 2.0], dtype=t.float64, requires_grad=True)
        values = [*[0.0] * zeros, *[3.0] * (3 - zeros)]
        source = t.tensor(values, dtype=t.float64, requires_grad=True)
        made = getattr(t, name)(x, 0, t.tensor([0, 0, 0]), source, "prod")
        first = t.autograd.grad((made * made).sum() + made.sum(), [x, source], create_graph=True)
        found.append([g.tolist() for g in first])
        try:
            second = t.autograd.grad(sum((g * t.tensor(1.5)).sum() for g in first), [x, source])
            found[-1] += [g.tolist() for g in second]
        except RuntimeError as error:
            assert "Double backward is unsupported" in str(error)
            found[-1].append("refused")
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["unique", "bincount", "heaviside", "geqrf", "histogram"])
def test_jitted_functions_say_so_too(name: str):
    def loss(x: Any, a: Any, n: Any) -> Any:
        made = CALLS[name](fg, x, a, n)
        return (made[0] if isinstance(made, tuple) else made).sum() * 2

    jitted = fg.jit(loss)
    x = fg.tensor([0.25, 0.5, 0.75], dtype=fg.float64, requires_grad=True)
    a, n = fg.eye(3, dtype=fg.float64).requires_grad_(), fg.tensor([0.0, 1.0, 2.0], dtype=fg.float64)
    for _ in range(3):
        result = jitted(x, a, n)
        assert fg.equal(result, loss(x, a, n))
        with pytest.raises(NotImplementedError, match="is not implemented"):
            result.backward()


DRAWN = {
    "bernoulli": lambda m, p, q: m.bernoulli(p),
    "bernoulli, a method": lambda m, p, q: p.bernoulli(),
    "poisson": lambda m, p, q: m.poisson(p),
    "a mean": lambda m, p, q: m.normal(p, 1.0),
    "a deviation": lambda m, p, q: m.normal(0.0, p),
    "both": lambda m, p, q: m.normal(q, p),
    "of another size": lambda m, p, q: m.normal(q[:, None], p),
}


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_what_numbers_are_drawn_by_gets_gradients_of_zeros(name, requires_grad):
    found = []
    for lib in (fg, torch):
        p, q = (lib.tensor(x, requires_grad=requires_grad) for x in ([0.3, 0.5], [1.0, 2.0]))
        y = DRAWN[name](lib, p, q)
        if requires_grad:
            (y * p).sum().backward()
            assert p.grad.tolist() == pytest.approx(y.reshape(-1, 2).sum(0).tolist())
        with lib.no_grad():
            assert not DRAWN[name](lib, p, q).requires_grad
        found.append((tuple(y.shape), str(y.dtype), y.requires_grad, q.grad is None or q.grad.tolist()))
    assert found[0] == found[1]
