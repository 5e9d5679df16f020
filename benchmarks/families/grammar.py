"""Programs drawn from a seed: what nobody chose. Each is text, as a user would have written it in a file.

A program has two to four inputs and 3 to 20 steps, each an elementwise function, a broadcast of two
values, a reduction, a product, or a way of indexing, on shapes drawn from a few extents. What no step
used goes into the loss with the last value. The seed and a number give the text, whatever the library.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import random
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from families.declare import GRADIENTS, Program

EXTENTS = (1, 2, 3, 5, 8, 16, 33, 64, 100, 257, 1000)
LARGEST = 200_000  # elements of a value
WIDTHS = (1, 2, 3, 4, 8, 16, 64)
UNARY = (
    *(
        "ops.tanh({x})",
        "ops.sin({x})",
        "ops.sigmoid({x})",
        "ops.relu({x})",
        "ops.gelu({x})",
        "ops.softplus({x})",
    ),
    *("ops.exp(-{x} * {x})", "{x} / (1 + ops.abs({x}))", "ops.sqrt({x} * {x} + 1)", "ops.log1p({x} * {x})"),
    *("0.5 * {x} + 1", "ops.cos({x}) * {x}", "ops.where({x} > 0, {x}, 0.1 * {x})", "ops.atan({x})"),
)
BINARY = (
    *("{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / (1 + {y} * {y})", "ops.maximum({x}, {y})"),
    *("ops.where({x} > {y}, {x}, {y} * 0.5)", "ops.hypot({x}, {y} + 3)", "ops.logaddexp({x}, {y})"),
)
REDUCTIONS = (
    *("ops.mean({x}, dim={d}{k})", "ops.amax({x}, dim={d}{k})", "ops.logsumexp({x}, dim={d}{k})"),
    *("ops.sum({x}, dim={d}{k}) / {n} ** 0.5", "ops.var({x}, dim={d}, correction=0{k})"),
)
KEEPING = (
    "ops.softmax({x}, dim={d})",
    "ops.cumsum({x}, dim={d}) / {n}",
    "{x} - ops.mean({x}, dim={d}, keepdim=True)",
)
MOVING = ("ops.flip({x}, ({d},))", "ops.roll({x}, {s}, {d})")


@dataclass
class Writer:
    """A program while it is drawn: its inputs, its lines, and the shapes of its values."""

    choose: random.Random
    inputs: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    unused: list[str] = field(default_factory=list)

    def input(self, shape: tuple[int, ...], make: str = "draw.normal") -> str:
        """A new input, made by a method of the draw."""
        name = f"x{len(self.arguments)}"
        self.arguments.append(name)
        self.inputs.append(f"{make}({', '.join(map(str, shape))})")
        if make == "draw.normal":
            self.shapes[name] = shape
            self.unused.append(name)
        return name

    def value(self, text: str, shape: tuple[int, ...], *sources: str) -> None:
        """A new value, computed from others."""
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        self.shapes[name] = shape
        self.unused = [other for other in self.unused if other not in sources] + [name]

    def pick(self) -> str:
        """A value to go on with: mostly one that nobody used."""
        if self.unused and self.choose.random() < 0.75:
            return self.choose.choice(self.unused)
        return self.choose.choice(sorted(self.shapes))

    def step(self) -> None:
        """One more line, of a kind that fits a value."""
        x = self.pick()
        kinds = (self.unary, self.binary, self.reduction, self.along, self.product, self.indexing)
        self.choose.choices(kinds, weights=(5, 5, 3, 2, 2, 3))[0](x, self.shapes[x])

    def unary(self, x: str, shape: tuple[int, ...]) -> None:
        self.value(self.choose.choice(UNARY).format(x=x), shape, x)

    def binary(self, x: str, shape: tuple[int, ...]) -> None:
        others = [(y, broadcast(shape, there)) for y, there in sorted(self.shapes.items()) if y != x]
        fitting = [(y, found) for y, found in others if found is not None]
        if not fitting:
            row = shape[self.choose.randrange(len(shape)) :] if shape else ()
            fitting = [(self.input(row), shape)]
        y, found = self.choose.choice(fitting)
        self.value(self.choose.choice(BINARY).format(x=x, y=y), found, x, y)

    def reduction(self, x: str, shape: tuple[int, ...]) -> None:
        if not shape:
            return self.unary(x, shape)
        d, keep = self.choose.randrange(len(shape)), self.choose.random() < 0.6
        left = (*shape[:d], *([1] if keep else []), *shape[d + 1 :])
        text = self.choose.choice(REDUCTIONS)
        self.value(text.format(x=x, d=d, n=shape[d], k=", keepdim=True" if keep else ""), left, x)

    def along(self, x: str, shape: tuple[int, ...]) -> None:
        if not shape:
            return self.unary(x, shape)
        d = self.choose.randrange(len(shape))
        self.value(self.choose.choice(KEEPING).format(x=x, d=d, n=shape[d]), shape, x)

    def product(self, x: str, shape: tuple[int, ...]) -> None:
        if len(shape) < 2:
            return self.binary(x, shape)
        width = self.choose.choice(WIDTHS)
        w = self.input((shape[-1], width))
        self.value(f"{x} @ {w} / {shape[-1]} ** 0.5", (*shape[:-1], width), x, w)

    def indexing(self, x: str, shape: tuple[int, ...]) -> None:
        long = [d for d, extent in enumerate(shape) if extent > 1]
        if not long:
            return self.unary(x, shape)
        d = self.choose.choice(long)
        kind, extent = self.choose.randrange(6), shape[d]
        before = ":, " * d
        if kind == 0:
            self.value(f"{x}[{before}1:]", (*shape[:d], extent - 1, *shape[d + 1 :]), x)
        elif kind == 1:
            self.value(f"{x}[{before}::2]", (*shape[:d], (extent + 1) // 2, *shape[d + 1 :]), x)
        elif kind == 2:
            count = self.choose.choice([e for e in EXTENTS if e <= 2 * extent])
            index = self.input((extent, count), "draw.integers")
            self.value(f"ops.index_select({x}, {d}, {index})", (*shape[:d], count, *shape[d + 1 :]), x)
        elif kind == 3 and len(shape) > 1:
            self.value(f"ops.transpose({x}, -1, -2)", (*shape[:-2], shape[-1], shape[-2]), x)
        elif kind == 4:
            mask = self.input(shape, "draw.mask")
            self.value(f"ops.where({mask}, {x}, 0.25)", shape, x)
        else:
            shift = self.choose.randrange(1, extent)
            self.value(self.choose.choice(MOVING).format(x=x, d=d, s=shift), shape, x)

    def text(self) -> str:
        """The whole program."""
        rest = [f"0.1 * ops.mean({name})" for name in self.unused if name != self.last()]
        loss = " + ".join([f"ops.mean(ops.square({self.last()}))", *rest])
        body = "\n".join(f"        {line}" for line in [*self.lines, f"return {loss}"])
        inputs = ", ".join(self.inputs)
        return (
            f"def build(ops, draw):\n    def loss({', '.join(self.arguments)}):\n{body}\n\n"
            f"    return loss, [{inputs}]\n"
        )

    def last(self) -> str:
        return f"v{len(self.lines) - 1}"


def broadcast(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape of two values together, None where they do not fit or are too large."""
    rank = max(len(one), len(other))
    pairs = zip((1,) * (rank - len(one)) + one, (1,) * (rank - len(other)) + other, strict=True)
    found, size = [], 1
    for a, b in pairs:
        if a != b and 1 not in (a, b):
            return None
        found.append(max(a, b))
        size *= found[-1]
    return tuple(found) if size <= LARGEST else None


