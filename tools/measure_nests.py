"""Measures what the choice of a kernel's vectors gains, and how well its model of the work foresees that.

python tools/measure_nests.py [NAME ...] [--elements N]

For functions over rows of many lengths, in float32 and float64, value and gradients: the kernels as they are
built, with vectors along the innermost axis, and those with the least work by the model of
`compiler/transform/kernel_work.py`, both in turns. The constants there are right where what was chosen is
hardly ever the slower one; after a change of the code generator, or for another kind of machine, this says
which of them to look at.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import fusegrad as fg
from fusegrad.compiler.llvm.target import host
from fusegrad.compiler.transform import vector_axis
from fusegrad.compiler.transform.kernel_work import kernel_work

ROWS = (2, 3, 4, 5, 7, 8, 10, 12, 16, 24, 33)
TABLES = ((20000, 8), (20000, 16), (5000, 64), (1000, 300), (300, 1000), (33, 10000), (8, 40000))
ROUNDS = 21
SLOWER = 1.1


def softmax(x: Any, w: Any) -> Any:
    return (fg.softmax(x, -1) * w).sum()


def norm(x: Any, w: Any) -> Any:
    return ((x * x).sum(-1).sqrt() * w[:, 0]).sum()


def largest(x: Any, w: Any) -> Any:
    return (x.amax(-1) * w[:, 0]).sum()


def variance(x: Any, w: Any) -> Any:
    return (x.var(-1) * w[:, 0]).sum()


def mixture(x: Any, w: Any) -> Any:
    z = (x[:, :1] - w[0]) * fg.exp(-w[1])
    return fg.logsumexp(-0.5 * z * z - w[1], 1).sum()


def standardised(x: Any, w: Any) -> Any:
    centred = x - x.mean(0)
    return (centred / fg.sqrt((centred * centred).mean(0) + 1e-5) * w).sum()


def columns(x: Any, w: Any) -> Any:
    return (fg.logsumexp(x, 0) * w[0]).sum()


ALONG_ROWS = {f.__name__: f for f in (softmax, norm, largest, variance, mixture)}
ALONG_COLUMNS = {f.__name__: f for f in (standardised, columns)}


def programs(
    names: list[str], elements: int
) -> Iterator[tuple[str, Callable[..., Any], tuple[int, int], str]]:
    for dtype in ("float32", "float64"):
        for name, function in ALONG_ROWS.items():
            for row in ROWS if not names or name in names else ():
                yield name, function, (elements // row, row), dtype
        for name, function in ALONG_COLUMNS.items():
            for shape in TABLES if not names or name in names else ():
                yield name, function, shape, dtype


def compiled(function: Callable[..., Any], tensors: list[Any], worth: float) -> tuple[Any, float]:
    """The function with its gradients, where another axis is taken if it has so small a part of the work; and
    the work of its kernels.
    """
    before, vector_axis.WORTH = vector_axis.WORTH, worth
    try:
        jitted = fg.jit(fg.value_and_grad(function, (0, 1)))
        for _ in range(6):
            jitted(*tensors)
    finally:
        vector_axis.WORTH = before
    return jitted, sum(kernel_work(bound, host()) for bound in jitted.kernels().forward)


def medians(*jitted: Any, tensors: list[Any]) -> list[float]:
    """Microseconds of a call of each; they take turns."""
    times: list[list[float]] = [[] for _ in jitted]
    for _ in range(ROUNDS):
        for function, taken in zip(jitted, times, strict=True):
            start = time.perf_counter()
            function(*tensors)
            taken.append((time.perf_counter() - start) * 1e6)
    return [statistics.median(taken) for taken in times]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--elements", type=int, default=200_000)
    given = parser.parse_args()
    gains, slower = [], []
    print(f"{'':36}{'as built':>10}{'chosen':>10}{'gain':>8}{'foreseen':>10}")
    for name, function, shape, dtype in programs(given.names, given.elements):
        draw = np.random.default_rng(0)
        tensors = [fg.from_numpy(draw.normal(size=shape).astype(dtype)) for _ in range(2)]
        plain, most = compiled(function, tensors, 0.0)
        chosen, least = compiled(function, tensors, vector_axis.WORTH)
        before, after = medians(plain, chosen, tensors=tensors)
        gains.append(before / after)
        title = f"{name} {shape[0]}x{shape[1]} {dtype}"
        slower += [title] if after > SLOWER * before else []
        print(f"{title:36}{before:8.0f}µs{after:8.0f}µs{before / after:8.2f}{most / least:10.2f}", flush=True)
    mean = math.exp(statistics.fmean(map(math.log, gains)))
    print(f"geometric mean {mean:.2f}; slower by more than {SLOWER:.1f}: {', '.join(slower) or 'none'}")


if __name__ == "__main__":
    main()
