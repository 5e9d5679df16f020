"""What a library does where nothing branches: a graph goes in; native functions, their blocks and where all
lies come out.

The steps are those of any program of the compiler (`compiler/program`). Everything a step needs from
outside is refused: what only NumPy can compute, and LAPACK. Products are our own
kernel's, also where a process would go to BLAS.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from fusegrad.compiler.base.solver_ops import Solver
from fusegrad.compiler.codegen.functions import module_text
from fusegrad.compiler.codegen.kernel_cache import kernel_name
from fusegrad.compiler.gemm import matmul
from fusegrad.compiler.gemm.native_call import TASKS
from fusegrad.compiler.library.size_code import bits
from fusegrad.compiler.llvm.target import host
from fusegrad.compiler.placement.memory_plan import PLAIN, Placed
from fusegrad.compiler.placement.symbolic_memory_plan import Blueprint, Room
from fusegrad.compiler.program.program import Program
from fusegrad.compiler.runtime.allocator import aligned
from fusegrad.eager.core.families import View, contiguous_layout
from fusegrad.eager.core.op import REGISTRY
from fusegrad.eager.core.sizes import has_symbols
from fusegrad.tracer.export.files import ExportError
from fusegrad.tracer.export.program import guard_text
from fusegrad.tracer.ir.graph import GUARD, Equation, Graph, Value, source_text
from fusegrad.tracer.ir.passes import optimise
from fusegrad.tracer.ir.symbolic_sizes import largest

clone_op = REGISTRY["clone"]


class Code(IntEnum):
    """What a library's function gives."""

    OK = 0
    NO_MEMORY = 1
    REFUSED = 2
    NO_ADDRESS = 3
    OTHER_MACHINE = 4
    OTHER_SIZES = 5


MEANINGS = {
    Code.OK: "the results are there",
    Code.NO_MEMORY: "there is no memory for the call",
    Code.REFUSED: "an index is out of range, or something else of which eager would raise an error",
    Code.NO_ADDRESS: "an address is null",
    Code.OTHER_MACHINE: "the processor, or the system, lacks the instructions",
    Code.OTHER_SIZES: "it was not compiled for these sizes",
}


class NativeStep(NamedTuple):
    """A call of a native function of (slots, block). Of open sizes there are expressions in the block.

    is_shared: whether several threads may share it.
    """

    symbol: str
    block: list[Any]
    is_shared: bool


class Result(NamedTuple):
    """A result: the array that it is in, from which byte on, and how many there are.

    direct: whether that array is the caller's memory; otherwise it is copied there in the end.
    """

    value: Value
    array: int
    start: Any
    size: Any
    direct: bool


class Check(NamedTuple):
    """What must be in an array after a run, or the function refuses."""

    array: int
    start: Any
    dtype: np.dtype[Any]
    expected: int


class Plan(NamedTuple):
    """What a stretch does.

    inputs: of the graph, arrays 0 and on. own: of arrays that are neither inputs nor the caller's, where they
    lie in a call's memory, of `memory` bytes; the arena of the steps is its first part.
    """

    inputs: tuple[Value, ...]
    arrays: int
    steps: list[NativeStep]
    results: list[Result]
    checks: list[Check]
    own: dict[int, Any]
    memory: Any


