"""One thread pool: compiled calls in turn with eager products and with NumPy's own `matmul`.

Idle threads that spin starve other pools on few cores. Shown is the time of both in turn over the sum of
their separate times; the goal is 1.2.

python benchmarks/one_pool.py [--json FILE] [--quick]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import harness
import numpy as np
from contenders import contender
from workloads import BY_KEY

from fusegrad.compiler.compare.measure import interleaved, seconds_text
from fusegrad.compiler.compare.terminal import print_table

GOAL = 1.2
COMPILED = ("chain_1000", "chain_100000", "perceptron_b64")
SIZE = 256  # rows and columns of the products between


def partners() -> dict[str, Callable[[], Any]]:
    """What runs between the compiled calls."""
    import fusegrad as fg

    x = np.random.default_rng(0).standard_normal((SIZE, SIZE)).astype(np.float32)
    tensor = fg.tensor(x)
    return {"numpy.matmul": lambda: np.matmul(x, x), "eager matmul": lambda: fg.matmul(tensor, tensor)}


def in_turn(first: Callable[[], Any], second: Callable[[], Any]) -> Callable[[], Any]:
    """Both calls, one after the other."""

    def call() -> None:
        first()
        second()

    return call


def measured(repeat: int | None, seconds: float) -> dict[str, Any]:
    """For each pair: the timings of both and of both in turn, and the ratio."""
    figures = {}
    for key in COMPILED:
        compiled = contender(BY_KEY[key], "fusegrad").call
        for name, partner in partners().items():
            calls = {"compiled": compiled, "product": partner, "in turn": in_turn(compiled, partner)}
            timings = interleaved(calls, repeat, seconds)
            apart = timings["compiled"].median + timings["product"].median
            figures[f"{BY_KEY[key].title} | {name} {SIZE}"] = {
                "timings": {name: timing.as_dict() for name, timing in timings.items()},
                "ratio": timings["in turn"].median / apart,
            }
    return figures


def show(figures: dict[str, Any]) -> None:
    """Print the ratios as a table."""
    rows = []
    for title, found in figures.items():
        medians = [seconds_text(found["timings"][n]["median"]) for n in ("compiled", "product", "in turn")]
        verdict = "" if found["ratio"] <= GOAL else " ABOVE"
        rows.append([title, *medians, f"{found['ratio']:.2f}{verdict}"])
    header = ["", "compiled", "product", "in turn", "ratio"]
    print_table("one thread pool", header, rows, [f"goal: at most {GOAL} of the sum of the separate times"])


def main() -> None:
    options = harness.options("time compiled calls in turn with products")
    figures = measured(options.repeat, 2.0)
    show(figures)
    harness.save(options.json, {"benchmark": "one_pool", "goal": GOAL, "pairs": figures})


if __name__ == "__main__":
    main()
