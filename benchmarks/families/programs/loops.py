"""Recurrences, stencils, Runge-Kutta, Newton, and other iterations."""

from __future__ import annotations

from typing import Any

import numpy as np

from families.declare import FORWARD, programs


@programs(
    "recurrence",
    "steps batch width",
    "5 2 4 float32",
    "20 16 16 float32",
    "50 32 64 float32",
    "100 1 8 float64",
)
def elman(ops: Any, draw: Any, steps: int, batch: int, width: int) -> Any:
    """A tanh RNN."""
    scan, tanh, zeros = ops.scan, ops.tanh, ops.zeros

    def loss(x, w, u, b):
        def step(h, row):
            h = tanh(row @ w + h @ u + b)
            return h, None

        h, _ = scan(step, zeros((batch, width), dtype=x.dtype), x)
        return (h * h).mean()

    weights = [draw.normal(width, width, scale=width**-0.5) for _ in range(2)]
    return loss, [draw.normal(steps, batch, width), *weights, draw.normal(width)]


@programs("recurrence", "steps batch width", "10 4 8 float32", "32 16 32 float32", "64 32 64 float32")
def lstm(ops: Any, draw: Any, steps: int, batch: int, width: int) -> Any:
    """The library's LSTM."""
    layer = ops.lstm

    def loss(x, h, c, w, u, b):
        return (layer(x, h, c, w, u, b) ** 2).mean()

    states = [draw.normal(batch, width) for _ in range(2)]
    weights = [draw.normal(4 * width, width, scale=width**-0.5) for _ in range(2)]
    return loss, [draw.normal(steps, batch, width), *states, *weights, draw.normal(4 * width)]


@programs("recurrence", "steps batch width", "10 4 8 float32", "32 16 32 float32")
def gru_by_hand(ops: Any, draw: Any, steps: int, batch: int, width: int) -> Any:
    """A gated cell written out, which keeps all its states."""
    scan, tanh, sigmoid = ops.scan, ops.tanh, ops.sigmoid

    def loss(x, h, wz, wr, wh, uz, ur, uh):
        def step(h, row):
            z, r = sigmoid(row @ wz + h @ uz), sigmoid(row @ wr + h @ ur)
            h = (1 - z) * h + z * tanh(row @ wh + (r * h) @ uh)
            return h, h

        _, states = scan(step, h, x)
        return (states * states).mean()

    weights = [draw.normal(width, width, scale=width**-0.5) for _ in range(6)]
    return loss, [draw.normal(steps, batch, width), draw.normal(batch, width), *weights]


@programs("recurrence", "steps width", "33 1 float64", "100 64 float32", "300 1000 float32")
def moving_average(ops: Any, draw: Any, steps: int, width: int) -> Any:
    """Exponential smoothing of series, with a learned rate."""
    scan, sigmoid = ops.scan, ops.sigmoid

    def loss(x, rate):
        keep = sigmoid(rate)

        def step(level, row):
            error = row - level
            return level + keep * error, (error * error).mean()

        _, errors = scan(step, x[0], x)
        return errors.mean()

    return loss, [draw.normal(steps, width), draw.normal(width)]


@programs("recurrence", "steps states", "20 4 float64", "100 16 float32")
def hidden_markov(ops: Any, draw: Any, steps: int, states: int) -> Any:
    """The forward algorithm in logarithms."""
    scan, logsumexp, log_softmax = ops.scan, ops.logsumexp, ops.log_softmax

    def loss(transition, emission):
        moves = log_softmax(transition, dim=1)

        def step(belief, row):
            return logsumexp(belief[:, None] + moves, dim=0) + row, None

        belief, _ = scan(step, emission[0], emission)
        return -logsumexp(belief, dim=0)

    return loss, [draw.normal(states, states), draw.normal(steps, states)]


