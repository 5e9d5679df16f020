"""What `small_tensors.py` times: four small programs, value and gradients, in each library's own idiom.

fusegrad and torch share their programs, since the names are the same. HIPS autograd differentiates
functions of arrays; MyGrad has tensors and `backward()`. Each maker takes a size (how many elements
the tensors have) and gives the call to time; the call returns what the libraries must agree on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Call = Callable[[], Any]
STEPS, ADDS, RATE = 20, 200, 1e-3


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    """The same float32 numbers for every library."""
    generator = np.random.default_rng(0)
    return [generator.uniform(-0.5, 0.5, shape).astype(np.float32) for shape in shapes]


def square(size: int) -> tuple[int, int]:
    """Rows and columns of a batch of `size` elements: one row of 8, or 32 rows of 32."""
    width = 8 if size <= 8 else math.isqrt(size)
    return size // width, width


def perceptron_shapes(size: int) -> list[tuple[int, ...]]:
    """Of the batch, and of three layers' weights and biases."""
    rows, width = square(size)
    return [(rows, width)] + [(width, width), (width,)] * 3


def cell_shapes(size: int) -> list[tuple[int, ...]]:
    """Of the inputs of all steps, of h and c, and of an LSTM cell's four parameters."""
    rows, width = square(size)
    return (
        [(STEPS, rows, width), (rows, width), (rows, width)] + [(4 * width, width)] * 2 + [(4 * width,)] * 2
    )


# PyTorch's way of writing: fusegrad and torch.


def tanh_sum(library: Any, size: int) -> Call:
    """`(tanh(x * w) + x).sum()`."""
    x, w = (library.tensor(a).requires_grad_() for a in arrays((size,), (size,)))

    def call() -> Any:
        x.grad = w.grad = None
        (library.tanh(x * w) + x).sum().backward()
        return x.grad

    return call


def scalar_adds(library: Any, size: int) -> Call:
    """A tensor and 200 Python numbers added in a loop."""
    (x,) = (library.tensor(a).requires_grad_() for a in arrays((size,)))

    def call() -> Any:
        x.grad = None
        y = x
        for _ in range(ADDS):
            y = y + 0.5
        y.sum().backward()
        return x.grad

    return call


def perceptron(library: Any, size: int) -> Call:
    """Three layers, mean squared error, and a step of Adam."""
    x, *parameters = (library.tensor(a) for a in arrays(*perceptron_shapes(size)))
    nn = library.nn
    width = x.shape[1]
    model = nn.Sequential(
        nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width)
    )
    with library.no_grad():
        for parameter, value in zip(model.parameters(), parameters, strict=True):
            parameter.copy_(value)
    optimizer = library.optim.Adam(model.parameters(), lr=RATE)

    def call() -> Any:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), x)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return call


def lstm(library: Any, size: int) -> Call:
    """An LSTM cell over 20 steps."""
    inputs, h0, c0, *parameters = (library.tensor(a) for a in arrays(*cell_shapes(size)))
    cell = library.nn.LSTMCell(inputs.shape[2], h0.shape[1])
    with library.no_grad():
        for parameter, value in zip(cell.parameters(), parameters, strict=True):
            parameter.copy_(value)
    steps = list(inputs)

    def call() -> Any:
        cell.zero_grad()
        h, c = h0, c0
        for step in steps:
            h, c = cell(step, (h, c))
        h.sum().backward()
        return cell.weight_hh.grad

    return call


# Formulas that autograd (anp) and MyGrad (mg) share.


def dense(tanh: Callable[[Any], Any], x: Any, parameters: Sequence[Any]) -> Any:
    """Three layers on `x`; `parameters` are weights (out, in) and biases in turn."""
    w1, b1, w2, b2, w3, b3 = parameters
    return tanh(tanh(x @ w1.T + b1) @ w2.T + b2) @ w3.T + b3


def cell(library: Any, sigmoid: Any, x: Any, h: Any, c: Any, parameters: Sequence[Any]) -> tuple[Any, Any]:
    """A step of an LSTM, as torch.nn.LSTMCell computes it."""
    w, u, bw, bu = parameters
    gates = x @ w.T + bw + h @ u.T + bu
    n = h.shape[1]
    i, f, g, o = (gates[:, k * n : (k + 1) * n] for k in range(4))
    c = sigmoid(f) * c + sigmoid(i) * library.tanh(g)
    return sigmoid(o) * library.tanh(c), c


