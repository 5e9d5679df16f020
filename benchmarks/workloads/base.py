"""What a workload of the suite says of itself; `contenders.py` makes calls of it.

A workload writes the same program once for each library, next to each other: a method named after the
library, which is given the library's module (nothing is imported before it is needed). Where a library
has no method, it has no column. torch.compile runs torch's program.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

Call = Callable[[], Any]
Array = np.ndarray

# What one elementary function costs at least: range reduction and a polynomial of seven terms.
FUNCTION_FLOPS = 20
# In float64 its polynomials have twice the terms, and erf has two of them and an exponential.
FUNCTION_FLOPS_DOUBLE = 50


class Workload:
    """One row of the table.

    key: its name on the command line (`--only`). title: its name in the table. target: the ratio
    "best peer / fusegrad" to reach. bytes, flops: what must at least be moved and computed for value
    and gradients, for the fraction of the machine's limit. working_set: the bytes that are touched,
    where they are touched several times; they say which memory (cache or not) is the limit. nodes: how many
    compiled functions a call puts on the graph, where it is more than one function.
    """

    key: str
    title: str
    target: float
    bytes: int
    flops: int
    nodes = 0
    double = False  # computes in float64
    changes_state = False  # a call changes what the next one computes, as an optimizer's step does

    def arrays(self, draw: np.random.Generator) -> list[Array]:
        """The inputs, equal for all libraries."""
        raise NotImplementedError

    @property
    def working_set(self) -> int:
        return self.bytes

    def inputs(self) -> list[Array]:
        """The inputs made from one seed, in memory of their own."""
        return self.arrays(np.random.default_rng(0))


class Gradients(Workload):
    """A scalar function, timed with the gradients of some of its inputs.

    The libraries' methods take the module and give the function, undecorated; `numba`, which has no
    gradients, takes the inputs too and gives the call that computes value and gradients by hand.
    """

    wanted: tuple[int, ...]  # the inputs whose gradients are asked for


class Whole(Workload):
    """A program that is timed as it stands: its methods give the call.

    They take the module, what compiles a function (`fg.jit`, `torch.compile`, `jax.jit`; the identity
    for eager), and the inputs. The call gives what the libraries must agree on.
    """


def normal(draw: np.random.Generator, *shape: int, scale: float = 1.0) -> Array:
    """Normal float32 numbers."""
    return (scale * draw.standard_normal(shape)).astype(np.float32)


def layers(draw: np.random.Generator, *sizes: int) -> list[Array]:
    """Weights (in, out) and biases in turn, as PyTorch starts them."""
    found: list[Array] = []
    for inner, outer in itertools.pairwise(sizes):
        bound = inner**-0.5
        found.append(draw.uniform(-bound, bound, (inner, outer)).astype(np.float32))
        found.append(draw.uniform(-bound, bound, outer).astype(np.float32))
    return found


def dense_flops(batch: int, *sizes: int) -> int:
    """Of the products of a perceptron, value and gradients; its input needs none."""
    products = [2 * batch * inner * outer for inner, outer in itertools.pairwise(sizes)]
    return 3 * sum(products) - products[0]
