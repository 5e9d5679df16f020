"""A chain of twenty elementwise ops and a sum: one loop forward, one backward.

fusegrad compare examples/gelu_chain.py:chain
"""

import fusegrad as fg


@fg.jit
def chain(x, y):
    gelu = 0.5 * x * (1 + fg.tanh(0.79788456 * (x + 0.044715 * x**3)))
    return (gelu * fg.sigmoid(y) + fg.exp(-x * x) * y).sum()


def chain_torch(x, y):
    import torch

    gelu = 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x**3)))
    return (gelu * torch.sigmoid(y) + torch.exp(-x * x) * y).sum()


def chain_jax(x, y):
    import jax
    import jax.numpy as jnp

    gelu = 0.5 * x * (1 + jnp.tanh(0.79788456 * (x + 0.044715 * x**3)))
    return (gelu * jax.nn.sigmoid(y) + jnp.exp(-x * x) * y).sum()


def chain_args(size=1_000_000):
    fg.manual_seed(0)
    return fg.randn(size, requires_grad=True), fg.randn(size, requires_grad=True)


if __name__ == "__main__":
    fg.compare(chain, *chain_args(), peers={"torch": chain_torch, "jax": chain_jax})
