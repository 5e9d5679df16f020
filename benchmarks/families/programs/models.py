"""Second derivatives; whole models with optimizers at three sizes."""

from __future__ import annotations

from typing import Any

from families.declare import FORWARD, TRAINING, programs


@programs("second", "n", "3 float64", "100 float64", "10000 float32", kind=FORWARD, loosely=10)
def hessian_vector(ops: Any, draw: Any, n: int) -> Any:
    """Rosenbrock's Hessian times a vector. Forward only: the program is the derivative."""
    product = ops.hessian_product

    def energy(x):
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    def curvature(x, v):
        return product(energy, x, v)

    return curvature, [draw.normal(n), draw.normal(n)]


@programs("second", "n", "3 float64", "33 float64", kind=FORWARD, loosely=10)
def hessian(ops: Any, draw: Any, n: int) -> Any:
    """The whole Hessian of a smooth function. Forward only: the program is the derivative."""
    derived, logsumexp = ops.hessian, ops.logsumexp

    def energy(x):
        return logsumexp(x * x, dim=0) + (x**4).sum()

    def curvature(x):
        return derived(energy)(x)

    return curvature, [draw.normal(n)]


@programs("second", "points features", "100 4 float64", "1000 16 float64", kind=FORWARD, loosely=10)
def newton_step(ops: Any, draw: Any, points: int, features: int) -> Any:
    """Logistic regression by Newton's method: gradient, Hessian, solve. Forward only: a solver."""
    gradient, hessian, solve, softplus = ops.gradient, ops.hessian, ops.solve, ops.softplus

    def step(weights, x, y):
        def loss(w):
            return softplus(-y * (x @ w)).mean() + 0.1 * (w * w).sum()

        return weights - solve(hessian(loss)(weights), gradient(loss)(weights))

    return step, [
        draw.normal(features),
        draw.normal(points, features),
        draw.floats(2.0 * draw.mask(points) - 1),
    ]


@programs("second", "batch width", "16 16 float32", "256 64 float32", loosely=10)
def gradient_penalty(ops: Any, draw: Any, batch: int, width: int) -> Any:
    """A critic's slope held to one: gradients of a gradient's length."""
    gradient, silu, sqrt = ops.gradient, ops.silu, ops.sqrt

    def loss(x, w1, b1, w2, b2):
        def critic(x):
            return (silu(x @ w1 + b1) @ w2 + b2).sum()

        slope = gradient(critic)(x)
        return ((sqrt((slope * slope).sum(1) + 1e-6) - 1) ** 2).mean() + critic(x) * 1e-3

    return loss, [draw.normal(batch, width), *draw.layers(width, width, 1)]


@programs("second", "points width", "32 16 float64", "512 32 float32", loosely=10, constants=(0,))
def physics_informed(ops: Any, draw: Any, points: int, width: int) -> Any:
    """Poisson's equation by a network: third derivatives in all."""
    gradient, tanh, sin = ops.gradient, ops.tanh, ops.sin

    def loss(x, w1, b1, w2, b2):
        def field(x):
            return (tanh(x @ w1 + b1) @ w2 + b2).sum()

        def slope(x):
            return gradient(field)(x).sum()

        return ((gradient(slope)(x) - sin(x)) ** 2).mean() + field(x * 0) ** 2

    return loss, [draw.uniform(points, 1), *draw.layers(1, width, 1)]


@programs("second", "points width", "16 8 float32", "64 32 float32", loosely=10)
def meta_learning(ops: Any, draw: Any, points: int, width: int) -> Any:
    """One inner step of descent, differentiated through."""
    gradient, tanh = ops.gradient, ops.tanh

    def loss(w, x, y, later_x, later_y):
        def inner(w):
            return ((tanh(x @ w) - y) ** 2).mean()

        moved = w - 0.1 * gradient(inner)(w)
        return ((tanh(later_x @ moved) - later_y) ** 2).mean()

    data = [draw.normal(points, width), draw.normal(points, 1)]
    return loss, [draw.normal(width, 1), *data, draw.normal(points, width), draw.normal(points, 1)]