class NumpyAdam:
    """Adam on arrays in place, for libraries that bring no optimiser for a list of arrays."""

    def __init__(self, parameters: Sequence[np.ndarray]) -> None:
        self.parameters = parameters
        self.first = [np.zeros_like(p) for p in parameters]
        self.second = [np.zeros_like(p) for p in parameters]
        self.steps = 0

    def step(self, gradients: Sequence[np.ndarray]) -> None:
        self.steps += 1
        rate = RATE / (1 - 0.9**self.steps)
        correction = math.sqrt(1 - 0.999**self.steps)
        for p, m, v, g in zip(self.parameters, self.first, self.second, gradients, strict=True):
            m *= 0.9
            m += 0.1 * g
            v *= 0.999
            v += 0.001 * (g * g)
            p -= rate * m / (np.sqrt(v) / correction + 1e-8)


# HIPS autograd.


def autograd_calls(size: int) -> dict[str, Call]:
    """The programs in autograd's idiom: pure functions and `value_and_grad`."""
    import autograd.numpy as anp
    from autograd import grad, value_and_grad

    def sigmoid(x: Any) -> Any:
        return 0.5 * (anp.tanh(0.5 * x) + 1)

    x, w = arrays((size,), (size,))
    both = value_and_grad(lambda xw: anp.sum(anp.tanh(xw[0] * xw[1]) + xw[0]))

    def adds(y: Any) -> Any:
        for _ in range(ADDS):
            y = y + 0.5
        return anp.sum(y)

    batch, *parameters = arrays(*perceptron_shapes(size))
    adam = NumpyAdam(parameters)
    error = value_and_grad(lambda p: anp.mean((dense(anp.tanh, batch, p) - batch) ** 2))

    def train() -> Any:
        loss, gradients = error(parameters)
        adam.step(gradients)
        return loss

    inputs, h0, c0, *weights = arrays(*cell_shapes(size))

    def run(p: Any) -> Any:
        h, c = h0, c0
        for step in inputs:
            h, c = cell(anp, sigmoid, step, h, c, p)
        return anp.sum(h)

    slope, unrolled = grad(adds), grad(run)
    return {
        "tanh": lambda: both((x, w))[1][0],
        "adds": lambda: slope(x),
        "perceptron": train,
        "lstm": lambda: unrolled(weights)[1],
    }


# MyGrad.


def mygrad_calls(size: int) -> dict[str, Call]:
    """The programs in MyGrad's idiom: tensors and `backward()`; a new forward clears the gradients."""
    import mygrad as mg
    from mygrad.nnet.activations import sigmoid

    x, w = (mg.tensor(a) for a in arrays((size,), (size,)))

    def tanh() -> Any:
        (mg.tanh(x * w) + x).sum().backward()
        return x.grad

    def adds() -> Any:
        y = x
        for _ in range(ADDS):
            y = y + 0.5
        y.sum().backward()
        return x.grad

    batch, *values = arrays(*perceptron_shapes(size))
    parameters = [mg.tensor(a) for a in values]
    adam = NumpyAdam([p.data for p in parameters])

    def train() -> Any:
        loss = ((dense(mg.tanh, batch, parameters) - batch) ** 2).mean()
        loss.backward()
        adam.step([p.grad for p in parameters])
        return loss.data

    inputs, h0, c0, *found = arrays(*cell_shapes(size))
    weights = [mg.tensor(a) for a in found]

    def run() -> Any:
        h, c = h0, c0
        for step in inputs:
            h, c = cell(mg, sigmoid, step, h, c, weights)
        h.sum().backward()
        return weights[1].grad

    return {"tanh": tanh, "adds": adds, "perceptron": train, "lstm": run}


def torch_style_calls(library: Any, size: int) -> dict[str, Call]:
    """The programs in PyTorch's way of writing."""
    makers = {"tanh": tanh_sum, "adds": scalar_adds, "perceptron": perceptron, "lstm": lstm}
    return {name: make(library, size) for name, make in makers.items()}
