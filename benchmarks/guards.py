"""What a replayed call costs for the values of Python's that it guards: 1, 10 and 100 attributes.

python benchmarks/guards.py [--json FILE] [--quick]

The function computes next to nothing, so the time is that of finding the entry, checking the guards, and
handing out the result. Eager reads the same attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import harness

import fusegrad as fg
from fusegrad.compiler.measure import interleaved, seconds_text
from fusegrad.compiler.terminal import print_table

COUNTS = (1, 10, 100)


class Settings:
    """Numbers that a function looks up by name."""


def reader(count: int) -> Callable[[fg.Tensor], fg.Tensor]:
    """A function that reads `count` attributes of an object outside."""
    settings = Settings()
    names = [f"value{i}" for i in range(count)]
    for name in names:
        setattr(settings, name, 1.0)

    def read(x: fg.Tensor) -> fg.Tensor:
        scale = 1.0
        for name in names:
            scale *= getattr(settings, name)
        return x * scale

    return read


def main() -> None:
    options = harness.options("time the guards of a replayed call")
    x = fg.ones(8)
    rows, figures = [], {}
    for count in COUNTS:
        eager = reader(count)
        compiled = fg.jit(eager, require="replay")
        calls: dict[str, Callable[[], Any]] = {
            "eager": lambda f=eager: f(x),
            "replay": lambda f=compiled: f(x),
        }
        for call in (*calls.values(), *calls.values()):
            assert call().tolist() == [1.0] * 8
        timings = interleaved(calls, options.repeat)
        rows.append([str(count), *(seconds_text(timings[name].median) for name in calls)])
        figures[str(count)] = {name: timing.as_dict() for name, timing in timings.items()}
    print_table("a call on 8 elements", ["guarded values", "eager", "replay"], rows)
    harness.save(options.json, {"benchmark": "guards", "guarded": figures})


if __name__ == "__main__":
    main()
