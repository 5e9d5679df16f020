"""Tiny programs, which are call overhead; small linear algebra; cumulative ops, sort and top-k."""

from __future__ import annotations

from typing import Any

from families.declare import FORWARD, programs


@programs("tiny", "n", "1 float64", "2 float32", "3 float64", "10 float32")
def rosenbrock(ops: Any, draw: Any, n: int) -> Any:
    """The optimiser's test function."""

    def loss(x):
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum() + (x * x).sum()

    return loss, [draw.normal(n)]


@programs("tiny", "kind", "square float32", "sine float64", "sigmoid float32")
def one_number(ops: Any, draw: Any, kind: str) -> Any:
    """A function of a 0-d tensor."""
    function = {"square": ops.square, "sine": ops.sin, "sigmoid": ops.sigmoid}[kind]

    def loss(x):
        return function(x)

    return loss, [draw.normal()]


@programs("tiny", "n", "3 float32", "8 float64")
def dot(ops: Any, draw: Any, n: int) -> Any:
    def loss(x, y):
        return x @ y

    return loss, [draw.normal(n), draw.normal(n)]


@programs("tiny", "batch width", "1 4 float32", "4 8 float32")
def perceptron(ops: Any, draw: Any, batch: int, width: int) -> Any:
    """Two layers, a handful of numbers."""
    tanh = ops.tanh

    def loss(x, y, w1, b1, w2, b2):
        return ((tanh(x @ w1 + b1) @ w2 + b2 - y) ** 2).mean()

    return loss, [draw.normal(batch, 3), draw.normal(batch, 1), *draw.layers(3, width, 1)]


@programs("tiny", "n", "20 float64", "100 float32")
def linear_fit(ops: Any, draw: Any, n: int) -> Any:
    """A line through points: three parameters that are numbers."""
    log = ops.log

    def loss(x, y, slope, offset, width):
        return (0.5 * ((y - slope * x - offset) / width) ** 2 + log(width)).sum()

    return loss, [draw.normal(n), draw.normal(n), draw.normal(), draw.normal(), draw.positive()]


@programs("tiny", "terms", "10 float64", "50 float64")
def scalar_program(ops: Any, draw: Any, terms: int) -> Any:
    """A series by a Python loop on 0-d tensors."""

    def loss(x, y):
        total, term = x, x
        for i in range(1, terms):
            term = term * y / i
            total = total + term
        return total

    return loss, [draw.positive(), draw.positive()]


@programs("tiny", "n", "3 float32", "6 float64")
def many_arguments(ops: Any, draw: Any, n: int) -> Any:
    """Twelve small inputs."""
    exp = ops.exp

    def loss(*xs):
        total = 0.0
        for x in xs:
            total = total + exp(-x * x).sum()
        return total

    return loss, [draw.normal(n) for _ in range(12)]


@programs("tiny", "shape", "4 float32", "4x4 float64", kind=FORWARD)
def forward_only(ops: Any, draw: Any, shape: Any) -> Any:
    """Inference of next to nothing. Forward only by what it is."""
    relu = ops.relu

    def predict(x, w):
        return relu(x * w + 1)

    return predict, [draw.normal(*shape), draw.normal(*shape)]


@programs("tiny", "kind", "quaternion float64", "cross float32")
def geometry(ops: Any, draw: Any, kind: str) -> Any:
    """Components taken one by one, and stacked."""
    stack = ops.stack

    def cross(a, b):
        return stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])

    def quaternion(a, b):
        real = a[0] * b[0] - (a[1:] * b[1:]).sum()
        return real * stack([a[0] * b[i] + a[i] * b[0] for i in (1, 2, 3)]) + cross(a[1:], b[1:])

    product = cross if kind == "cross" else quaternion

    def loss(a, b):
        return (product(a, b) ** 2).sum()

    return loss, [draw.normal(4 if kind == "quaternion" else 3) for _ in range(2)]