@programs("recurrence", "steps size", "30 2 float64", "50 4 float64", loosely=10)
def kalman(ops: Any, draw: Any, steps: int, size: int) -> Any:
    """A Kalman filter with one sensor: prediction, gain, update."""
    scan, outer, eye, log = ops.scan, ops.outer, ops.eye, ops.log

    def loss(motion, sensor, noise, measured):
        def step(state, z):
            mean, spread = state
            mean, spread = motion @ mean, motion @ spread @ motion.T + noise * eye(size, dtype=noise.dtype)
            ahead = spread @ sensor
            variance = sensor @ ahead + 0.1
            error = z - sensor @ mean
            gain = ahead / variance
            return (mean + gain * error, spread - outer(gain, ahead)), error * error / variance + log(
                variance
            )

        start = (0 * sensor, eye(size, dtype=noise.dtype))
        _, costs = scan(step, start, measured)
        return costs.mean()

    motion = draw.floats(np.eye(size) * 0.9 + 0.05 * draw.random.standard_normal((size, size)))
    return loss, [motion, draw.normal(size), draw.positive(), draw.normal(steps)]


@programs("recurrence", "steps batch width", "16 8 16 float32", "64 8 64 float32")
def linear_state_space(ops: Any, draw: Any, steps: int, batch: int, width: int) -> Any:
    """A diagonal linear recurrence, as state space models have it."""
    scan, sigmoid, zeros = ops.scan, ops.sigmoid, ops.zeros

    def loss(x, decay, b, c):
        keep = sigmoid(decay)

        def step(h, row):
            h = keep * h + row @ b
            return h, (h * c).sum(-1)

        _, y = scan(step, zeros((batch, width), dtype=x.dtype), x)
        return (y * y).mean()

    return loss, [
        draw.normal(steps, batch, width),
        draw.normal(width),
        draw.normal(width, width, scale=0.1),
        draw.normal(width),
    ]


@programs("dynamics", "size steps", "33 20 float64", "128 50 float32", "512 20 float32")
def heat_by_slices(ops: Any, draw: Any, size: int, steps: int) -> Any:
    """The heat equation in two dimensions: gradients by the initial field and the conductivity."""
    loop, pad = ops.loop, ops.pad

    def loss(field, rate):
        def step(u):
            around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
            return pad(u[1:-1, 1:-1] + rate * (around - 4 * u[1:-1, 1:-1]), (1, 1, 1, 1))

        return (loop(steps, step, field) ** 2).mean()

    return loss, [draw.normal(size, size), draw.uniform(low=0.1, high=0.2)]


@programs("dynamics", "size steps", "64 50 float32", "256 100 float32", kind=FORWARD)
def wave_by_rolls(ops: Any, draw: Any, size: int, steps: int) -> Any:
    """The wave equation on a torus. Forward only: a simulation."""
    loop, roll = ops.loop, ops.roll

    def simulate(start):
        def step(state):
            now, before = state
            around = roll(now, 1, 0) + roll(now, -1, 0) + roll(now, 1, 1) + roll(now, -1, 1)
            return 2 * now - before + 0.25 * (around - 4 * now), now

        return loop(steps, step, (start, start))[0]

    return simulate, [draw.normal(size, size)]


@programs("dynamics", "size steps", "100 50 float64", "10000 30 float32")
def advection(ops: Any, draw: Any, size: int, steps: int) -> Any:
    """Burgers' equation in one dimension, upwind."""
    loop, roll, where = ops.loop, ops.roll, ops.where

    def loss(u, target):
        def step(u):
            left, right = u - roll(u, 1, 0), roll(u, -1, 0) - u
            return u - 0.1 * where(u > 0, u * left, u * right)

        return ((loop(steps, step, u) - target) ** 2).mean()

    return loss, [draw.normal(size), draw.normal(size)]


