"""What `first_calls.py` times: programs of many small ops, whose first call has much to plan.

Each maker takes a length and gives a function and its arguments; the function's result is a number. Loops
are plain Python, and everything is small, so that eager takes as long as its ops are many.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Program = tuple[Callable[..., Any], list[Any]]
WIDTH = 16  # numbers of the tensors of a straight line
HIDDEN = 14  # of an LSTM


def tensors(library: Any, *shapes: tuple[int, ...]) -> list[Any]:
    """Leaves whose gradients are asked for."""
    generator = np.random.default_rng(0)
    arrays = [generator.uniform(0.2, 0.9, shape).astype(np.float32) for shape in shapes]
    return [library.tensor(array).requires_grad_() for array in arrays]


def straight(library: Any, length: int) -> Program:
    """A straight line: no op follows from those before it, as in a program without loops."""
    draw = random.Random(length)
    ops = [
        lambda x, y: library.sin(x),
        lambda x, y: x * y,
        lambda x, y: x + y,
        lambda x, y: library.tanh(x - y),
        lambda x, y: x * 0.5 + 0.1,
        lambda x, y: library.maximum(x, y),
    ]
    line = [(draw.choice(ops), draw.randrange(1, 9)) for _ in range(length)]

    def program(x: Any, w: Any) -> Any:
        values = [x, w, x * w, x + w, x - w, w * w, x * x, w - x]
        for op, back in line:
            values.append(op(values[-1], values[-back]))
        return values[-1].sum()

    return program, tensors(library, (WIDTH,), (WIDTH,))


def lstm(library: Any, length: int) -> Program:
    """An LSTM cell, written out, over so many steps."""
    inputs, weights, bias, state = tensors(
        library, (length, HIDDEN), (2 * HIDDEN, 4 * HIDDEN), (4 * HIDDEN,), (HIDDEN,)
    )

    def program(inputs: Any, weights: Any, bias: Any, state: Any) -> Any:
        h, c = state, state
        for step in range(length):
            gates = library.cat([inputs[step], h]) @ weights * 0.1 + bias
            i, f, g, o = gates.chunk(4)
            c = library.sigmoid(f) * c + library.sigmoid(i) * library.tanh(g)
            h = library.sigmoid(o) * library.tanh(c)
        return h.sum()

    return program, [inputs, weights, bias, state]


def _lorenz(sigma: Any, rho: Any, beta: Any, x: Any, y: Any, z: Any) -> tuple[Any, Any, Any]:
    return sigma * (y - x), x * (rho - z) - y, x * y - beta * z


def euler(library: Any, length: int, width: int = 3) -> Program:
    """Euler's method for Lorenz's equations, for so many starts at once."""
    x, y, z = tensors(library, (width,), (width,), (width,))

    def program(x: Any, y: Any, z: Any) -> Any:
        for _ in range(length):
            u, v, w = _lorenz(10.0, 28.0, 2.5, x, y, z)
            x, y, z = x + 1e-4 * u, y + 1e-4 * v, z + 1e-4 * w
        return (x + y + z).sum()

    return program, [x, y, z]


def rk4(library: Any, length: int, width: int = 3) -> Program:
    """The method of Runge and Kutta for the same equations, as one tensor of three rows."""
    (state,) = tensors(library, (3, width))

    def slope(s: Any) -> Any:
        return library.stack(_lorenz(10.0, 28.0, 2.5, s[0], s[1], s[2]))

    def program(state: Any) -> Any:
        h = 1e-4
        for _ in range(length):
            a = slope(state)
            b = slope(state + 0.5 * h * a)
            c = slope(state + 0.5 * h * b)
            d = slope(state + h * c)
            state = state + h / 6 * (a + 2 * b + 2 * c + d)
        return state.sum()

    return program, [state]


def newton(library: Any, length: int) -> Program:
    """Newton's method for a thousand cube roots."""
    (x,) = tensors(library, (1000,))

    def program(x: Any) -> Any:
        y = x
        for _ in range(length):
            y = y - (y * y * y - x) / (3 * y * y)
        return y.sum()

    return program, [x]


def writes(library: Any, length: int) -> Program:
    """Many small writes into one tensor."""
    (x,) = tensors(library, (length,))

    def program(x: Any) -> Any:
        y = library.zeros(length)
        for i in range(1, length):
            y[i] = y[i - 1] * 0.5 + x[i]
        return y.sum()

    return program, [x]


def tree(library: Any, length: int) -> Program:
    """A binary tree with so many leaves, added up by recursion."""
    (leaves,) = tensors(library, (length, WIDTH))

    def total(leaves: Any, first: int, last: int) -> Any:
        if last - first == 1:
            return leaves[first]
        middle = (first + last) // 2
        return library.tanh(total(leaves, first, middle) + 0.5 * total(leaves, middle, last))

    def program(leaves: Any) -> Any:
        return total(leaves, 0, length).sum()

    return program, [leaves]


PROGRAMS: dict[str, Callable[..., Program]] = {
    maker.__name__: maker for maker in (straight, lstm, euler, rk4, newton, writes, tree)
}
# What is timed, unless something else is asked for: names and lengths.
LENGTHS: Sequence[tuple[str, int]] = (
    ("straight", 1_000),
    ("straight", 10_000),
    ("straight", 50_000),
    ("lstm", 32),
    ("lstm", 512),
    ("euler", 200),
    ("euler", 10_000),
    ("rk4", 1_000),
    ("newton", 20),
    ("writes", 1_000),
    ("tree", 1_024),
)
