"""Which kernels a graph gets depends on the graph, not on where objects lie or how strings are hashed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from typing import Any

import fusegrad as fg
from fusegrad.compiler.codegen import kernel_cache
from fusegrad.compiler.fuse import fusion


def large(x: fg.Tensor, y: fg.Tensor, w: fg.Tensor) -> fg.Tensor:
    """Forty ops that reduce, multiply, join and read each other in no order."""
    draw = random.Random(0)
    known = [x, y]
    for number in range(40):
        one, other = draw.choice(known[-30:]), draw.choice(known[-30:])
        known.append(
            [
                lambda a, b, n: a * b + 0.1 * n,
                lambda a, b, n: a - a.mean(1, keepdim=True) * b,
                lambda a, b, n: fg.softmax(a, 1) + b,
                lambda a, b, n: (a @ w) / 30 + b,
                lambda a, b, n: a.cumsum(1) * 0.1 + b,
                lambda a, b, n: fg.cat([a[:, 1:], b[:, :1]], 1),
                lambda a, b, n: a - b.sum(0) / 30,
            ][number * 5 % 7](one, other, number)
        )
    return sum(((v * v).mean() for v in known[-40:]), x.mean())


def print_kernels(planted: str) -> None:
    """In a process of its own: the texts of the kernels that the first program of `large` gets."""

    def told(kernels: Any) -> None:
        print("\n".join(kernel.text for kernel in kernels), flush=True)
        os._exit(0)

    kernel_cache.compile_kernels = told
    if planted:
        in_order = fusion.in_order

        def by_hash(steps: Any) -> Any:
            for step in steps:
                step.position = hash(str(step.numbers))
            return in_order(steps)

        fusion.in_order = by_hash
    fg.set_compile_budget(None)
    jitted = fg.jit(fg.value_and_grad(large, argnums=(0, 1, 2)))
    given = [fg.ones(30, 30) for _ in range(3)]
    for _ in range(3):
        jitted(*given)


def kernels_with(seeds: str, planted: str = "") -> list[str]:
    """What processes print whose strings are hashed from these seeds."""
    children = [
        subprocess.Popen(
            [sys.executable, __file__, planted],
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for seed in seeds
    ]
    return [child.communicate()[0] for child in children]


def test_two_processes_have_the_same_kernels() -> None:
    one, other = kernels_with("12")
    assert one.count("def kernel") > 10 and one == other


def test_an_order_by_hash_is_found() -> None:
    found = kernels_with("12", planted="by hash")
    assert len({*found}) > 1


if __name__ == "__main__":
    print_kernels(sys.argv[1])
