"""What a replayed call costs for the values of Python's that it guards: 1, 10 and 100 of each kind.

python benchmarks/guards.py [--json FILE] [--quick]

The functions compute next to nothing, so the time is that of finding the entry, checking the guards, and
handing out the result. Eager reads the same values. The last column is the check of the guards alone.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import harness

import fusegrad as fg
from fusegrad import nn
from fusegrad.compiler.compare.measure import interleaved, seconds_text
from fusegrad.compiler.compare.terminal import print_table

COUNTS = (1, 10, 100)
Function = Callable[[fg.Tensor], fg.Tensor]


class Settings:
    """Numbers that a function looks up by name."""

    value = 0.0


class Scale(nn.Module):
    """A module that reads a number of its own, and the tables that every module has."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = 1.0

    def forward(self, x: fg.Tensor) -> fg.Tensor:
        return x * self.factor


def product(factors: list[str], names: dict[str, Any]) -> Function:
    """A function of `x` that multiplies the values of expressions."""
    file = f"<{len(factors)} factors like {factors[0]}>"
    source = f"def product(x):\n    return x * ({' * '.join(factors)})\n"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)  # where jit reads it
    exec(compile(source, file, "exec", dont_inherit=True), names)
    return names["product"]


def of_attributes(count: int) -> Function:
    settings = Settings()
    for i in range(count):
        setattr(settings, f"value{i}", 1.0)
    return product([f"settings.value{i}" for i in range(count)], {"settings": settings})


def of_globals(count: int) -> Function:
    names = [f"value{i}" for i in range(count)]
    return product(names, dict.fromkeys(names, 1.0))


def of_items(count: int) -> Function:
    table = {f"value{i}": 1.0 for i in range(count)}
    return product([f"table[{name!r}]" for name in table], {"table": table})


def of_objects(count: int) -> Function:
    objects = {f"object{i}": Settings() for i in range(count)}
    for settings in objects.values():
        settings.value = 1.0
    return product([f"{name}.value" for name in objects], dict(objects))


def of_modules(count: int) -> Function:
    return nn.Sequential(*(Scale() for _ in range(count)))


KINDS: dict[str, Callable[[int], Function]] = {
    "attributes of one object": of_attributes,
    "globals": of_globals,
    "items of a dict": of_items,
    "objects, an attribute of each": of_objects,
    "modules": of_modules,
}


def main() -> None:
    options = harness.options("time the guards of a replayed call")
    x = fg.ones(8)
    rows, figures = [], {}
    for kind, make in KINDS.items():
        for count in COUNTS:
            eager = make(count)
            compiled = fg.jit(eager, require="replay")
            for function in (eager, compiled, compiled):
                assert function(x).tolist() == [1.0] * 8
            (entry,) = compiled.entries.values()
            (variant,) = entry.variants
            calls: dict[str, Callable[[], Any]] = {
                "eager": lambda f=eager: f(x),
                "replay": lambda f=compiled: f(x),
                "guards": variant.shared.first_failure,
            }
            assert calls["guards"]() is None
            timings = interleaved(calls, options.repeat)
            times = [timings[name].median for name in calls]
            reads = len(variant.shared.reads)
            each = seconds_text(times[-1] / reads)
            rows.append([f"{count} {kind}", str(reads), *map(seconds_text, times), each])
            figures[f"{count} {kind}"] = {name: t.as_dict() for name, t in timings.items()} | {"reads": reads}
    columns = ["guarded", "reads", "eager", "replay", "of it guards", "a read"]
    print_table("a call on 8 elements", columns, rows)
    harness.save(options.json, {"benchmark": "guards", "guarded": figures})


if __name__ == "__main__":
    main()