class Functions:
    """The native functions that plans call, each once."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._products: dict[str, list[list[Any]]] = {}

    def have(self, symbol: str, text: Callable[[], str]) -> str:
        """The symbol of a function, whose LLVM IR is asked for if there is none of that name."""
        if symbol not in self._texts:
            self._texts[symbol] = text()
        return symbol

    def product(self, dtype: str, block: list[Any]) -> str:
        """The symbol of the function for matrix products of a dtype, of which this is one."""
        self._products.setdefault(dtype, []).append(block)
        return f"product_{dtype}"

    def texts(self) -> list[str]:
        """LLVM IR that has the functions."""
        products = [
            matmul.own_text(f"product_{name}", np.dtype(name), blocks)
            for name, blocks in self._products.items()
        ]
        return [*self._texts.values(), *products]


class _Laid(Placed):
    """A program in memory of which nothing is compiled. Where sizes are open, numbers are expressions."""

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint, self.sizes, self.arrays, self.batches = blueprint, PLAIN, blueprint.arrays, []
        rooms = [room for step in blueprint.rooms for room in step]
        if any(has_symbols((self._bytes(room),)) for room in rooms):
            self._place_open_arena()
        else:
            self._place_arena()

    def _bytes(self, room: Room) -> Any:
        return room.size if room.form is None else room.form.scratch_bytes(PLAIN)

    def _place_open_arena(self) -> None:
        """Offsets in the arena, where what lives no more leaves its place to what has the same size."""
        self.offsets: dict[Any, Any] = {}
        self.arena_bytes: Any = 0
        free: dict[str, list[Any]] = {}
        lives: dict[Any, tuple[int, str]] = {}  # by offset, the last step, and the size
        for number, rooms in enumerate(self.blueprint.rooms):
            for offset, (until, size) in [*lives.items()]:
                if until < number:
                    free.setdefault(size, []).append(offset)
                    del lives[offset]
            for room in rooms:
                bytes_, size = self._bytes(room), str(self._bytes(room))
                if type(bytes_) is int and not bytes_:
                    continue
                if room.over in self.offsets:
                    offset = self.offsets[room.over]
                    size = lives[offset][1]
                elif free.get(size):
                    offset = free[size].pop()
                else:
                    offset, self.arena_bytes = self.arena_bytes, self.arena_bytes + aligned(bytes_)
                self.offsets[room.key], lives[offset] = offset, (room.until, size)

    def block(self, number: int) -> list[Any]:
        """That of a kernel."""
        form, step = self.blueprint.forms[number], self.blueprint.steps[number]
        assert form is not None
        scratch = len(self.arrays) + 1, self.offsets.get(step, 0)
        return form.block(PLAIN, self._place, scratch, 0, bits)

    def product(self, number: int) -> list[Any]:
        """That of a matrix product."""
        layouts = self.blueprint.layouts[number]
        assert layouts is not None
        if not has_symbols(layouts):
            return self._product_use(number, None).block
        (equation,) = self.blueprint.steps[number].equations
        values = map(self.blueprint.sources.base, (*equation.values(), equation.output))
        return matmul.whole_block(*layouts, equation.output.dtype.itemsize, [*map(self._place, values)])


def plan(name: str, whole: Graph, functions: Functions) -> Plan:
    """How a library computes a graph of one that was exported as `name`; its native functions join others.

    Raises ExportError for what it cannot compute.
    """
    graph, expected = _without_guards(name, whole)
    outputs = [v for v in dict.fromkeys(graph.outputs) if isinstance(v, Value)]
    results = {v: contiguous_layout(v.shape) for v in outputs}
    program = Program(graph, results=results, streams=False).arrange()
    laid = _Laid(program.blueprint)
    steps = [step for n in range(len(laid.blueprint.steps)) if (step := _step(laid, n, functions))]
    own, memory = {}, aligned(laid.arena_bytes)
    count = len(program.graph.outputs) - len(expected)
    found: list[Result] = []
    for value in program.graph.outputs[:count]:
        if isinstance(value, Value):
            array, start = _place(program, value)
            taken = {result.array for result in found if result.direct}
            direct = array >= len(graph.inputs) and array not in taken and type(start) is int and not start
            found.append(Result(value, array, start, math.prod(value.shape) * value.dtype.itemsize, direct))
    taken = {result.array for result in found if result.direct}
    for value, array in laid.arrays.items():
        if array >= len(graph.inputs) and array not in taken:
            own[array] = memory
            memory += aligned(largest(1, math.prod(value.shape)) * value.dtype.itemsize)
    checks = [Check(laid.arrays[v], 0, v.dtype, 1) for v in program.checks]
    for value, right in zip(program.graph.outputs[count:], expected, strict=True):
        checks.append(Check(*_place(program, value), value.dtype, right))
    return Plan(graph.inputs, len(laid.arrays), steps, found, checks, own, memory)


def _without_guards(name: str, whole: Graph) -> tuple[Graph, list[int]]:
    """The graph in words of the compiler, its results in rows; what is asked stands behind the results among
    its outputs, and then what that must be.
    """
    equations, asked = [], []
    for equation in whole.equations:
        if equation.op is not GUARD:
            equations.append(equation)
        elif equation.params["kind"] == "check" and isinstance(equation.inputs[0], Value):
            asked.append(equation)
    outputs = (*whole.outputs, *(guard.inputs[0] for guard in asked))
    graph = optimise(Graph(whole.inputs, tuple(equations), outputs))
    views = {v for e in graph.equations if isinstance(e.op, View) for v in e.outputs}
    copies = {v: Value(f"{v.name}_in_rows", v.type) for v in graph.outputs if v in views}
    copied = [Equation(clone_op, (value,), {}, (copy,)) for value, copy in copies.items()]
    outputs = tuple(copies.get(v, v) if isinstance(v, Value) else v for v in graph.outputs)
    graph = Graph(graph.inputs, (*graph.equations, *copied), outputs)
    return graph, [_expected(name, guard) for guard in asked]


def _expected(name: str, guard: Equation) -> int:
    """What a guard's value must be, as a whole number."""
    expected = guard.params["expected"]
    if type(expected) not in (bool, int):
        raise ExportError(
            f"export: {name} asks if a number that it computes is {expected!r}, which no library "
            f"does: {guard_text(guard)}; export it as .py"
        )
    return int(expected)