@programs(
    "linalg",
    "batch n",
    "1 3 float64",
    "1 33 float64",
    "1 100 float32",
    "100 3 float32",
    "32 16 float64",
    loosely=10,
)
def cholesky(ops: Any, draw: Any, batch: int, n: int) -> Any:
    """The likelihood of a normal distribution: factor, triangular solve, log of the diagonal."""
    factor, solve, log, diagonal = ops.cholesky, ops.solve_triangular, ops.log, ops.diagonal

    def loss(a, x):
        root = factor(a)
        white = solve(root, x, upper=False)
        return 0.5 * (white * white).sum() + log(diagonal(root, dim1=-2, dim2=-1)).sum()

    return loss, [draw.definite(batch, n, n), draw.normal(batch, n, 1)]


@programs(
    "linalg",
    "batch n columns",
    "1 2 1 float64",
    "1 64 8 float64",
    "1000 3 1 float32",
    "64 8 8 float64",
    "1 200 1 float32",
    loosely=10,
)
def solve(ops: Any, draw: Any, batch: int, n: int, columns: int) -> Any:
    """Linear systems."""
    solved = ops.solve

    def loss(a, b):
        return (solved(a, b) ** 2).sum()

    return loss, [draw.regular(batch, n, n), draw.normal(batch, n, columns)]


@programs("linalg", "upper n columns", "0 16 4 float64", "1 100 1 float32", loosely=10)
def triangular(ops: Any, draw: Any, upper: int, n: int, columns: int) -> Any:
    """A triangular system of a matrix's half."""
    solved, half = ops.solve_triangular, ops.triu if upper else ops.tril

    def loss(a, b):
        return (solved(half(a), b, upper=bool(upper)) ** 2).sum()

    return loss, [draw.regular(n, n), draw.normal(n, columns)]


@programs("linalg", "batch n", "1 3 float64", "1 50 float32", "256 4 float32", loosely=10)
def inverse(ops: Any, draw: Any, batch: int, n: int) -> Any:
    """An inverse, as Mahalanobis's distance uses it."""
    inv = ops.inv

    def loss(a, x):
        return (x * (inv(a) @ x)).sum()

    return loss, [draw.regular(batch, n, n), draw.normal(batch, n, 1)]


@programs("linalg", "batch n", "1 2 float64", "1 33 float64", "1000 3 float32", loosely=10)
def determinant(ops: Any, draw: Any, batch: int, n: int) -> Any:
    """Logarithms of determinants, as flows use them."""
    slogdet = ops.slogdet

    def loss(a):
        return slogdet(a)[1].sum()

    return loss, [draw.regular(batch, n, n)]


@programs("linalg", "batch n", "1 3 float64", "100 2 float32", loosely=10)
def plain_determinant(ops: Any, draw: Any, batch: int, n: int) -> Any:
    """Volumes."""
    det = ops.det

    def loss(a):
        return det(a).sum()

    return loss, [draw.regular(batch, n, n)]


@programs("linalg", "points features", "100 5 float64", "1000 33 float64", loosely=100)
def ridge(ops: Any, draw: Any, points: int, features: int) -> Any:
    """Ridge regression by the normal equations, differentiated by its penalty and data."""
    solved, eye = ops.solve, ops.eye

    def loss(x, y, penalty):
        weights = solved(x.T @ x + penalty * eye(features, dtype=x.dtype), x.T @ y)
        return ((x @ weights - y) ** 2).mean()

    return loss, [draw.normal(points, features), draw.normal(points), draw.positive()]


@programs("linalg", "points", "20 float64", "150 float64", loosely=100)
def gaussian_process(ops: Any, draw: Any, points: int) -> Any:
    """The marginal likelihood of a Gaussian process, by its hyperparameters."""
    factor, solve, exp = ops.cholesky, ops.solve_triangular, ops.exp
    log, eye, diagonal = ops.log, ops.eye, ops.diagonal

    def loss(x, y, scale, noise):
        kernel = exp(-0.5 * ((x[:, None] - x[None, :]) / scale) ** 2) + noise * eye(points, dtype=x.dtype)
        root = factor(kernel)
        white = solve(root, y[:, None], upper=False)
        return 0.5 * (white * white).sum() + log(diagonal(root)).sum()

    return loss, [draw.normal(points), draw.normal(points), draw.positive(), draw.positive()]