@programs("dynamics", "batch steps", "1 20 float64", "100 50 float64", "10000 20 float32", loosely=10)
def lorenz(ops: Any, draw: Any, batch: int, steps: int) -> Any:
    """Lorenz's system by the classical Runge-Kutta method; gradients by its parameters."""
    loop, stack = ops.loop, ops.stack

    def loss(state, sigma, rho, beta):
        def slope(s):
            x, y, z = s[0], s[1], s[2]
            return stack([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])

        def step(s):
            a = slope(s)
            b = slope(s + 0.005 * a)
            c = slope(s + 0.005 * b)
            d = slope(s + 0.01 * c)
            return s + 0.01 / 6 * (a + 2 * b + 2 * c + d)

        return (loop(steps, step, state) ** 2).mean()

    return loss, [draw.normal(3, batch), draw.floats(10.0), draw.floats(28.0), draw.floats(8 / 3)]


@programs("dynamics", "batch width steps", "16 16 10 float32", "256 64 10 float32")
def neural_ode(ops: Any, draw: Any, batch: int, width: int, steps: int) -> Any:
    """A network as a vector field, by the midpoint rule."""
    loop, tanh = ops.loop, ops.tanh

    def loss(x, w1, b1, w2, b2):
        def field(x):
            return tanh(x @ w1 + b1) @ w2 + b2

        def step(x):
            return x + 0.1 * field(x + 0.05 * field(x))

        return (loop(steps, step, x) ** 2).mean()

    return loss, [draw.normal(batch, width), *draw.layers(width, width, width)]


@programs("dynamics", "bodies steps", "3 50 float64", "64 10 float32", loosely=10)
def leapfrog(ops: Any, draw: Any, bodies: int, steps: int) -> Any:
    """Gravity by a symplectic step: where bodies end, by where they began."""
    loop = ops.loop

    def loss(x, v, mass):
        def force(x):
            apart = x[None, :, :] - x[:, None, :]
            weight = mass[None, :] / ((apart * apart).sum(-1) + 0.1) ** 1.5
            return (weight[:, :, None] * apart).sum(1)

        def step(state):
            x, v = state
            v = v + 0.005 * force(x)
            x = x + 0.01 * v
            return x, v + 0.005 * force(x)

        x, v = loop(steps, step, (x, v))
        return (x * x).mean() + (v * v).mean()

    return loss, [draw.normal(bodies, 3), draw.normal(bodies, 3), draw.positive(bodies)]


@programs("dynamics", "n", "1 float64", "1000 float64", "100000 float32")
def newton_kepler(ops: Any, draw: Any, n: int) -> Any:
    """Kepler's equation by eight steps of Newton's method, differentiated through."""
    loop, sin, cos = ops.loop, ops.sin, ops.cos

    def loss(anomaly, eccentricity):
        def step(e):
            return e - (e - eccentricity * sin(e) - anomaly) / (1 - eccentricity * cos(e))

        return sin(loop(8, step, anomaly)).mean()

    return loss, [draw.uniform(n, low=0.1, high=3), draw.uniform(n, low=0.05, high=0.5)]


@programs("dynamics", "n", "1 float64", "1000 float32", kind=FORWARD)
def newton_until_converged(ops: Any, draw: Any, n: int) -> Any:
    """Square roots, until they no longer move. Forward only: a loop of unknown length."""
    while_loop, absolute, amax = ops.while_loop, ops.abs, ops.amax

    def solve(a):
        def goes_on(x):
            return amax(absolute(x * x - a), dim=0) > 1e-3

        return while_loop(goes_on, lambda x: 0.5 * (x + a / x), a)

    return solve, [draw.positive(n)]


@programs("dynamics", "n", "1 float64", "1000 float32")
def branch_on_data(ops: Any, draw: Any, n: int) -> Any:
    """`if` on a mean: a damped or a free step."""
    cond, tanh = ops.cond, ops.tanh

    def loss(x, rate):
        return cond(
            (x * x).mean() > 0.5, lambda x, r: (tanh(x) * r).mean(), lambda x, r: (x * r).mean(), x, rate
        )

    return loss, [draw.normal(n), draw.positive()]


