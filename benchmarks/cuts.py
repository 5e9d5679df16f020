"""What a call costs in the middle of a training step that is no op: one of SciPy's, an unknown one.

    python benchmarks/cuts.py [--cpu]

Medians of calls that alternate in one process, beside a step with an op; what the function takes by itself is
taken off. With `--cpu` it is the time of the process on all cores.
"""

from __future__ import annotations

import ctypes
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

import fusegrad as fg

# Width, batch, layers, calls: steps of about 0.2, 3 and 60 ms.
SIZES = [(96, 64, 4, 300), (256, 256, 6, 300), (512, 1024, 8, 40)]
WARM = 25
CLOCK = time.process_time if "--cpu" in sys.argv else time.perf_counter
UNKNOWN = ctypes.CDLL(None).labs
WAYS = ("an op", "SciPy's function", "an unknown function")


def step_of(width: int, layers: int, way: str) -> Callable[[fg.Tensor], fg.Tensor]:
    """A training step with four numbers in its middle that SciPy makes, or an op, with or without a call."""
    fg.manual_seed(0)
    parts = [part for _ in range(layers) for part in (fg.nn.Linear(width, width), fg.nn.Tanh())]
    net = fg.nn.Sequential(*parts)
    optimizer = fg.optim.SGD(net.parameters(), lr=0.01)

    def step(x: fg.Tensor) -> fg.Tensor:
        h = net(x)
        few = h.mean(0)[:4]
        made = few.detach()
        if way == "SciPy's function":
            made = fg.from_numpy(scipy.special.expit(made.numpy()))
        else:
            made = fg.sigmoid(made)
        if way == "an unknown function":
            UNKNOWN(7)
        loss = (h**2).mean() + (few * made).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def seconds(call: Callable[..., Any], *args: Any) -> float:
    """How long one call takes."""
    start = CLOCK()
    call(*args)
    return CLOCK() - start


def main() -> None:
    """Measure and print."""
    few = np.zeros(4, np.float32)
    print("width | " + " | ".join(f"with {way}, us" for way in WAYS))
    for width, batch, layers, calls in SIZES:
        x = fg.randn(batch, width)
        steps = [fg.jit(step_of(width, layers, way)) for way in WAYS]
        losses = [[step(x).item() for _ in range(WARM)] for step in steps]
        np.testing.assert_allclose(losses, losses[:1] * 3, rtol=1e-4)
        assert all(step.stats.compiled_calls >= WARM - 5 for step in steps), "no replays"
        own = seconds(scipy.special.expit, few), seconds(UNKNOWN, 7)
        found = [[seconds(step, x) for step in steps] for _ in range(calls)]
        plain, *cuts = (statistics.median(column) for column in zip(*found, strict=True))
        times = [cut - less for cut, less in zip(cuts, own, strict=True)]
        shown = (f"{cut * 1e6:.0f} ({cut / plain:.2f} times)" for cut in times)
        print(" | ".join([str(width), f"{plain * 1e6:.0f}", *shown]))


if __name__ == "__main__":
    main()
