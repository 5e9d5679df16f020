"""What a library does in a call: a graph goes in; native functions, their blocks and where all lies come out.

The steps are those of any program of the compiler (`compiler/program`). Everything a step needs from
outside is refused: what only NumPy can compute, loops that Python leads, LAPACK. Products are our own
kernel's, also where a process would go to BLAS.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from fusegrad.compiler.base.solver_ops import Solver
from fusegrad.compiler.codegen.functions import module_text
from fusegrad.compiler.codegen.kernel_cache import kernel_name
from fusegrad.compiler.gemm import matmul
from fusegrad.compiler.llvm.target import Target, host
from fusegrad.compiler.placement.memory_plan import PLAIN, Placed
from fusegrad.compiler.placement.symbolic_memory_plan import Blueprint
from fusegrad.compiler.program.program import Program
from fusegrad.compiler.runtime.allocator import aligned
from fusegrad.eager.core.families import View, contiguous_layout
from fusegrad.eager.core.op import REGISTRY
from fusegrad.tracer.export.files import ExportError
from fusegrad.tracer.export.program import Program as Exported, guard_text
from fusegrad.tracer.ir.graph import GUARD, Equation, Graph, Value, source_text
from fusegrad.tracer.ir.passes import optimise

clone_op = REGISTRY["clone"]


class Code(IntEnum):
    """What a library's function gives."""

    OK = 0
    NO_MEMORY = 1
    REFUSED = 2
    NO_ADDRESS = 3
    OTHER_MACHINE = 4


MEANINGS = {
    Code.OK: "the results are there",
    Code.NO_MEMORY: "there is no memory for the call",
    Code.REFUSED: "an index is out of range, or something else of which eager would raise an error",
    Code.NO_ADDRESS: "an address is null",
    Code.OTHER_MACHINE: "the processor, or the system, lacks the instructions",
}


class NativeStep(NamedTuple):
    """A call of a native function of (slots, block)."""

    symbol: str
    block: list[int]


class Result(NamedTuple):
    """A result: the array that it is in, from which byte on, and how many there are.

    direct: whether that array is the caller's memory; otherwise it is copied there in the end.
    """

    value: Value
    array: int
    start: int
    size: int
    direct: bool


class Check(NamedTuple):
    """What must be in an array after a run, or the function refuses."""

    array: int
    start: int
    dtype: np.dtype[Any]
    expected: int


class Plan(NamedTuple):
    """What a library does.

    inputs: of the graph, arrays 0 and on; arguments: those that a call gives. own: of arrays that are neither
    inputs nor the caller's, where they lie in a call's memory, of `memory` bytes; the arena of the steps is
    its first part. texts: LLVM IR that has the functions.
    """

    inputs: tuple[Value, ...]
    arguments: tuple[Value, ...]
    arrays: int
    steps: list[NativeStep]
    results: list[Result]
    checks: list[Check]
    own: dict[int, int]
    memory: int
    texts: list[str]
    kernels: list[str]
    target: Target


class _Laid(Placed):
    """A program in memory of which nothing is compiled."""

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint, self.sizes, self.arrays, self.batches = blueprint, PLAIN, blueprint.arrays, []
        self._place_arena()

    def block(self, number: int) -> list[int]:
        """That of a kernel."""
        form, step = self.blueprint.forms[number], self.blueprint.steps[number]
        assert form is not None
        scratch = len(self.arrays) + 1, self.offsets.get(step, 0)
        return form.block(PLAIN, self._place, scratch, 0)

    def product(self, number: int) -> list[int]:
        """That of a matrix product."""
        return self._product_use(number, None).block


def plan(exported: Exported) -> Plan:
    """How a library computes what was captured. Raises ExportError for what it cannot."""
    guards = exported.open_guards("branch")
    if guards:
        listed = "".join(f"\n  - {g}" for g in dict.fromkeys(map(guard_text, guards)))
        raise ExportError(
            f"export: {exported.name} branches on data, of which a library has one side alone:{listed}\n"
            "  write it with where(), or export it as .py"
        )
    graph, expected = _without_guards(exported)
    outputs = [v for v in dict.fromkeys(graph.outputs) if isinstance(v, Value)]
    results = {v: contiguous_layout(v.shape) for v in outputs}
    program = Program(graph, results=results, streams=False).arrange()
    laid, target = _Laid(program.blueprint), host()
    texts: dict[str, str] = {}
    steps, kernels = _steps(program, laid, target, texts)
    own, memory = {}, aligned(laid.arena_bytes)
    count = len(program.graph.outputs) - len(expected)
    found: list[Result] = []
    for value in program.graph.outputs[:count]:
        if isinstance(value, Value):
            array, start = _place(program, value)
            taken = {result.array for result in found if result.direct}
            direct = array >= len(graph.inputs) and array not in taken and start == 0
            found.append(Result(value, array, start, math.prod(value.shape) * value.dtype.itemsize, direct))
    taken = {result.array for result in found if result.direct}
    for value, array in laid.arrays.items():
        if array >= len(graph.inputs) and array not in taken:
            own[array] = memory
            memory += aligned(max(1, math.prod(value.shape)) * value.dtype.itemsize)
    checks = [Check(laid.arrays[v], 0, v.dtype, 1) for v in program.checks]
    for value, right in zip(program.graph.outputs[count:], expected, strict=True):
        checks.append(Check(*_place(program, value), value.dtype, right))
    return Plan(
        graph.inputs,
        exported.arguments,
        len(laid.arrays),
        steps,
        found,
        checks,
        own,
        memory,
        [*texts.values()],
        kernels,
        target,
    )


