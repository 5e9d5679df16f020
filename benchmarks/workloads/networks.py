"""Networks whose work is in products: perceptrons, a recurrent network, attention, convolutions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from workloads.base import FUNCTION_FLOPS, Array, Gradients, dense_flops, layers, normal


class Perceptron(Gradients):
    """Three layers. With one output a regression through tanh, otherwise a classifier through relu."""

    wanted = (2, 3, 4, 5, 6, 7)

    def __init__(self, batch: int, sizes: tuple[int, int, int, int], target: float) -> None:
        self.batch, self.sizes, self.target = batch, sizes, target
        self.key = f"perceptron_b{batch}"
        self.title = f"perceptron b{batch} {'-'.join(map(str, sizes))}"
        parameters = sum((i + 1) * o for i, o in itertools.pairwise(sizes))
        self.bytes = 4 * (2 * parameters + batch * sizes[0])
        self.flops = dense_flops(batch, *sizes)

    def arrays(self, draw: np.random.Generator) -> list[Array]:
        outputs = self.sizes[-1]
        y = normal(draw, self.batch, 1) if outputs == 1 else draw.integers(0, outputs, self.batch)
        return [normal(draw, self.batch, self.sizes[0]), y, *layers(draw, *self.sizes)]

    def fusegrad(self, fg: Any) -> Any:
        F = fg.nn.functional

        def regression(x, y, w1, b1, w2, b2, w3, b3):
            h = fg.tanh(x @ w1 + b1)
            h = fg.tanh(h @ w2 + b2)
            return F.mse_loss(h @ w3 + b3, y)

        def classifier(x, labels, w1, b1, w2, b2, w3, b3):
            h = fg.relu(x @ w1 + b1)
            h = fg.relu(h @ w2 + b2)
            return F.cross_entropy(h @ w3 + b3, labels)

        return regression if self.sizes[-1] == 1 else classifier

    def torch(self, torch: Any) -> Any:
        F = torch.nn.functional

        def regression(x, y, w1, b1, w2, b2, w3, b3):
            h = torch.tanh(torch.addmm(b1, x, w1))
            h = torch.tanh(torch.addmm(b2, h, w2))
            return F.mse_loss(torch.addmm(b3, h, w3), y)

        def classifier(x, labels, w1, b1, w2, b2, w3, b3):
            h = torch.relu(torch.addmm(b1, x, w1))
            h = torch.relu(torch.addmm(b2, h, w2))
            return F.cross_entropy(torch.addmm(b3, h, w3), labels)

        return regression if self.sizes[-1] == 1 else classifier

    def jax(self, jax: Any) -> Any:
        jnp = jax.numpy

        def regression(x, y, w1, b1, w2, b2, w3, b3):
            h = jnp.tanh(x @ w1 + b1)
            h = jnp.tanh(h @ w2 + b2)
            return ((h @ w3 + b3 - y) ** 2).mean()

        def classifier(x, labels, w1, b1, w2, b2, w3, b3):
            h = jax.nn.relu(x @ w1 + b1)
            h = jax.nn.relu(h @ w2 + b2)
            logits = h @ w3 + b3
            at_label = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
            return (jax.nn.logsumexp(logits, axis=1) - at_label).mean()

        return regression if self.sizes[-1] == 1 else classifier


class Recurrent(Gradients):
    """A tanh RNN as a plain Python loop; JAX has `scan` for that."""

    wanted = (1, 2, 3)

    def __init__(self, steps: int, batch: int, width: int, target: float) -> None:
        self.steps, self.batch, self.width, self.target = steps, batch, width, target
        self.key, self.title = f"rnn_{steps}", f"tanh RNN, T {steps}, b {batch}, h {width}"
        cell = 2 * batch * width * width
        self.bytes = 4 * (steps * batch * width + 2 * (2 * width + 1) * width)
        self.flops = steps * (5 * cell + FUNCTION_FLOPS * batch * width)

    def arrays(self, draw: np.random.Generator) -> list[Array]:
        width = self.width
        weights = [normal(draw, width, width, scale=width**-0.5) for _ in range(2)]
        return [normal(draw, self.steps, self.batch, width), *weights, normal(draw, width)]

    def fusegrad(self, fg: Any) -> Any:
        def loss(x, w, u, b):
            h = fg.zeros(x.shape[1], x.shape[2])
            for t in range(x.shape[0]):
                h = fg.tanh(x[t] @ w + h @ u + b)
            return (h**2).mean()

        return loss

    def torch(self, torch: Any) -> Any:
        def loss(x, w, u, b):
            h = torch.zeros(x.shape[1], x.shape[2])
            for t in range(x.shape[0]):
                h = torch.tanh(x[t] @ w + h @ u + b)
            return (h**2).mean()

        return loss

    def jax(self, jax: Any) -> Any:
        jnp = jax.numpy

        def loss(x, w, u, b):
            def step(h, at):
                return jnp.tanh(at @ w + h @ u + b), None

            h, _ = jax.lax.scan(step, jnp.zeros(x.shape[1:]), x)
            return (h**2).mean()

        return loss


class Attention(Gradients):
    """Self-attention of several heads between four projections."""

    wanted = (0, 1, 2, 3, 4)
    target = 1.5

    def __init__(self, batch: int, length: int, width: int, heads: int) -> None:
        self.shape, self.heads = (batch, length, width), heads
        self.key, self.title = f"attention_b{batch}", f"attention B{batch} T{length} D{width} H{heads}"
        projections = 4 * 2 * batch * length * width * width
        scores = 2 * 2 * batch * length * length * width
        self.bytes = 4 * (2 * batch * length * width + 2 * 4 * width * width)
        self.flops = 3 * (projections + scores) + FUNCTION_FLOPS * batch * heads * length * length

    def arrays(self, draw: np.random.Generator) -> list[Array]:
        width = self.shape[2]
        return [
            normal(draw, *self.shape),
            *(normal(draw, width, width, scale=width**-0.5) for _ in range(4)),
        ]

    def fusegrad(self, fg: Any) -> Any:
        heads, F = self.heads, fg.nn.functional

        def loss(x, wq, wk, wv, wo):
            batch, length, width = x.shape
            q, k, v = ((x @ w).view(batch, length, heads, -1).transpose(1, 2) for w in (wq, wk, wv))
            found = F.scaled_dot_product_attention(q, k, v)
            return ((found.transpose(1, 2).reshape(batch, length, width) @ wo) ** 2).mean()

        return loss

    torch = fusegrad

    def jax(self, jax: Any) -> Any:
        heads = self.heads

        def loss(x, wq, wk, wv, wo):
            batch, length, width = x.shape
            # Written out: as fast as `jax.nn.dot_product_attention`, or up to twice as fast.
            q, k, v = ((x @ w).reshape(batch, length, heads, -1).swapaxes(1, 2) for w in (wq, wk, wv))
            found = jax.nn.softmax(q @ k.swapaxes(2, 3) / (width // heads) ** 0.5) @ v
            return ((found.swapaxes(1, 2).reshape(batch, length, width) @ wo) ** 2).mean()

        return loss


class Convolutions(Gradients):
    """A classifier of 28×28 images: two 3×3 convolutions with relu, a pool, a linear layer."""

    key, title, target = "conv_net", "convolutional net on 28×28, b 64", 1
    wanted = (2, 3, 4, 5, 6, 7)
    batch, channels = 64, (1, 16, 32)
    bytes = 4 * (2 * (16 * 9 + 16 * 32 * 9 + 32 * 144 * 10) + 64 * 784)
    flops = 2 * 64 * (2 * 16 * 9 * 26**2 + 3 * (16 * 32 * 9 * 24**2 + 32 * 144 * 10))

    def arrays(self, draw: np.random.Generator) -> list[Array]:
        images, labels = normal(draw, self.batch, 1, 28, 28), draw.integers(0, 10, self.batch)
        kernels: list[Array] = []
        for inner, outer in itertools.pairwise(self.channels):
            kernels.append(normal(draw, outer, inner, 3, 3, scale=(9 * inner) ** -0.5))
            kernels.append(normal(draw, outer, scale=0.1))
        return [images, labels, *kernels, *layers(draw, 32 * 12 * 12, 10)]

    def fusegrad(self, fg: Any) -> Any:
        F = fg.nn.functional

        def loss(x, labels, k1, b1, k2, b2, w, b):
            h = F.relu(F.conv2d(x, k1, b1))
            h = F.max_pool2d(F.relu(F.conv2d(h, k2, b2)), 2)
            return F.cross_entropy(h.flatten(1) @ w + b, labels)

        return loss

    torch = fusegrad

    def jax(self, jax: Any) -> Any:
        jnp, lax = jax.numpy, jax.lax

        def convolve(x, kernel, bias):
            return jax.nn.relu(lax.conv(x, kernel, (1, 1), "VALID") + bias[:, None, None])

        def loss(x, labels, k1, b1, k2, b2, w, b):
            h = convolve(convolve(x, k1, b1), k2, b2)
            h = h.reshape(*h.shape[:2], 12, 2, 12, 2).max((3, 5))
            logits = h.reshape(h.shape[0], -1) @ w + b
            at_label = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
            return (jax.nn.logsumexp(logits, axis=1) - at_label).mean()

        return loss
