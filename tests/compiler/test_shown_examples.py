"""The examples in the docstrings of modules that plan and fuse: what they show is what comes out.

Each function gives the lines of its module's example, before and after; blanks do not count. Where a module
changes what it makes of an example, its docstring is to say so.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest

import fusegrad as fg
from fusegrad.compiler.fuse.concatenation import join_kernel
from fusegrad.compiler.fuse.iteration_domain import Sources, analyse
from fusegrad.compiler.fuse.loop_nests import Nest
from fusegrad.compiler.fuse.pooling_nests import spread_kernel
from fusegrad.compiler.fuse.scatters import scatter_kernel
from fusegrad.compiler.placement import batch_tiling, nontemporal_stores
from fusegrad.compiler.program.donation import in_place
from fusegrad.compiler.program.program import Program
from fusegrad.compiler.runtime import threads
from fusegrad.tracer.ir.graph import Graph
from fusegrad.tracer.ir.text import parse_graph

EXAMPLES: dict[str, Callable[[], Iterable[str]]] = {}


def example(module: str) -> Callable[[Callable[[], Iterable[str]]], None]:
    def note(lines: Callable[[], Iterable[str]]) -> None:
        EXAMPLES[module] = lines

    return note


def graph_of(arguments: str, equations: str, result: str) -> Graph:
    """A graph of these equations, which end with `result`."""
    body = "".join(f"    {line.strip()}\n" for line in equations.strip().splitlines())
    name, _, kind = result.partition(": ")
    return parse_graph(f"def graph({arguments}) -> tuple[{kind}]:\n{body}    return ({name},)\n")


def equations_of(graph: Any) -> list[str]:
    """The lines of a graph without those around them, and without the user's lines."""
    return [line.partition("  #")[0].rstrip() for line in str(graph).splitlines()[1:-1]]


def body_of(text: str) -> list[str]:
    """The lines of a kernel without its head."""
    return text.splitlines()[1:]


def as_written(line: str) -> str:
    """Without blanks, and without a parameter that docstrings leave out."""
    return re.sub(r"\s+", "", line.replace(", keepdim=False", ""))


# Kernels.


@example("fuse.build_kernel")
def reduction() -> Iterable[str]:
    graph = graph_of(
        "x: f32[6, 40]",
        "v0: f32[6, 40] = mul(x, 2)\nv1: f32[6] = sum(v0, dim=(1,), keepdim=False)",
        "v1: f32[6]",
    )
    (kernel,) = Program(graph).kernels
    return [*equations_of(graph), *body_of(kernel.kernel.text)]


@example("fuse.scans")
def scan() -> Iterable[str]:
    graph = graph_of("x: f32[6, 40]", "v0: f32[6, 40] = cumsum(x, dim=0)", "v0: f32[6, 40]")
    (kernel,) = Program(graph).kernels
    return [*equations_of(graph), *body_of(kernel.kernel.text)]


@example("fuse.concatenation")
def joined() -> Iterable[str]:
    graph = graph_of("x: f32[6, 3], y: f32[6, 4]", "v0: f32[6, 7] = cat(x, y, dim=1)", "v0: f32[6, 7]")
    return [*equations_of(graph), *body_of(join_kernel(graph.equations[0], Sources(graph)).kernel.text)]


@example("fuse.gathers")
def gathered() -> Iterable[str]:
    graph = graph_of("x: f32[6, 40], i: i64[6, 1]", "v0: f32[6, 1] = gather(x, i, dim=1)", "v0: f32[6, 1]")
    program = Program(graph)
    (fetch,) = (line for line in equations_of(program.graph) if "fetch" in line)
    (kernel,) = program.kernels
    # The rest is what says that all indices are in range.
    return [fetch, *(line for line in body_of(kernel.kernel.text) if re.match(r"\s+t\d = ", line))]


@example("fuse.scatters")
def scattered() -> Iterable[str]:
    graph = graph_of(
        "x: f32[40], s: f32[6], i: i64[6]",
        "v0: f32[40] = scatter(x, s, i, dim=0, accumulate=True)",
        "v0: f32[40]",
    )
    return [
        *equations_of(graph),
        *body_of(scatter_kernel(graph.equations[0], None, Sources(graph)).kernel.text),
    ]


@example("fuse.pooling_nests")
def pooled() -> Iterable[str]:
    graph = graph_of(
        "g: f32[2, 7]",
        "v0: f32[2, 8] = avg_pool_spread(g, size=(8,), window=((2, 1, 0, 1),), include=True, divisor=1)",
        "v0: f32[2, 8]",
    )
    return [*equations_of(graph), *body_of(spread_kernel(graph.equations[0], Sources(graph)).kernel.text)]


@example("fuse.loop_nests")
def written() -> Iterable[str]:
    graph = graph_of(
        "x: f32[6, 40]", "v0: f32[40, 6] = full(shape=(40, 6), value=0, dtype=f32)", "v0: f32[40, 6]"
    )
    nest = Nest(Sources(graph))
    rows, columns = nest.axis(6), nest.axis(40)
    source = nest.input(graph.inputs[0], [rows, columns])
    target = nest.output(graph.equations[0].output, [columns, rows])
    with nest.loop([rows], "parallel"), nest.loop([columns], "vector"):
        nest.store(target, nest.load(source))
    return nest.bound().kernel.text.splitlines()


