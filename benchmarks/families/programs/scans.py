"""Running sums, products, maxima and logarithms of sums, with what makes and reads them."""

from __future__ import annotations

from typing import Any

from families.declare import programs


@programs("scans", "length", "20000 float32,float64", "500 float64")
def cox(ops: Any, draw: Any, length: Any) -> Any:
    """Cox's partial likelihood: a running logarithm of sums of exponentials."""
    logcumsumexp = ops.logcumsumexp

    def loss(scores, observed):
        scores = scores * 0.5 + 0.1
        return -((scores - logcumsumexp(scores, 0)) * observed).mean()

    return loss, [draw.normal(length), draw.uniform(length)]


@programs("scans", "shape", "64x4096 float32", "8x100000 float64", "200x50 float32")
def transmittance(ops: Any, draw: Any, shape: Any) -> Any:
    """Colours along rays: what is left of the light is exp of a running sum."""
    exp, cumsum = ops.exp, ops.cumsum

    def loss(density, colour):
        passed = exp(-0.01 * (cumsum(density, 1) - density))
        return ((passed * (1 - exp(-0.01 * density)) * colour).sum(1) ** 2).mean()

    return loss, [draw.uniform(*shape), draw.uniform(*shape)]


@programs("scans", "shape", "1000x252 float64", "20x252 float32")
def drawdown(ops: Any, draw: Any, shape: Any) -> Any:
    """Wealth is a running product of returns; how far it is below its running maximum."""
    cumprod, cummax = ops.cumprod, ops.cummax

    def loss(returns, size):
        wealth = cumprod(1 + 0.01 * size * returns, 1)
        return (1 - wealth / cummax(wealth, 1)[0]).mean()

    return loss, [draw.normal(*shape), draw.positive()]


@programs("scans", "length", "100000 float64", "1000000 float32", loosely=10.0)
def brownian_bridge(ops: Any, draw: Any, length: Any) -> Any:
    """A path as a running sum of scaled steps, its end taken off, and a smooth function of it."""
    cumsum, tanh = ops.cumsum, ops.tanh

    def loss(steps, scale):
        path = cumsum(steps * scale, 0) * (1 / length**0.5)
        return (tanh(path - path[-1] * 0.5) ** 2).mean()

    return loss, [draw.normal(length), draw.positive(length)]


@programs("scans", "shape", "300x1000 float32", "30x40 float64")
def stick_breaking(ops: Any, draw: Any, shape: Any) -> Any:
    """Weights of a stick that is broken again and again, and the entropy of each row of them."""
    sigmoid, cumprod, cat, log = ops.sigmoid, ops.cumprod, ops.cat, ops.log

    def loss(logits):
        broken = sigmoid(logits - 4)
        left = cumprod(1 - broken, 1)
        before = cat([0 * left[:, :1] + 1, left[:, :-1]], 1)
        weights = broken * before
        return -(weights * log(weights + 1e-6)).sum(1).mean()

    return loss, [draw.normal(*shape)]