@programs("linalg", "n power", "4 8 float64", "33 5 float32", loosely=10)
def matrix_power(ops: Any, draw: Any, n: int, power: int) -> Any:
    """A Markov chain some steps on."""
    power_of, softmax = ops.matrix_power, ops.softmax

    def loss(a, x):
        return (x @ power_of(softmax(a, dim=1), power)) @ x

    return loss, [draw.normal(n, n), draw.normal(n)]


@programs("linalg", "n", "8 float64", "64 float64", loosely=10)
def eigenvalues(ops: Any, draw: Any, n: int) -> Any:
    """Of a symmetric matrix: a spectral penalty."""
    values, log = ops.eigvalsh, ops.log

    def loss(a):
        return log(values(a)).sum()

    return loss, [draw.definite(n, n)]


@programs(
    "ordering",
    "axis shape",
    "-1 33 float32",
    "-1 100x1000 float32",
    "0 1000x64 float64",
    "1 8x100x16 float32",
)
def cumsum(ops: Any, draw: Any, axis: int, shape: Any) -> Any:
    """Running sums."""
    running = ops.cumsum

    def loss(x):
        return (running(x, dim=axis) ** 2).mean()

    return loss, [draw.normal(*shape)]


@programs("ordering", "axis shape", "-1 100x16 float64", "0 33x100 float32")
def cumprod(ops: Any, draw: Any, axis: int, shape: Any) -> Any:
    """Transmittance along rays, as volume renderers have it."""
    running = ops.cumprod

    def loss(density, color):
        return (running(1 - 0.1 * density, dim=axis) * density * color).sum()

    return loss, [draw.uniform(*shape), draw.uniform(*shape)]


@programs("ordering", "shape", "1000 float64", "64x100 float32")
def logcumsumexp(ops: Any, draw: Any, shape: Any) -> Any:
    """Cox's partial likelihood: risk sets by running sums of exponentials."""
    running = ops.logcumsumexp

    def loss(scores):
        return (running(scores, dim=-1) - scores).mean()

    return loss, [draw.normal(*shape)]


@programs("ordering", "shape", "100 float64", "33x1000 float32")
def cummax(ops: Any, draw: Any, shape: Any) -> Any:
    """The largest drawdown of a path."""
    running, walk = ops.cummax, ops.cumsum

    def loss(x):
        path = walk(x, dim=-1)
        return (running(path, -1)[0] - path).mean()

    return loss, [draw.normal(*shape)]


@programs("ordering", "shape", "16 float32", "100x33 float32", "100000 float64")
def sort(ops: Any, draw: Any, shape: Any) -> Any:
    """The Wasserstein distance of samples on a line."""
    ordered = ops.sort

    def loss(x, y):
        return ((ordered(x, dim=-1)[0] - ordered(y, dim=-1)[0]) ** 2).mean()

    return loss, [draw.normal(*shape), draw.normal(*shape)]


@programs("ordering", "k shape", "3 16 float32", "5 256x100 float32", "100 10000 float64")
def topk(ops: Any, draw: Any, k: int, shape: Any) -> Any:
    """The hardest examples alone."""
    largest = ops.topk

    def loss(x):
        return (largest(x, k)[0] ** 2).mean()

    return loss, [draw.normal(*shape)]


@programs("ordering", "n m", "100 16 float32", "10000 100 float64", kind=FORWARD)
def search(ops: Any, draw: Any, n: int, m: int) -> Any:
    """Linear interpolation in a sorted table. Forward only, as tables are looked up."""
    searchsorted, clamp = ops.searchsorted, ops.clamp

    def interpolate(grid, values, x):
        right = clamp(searchsorted(grid, x), 1, m - 1)
        left = right - 1
        share = (x - grid[left]) / (grid[right] - grid[left])
        return values[left] + share * (values[right] - values[left])

    return interpolate, [draw.floats(sorted(draw.uniform(m))), draw.normal(m), draw.uniform(n)]


@programs("ordering", "shape", "64x10 float32", "1000x100 float32", kind=FORWARD)
def best_classes(ops: Any, draw: Any, shape: Any) -> Any:
    """Predictions and ranks. Forward only: indices have no gradient."""
    argmax, argsort = ops.argmax, ops.argsort

    def predict(x):
        return argmax(x, dim=1), argsort(x, dim=1)

    return predict, [draw.normal(*shape)]