@example("fuse.iteration_domain")
def axes() -> Iterable[str]:
    graph = graph_of(
        "x: f32[6, 40], y: f32[40, 6]",
        """v0: f32[6, 40] = permute(y, dims=(1, 0))
        v1: f32[6, 40] = mul(x, v0)
        v2: f32[40] = sum(v1, dim=(0,), keepdim=False)""",
        "v2: f32[40]",
    )
    domain = analyse(graph.equations[1:], Sources(graph))
    assert domain is not None
    lines = equations_of(graph)
    lines += [f"{value.name}: {dims}" for value, dims in domain.members.items()]
    return [*lines, *(f"{use.base.name}: {use.strides}" for use in domain.uses.values() if not use.member)]


# Memory.

CHAIN = """
v0: f32[64, 64] = matmul(x, w)
v1: f32[64, 64] = tanh(v0)
v2: f32[64, 64] = matmul(v1, w)
v3: f32[64, 64] = matmul(v2, w)
v4: f32[64, 64] = exp(v3)
"""


@example("placement.memory_plan")
def placed() -> Iterable[str]:
    program = Program(graph_of("x: f32[64, 64], w: f32[64, 64]", CHAIN, "v4: f32[64, 64]")).finish()
    plan = program.placed()
    for step, equation in zip(program.steps, equations_of(program.graph), strict=True):
        value = step.equations[0].output
        start = plan.offsets.get(value)
        size = 4 * 64 * 64
        where = f"array {program.arrays[value]}" if start is None else f"arena[{start}:{start + size}]"
        yield f"{equation} {where}"


@example("placement.symbolic_memory_plan")
def planned() -> Iterable[str]:
    jitted = fg.jit(lambda x, w: fg.exp(fg.tanh(x @ w) @ w @ w))
    weight = fg.ones(16, 16)
    for n in (5, 6, 7, 8, 9):
        jitted(fg.ones(n, 16), weight)
    (blueprint,) = {
        id(s.code.program.blueprint): s.code.program
        for s in jitted.segments()
        if "<" in str(s.code.program.graph)
    }.values()
    for equation, rooms in zip(equations_of(blueprint.graph), blueprint.blueprint.rooms, strict=True):
        text = equation
        for room in rooms:
            if room.form is None:
                over = f", over {room.over.name}" if room.over is not None else ""
                text += f" {room.size} bytes, to step {room.until}{over}"
        yield (
            re.sub(r"<\(?(.*?)\)?>", r"\1", re.sub(r"n\d+_\d+", "n", text))
            .replace("x0", "x")
            .replace("x1", "w")
        )


@example("placement.kernel_arguments")
def block() -> Iterable[str]:
    graph = graph_of(
        "x: f32[6, 40]",
        "v0: f32[6, 40] = mul(x, 2)\nv1: f32[6] = sum(v0, dim=(1,), keepdim=False)",
        "v1: f32[6]",
    )
    program = Program(graph).finish()
    (use,) = program.placed()._uses(0, None)
    return [program.kernels[0].kernel.text.splitlines()[0].removesuffix(":"), str(use.block)]


@example("placement.batch_tiling")
def batch() -> Iterable[str]:
    graph = graph_of(
        "q: f32[8, 32, 16], k: f32[8, 16, 32], v: f32[8, 32, 16]",
        """v0: f32[8, 32, 32] = matmul(q, k)
        v1: f32[8, 32, 32] = exp(v0)
        v2: f32[8, 32, 16] = matmul(v1, v)""",
        "v2: f32[8, 32, 16]",
    )
    (batch,) = Program(graph).finish().placed().batches
    own = [f"{value.name} in [{start}:{start + size}]" for value, (start, size) in batch.own.items()]
    return [*equations_of(graph), f"steps {batch.first} to {batch.last - 1}, {batch.entries} times", *own]


@example("placement.nontemporal_stores")
def streamed() -> Iterable[str]:
    graph = graph_of("x: f32[67108864]", "v0: f32[67108864] = mul(x, 2)", "v0: f32[67108864]")
    program = Program(graph).finish()
    (kernel,) = program.placed().streaming.values()
    return [*program.kernels[0].kernel.text.splitlines(), kernel.text.splitlines()[0]]


@example("program.donation")
def donated() -> Iterable[str]:
    graph = graph_of(
        "w: f32[1000], g: f32[1000]",
        "v0: f32[1000] = mul(g, 0.1)\nv1: f32[1000] = sub(w, v0)",
        "v1: f32[1000]",
    )
    program = Program(graph)
    given = in_place(program, [(graph.outputs[0], graph.inputs[0])])  # type: ignore[list-item]
    named = {made.name: target.name for made, target in given.items()}
    return [*equations_of(graph), *body_of(program.kernels[0].kernel.text), f"{named}"]


@pytest.mark.parametrize("module", EXAMPLES)
def test_docstrings_show_what_comes_out(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_tiling, "WORTH", 1)
    monkeypatch.setattr(threads, "cores", lambda: 2)
    monkeypatch.setattr(nontemporal_stores, "host", lambda: type("Host", (), {"cache_bytes": 1 << 25}))
    said = as_written(importlib.import_module(f"fusegrad.compiler.{module}").__doc__ or "")
    for line in EXAMPLES[module]():
        assert as_written(line) in said, line


if __name__ == "__main__":
    for name, lines in EXAMPLES.items():
        print(f"{name}:")
        print(*lines(), sep="\n", end="\n\n")
