"""Long pointwise programs, of 50 to 1,000 ops: polynomials, state equations, rate laws, transfer, splines."""

from __future__ import annotations

from typing import Any

import numpy as np

from families.declare import FORWARD, programs


@programs(
    "pointwise",
    "ops_in_all shape",
    *("50 200000 float32,float64", "100 20000 float64", "100 200000 float64", "300 200000 float32,float64"),
    *("600 100000 float64", "1000 1000 float64", "1000 100000 float32"),
)
def horner(ops: Any, draw: Any, ops_in_all: Any, shape: Any) -> Any:
    """A polynomial by Horner's scheme, a product and a sum for each coefficient."""
    coefficients = np.random.default_rng(ops_in_all).uniform(-0.5, 0.5, ops_in_all // 2).tolist()

    def loss(x, y):
        total = y
        for coefficient in coefficients:
            total = total * x + coefficient
        return (total * y).mean()

    return loss, [draw.uniform(*shape, low=-0.9, high=0.9), draw.normal(*shape)]


@programs("pointwise", "order shape", "25 50000 float64", "100 50000 float64", "160 100000 float32")
def clenshaw(ops: Any, draw: Any, order: Any, shape: Any) -> Any:
    """A Chebyshev series by Clenshaw's recurrence, its argument scaled before."""
    coefficients = np.random.default_rng(order).uniform(-1, 1, order).tolist()

    def loss(x, low, high):
        t = (2 * x - low - high) / (high - low)
        one, two = 0.0 * t, 0.0 * t
        for coefficient in coefficients:
            one, two = coefficient + 2 * t * one - two, one
        return (one - t * two).mean()

    return loss, [draw.uniform(*shape), draw.uniform(low=-1, high=0), draw.uniform(low=1, high=2)]


@programs("pointwise", "terms shape", "60 262144 float64", "60 4096 float32", kind=FORWARD)
def sea_water(ops: Any, draw: Any, terms: Any, shape: Any) -> Any:
    """Density of sea water as a quotient of polynomials of salinity, temperature and pressure.

    Forward only.
    """
    random = np.random.default_rng(terms)
    powers = [(i, j, k) for i in range(4) for j in range(5) for k in range(4) if i + j + k < 6][:terms]
    above = list(zip(powers, random.uniform(-0.1, 0.1, len(powers)).tolist(), strict=True))
    below = list(zip(powers[:20], random.uniform(0.0, 0.1, 20).tolist(), strict=True))

    def product(factors):
        found = factors[0]
        for factor in factors[1:]:
            found = found * factor
        return found

    def density(salinity, temperature, pressure):
        s, t, p = ops.sqrt(salinity), temperature * 0.025, pressure * 1e-4
        numerator, denominator = 999.8, 1.0
        for (i, j, k), coefficient in above:
            numerator = numerator + product([coefficient, *[s] * i, *[t] * j, *[p] * k])
        for (i, j, k), coefficient in below:
            denominator = denominator + product([coefficient, *[s] * i, *[t] * j, *[p] * k])
        return numerator / denominator

    return density, [
        draw.uniform(*shape, low=0, high=40),
        draw.uniform(*shape, low=0, high=30),
        draw.uniform(*shape, low=0, high=5000),
    ]


@programs("pointwise", "steps shape", "4 100000 float64", "12 30000 float64", "12 1000 float32")
def rate_laws(ops: Any, draw: Any, steps: Any, shape: Any) -> Any:
    """Five species of a reaction network in every cell, some steps of Heun's method with given rates."""

    def rates(a, b, c, d, e, slow, fast):
        one, two, three = slow * a * b, fast * c / (1 + d), 0.3 * d * d
        four = slow * e / (0.5 + a)
        return three - one, four - one, one - two, two - 2 * three, one - four

    def loss(a, b, c, d, e, slow, fast):
        state, size = (a, b, c, d, e), 0.02
        for _ in range(steps):
            first = rates(*state, slow, fast)
            guess = tuple(x + size * r for x, r in zip(state, first, strict=True))
            second = rates(*guess, slow, fast)
            state = tuple(x + 0.5 * size * (r + s) for x, r, s in zip(state, first, second, strict=True))
        return (state[0] * state[2] + state[1] * state[3] - state[4]).mean()

    return loss, [draw.positive(*shape) for _ in range(7)]


@programs("pointwise", "layers shape", "16 20000 float64", "48 20000 float64", "48 2000 float32")
def two_streams(ops: Any, draw: Any, layers: Any, shape: Any) -> Any:
    """Radiative transfer: reflection and transmission of layers, added one below the other."""
    exp = ops.exp

    def loss(depth, albedo):
        reflected, passed = 0.1 * albedo, 1 - 0.2 * albedo
        for layer in range(layers):
            through = exp(-depth * (0.05 + 0.002 * layer))
            scattered = albedo * (1 - through) * 0.5
            bounced = 1 / (1 - reflected * scattered)
            reflected = scattered + through * through * reflected * bounced
            passed = passed * through * bounced
        return (reflected + passed).mean()

    return loss, [draw.positive(*shape), draw.uniform(*shape, low=0.1, high=0.9)]


@programs("pointwise", "terms shape", "20 50000 float64", "60 50000 float64", "60 100000 float32")
def bessel_fraction(ops: Any, draw: Any, terms: Any, shape: Any) -> Any:
    """A quotient of Bessel functions as a continued fraction."""

    def loss(x):
        found = 0.0 * x
        for term in range(terms, 0, -1):
            found = x / (2 * term + x * found)
        return (found * x).mean()

    return loss, [draw.positive(*shape)]


@programs("pointwise", "knots shape", "12 100000 float64", "40 100000 float32", "40 3000 float64")
def spline(ops: Any, draw: Any, knots: Any, shape: Any) -> Any:
    """A cubic spline in truncated powers, clamped at its ends."""
    clamp, relu = ops.clamp, ops.relu
    weights = np.random.default_rng(knots).uniform(-1, 1, knots).tolist()

    def loss(x, scale):
        at = clamp(x * scale, -2, 2)
        found = 0.1 * at + 0.3
        for number, weight in enumerate(weights):
            above = relu(at - (4 * number / knots - 2))
            found = found + weight * above * above * above
        return (found * found).mean()

    return loss, [draw.normal(*shape), draw.positive()]


@programs("pointwise", "shape", "300x300 float64", "64x2000 float32", "20x5 float64")
def sums_of_rows(ops: Any, draw: Any, shape: Any) -> Any:
    """A long profile of each row and column, with broadcasts at its start and means of rows at its end."""

    def loss(field, row, column):
        value = field * row + column
        for term in range(1, 40):
            value = value * (0.5 + 0.01 * term * row) / (1 + 0.1 * value * value) + 0.1 * column
        return (value.mean(1) ** 2).sum()

    return loss, [draw.uniform(*shape), draw.uniform(shape[1]), draw.uniform(shape[0], 1)]


@programs("pointwise", "shape", "100000 float64", "30000 float32", loosely=10.0)
def lanczos_gamma(ops: Any, draw: Any, shape: Any) -> Any:
    """The gamma function by Lanczos's and the beta function by three of it; logarithms and powers."""
    exp, log = ops.exp, ops.log
    terms = (76.18009, -86.50532, 24.01410, -1.231740, 0.1208651e-2, -0.5395239e-5)

    def log_gamma(x):
        total = 1.000000000190015
        for number, term in enumerate(terms):
            total = total + term / (x + (number + 1))
        return (x + 0.5) * log(x + 5.5) - (x + 5.5) + log(2.5066282746 * total / x)

    def loss(a, b):
        return exp(log_gamma(a) + log_gamma(b) - log_gamma(a + b)).mean()

    return loss, [draw.positive(*shape), draw.positive(*shape)]
