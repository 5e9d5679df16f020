"""What a function of SciPy in the middle of a training step costs: a step with one, and the same with an op.

    python benchmarks/cuts.py

Medians of calls that alternate in one process; what the function takes by itself is taken off.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

import fusegrad as fg

# Width, batch, layers, calls: steps of about 0.2, 3 and 60 ms.
SIZES = [(96, 64, 4, 300), (256, 256, 6, 300), (512, 1024, 8, 40)]
WARM = 25


def step_of(width: int, layers: int, cut: bool) -> Callable[[fg.Tensor], fg.Tensor]:
    """A training step with four numbers in its middle that SciPy makes, or an op."""
    fg.manual_seed(0)
    parts = [part for _ in range(layers) for part in (fg.nn.Linear(width, width), fg.nn.Tanh())]
    net = fg.nn.Sequential(*parts)
    optimizer = fg.optim.SGD(net.parameters(), lr=0.01)

    def step(x: fg.Tensor) -> fg.Tensor:
        h = net(x)
        few = h.mean(0)[:4]
        made = few.detach()
        made = fg.from_numpy(scipy.special.expit(made.numpy())) if cut else fg.sigmoid(made)
        loss = (h**2).mean() + (few * made).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def seconds(call: Callable[..., Any], *args: Any) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    call(*args)
    return time.perf_counter() - start


def main() -> None:
    """Measure and print."""
    few = np.zeros(4, np.float32)
    print("width | with an op, us | with SciPy's function, less its own time, us | times")
    for width, batch, layers, calls in SIZES:
        x = fg.randn(batch, width)
        steps = [fg.jit(step_of(width, layers, cut)) for cut in (False, True)]
        losses = [[step(x).item() for _ in range(WARM)] for step in steps]
        np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)
        assert all(step.stats.compiled_calls >= WARM - 5 for step in steps), "no replays"
        found = [
            (*(seconds(step, x) for step in steps), seconds(scipy.special.expit, few)) for _ in range(calls)
        ]
        plain, cut, own = (statistics.median(column) * 1e6 for column in zip(*found, strict=True))
        print(f"{width} | {plain:.0f} | {cut - own:.0f} | {(cut - own) / plain:.2f}")


if __name__ == "__main__":
    main()