def _place(program: Program, value: Value) -> tuple[int, Any]:
    """Where a result is after a run: its array, and from which byte on."""
    layout = program.sources.layout(value)
    assert layout is not None and layout.strides == contiguous_layout(value.shape).strides, "it lies in rows"
    return program.arrays[program.sources.base(value)], layout.offset * value.dtype.itemsize


def _step(laid: _Laid, number: int, functions: Functions) -> NativeStep | None:
    """The call that a step is; None where there is nothing to compute."""
    step, form = laid.blueprint.steps[number], laid.blueprint.forms[number]
    equation = step.equations[0]
    if step.kind == "solver":
        use = laid._solver_use(number)
        if use.written is None:
            raise refusal(equation, "is LAPACK's to compute")
        symbol, text = use.written()
        return NativeStep(functions.have(symbol, lambda: text), use.block, has_several(use.block[TASKS]))
    if form is not None:
        if not any(has_symbols((n,)) or n for n in form.counts):
            return None
        symbol = kernel_name(form.kernel)
        functions.have(symbol, lambda: module_text(form.kernel, symbol, host()))
        return NativeStep(symbol, laid.block(number), has_several(form.chunks(form.sizes)[1]))
    if step.kind == "product":
        block = laid.product(number)
        several = math.prod(block[matmul.BATCH0 : matmul.PARTS + 1])
        return NativeStep(functions.product(equation.output.dtype.name, block), block, has_several(several))
    raise refusal(equation, "has no native code, only NumPy's")


def has_several(tasks: Any) -> bool:
    """Whether there are several tasks, or may be."""
    return has_symbols((tasks,)) or tasks > 1


def refusal(equation: Equation, why: str) -> ExportError:
    """An error about an op that a library cannot compute."""
    said = ", as other linear algebra" if isinstance(equation.op, Solver) else ""
    name = equation.params.get("call", equation.op.name)
    return ExportError(
        f"export: {name} {why}{said}; a library has native code alone: {source_text(equation.source)}"
    )