@programs("second", "atoms", "5 float64", "32 float64", loosely=10)
def force_matching(ops: Any, draw: Any, atoms: int) -> Any:
    """A potential fitted to forces."""
    gradient, exp = ops.gradient, ops.exp

    def loss(x, depth, width, forces):
        def energy(x):
            apart = ((x[:, None, :] - x[None, :, :]) ** 2).sum(-1)
            return (depth * exp(-apart / width)).sum()

        return ((gradient(energy)(x) + forces) ** 2).mean()

    return loss, [draw.normal(atoms, 3), draw.positive(), draw.positive(), draw.normal(atoms, 3)]


@programs(
    "models",
    "batch width",
    "16 32 float32",
    "64 128 float32",
    "256 512 float32",
    kind=TRAINING,
    optimizer="adam",
)
def perceptron(ops: Any, draw: Any, batch: int, width: int) -> Any:
    """A classifier of three layers, with Adam."""
    relu, entropy = ops.relu, ops.cross_entropy

    def loss(parameters, x, labels):
        w1, b1, w2, b2, w3, b3 = parameters
        h = relu(relu(x @ w1 + b1) @ w2 + b2)
        return entropy(h @ w3 + b3, labels)

    return loss, draw.layers(64, width, width, 10), [draw.normal(batch, 64), draw.integers(10, batch)]


@programs(
    "models",
    "batch channels",
    "8 4 float32",
    "16 16 float32",
    "32 32 float32",
    kind=TRAINING,
    optimizer="sgd",
)
def convolutional(ops: Any, draw: Any, batch: int, channels: int) -> Any:
    """A classifier of images, with momentum."""
    convolve, relu, pool, entropy = ops.conv2d, ops.relu, ops.max_pool2d, ops.cross_entropy

    def loss(parameters, x, labels):
        k1, k2, w, b = parameters
        h = pool(relu(convolve(x, k1, padding=1)), 2)
        h = pool(relu(convolve(h, k2, padding=1)), 2)
        return entropy(h.reshape(batch, -1) @ w + b, labels)

    kernels = [draw.kernel(channels, 1, 3, 3), draw.kernel(2 * channels, channels, 3, 3)]
    parameters = [*kernels, *draw.layer(2 * channels * 49, 10)]
    return loss, parameters, [draw.normal(batch, 1, 28, 28), draw.integers(10, batch)]


