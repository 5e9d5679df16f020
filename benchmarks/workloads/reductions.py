"""Losses and norms over rows: softmax cross-entropy and layer norm."""

from __future__ import annotations

from typing import Any

import numpy as np

from workloads.base import FUNCTION_FLOPS, Array, Gradients, normal


class CrossEntropy(Gradients):
    """Softmax cross-entropy of logits with labels, as each library's users write it."""

    wanted = (0,)
    target = 1.5

    def __init__(self, rows: int, classes: int) -> None:
        self.rows, self.classes = rows, classes
        self.key = f"cross_entropy_{rows}x{classes}"
        self.title = f"softmax cross-entropy {rows}×{classes}"
        count = rows * classes
        self.bytes, self.flops = 2 * 4 * count, (FUNCTION_FLOPS + 5) * count

    def arrays(self, draw: np.random.Generator) -> list[Array]:
        return [normal(draw, self.rows, self.classes), draw.integers(0, self.classes, self.rows)]

    def fusegrad(self, fg: Any) -> Any:
        F = fg.nn.functional

        def loss(logits, labels):
            return F.cross_entropy(logits, labels)

        return loss

    torch = fusegrad

    def jax(self, jax: Any) -> Any:
        jnp = jax.numpy

        def loss(logits, labels):
            # As Optax writes it; `log_softmax` first takes up to twice as long on large batches.
            at_label = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
            return (jax.nn.logsumexp(logits, axis=1) - at_label).mean()

        return loss


class LayerNorm(Gradients):
    """Layer norm with weight and bias, and the mean of its squares."""

    wanted = (0, 1, 2)

    def __init__(self, rows: int, width: int, target: float) -> None:
        self.rows, self.width, self.target = rows, width, target
        self.key, self.title = f"layer_norm_{rows}x{width}", f"layer norm {rows}×{width}"
        self.bytes, self.flops = 2 * 4 * rows * width, 25 * rows * width

    def arrays(self, draw: np.random.Generator) -> list[Array]:
        return [normal(draw, self.rows, self.width), 1 + normal(draw, self.width), normal(draw, self.width)]

    def fusegrad(self, fg: Any) -> Any:
        F = fg.nn.functional

        def loss(x, weight, bias):
            return (F.layer_norm(x, (x.shape[1],), weight, bias) ** 2).mean()

        return loss

    torch = fusegrad

    def jax(self, jax: Any) -> Any:
        def loss(x, weight, bias):
            centred = x - x.mean(1, keepdims=True)
            variance = (centred**2).mean(1, keepdims=True)
            return ((centred * jax.lax.rsqrt(variance + 1e-5) * weight + bias) ** 2).mean()

        return loss