@programs("dynamics", "n steps", "8 20 float64", "100 30 float64", loosely=10)
def power_iteration(ops: Any, draw: Any, n: int, steps: int) -> Any:
    """The largest eigenvalue, by multiplying and normalising."""
    loop, sqrt = ops.loop, ops.sqrt

    def loss(a, v):
        def step(v):
            w = a @ v
            return w / sqrt((w * w).sum())

        v = loop(steps, step, v)
        return v @ (a @ v)

    return loss, [draw.definite(n, n), draw.positive(n)]


@programs("dynamics", "n m steps", "16 16 20 float64", "100 100 20 float32", loosely=10)
def sinkhorn(ops: Any, draw: Any, n: int, m: int, steps: int) -> Any:
    """Optimal transport in logarithms: rows and columns normalised in turn."""
    loop, logsumexp, exp, zeros = ops.loop, ops.logsumexp, ops.exp, ops.zeros

    def loss(cost):
        def step(state):
            f, g = state
            f = -logsumexp(g[None, :] - cost / 0.5, dim=1)
            return f, -logsumexp(f[:, None] - cost / 0.5, dim=0)

        f, g = loop(steps, step, (zeros(n, dtype=cost.dtype), zeros(m, dtype=cost.dtype)))
        return (exp(f[:, None] + g[None, :] - cost / 0.5) * cost).sum()

    return loss, [draw.uniform(n, m)]


@programs("dynamics", "n steps", "33 10 float64", "300 15 float64", kind=FORWARD, loosely=100)
def conjugate_gradients(ops: Any, draw: Any, n: int, steps: int) -> Any:
    """A linear system by products alone. Forward only: a solver."""
    loop = ops.loop

    def solve(a, b):
        def step(state):
            x, r, p, rr = state
            ap = a @ p
            alpha = rr / (p @ ap)
            x, r = x + alpha * p, r - alpha * ap
            new = r @ r
            return x, r, r + new / rr * p, new

        return loop(steps, step, (0 * b, b, b, b @ b))[0]

    return solve, [draw.definite(n, n), draw.normal(n)]


@programs("dynamics", "size steps", "33 20 float32", "300 30 float64", kind=FORWARD)
def mandelbrot(ops: Any, draw: Any, size: int, steps: int) -> Any:
    """How long points stay: counts by masks. Forward only."""
    loop, where = ops.loop, ops.where

    def count(x, y):
        def step(state):
            a, b, n = state
            stays = a * a + b * b < 4
            return (
                where(stays, a * a - b * b + x, a),
                where(stays, 2 * a * b + y, b),
                n + where(stays, 1.0, 0.0),
            )

        return loop(steps, step, (0 * x + 0 * y, 0 * x + 0 * y, 0 * x + 0 * y))[2]

    grid = np.arange(size) / 64 - 1.5
    return count, [
        draw.floats(np.round(grid * 64)[None, :] / 64),
        draw.floats(np.round(grid * 64)[:, None] / 64),
    ]


@programs("dynamics", "points clusters width", "100 3 2 float64", "5000 16 8 float32", kind=FORWARD)
def k_means(ops: Any, draw: Any, points: int, clusters: int, width: int) -> Any:
    """Lloyd's algorithm. Forward only: assignments have no gradient."""
    loop, argmin, summed, ones_like = ops.loop, ops.argmin, ops.segment_sum, ops.ones_like

    def fit(x, start):
        def step(centers):
            apart = ((x[:, None, :] - centers[None, :, :]) ** 2).sum(-1)
            nearest = argmin(apart, dim=1)
            counts = summed(ones_like(x[:, :1]), nearest, clusters)
            return summed(x, nearest, clusters) / (counts + 1e-3)

        return loop(5, step, start)

    return fit, [draw.normal(points, width), draw.normal(clusters, width)]
