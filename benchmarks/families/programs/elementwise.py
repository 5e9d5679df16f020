"""Elementwise chains with row, column, scalar and 0-d broadcasts; losses; pairwise broadcasts."""

from __future__ import annotations

from typing import Any

import numpy as np

from families.declare import programs


@programs(
    "elementwise", "shape", "7 float32", "100 float32,float64", "10000 float32", "1000000 float32,float64"
)
def sine_chain(ops: Any, draw: Any, shape: Any) -> Any:
    """A smooth function of one variable, five steps long."""
    sin, exp, tanh = ops.sin, ops.exp, ops.tanh

    def loss(x):
        y = sin(x) * exp(-x * x)
        return (tanh(y + 0.5 * x) * y).mean()

    return loss, [draw.normal(*shape)]


@programs("elementwise", "shape", "3x5 float32", "64x1000 float32", "1000x33 float64")
def row_broadcast(ops: Any, draw: Any, shape: Any) -> Any:
    """Scale and shift by rows, then gelu."""
    gelu = ops.gelu

    def loss(x, scale, shift):
        return gelu(x * scale + shift).mean()

    return loss, [draw.normal(*shape), draw.positive(shape[-1]), draw.normal(shape[-1])]


@programs("elementwise", "shape", "5x3 float32", "1000x64 float32", "33x1000 float64")
def column_broadcast(ops: Any, draw: Any, shape: Any) -> Any:
    """Standardise by columns that are given."""
    sigmoid = ops.sigmoid

    def loss(x, center, width):
        return sigmoid((x - center) / width).mean()

    return loss, [draw.normal(*shape), draw.normal(shape[0], 1), draw.positive(shape[0], 1)]


@programs("elementwise", "shape", "16x16 float32", "300x1000 float32", "100x100 float64")
def row_and_column(ops: Any, draw: Any, shape: Any) -> Any:
    """A separable function of two axes over a field."""
    cos, sqrt = ops.cos, ops.sqrt

    def loss(x, row, column):
        return (x * cos(row + column) / sqrt(1 + row * row + column * column)).mean()

    return loss, [draw.normal(*shape), draw.normal(shape[1]), draw.normal(shape[0], 1)]


@programs("elementwise", "shape", "scalar float64", "8 float32", "100000 float32", "100000 float64")
def zero_dimensional(ops: Any, draw: Any, shape: Any) -> Any:
    """Parameters that are 0-d tensors: a damped oscillation."""
    exp, cos = ops.exp, ops.cos

    def loss(t, amplitude, decay, frequency):
        return (amplitude * exp(-decay * t) * cos(frequency * t)).mean()

    return loss, [draw.positive(*shape), draw.positive(), draw.positive(), draw.positive()]


@programs("elementwise", "shape", "1000 float32", "200x500 float64")
def python_scalars(ops: Any, draw: Any, shape: Any) -> Any:
    """Many Python numbers: a polynomial in Horner's form."""

    def loss(x):
        y = 0.1
        for coefficient in (0.7, -1.2, 0.4, 2.5, -0.3, 0.05, 1.1):
            y = y * x + coefficient
        return (y * y).mean()

    return loss, [draw.normal(*shape, scale=0.5)]


@programs("elementwise", "shape", "64 float32", "100000 float32", "30000 float64")
def special_functions(ops: Any, draw: Any, shape: Any) -> Any:
    """Student's log density: lgamma and log1p."""
    lgamma, log1p = ops.lgamma, ops.log1p

    def loss(x, degrees):
        half = 0.5 * (degrees + 1)
        return (lgamma(half) - lgamma(0.5 * degrees) - half * log1p(x * x / degrees)).mean()

    return loss, [draw.normal(*shape), draw.positive(*shape)]


@programs("elementwise", "shape", "1000 float32", "1000000 float32", "100000 float64")
def piecewise(ops: Any, draw: Any, shape: Any) -> Any:
    """Branches by `where`, clamp and absolute values."""
    where, clamp, absolute = ops.where, ops.clamp, ops.abs

    def loss(x, y):
        return (where(x > y, x * x - y, y * y + x) * clamp(x, -1, 1) + absolute(x - y)).mean()

    return loss, [draw.normal(*shape), draw.normal(*shape)]


@programs("elementwise", "shape", "10000 float64", "300000 float32")
def black_scholes(ops: Any, draw: Any, shape: Any) -> Any:
    """Prices of options and their sensitivities."""
    log, sqrt, erf, exp = ops.log, ops.sqrt, ops.erf, ops.exp

    def loss(spot, strike, years, volatility):
        spread = volatility * sqrt(years)
        up = (log(spot / strike) + (0.05 + 0.5 * volatility**2) * years) / spread
        phi_up, phi_down = 0.5 + 0.5 * erf(up * 0.70710678), 0.5 + 0.5 * erf((up - spread) * 0.70710678)
        return (spot * phi_up - strike * exp(-0.05 * years) * phi_down).sum()

    return loss, [draw.positive(*shape) for _ in range(4)]


@programs("elementwise", "shape", "2x3x4x5 float32", "16x1x64x8 float32")
def four_axes(ops: Any, draw: Any, shape: Any) -> Any:
    """Broadcasts on all of four axes at once."""
    sigmoid = ops.sigmoid

    def loss(x, a, b):
        return (sigmoid(x + a) * b).sum()

    a, b, c, d = shape
    return loss, [draw.normal(*shape), draw.normal(b, 1, d), draw.normal(a, 1, c, 1)]


@programs("elementwise", "shape", "128x256 float32", "300x300 float64")
def transposed_operand(ops: Any, draw: Any, shape: Any) -> Any:
    """An operand that lies across the other."""
    tanh = ops.tanh

    def loss(x, y):
        return (tanh(x + y.T) * x).mean()

    return loss, [draw.normal(*shape), draw.normal(*shape[::-1])]


