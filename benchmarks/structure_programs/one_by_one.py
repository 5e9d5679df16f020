"""Programs of one example at a time, in fusegrad or in torch, which have the same functions."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

EXAMPLES, WORDS = 64, 20


class Program(NamedTuple):
    """weights: by name. loss: of an example. examples: what it is called with."""

    weights: dict[str, Any]
    loss: Callable[[Any], Any]
    examples: list[Any]


def tree(draw: random.Random, depth: int) -> Any:
    """A binary tree of numbers of words."""
    if not depth or draw.random() < 0.15:
        return draw.randrange(WORDS)
    return tree(draw, depth - 1), tree(draw, depth - 1)


def lattice(draw: random.Random) -> list[list[tuple[int, int]]]:
    """For each place of a sentence, the words that end there: where each begins, and its number."""
    places = range(1, draw.randrange(6, 16))
    begins = [[end - 1, *[b for b in (end - 2, end - 3) if b >= 0 and draw.random() < 0.4]] for end in places]
    return [[(begin, draw.randrange(WORDS)) for begin in several] for several in begins]


def sentence(draw: random.Random) -> list[int]:
    """Numbers of words."""
    return [draw.randrange(WORDS) for _ in range(draw.randrange(5, 20))]


TREES = [tree(random.Random(i), 5) for i in range(EXAMPLES)]
LATTICES = [lattice(random.Random(i)) for i in range(EXAMPLES)]
SENTENCES = [sentence(random.Random(i)) for i in range(EXAMPLES)]


def weights(library: Any, width: int, *names: str) -> dict[str, Any]:
    """The same numbers for each library."""
    draw = np.random.default_rng(0)
    shapes = {"table": (WORDS, width), "gates": (2 * width, 5 * width), "bias": (5 * width,), "out": (width,)}
    shapes |= {"edge": (2 * width, 4 * width), "edge_bias": (4 * width,), "choice": (3 * width, 2)}
    made = {n: (draw.normal(size=s) / np.sqrt(width)).astype(np.float32) for n, s in shapes.items()}
    return {n: library.tensor(made[n]).requires_grad_() for n in names}


def jitted(library: Any) -> Callable[..., Any]:
    """What jits a function, where the library has that."""
    return library.jit if library.__name__ == "fusegrad" else lambda function: function  # type: ignore[no-any-return]


def tree_cell(library: Any, w: dict[str, Any]) -> Callable[..., Any]:
    """The cell of a tree LSTM, of two states, or of two batches of them."""

    def cell(left: Any, c_left: Any, right: Any, c_right: Any) -> tuple[Any, Any]:
        gates = library.cat([left, right], -1) @ w["gates"] + w["bias"]
        enters, keeps_left, keeps_right, leaves, new = gates.chunk(5, -1)
        c = library.sigmoid(enters) * library.tanh(new)
        c = c + library.sigmoid(keeps_left) * c_left + library.sigmoid(keeps_right) * c_right
        return library.sigmoid(leaves) * library.tanh(c), c

    return cell


def edge_cell(library: Any, w: dict[str, Any]) -> Callable[..., Any]:
    """The cell of a lattice LSTM: the state behind a word, of that before it."""

    def cell(h: Any, c: Any, word: Any) -> tuple[Any, Any]:
        x = library.nn.functional.embedding(word, w["table"])
        enters, keeps, leaves, new = (library.cat([h, x], -1) @ w["edge"] + w["edge_bias"]).chunk(4, -1)
        c = library.sigmoid(keeps) * c + library.sigmoid(enters) * library.tanh(new)
        return library.sigmoid(leaves) * library.tanh(c), c

    return cell


def judge(library: Any, w: dict[str, Any]) -> Callable[..., Any]:
    """How likely a parser shifts and reduces, as logarithms, by its stack and the next word."""

    def judged(top: Any, below: Any, word: Any) -> Any:
        x = library.nn.functional.embedding(word, w["table"])
        return library.log_softmax(library.cat([top, below, x], -1) @ w["choice"], -1)

    return judged


def leaf_of(library: Any, w: dict[str, Any]) -> Callable[[Any], Any]:
    """What gives the state of a word."""

    def leaf(word: Any) -> Any:
        return library.nn.functional.embedding(word, w["table"])

    return leaf


def root_of(w: dict[str, Any]) -> Callable[[Any], Any]:
    """What gives the loss of a whole, by its state."""

    def root(h: Any) -> Any:
        return (h * w["out"]).sum()

    return root


def trees(library: Any, width: int, jit: Callable[..., Any] = lambda f: f) -> Program:
    """A tree LSTM. jit: what is done to the functions of a leaf, of a node and of a root."""
    w = weights(library, width, "table", "gates", "bias", "out")
    words, nothing = [library.tensor(i) for i in range(WORDS)], library.zeros(width)
    cell = jit(tree_cell(library, w))

    leaf, root = jit(leaf_of(library, w)), jit(root_of(w))

    def state(node: Any) -> tuple[Any, Any]:
        if isinstance(node, int):
            return leaf(words[node]), nothing
        return cell(*state(node[0]), *state(node[1]))

    return Program(w, lambda node: root(state(node)[0]), TREES)


def cells(library: Any, width: int) -> Program:
    """The same of jitted functions, where the library has them."""
    return trees(library, width, jitted(library))


def lattices(library: Any, width: int) -> Program:
    """A lattice LSTM: the state at a place is the sum of those behind the words that end there."""
    w = weights(library, width, "table", "edge", "edge_bias", "out")
    jit = jitted(library)
    words, nothing = [library.tensor(i) for i in range(WORDS)], library.zeros(width)
    cell = jit(edge_cell(library, w))

    @jit
    def both(h: Any, c: Any, other_h: Any, other_c: Any) -> tuple[Any, Any]:
        return h + other_h, c + other_c

    @jit
    def root(h: Any) -> Any:
        return (h * w["out"]).sum()

    def loss(places: list[list[tuple[int, int]]]) -> Any:
        states = [(nothing, nothing)]
        for ending in places:
            state = None
            for begin, word in ending:
                behind = cell(*states[begin], words[word])
                state = behind if state is None else both(*state, *behind)
            assert state is not None
            states.append(state)
        return root(states[-1][0])

    return Program(w, loss, LATTICES)


def parser(library: Any, width: int) -> Program:
    """A parser that shifts words onto a stack and composes the two on top, as its scores say."""
    w = weights(library, width, "table", "gates", "bias", "choice", "out")
    jit = jitted(library)
    words, nothing = [library.tensor(i) for i in range(WORDS)], library.zeros(width)
    cell, judged = jit(tree_cell(library, w)), jit(judge(library, w))

    leaf, root = jit(leaf_of(library, w)), jit(root_of(w))

    def loss(numbers: list[int]) -> Any:
        stack: list[tuple[Any, Any]] = []
        place, total = 0, 0.0
        while place < len(numbers) or len(stack) > 1:
            reduces = len(stack) > 1
            if reduces and place < len(numbers):
                logarithms = judged(stack[-1][0], stack[-2][0], words[numbers[place]])
                reduces = bool(logarithms.argmax() == 1)
                total = total - logarithms[int(reduces)]
            if reduces:
                right, left = stack.pop(), stack.pop()
                stack.append(cell(*left, *right))
            else:
                stack.append((leaf(words[numbers[place]]), nothing))
                place += 1
        return root(stack[0][0]) + total

    return Program(w, loss, SENTENCES)


def chains(library: Any, width: int) -> Program:
    """A cell that goes on until its state says that it is enough."""
    w = weights(library, width, "gates", "bias", "out")
    inputs = np.random.default_rng(1).normal(size=(EXAMPLES, width)).astype(np.float32)

    def end(x: Any) -> Any:
        h, steps = x, 0
        while steps < 20 and (h * w["out"]).sum() > -0.3:
            gates = library.tanh(library.cat([h, x]) @ w["gates"] + w["bias"])
            h, steps = gates[:width] - 0.1 * gates[width : 2 * width], steps + 1
        return (h * h).sum()

    return Program(w, end, [library.tensor(x) for x in inputs])


PROGRAMS = {"trees": trees, "cells": cells, "lattices": lattices, "parser": parser, "chains": chains}
