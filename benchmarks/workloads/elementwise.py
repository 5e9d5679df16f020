"""Elementwise programs with a sum: Rosenbrock's function, a chain of activations, Black-Scholes.

Numba has no gradients: its versions carry them, derived by hand.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workloads.base import FUNCTION_FLOPS, FUNCTION_FLOPS_DOUBLE, Array, Call, Gradients


class Rosenbrock(Gradients):
    """Ten numbers: nothing but the cost of a call."""

    key, title, target = "rosenbrock", "rosenbrock, n = 10, float64", 1.5
    wanted = (0,)
    double = True
    bytes, flops = 2 * 8 * 10, 20 * 10

    def arrays(self, draw: np.random.Generator) -> list[Array]:
        return [draw.standard_normal(10)]

    def fusegrad(self, fg: Any) -> Any:
        def rosenbrock(x):
            return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

        return rosenbrock

    # Slices, operators and methods are the same in all three.
    torch = jax = fusegrad

    def numba(self, numba: Any, x: Array) -> Call:
        @numba.njit
        def value_and_gradient(x):
            value, gradient = 0.0, np.zeros_like(x)
            for i in range(x.size - 1):
                bend, slope = x[i + 1] - x[i] ** 2, 1 - x[i]
                value += 100 * bend**2 + slope**2
                gradient[i] -= 400 * bend * x[i] + 2 * slope
                gradient[i + 1] += 200 * bend
            return value, gradient

        return lambda: value_and_gradient(x)


class Chain(Gradients):
    """gelu(x)·sigmoid(y) + exp(-x²)·y, summed: four elementary functions an element."""

    wanted = (0, 1)

    def __init__(self, size: int, target: float) -> None:
        self.size, self.target = size, target
        self.key = f"chain_{size}"
        self.title = f"gelu·sigmoid + exp chain, {size:,}"
        self.bytes, self.flops = 4 * 4 * size, (3 * FUNCTION_FLOPS + 30) * size

    def arrays(self, draw: np.random.Generator) -> list[Array]:
        return [draw.standard_normal(self.size, dtype=np.float32) for _ in range(2)]

    def fusegrad(self, fg: Any) -> Any:
        def chain(x, y):
            gelu = 0.5 * x * (1 + fg.tanh(0.79788456 * (x + 0.044715 * x**3)))
            return (gelu * fg.sigmoid(y) + fg.exp(-x * x) * y).sum()

        return chain

    def torch(self, torch: Any) -> Any:
        def chain(x, y):
            gelu = 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x**3)))
            return (gelu * torch.sigmoid(y) + torch.exp(-x * x) * y).sum()

        return chain

    def jax(self, jax: Any) -> Any:
        jnp = jax.numpy

        def chain(x, y):
            gelu = 0.5 * x * (1 + jnp.tanh(0.79788456 * (x + 0.044715 * x**3)))
            return (gelu * jax.nn.sigmoid(y) + jnp.exp(-x * x) * y).sum()

        return chain

    def numba(self, numba: Any, x: Array, y: Array) -> Call:
        f = np.float32

        @numba.njit(parallel=self.size >= 100_000, fastmath=True)
        def value_and_gradients(x, y):
            value, by_x, by_y = 0.0, np.empty_like(x), np.empty_like(y)
            for i in numba.prange(x.size):
                a, b = x[i], y[i]
                t = np.tanh(f(0.79788456) * (a + f(0.044715) * a * a * a))
                s = f(1) / (f(1) + np.exp(-b))
                e = np.exp(-a * a)
                half = f(0.5) * (f(1) + t)
                bend = f(0.5) * a * (f(1) - t * t) * f(0.79788456) * (f(1) + f(0.134145) * a * a)
                value += half * a * s + e * b
                by_x[i] = (half + bend) * s - f(2) * a * e * b
                by_y[i] = half * a * s * (f(1) - s) + e
            return value, by_x, by_y

        return lambda: value_and_gradients(x, y)


class BlackScholes(Gradients):
    """The price of a million calls, with four of their Greeks: erf, exp, log and sqrt in float64."""

    key, title, target = "black_scholes", "Black-Scholes, 1,000,000, float64", 4
    wanted = (0, 1, 2, 3)
    double = True
    size = 1_000_000
    rate = 0.03
    bytes, flops = 8 * 8 * size, (6 * FUNCTION_FLOPS_DOUBLE + 40) * size

    def arrays(self, draw: np.random.Generator) -> list[Array]:
        """Spot, strike, years, volatility."""
        return [
            draw.uniform(low, high, self.size) for low, high in ((80, 120), (80, 120), (0.2, 2), (0.1, 0.5))
        ]

    def fusegrad(self, fg: Any) -> Any:
        rate, root = self.rate, math.sqrt(0.5)

        def price(spot, strike, years, volatility):
            spread = volatility * fg.sqrt(years)
            up = (fg.log(spot / strike) + (rate + 0.5 * volatility**2) * years) / spread
            down = up - spread
            phi_up, phi_down = 0.5 + 0.5 * fg.erf(up * root), 0.5 + 0.5 * fg.erf(down * root)
            return (spot * phi_up - strike * fg.exp(-rate * years) * phi_down).sum()

        return price

    def torch(self, torch: Any) -> Any:
        rate, root = self.rate, math.sqrt(0.5)

        def price(spot, strike, years, volatility):
            spread = volatility * torch.sqrt(years)
            up = (torch.log(spot / strike) + (rate + 0.5 * volatility**2) * years) / spread
            down = up - spread
            phi_up, phi_down = 0.5 + 0.5 * torch.erf(up * root), 0.5 + 0.5 * torch.erf(down * root)
            return (spot * phi_up - strike * torch.exp(-rate * years) * phi_down).sum()

        return price

    def jax(self, jax: Any) -> Any:
        jnp, erf = jax.numpy, jax.scipy.special.erf
        rate, root = self.rate, math.sqrt(0.5)

        def price(spot, strike, years, volatility):
            spread = volatility * jnp.sqrt(years)
            up = (jnp.log(spot / strike) + (rate + 0.5 * volatility**2) * years) / spread
            down = up - spread
            phi_up, phi_down = 0.5 + 0.5 * erf(up * root), 0.5 + 0.5 * erf(down * root)
            return (spot * phi_up - strike * jnp.exp(-rate * years) * phi_down).sum()

        return price

    def numba(self, numba: Any, *arrays: Array) -> Call:
        rate, root, density = self.rate, math.sqrt(0.5), 1 / math.sqrt(2 * math.pi)

        @numba.njit(parallel=True, fastmath=True)
        def value_and_gradients(spot, strike, years, volatility):
            value = 0.0
            delta, by_strike = np.empty_like(spot), np.empty_like(spot)
            theta, vega = np.empty_like(spot), np.empty_like(spot)
            for i in numba.prange(spot.size):
                s, k, t, v = spot[i], strike[i], years[i], volatility[i]
                width = math.sqrt(t)
                up = (math.log(s / k) + (rate + 0.5 * v * v) * t) / (v * width)
                down = up - v * width
                phi_up, phi_down = 0.5 + 0.5 * math.erf(up * root), 0.5 + 0.5 * math.erf(down * root)
                discount = math.exp(-rate * t)
                bell = s * density * math.exp(-0.5 * up * up)
                value += s * phi_up - k * discount * phi_down
                delta[i], by_strike[i] = phi_up, -discount * phi_down
                theta[i] = 0.5 * bell * v / width + rate * k * discount * phi_down
                vega[i] = bell * width
            return value, delta, by_strike, theta, vega

        return lambda: value_and_gradients(*arrays)