def _without_guards(exported: Exported) -> tuple[Graph, list[int]]:
    """The graph in words of the compiler, its results in rows; what is asked stands behind the results among
    its outputs, and then what that must be.
    """
    equations, asked = [], []
    for equation in exported.graph.equations:
        if equation.op is not GUARD:
            equations.append(equation)
        elif equation.params["kind"] == "check" and isinstance(equation.inputs[0], Value):
            asked.append(equation)
    outputs = (*exported.graph.outputs, *(guard.inputs[0] for guard in asked))
    graph = optimise(Graph(exported.graph.inputs, tuple(equations), outputs))
    views = {v for e in graph.equations if isinstance(e.op, View) for v in e.outputs}
    copies = {v: Value(f"{v.name}_in_rows", v.type) for v in graph.outputs if v in views}
    copied = [Equation(clone_op, (value,), {}, (copy,)) for value, copy in copies.items()]
    outputs = tuple(copies.get(v, v) if isinstance(v, Value) else v for v in graph.outputs)
    graph = Graph(graph.inputs, (*graph.equations, *copied), outputs)
    return graph, [_expected(exported, guard) for guard in asked]


def _expected(exported: Exported, guard: Equation) -> int:
    """What a guard's value must be, as a whole number."""
    expected = guard.params["expected"]
    if type(expected) not in (bool, int):
        raise ExportError(
            f"export: {exported.name} asks if a number that it computes is {expected!r}, which no library "
            f"does: {guard_text(guard)}; export it as .py"
        )
    return int(expected)


def _place(program: Program, value: Value) -> tuple[int, int]:
    """Where a result is after a run: its array, and from which byte on."""
    layout = program.sources.layout(value)
    assert layout is not None and layout.strides == contiguous_layout(value.shape).strides, "it lies in rows"
    return program.arrays[program.sources.base(value)], layout.offset * value.dtype.itemsize


def _steps(
    program: Program, laid: _Laid, target: Target, texts: dict[str, str]
) -> tuple[list[NativeStep], list[str]]:
    """The calls, in order, and the texts of kernels; adds LLVM IR to `texts`, by symbol."""
    steps, kernels, products = [], {}, dict[str, list[list[int]]]()
    blueprint = laid.blueprint
    for number, step in enumerate(blueprint.steps):
        form, equation = blueprint.forms[number], step.equations[0]
        if step.kind == "solver":
            use = laid._solver_use(number)
            if use.written is None:
                raise _refusal(equation, "is LAPACK's to compute")
            symbol, text = use.written()
            texts[symbol] = text
            steps.append(NativeStep(symbol, use.block))
        elif form is not None:
            if any(form.counts):
                symbol = kernel_name(form.kernel)
                if symbol not in texts:
                    texts[symbol] = module_text(form.kernel, symbol, target)
                    kernels[symbol] = form.kernel.text
                steps.append(NativeStep(symbol, laid.block(number)))
        elif step.kind == "product":
            name, block = equation.output.dtype.name, laid.product(number)
            products.setdefault(name, []).append(block)
            steps.append(NativeStep(f"product_{name}", block))
        else:
            loop = equation.op.family == "rolled"
            raise _refusal(
                equation, "is a loop that Python leads" if loop else "has no native code, only NumPy's"
            )
    for name, blocks in products.items():
        texts[f"product_{name}"] = matmul.own_text(f"product_{name}", np.dtype(name), blocks)
    return steps, [*kernels.values()]


def _refusal(equation: Equation, why: str) -> ExportError:
    said = ", as other linear algebra" if isinstance(equation.op, Solver) else ""
    name = equation.params.get("call", equation.op.name)
    return ExportError(
        f"export: {name} {why}{said}; a library has native code alone: {source_text(equation.source)}"
    )