@programs(
    "models",
    "batch length width",
    "4 8 16 float32",
    "8 32 64 float32",
    "16 64 128 float32",
    kind=TRAINING,
    optimizer="adam",
)
def transformer(ops: Any, draw: Any, batch: int, length: int, width: int) -> Any:
    """A language model of one layer, with Adam."""
    look_up, attention, norm, gelu = ops.embedding, ops.scaled_dot_product_attention, ops.layer_norm, ops.gelu
    transpose, entropy = ops.transpose, ops.cross_entropy

    def loss(parameters, words, following):
        table, places, wq, wk, wv, wo, g1, s1, w1, b1, w2, b2, g2, s2 = parameters
        x = look_up(words, table) + places
        y = norm(x, (width,), g1, s1)
        split = [transpose((y @ w).reshape(batch, length, 4, width // 4), 1, 2) for w in (wq, wk, wv)]
        x = x + transpose(attention(*split, is_causal=True), 1, 2).reshape(batch, length, width) @ wo
        x = x + gelu(norm(x, (width,), g2, s2) @ w1 + b1) @ w2 + b2
        return entropy((x @ table.T).reshape(batch * length, 100), following.reshape(-1))

    tables = [draw.normal(100, width, scale=0.1), draw.normal(length, width, scale=0.1)]
    projections = [draw.normal(width, width, scale=width**-0.5) for _ in range(4)]
    norms = [draw.positive(width), draw.normal(width)]
    parameters = [*tables, *projections, *norms, *draw.layers(width, 4 * width, width), *norms]
    parameters[-2:] = [draw.positive(width), draw.normal(width)]
    return loss, parameters, [draw.integers(100, batch, length), draw.integers(100, batch, length)]


@programs(
    "models",
    "batch steps width",
    "4 10 8 float32",
    "16 20 32 float32",
    "32 40 64 float32",
    kind=TRAINING,
    optimizer="adam",
)
def recurrent(ops: Any, draw: Any, batch: int, steps: int, width: int) -> Any:
    """A series predicted by an RNN, with Adam."""
    scan, tanh, zeros = ops.scan, ops.tanh, ops.zeros

    def loss(parameters, x, y):
        w, u, b, v, c = parameters

        def step(h, row):
            h = tanh(row @ w + h @ u + b)
            return h, h @ v + c

        _, found = scan(step, zeros((batch, width), dtype=x.dtype), x)
        return ((found - y) ** 2).mean()

    inner, outer = draw.layer(4, width), draw.layer(width, 1)
    parameters = [inner[0], draw.normal(width, width, scale=width**-0.5), inner[1], *outer]
    return loss, parameters, [draw.normal(steps, batch, 4), draw.normal(steps, batch, 1)]


@programs(
    "models",
    "users items rank",
    "50 40 4 float32",
    "1000 500 16 float32",
    "5000 2000 32 float32",
    kind=TRAINING,
    optimizer="sgd",
)
def factorization(ops: Any, draw: Any, users: int, items: int, rank: int) -> Any:
    """Recommendations by embeddings and biases, with momentum."""
    look_up = ops.embedding

    def loss(parameters, user, item, rating):
        u, v, a, b = parameters
        found = (look_up(user, u) * look_up(item, v)).sum(1) + a[user] + b[item]
        return ((found - rating) ** 2).mean()

    count = 2 * users
    parameters = [draw.normal(users, rank), draw.normal(items, rank), draw.normal(users), draw.normal(items)]
    return loss, parameters, [draw.integers(users, count), draw.integers(items, count), draw.normal(count)]


@programs(
    "models",
    "batch inputs width",
    "16 32 8 float64",
    "64 100 32 float32",
    "128 784 64 float32",
    kind=TRAINING,
    optimizer="adam",
)
def autoencoder(ops: Any, draw: Any, batch: int, inputs: int, width: int) -> Any:
    """A variational autoencoder whose noise is given, with Adam."""
    relu, exp, entropy = ops.relu, ops.exp, ops.binary_cross_entropy_with_logits

    def loss(parameters, x, noise):
        w1, b1, wm, bm, wv, bv, w2, b2, w3, b3 = parameters
        h = relu(x @ w1 + b1)
        mean, spread = h @ wm + bm, h @ wv + bv
        z = mean + exp(0.5 * spread) * noise
        found = relu(z @ w2 + b2) @ w3 + b3
        return entropy(found, x) - 0.5 * (1 + spread - mean**2 - exp(spread)).mean()

    layers = [
        (inputs, 2 * width),
        (2 * width, width),
        (2 * width, width),
        (width, 2 * width),
        (2 * width, inputs),
    ]
    parameters = [array for sizes in layers for array in draw.layer(*sizes)]
    return loss, parameters, [draw.uniform(batch, inputs), draw.normal(batch, width)]


@programs(
    "models",
    "nodes width",
    "20 8 float64",
    "200 16 float32",
    "1000 64 float32",
    kind=TRAINING,
    optimizer="adam",
)
def graph_network(ops: Any, draw: Any, nodes: int, width: int) -> Any:
    """Nodes of a graph classified by two rounds of messages, with Adam."""
    summed, relu, entropy = ops.segment_sum, ops.relu, ops.cross_entropy

    def loss(parameters, x, source, target, labels):
        w1, b1, w2, b2 = parameters
        h = relu(summed((x @ w1)[source], target, nodes) + b1)
        return entropy(summed((h @ w2)[source], target, nodes) + b2, labels)

    ends = [draw.integers(nodes, 5 * nodes), draw.integers(nodes, 5 * nodes)]
    return loss, draw.layers(width, width, 4), [draw.normal(nodes, width), *ends, draw.integers(4, nodes)]