@programs("losses", "batch classes", "8 3 float32", "256 10 float32", "64 1000 float32", "1000 100 float64")
def cross_entropy(ops: Any, draw: Any, batch: int, classes: int) -> Any:
    entropy = ops.cross_entropy

    def loss(logits, labels):
        return entropy(logits, labels)

    return loss, [draw.normal(batch, classes), draw.integers(classes, batch)]


@programs("losses", "shape", "100 float32", "256x100 float64")
def huber(ops: Any, draw: Any, shape: Any) -> Any:
    huber_loss = ops.huber_loss

    def loss(x, y):
        return huber_loss(x, y)

    return loss, [draw.normal(*shape), draw.normal(*shape)]


@programs("losses", "shape", "33 float32", "1000x20 float32")
def binary_focal(ops: Any, draw: Any, shape: Any) -> Any:
    """Focal loss of logits."""
    softplus, sigmoid = ops.softplus, ops.sigmoid

    def loss(logits, targets):
        entropy = softplus(logits) - logits * targets
        hit = sigmoid(logits) * targets + (1 - sigmoid(logits)) * (1 - targets)
        return (entropy * (1 - hit) ** 2).mean()

    return loss, [draw.normal(*shape), draw.floats(draw.mask(*shape))]


@programs("losses", "batch width", "32 16 float32", "256 64 float32")
def contrastive(ops: Any, draw: Any, batch: int, width: int) -> Any:
    """InfoNCE of two views."""
    normalize, entropy, arange = ops.normalize, ops.cross_entropy, ops.arange

    def loss(x, y):
        scores = normalize(x, dim=1) @ normalize(y, dim=1).T / 0.2
        return entropy(scores, arange(batch))

    return loss, [draw.normal(batch, width), draw.normal(batch, width)]


@programs("losses", "batch width", "64 8 float32", "1000 32 float64")
def gaussian_likelihood(ops: Any, draw: Any, batch: int, width: int) -> Any:
    """Negative log likelihood with predicted variances, and a KL term to the standard normal."""
    exp = ops.exp

    def loss(mean, log_variance, target):
        fit = 0.5 * ((target - mean) ** 2 * exp(-log_variance) + log_variance).sum(1).mean()
        return fit - 0.5 * (1 + log_variance - mean**2 - exp(log_variance)).sum(1).mean()

    return loss, [draw.normal(batch, width) for _ in range(3)]


@programs("losses", "shape", "16x10 float32", "500x200 float32")
def distillation(ops: Any, draw: Any, shape: Any) -> Any:
    """Kullback-Leibler divergence of two softmaxes."""
    log_softmax, softmax, divergence = ops.log_softmax, ops.softmax, ops.kl_div

    def loss(student, teacher):
        return divergence(log_softmax(student, dim=1), softmax(teacher, dim=1), reduction="batchmean")

    return loss, [draw.normal(*shape), draw.normal(*shape)]


@programs(
    "pairwise", "n m width", "8 8 3 float32", "100 33 2 float64", "300 300 3 float32", "200 500 16 float32"
)
def squared_distances(ops: Any, draw: Any, n: int, m: int, width: int) -> Any:
    """A Gaussian kernel between two sets of points, by broadcasting."""
    exp = ops.exp

    def loss(x, y, scale):
        apart = ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)
        return exp(-apart / scale).mean()

    return loss, [draw.normal(n, width), draw.normal(m, width), draw.positive()]


@programs("pairwise", "bodies", "5 float64", "64 float32", "300 float64")
def gravity(ops: Any, draw: Any, bodies: int) -> Any:
    """Potential energy of bodies in space."""
    rsqrt = ops.rsqrt

    def loss(x, mass):
        apart = x[:, None, :] - x[None, :, :]
        return -0.5 * (mass[:, None] * mass[None, :] * rsqrt((apart * apart).sum(-1) + 0.01)).sum()

    return loss, [draw.normal(bodies, 3), draw.positive(bodies)]


@programs("pairwise", "n m", "33 100 float32", "500 500 float32")
def differences(ops: Any, draw: Any, n: int, m: int) -> Any:
    """Ranking: a logistic loss of all pairs."""
    softplus = ops.softplus

    def loss(x, y):
        return softplus(y[None, :] - x[:, None]).mean()

    return loss, [draw.normal(n), draw.normal(m)]


@programs("pairwise", "n m width", "64 64 8 float32", "1000 100 4 float64")
def distances_by_products(ops: Any, draw: Any, n: int, m: int, width: int) -> Any:
    """Distances by x² + y² - 2 x·y, and the nearest."""
    amin = ops.amin

    def loss(x, y):
        apart = (x * x).sum(1)[:, None] + (y * y).sum(1)[None, :] - 2 * x @ y.T
        return amin(apart, dim=1).mean()

    return loss, [draw.normal(n, width), draw.normal(m, width)]


@programs("pairwise", "n width", "50 3 float64", "200 3 float32")
def lennard_jones(ops: Any, draw: Any, n: int, width: int) -> Any:
    """Energy of a fluid, whose own pairs are masked."""
    where, eye = ops.where, ops.eye

    def loss(x):
        apart = ((x[:, None, :] - x[None, :, :]) ** 2).sum(-1)
        inverse = where(eye(n, dtype=x.dtype) > 0, 0.0, 1 / (apart + eye(n, dtype=x.dtype)))
        return 2 * (inverse**6 - inverse**3).sum() / n

    grid = np.stack(np.meshgrid(*[np.arange(6.0)] * width, indexing="ij"), -1).reshape(-1, width)[:n]
    return loss, [draw.floats(1.5 * grid + 0.1 * draw.normal(n, width))]
