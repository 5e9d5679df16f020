"""Whole programs: a simulation that writes slices, a training step, a network that follows trees."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from workloads.base import Array, Call, Whole, dense_flops, layers, normal


class Wave(Whole):
    """A hundred steps of the 2-D wave equation, forward only; slices are written in place."""

    key, title, target = "wave", "2-D wave equation 512², 100 steps, forward", 2
    size, steps, speed = 512, 100, 0.25
    bytes = 100 * 3 * 4 * 512**2  # each step reads two fields and writes one
    flops = 100 * 9 * 512**2
    working_set = 2 * 4 * 512**2

    def arrays(self, draw: np.random.Generator) -> list[Array]:
        """The field: smooth, and nothing at the border."""
        line = np.sin(np.linspace(0, np.pi, self.size, dtype=np.float32))
        return [np.outer(line, line * normal(draw, 1)).astype(np.float32)]

    def fusegrad(self, fg: Any, jit: Any, start: Array) -> Call:
        steps, speed, first = self.steps, self.speed, fg.tensor(start)

        @jit
        def simulate(start):
            now, before = start.clone(), start.clone()
            for _ in range(steps):
                inner = now[1:-1, 1:-1]
                around = now[2:, 1:-1] + now[:-2, 1:-1] + now[1:-1, 2:] + now[1:-1, :-2]
                before[1:-1, 1:-1] = 2 * inner - before[1:-1, 1:-1] + speed * (around - 4 * inner)
                now, before = before, now
            return now

        return lambda: simulate(first)

    def torch(self, torch: Any, compiled: Any, start: Array) -> Call:
        steps, speed, first = self.steps, self.speed, torch.tensor(start)

        @compiled
        def step(now, before):
            inner = now[1:-1, 1:-1]
            around = now[2:, 1:-1] + now[:-2, 1:-1] + now[1:-1, 2:] + now[1:-1, :-2]
            before[1:-1, 1:-1] = 2 * inner - before[1:-1, 1:-1] + speed * (around - 4 * inner)

        def simulate():
            # One step is compiled, not a hundred: torch.compile unrolls loops.
            now, before = first.clone(), first.clone()
            for _ in range(steps):
                step(now, before)
                now, before = before, now
            return now

        return simulate

    def jax(self, jax: Any, jit: Any, start: Array) -> Call:
        steps, speed, first = self.steps, self.speed, jax.device_put(start)

        def step(_, fields):
            now, before = fields
            inner = now[1:-1, 1:-1]
            around = now[2:, 1:-1] + now[:-2, 1:-1] + now[1:-1, 2:] + now[1:-1, :-2]
            after = 2 * inner - before[1:-1, 1:-1] + speed * (around - 4 * inner)
            return before.at[1:-1, 1:-1].set(after), now

        @jit
        def simulate(start):
            return jax.lax.fori_loop(0, steps, step, (start, start))[0]

        return lambda: jax.block_until_ready(simulate(first))

    def numba(self, numba: Any, start: Array) -> Call:
        steps, speed = self.steps, np.float32(self.speed)
        two, four = np.float32(2), np.float32(4)

        @numba.njit(parallel=True, fastmath=True)
        def simulate(start):
            now, before = start.copy(), start.copy()
            rows, columns = start.shape
            for _ in range(steps):
                for i in numba.prange(1, rows - 1):
                    for j in range(1, columns - 1):
                        around = now[i + 1, j] + now[i - 1, j] + now[i, j + 1] + now[i, j - 1]
                        waves = speed * (around - four * now[i, j])
                        before[i, j] = two * now[i, j] - before[i, j] + waves
                now, before = before, now
            return now

        return lambda: simulate(start)


class AdamStep(Whole):
    """A whole training step of the perceptron of batch 64: zero_grad, loss, backward, Adam."""

    key, title, target = "adam_step", "Adam step of the b64 perceptron", 2
    changes_state = True
    batch, sizes, rate = 64, (784, 256, 256, 10), 1e-4
    parameters = sum((i + 1) * o for i, o in itertools.pairwise(sizes))
    bytes = 4 * (8 * parameters + batch * 784)  # weights, both moments: in and out; gradients too
    flops = dense_flops(batch, *sizes) + 15 * parameters

    def arrays(self, draw: np.random.Generator) -> list[Array]:
        x, labels = normal(draw, self.batch, self.sizes[0]), draw.integers(0, 10, self.batch)
        return [x, labels, *layers(draw, *self.sizes)]

    def modules(self, nn: Any, tensor: Any, no_grad: Any, arrays: tuple[Array, ...]) -> Any:
        """The network as a module of fusegrad's or torch's, which have the same names."""
        linear = [nn.Linear(i, o) for i, o in itertools.pairwise(self.sizes)]
        with no_grad():
            for layer, weight, bias in zip(linear, arrays[::2], arrays[1::2], strict=True):
                layer.weight.copy_(tensor(weight.T.copy()))
                layer.bias.copy_(tensor(bias))
        return nn.Sequential(linear[0], nn.ReLU(), linear[1], nn.ReLU(), linear[2])

    def fusegrad(self, fg: Any, jit: Any, x: Array, labels: Array, *arrays: Array) -> Call:
        F = fg.nn.functional
        model = self.modules(fg.nn, fg.tensor, fg.no_grad, arrays)
        optimizer = fg.optim.Adam(model.parameters(), lr=self.rate)
        batch = fg.tensor(x), fg.tensor(labels)

        @jit
        def step(x, labels):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), labels)
            loss.backward()
            optimizer.step()
            return loss

        parameters = list(model.parameters())
        return lambda: [step(*batch), parameters]

    def torch(self, torch: Any, compiled: Any, x: Array, labels: Array, *arrays: Array) -> Call:
        F = torch.nn.functional
        model = self.modules(torch.nn, torch.tensor, torch.no_grad, arrays)
        # Torch's fastest Adam on a CPU; torch.compile does not trace through `backward()`.
        optimizer = torch.optim.Adam(model.parameters(), lr=self.rate, fused=True)
        batch = torch.tensor(x), torch.tensor(labels)

        @compiled
        def loss_of(x, labels):
            return F.cross_entropy(model(x), labels)

        def step(x, labels):
            optimizer.zero_grad()
            loss = loss_of(x, labels)
            loss.backward()
            optimizer.step()
            return loss

        parameters = list(model.parameters())
        return lambda: [step(*batch), parameters]

    def jax(self, jax: Any, jit: Any, x: Array, labels: Array, *arrays: Array) -> Call:
        jnp, rate, tree = jax.numpy, self.rate, jax.tree

        def loss_of(parameters, x, labels):
            w1, b1, w2, b2, w3, b3 = parameters
            h = jax.nn.relu(x @ w1.T + b1)
            h = jax.nn.relu(h @ w2.T + b2)
            logits = h @ w3.T + b3
            at_label = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
            return (jax.nn.logsumexp(logits, axis=1) - at_label).mean()

        def step(state, x, labels):
            parameters, first, second, count = state
            loss, gradients = jax.value_and_grad(loss_of)(parameters, x, labels)
            count = count + 1
            first = tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
            second = tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
            here, spread = rate / (1 - 0.9**count), jnp.sqrt(1 - 0.999**count)
            parameters = tree.map(
                lambda p, m, v: p - here * m / (jnp.sqrt(v) / spread + 1e-8), parameters, first, second
            )
            return (parameters, first, second, count), loss

        step = jit(step, donate_argnums=0)  # the state is updated in place
        start = [a.T.copy() if a.ndim == 2 else a for a in arrays]
        zeros = [[np.zeros_like(a) for a in start] for _ in range(2)]
        state = jax.device_put((start, *zeros, np.float32(0)))
        batch = jax.device_put((x, labels))

        def call():
            nonlocal state
            state, loss = step(state, *batch)
            return jax.block_until_ready([loss, state[0]])

        return call


Tree = Any  # a leaf is the number of a word, an inner node a pair of trees


def random_tree(draw: random.Random, leaves: int) -> Tree:
    """A binary tree whose shape is drawn by cutting its row of leaves anywhere."""
    if leaves == 1:
        return draw.randrange(TreeNetwork.words)
    left = draw.randrange(1, leaves)
    return random_tree(draw, left), random_tree(draw, leaves - left)


@functools.cache
def batches_of_trees() -> list[list[Tree]]:
    """Batches of 200 trees of 4 to 16 leaves: hardly a shape comes twice."""
    draw = random.Random(0)
    return [[random_tree(draw, draw.randint(4, 16)) for _ in range(TreeNetwork.trees)] for _ in range(50)]


def random_trees() -> Iterator[list[Tree]]:
    """Another batch each time. All are drawn before any call: that is no part of the network."""
    return itertools.cycle(batches_of_trees())


class TreeNetwork(Whole):
    """A recursive network on 200 trees of random shapes: value and gradients, tree after tree.

    Every call gets new trees. In each library the cell, which is all that repeats, is compiled.
    """

    key, title, target = "tree_network", "tree network of random shapes, 200 trees", 3
    changes_state = True  # the next call has other trees
    trees, words, width = 200, 20, 32
    bytes = 4 * (2 * 2 * width * width + 2 * words * width)
    nodes = trees * 9  # a cell for each leaf but one, of 4 to 16
    flops = nodes * 3 * 2 * 2 * width**2

    def arrays(self, draw: np.random.Generator) -> list[Array]:
        width = self.width
        weights = [normal(draw, width, width, scale=width**-0.5) for _ in range(2)]
        return [normal(draw, self.words, width), *weights, normal(draw, width)]

    def fusegrad(self, fg: Any, jit: Any, *arrays: Array) -> Call:
        table, w, u, b = parameters = [fg.tensor(a, requires_grad=True) for a in arrays]
        batches = random_trees()

        @jit
        def cell(left, right, w, u, b):
            return fg.tanh(left @ w + right @ u + b)

        def vector(tree):
            if isinstance(tree, int):
                return table[tree]
            left, right = tree
            return cell(vector(left), vector(right), w, u, b)

        def call():
            for parameter in parameters:
                parameter.grad = None
            total = 0.0
            for tree in next(batches):
                loss = (vector(tree) ** 2).sum()
                loss.backward()
                total += loss.item()
            return [np.float32(total), [p.grad for p in parameters]]

        return call

    def torch(self, torch: Any, compiled: Any, *arrays: Array) -> Call:
        table, w, u, b = parameters = [torch.tensor(a, requires_grad=True) for a in arrays]
        batches = random_trees()

        @compiled
        def cell(left, right, w, u, b):
            return torch.tanh(left @ w + right @ u + b)

        def vector(tree):
            if isinstance(tree, int):
                return table[tree]
            left, right = tree
            return cell(vector(left), vector(right), w, u, b)

        def call():
            for parameter in parameters:
                parameter.grad = None
            total = 0.0
            for tree in next(batches):
                loss = (vector(tree) ** 2).sum()
                loss.backward()
                total += loss.item()
            return [np.float32(total), [p.grad for p in parameters]]

        return call

    def jax(self, jax: Any, jit: Any, *arrays: Array) -> Call:
        parameters = jax.device_put(list(arrays))
        batches = random_trees()

        @jit
        def cell(left, right, w, u, b):
            return jax.numpy.tanh(left @ w + right @ u + b)

        def loss_of(parameters, tree):
            table, w, u, b = parameters

            def vector(tree):
                if isinstance(tree, int):
                    return table[tree]
                left, right = tree
                return cell(vector(left), vector(right), w, u, b)

            return (vector(tree) ** 2).sum()

        derive = jax.value_and_grad(loss_of)
        add = jit(lambda a, b: jax.tree.map(lambda x, y: x + y, a, b))

        def call():
            total, gradients = 0.0, None
            for tree in next(batches):
                loss, found = derive(parameters, tree)
                gradients = found if gradients is None else add(gradients, found)
                total += loss.item()
            return [np.float32(total), jax.block_until_ready(gradients)]

        return call
