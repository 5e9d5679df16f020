"""What this machine can do at most: bytes a second, floating-point operations a second, calls a second.

The suite holds every time against the largest of three bounds: the bytes that must be moved over the
bandwidth measured for a working set of that size, the operations over the speed of the fastest large
matrix product, and what compiled calls with their gradients take on one number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from workloads.base import Workload

from fusegrad.compiler.compare.measure import interleaved
from fusegrad.compiler.compare.terminal import installed

# Working sets: within the first, the second, and the last level of caches, and well beyond.
WORKING_SETS = (1 << 15, 1 << 19, 1 << 24, 1 << 28)
PRODUCT = 1024  # rows and columns of the product that counts as the peak
NODES = 32  # compiled calls in a row whose graph is gone through backwards


def measured(repeat: int | None, seconds: float) -> dict[str, Any]:
    """`bandwidth`: bytes a second by working set; `peak`: operations a second by dtype; others: seconds."""
    return {
        "bandwidth": bandwidths(repeat, seconds),
        "peak": {dtype: peak(dtype, repeat, seconds) for dtype in ("float32", "float64")},
        **call_overhead(repeat, seconds),
    }


def bandwidths(repeat: int | None, seconds: float) -> dict[str, float]:
    """Bytes a second of `a = b + s * c`, on all cores, each in its part of the working set.

    As in McCalpin's STREAM, what the processor reads before it writes a line is not counted.
    """
    import numba

    @numba.njit(parallel=True, fastmath=True)
    def triad(a: Any, b: Any, c: Any, rounds: int, threads: int) -> None:
        part = a.size // threads
        for thread in numba.prange(threads):
            # Numba vectorises loops that count from 0.
            own = slice(thread * part, (thread + 1) * part)
            x, y, z = a[own], b[own], c[own]
            for turn in range(rounds):
                scale = np.float32(turn)
                for i in range(part):
                    x[i] = y[i] + scale * z[i]

    threads = numba.get_num_threads()
    found = {}
    for size in WORKING_SETS:
        arrays = [np.ones(size // 12, np.float32) for _ in range(3)]
        rounds = max(1, (1 << 24) // size)  # of a small set many, so that the call does not count
        call = {"triad": lambda a=arrays, n=rounds: triad(*a, n, threads)}
        found[str(size)] = rounds * size / interleaved(call, repeat, seconds)["triad"].low
    return found


def peak(dtype: str, repeat: int | None, seconds: float) -> float:
    """Operations a second of the fastest large product: NumPy's, fusegrad's or torch's."""
    import fusegrad as fg

    x = np.random.default_rng(0).standard_normal((PRODUCT, PRODUCT)).astype(dtype)
    ours = fg.tensor(x)
    multiply = fg.jit(lambda a, b: a @ b)
    calls: dict[str, Callable[[], Any]] = {"numpy": lambda: x @ x, "fusegrad": lambda: multiply(ours, ours)}
    if installed("torch"):
        import torch

        theirs = torch.tensor(x)
        calls["torch"] = lambda: theirs @ theirs
    best = min(timing.low for timing in interleaved(calls, repeat, seconds).values())
    return 2 * PRODUCT**3 / best


def call_overhead(repeat: int | None, seconds: float) -> dict[str, float]:
    """Seconds where there is nothing to compute: `call`, of a compiled call that gives its gradient, and
    `node`, of one that puts a node on the graph, and of that node's part of a backward.
    """
    import fusegrad as fg

    x, leaf = fg.ones(()), fg.ones(2, requires_grad=True)
    double = fg.jit(fg.value_and_grad(lambda x: x * 2))
    halve = fg.jit(lambda x: x * 0.5)

    def nodes() -> None:
        leaf.grad, y = None, leaf
        for _ in range(NODES):
            y = halve(y)
        y.sum().backward()

    found = interleaved({"call": lambda: double(x), "node": nodes}, repeat, seconds)
    return {"call": found["call"].median, "node": found["node"].median / NODES}


def limit_of(workload: Workload, limits: Mapping[str, Any]) -> dict[str, Any]:
    """The bound that stands in the way of a workload: its `kind` and the `seconds` it allows."""
    sizes = sorted(limits["bandwidth"], key=int)
    level = next((size for size in sizes if int(size) >= workload.working_set), sizes[-1])
    bounds = {
        "memory": workload.bytes / limits["bandwidth"][level],
        "flops": workload.flops / limits["peak"]["float64" if workload.double else "float32"],
        "call": workload.nodes * limits["node"] if workload.nodes else limits["call"],
    }
    kind = max(bounds, key=lambda name: bounds[name])
    return {"kind": kind, "seconds": bounds[kind], "bounds": bounds}