def text_of(seed: int, number: int) -> tuple[str, str]:
    """A drawn program's text and dtype."""
    choose = random.Random(f"families {seed} {number}")
    writer = Writer(choose)
    while True:
        shape = tuple(choose.choice(EXTENTS) for _ in range(choose.choice((1, 2, 2, 2, 3))))
        if functools.reduce(lambda a, b: a * b, shape) <= LARGEST // 2:
            break
    writer.input(shape)
    writer.input(shape if choose.random() < 0.4 else shape[choose.randrange(len(shape)) :])
    if choose.random() < 0.4:
        writer.input(())
    for _ in range(choose.randint(3, 20)):
        writer.step()
    return writer.text(), choose.choice(("float32", "float32", "float32", "float64"))


@functools.cache
def folder() -> Path:
    """Where this process keeps the texts: files, as users' programs are, which a jit can read."""
    made = Path(tempfile.mkdtemp(prefix="fusegrad-drawn-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@functools.cache
def program(seed: int, number: int) -> Program:
    """The drawn program of a seed and a number."""
    text, dtype = text_of(seed, number)
    name = f"drawn/seed{seed}/{number:03}/{dtype}"

    def build(ops: Any, draw: Any) -> tuple[Any, ...]:
        path = folder() / f"seed{seed}_{number:03}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.build(ops, draw)

    build.text = text  # type: ignore[attr-defined]
    return Program(name, "drawn", build, {}, dtype, GRADIENTS, 1.0, (), "")
