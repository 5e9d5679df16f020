"""Gradient checkpointing: train a deep network in a fraction of the memory, for a second forward.

Backward needs what every layer computed. With `checkpoint`, forward keeps only what enters each
block; backward runs the block again. Prints the peak memory and the time of a step both ways.
"""

import time
import tracemalloc

import fusegrad as fg
from fusegrad import nn
from fusegrad.nn import functional as F
from fusegrad.utils.checkpoint import checkpoint

BLOCKS, LAYERS, WIDTH, BATCH = 8, 6, 64, 2048


class Block(nn.Module):
    """A few layers around which the input is added again."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))

    def forward(self, x):
        h = x
        for layer in self.layers:
            h = fg.tanh(layer(h))
        return x + h


class Network(nn.Module):
    """Blocks, each of them checkpointed or not."""

    def __init__(self, checkpointed):
        super().__init__()
        self.checkpointed = checkpointed
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return self.head(x)


def step(checkpointed):
    """The gradients of one training step, its peak memory in bytes and its seconds."""
    fg.manual_seed(0)
    network = Network(checkpointed)
    x, target = fg.randn(BATCH, WIDTH), fg.randn(BATCH, 1)
    tracemalloc.start()  # it sees NumPy's buffers too
    began = time.perf_counter()
    F.mse_loss(network(x), target).backward()
    seconds = time.perf_counter() - began
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return [p.grad for p in network.parameters()], peak, seconds


def main():
    print(f"{BLOCKS} blocks of {LAYERS} layers, {WIDTH} wide, a batch of {BATCH}\n")
    found = {}
    for name, checkpointed in (("everything kept", False), ("checkpointed", True)):
        found[name], peak, seconds = step(checkpointed)
        print(f"{name:>16}: peak {peak / 2**20:6.1f} MiB, {seconds:.2f} s")
    same = all(fg.equal(a, b) for a, b in zip(*found.values(), strict=True))
    print(f"\nthe gradients are {'the same to the last bit' if same else 'DIFFERENT'}")


if __name__ == "__main__":
    main()
