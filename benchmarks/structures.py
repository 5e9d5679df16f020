"""Programs of one example at a time, batched as they stand: a training step of 64 trees, with plain ops and
with jitted cells, and of 64 chains that end where a value says, beside the same one by one,
in fusegrad and in torch.

All contenders run in one process, in turns, and agree on values and gradients. Ratios are times of others
over `batched`'s, of the same round: the median of the rounds, and the least and the largest. Times are of the
processor, so that a machine with other work on it moves them less.

python benchmarks/structures.py [--widths N ...] [--rounds N] [--only NAME ...] [--json FILE] [--quick]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

EXAMPLES = 64
Step = Callable[[], list[np.ndarray]]


def tree(draw: random.Random, depth: int) -> Any:
    """A binary tree of numbers of words."""
    if not depth or draw.random() < 0.15:
        return draw.randrange(20)
    return tree(draw, depth - 1), tree(draw, depth - 1)


def weights(library: Any, width: int) -> dict[str, Any]:
    """The same numbers for each library."""
    draw = np.random.default_rng(0)
    shapes = {"table": (20, width), "gates": (2 * width, 5 * width), "bias": (5 * width,), "out": (width,)}
    made = {n: (draw.normal(size=s) / np.sqrt(width)).astype(np.float32) for n, s in shapes.items()}
    return {n: library.tensor(a).requires_grad_() for n, a in made.items()}


def trees(library: Any, width: int, run: Callable[..., Any], jit: Callable[..., Any] = lambda f: f) -> Step:
    """A tree LSTM. jit: what is done to the functions of a leaf, of a node and of a root."""
    w = weights(library, width)
    words, nothing = [library.tensor(i) for i in range(20)], library.zeros(width)
    examples = [tree(random.Random(i), 5) for i in range(EXAMPLES)]

    @jit
    def leaf(word: Any) -> Any:
        return library.nn.functional.embedding(word, w["table"])

    @jit
    def cell(left: Any, c_left: Any, right: Any, c_right: Any) -> tuple[Any, Any]:
        gates = library.cat([left, right]) @ w["gates"] + w["bias"]
        enters, keeps_left, keeps_right, leaves, new = gates.chunk(5)
        c = library.sigmoid(enters) * library.tanh(new)
        c = c + library.sigmoid(keeps_left) * c_left + library.sigmoid(keeps_right) * c_right
        return library.sigmoid(leaves) * library.tanh(c), c

    @jit
    def root(h: Any) -> Any:
        return (h * w["out"]).sum()

    def state(node: Any) -> tuple[Any, Any]:
        if isinstance(node, int):
            return leaf(words[node]), nothing
        return cell(*state(node[0]), *state(node[1]))

    return stepped(library, w, lambda node: root(state(node)[0]), examples, run)


def cells(library: Any, width: int, run: Callable[..., Any]) -> Step:
    """The same of jitted functions, where the library has them."""
    own = library.__name__ == "fusegrad"
    return trees(library, width, run, library.jit if own else lambda function: function)


def chains(library: Any, width: int, run: Callable[..., Any]) -> Step:
    """A cell that goes on until its state says that it is enough."""
    w = weights(library, width)
    inputs = np.random.default_rng(1).normal(size=(EXAMPLES, width)).astype(np.float32)
    examples = [library.tensor(x) for x in inputs]

    def end(x: Any) -> Any:
        h, steps = x, 0
        while steps < 20 and (h * w["out"]).sum() > -0.3:
            gates = library.tanh(library.cat([h, x]) @ w["gates"] + w["bias"])
            h, steps = gates[:width] - 0.1 * gates[width : 2 * width], steps + 1
        return (h * h).sum()

    return stepped(library, w, end, examples, run)


def stepped(library: Any, w: dict[str, Any], loss: Any, examples: list[Any], run: Callable[..., Any]) -> Step:
    """A training step: the value and the gradients."""
    apply = run(loss)

    def step() -> list[np.ndarray]:
        for weight in w.values():
            weight.grad = None
        total = library.stack(apply(examples)).sum()
        total.backward()
        gradients = [np.zeros(1) if weight.grad is None else weight.grad.numpy() for weight in w.values()]
        return [total.detach().numpy(), *gradients]

    return step


PROGRAMS = {"trees": trees, "cells": cells, "chains": chains}


def one_by_one(loss: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda examples: [loss(example) for example in examples]


def contenders(program: str, width: int) -> dict[str, Step]:
    """By the name of each: its step."""
    import fusegrad as fg

    make = PROGRAMS[program]
    found = {"batched": make(fg, width, fg.batched), "one by one": make(fg, width, one_by_one)}
    try:
        import torch
    except ImportError:
        return found
    return {**found, "torch one by one": make(torch, width, one_by_one)}


def seconds(step: Step) -> float:
    began = time.process_time()
    step()
    return time.process_time() - began


def measured(program: str, width: int, rounds: int) -> dict[str, Any]:
    """The ratios to `batched`, by contender, and the milliseconds of it."""
    steps = contenders(program, width)
    for _ in range(8 if rounds > 1 else 0):  # all is compiled that will be
        for step in steps.values():
            step()
    expected = steps["batched"]()
    for name, step in steps.items():
        for value, other in zip(expected, step(), strict=True):
            np.testing.assert_allclose(value, other, rtol=2e-3, atol=2e-3, err_msg=f"{program}, {name}")
    ratios: dict[str, list[float]] = {name: [] for name in steps if name != "batched"}
    own = []
    for _ in range(rounds):
        times = {name: seconds(step) for name, step in steps.items()}
        own.append(times["batched"])
        for name in ratios:
            ratios[name].append(times[name] / times["batched"])
    told = {n: [statistics.median(r), min(r), max(r)] for n, r in ratios.items()}
    return {"program": program, "width": width, "milliseconds": min(own) * 1000, "ratios": told}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--widths", type=int, nargs="+", default=[32, 128, 256])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="one round of the least width")
    options = parser.parse_args()
    widths, rounds = (options.widths[:1], 1) if options.quick else (options.widths, options.rounds)
    found = [measured(program, width, rounds) for program in options.only for width in widths]
    for f in found:
        ratios = [f"{n} {r[0]:.2f} ({r[1]:.2f} to {r[2]:.2f})" for n, r in f["ratios"].items()]
        print(f"{f['program']}, width {f['width']}: {f['milliseconds']:.1f} ms; {', '.join(ratios)}")
    if options.json:
        options.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
