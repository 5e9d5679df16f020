"""Running a function's forward program natively and by its printed kernels, and comparing with eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fusegrad as fg
from fusegrad.compiler.kernel.reference import run_kernel
from fusegrad.compiler.program.program import Program, viewed
from fusegrad.eager.core.families import Layout
from fusegrad.tracer.capture.api import capture
from fusegrad.tracer.ir import passes
from fusegrad.tracer.ir.graph import Value, renamed
from fusegrad.tracer.ir.text import parse_graph

Function = Callable[..., Any]


def tensor(*shape: int, dtype: str = "f4", seed: int = 0) -> fg.Tensor:
    """Random numbers."""
    return fg.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(dtype))


def program_of(function: Function, *args: fg.Tensor) -> tuple[Program, list[np.ndarray], list[fg.Tensor]]:
    """The forward program of a function, its inputs and eager's results."""
    made = capture(function, args)
    assert not made.reasons, made.reasons
    graph = passes.optimise(made.graph)
    assert parse_graph(str(renamed(graph))) == renamed(graph)
    layouts = {
        v: Layout(t.array.shape, tuple(s // t.array.itemsize for s in t.array.strides))
        for v, t in made.tensors.items()
    }
    inputs = [made.tensors[v].array if v in made.tensors else made.constants[v] for v in graph.inputs]
    results = made.result if isinstance(made.result, tuple) else (made.result,)
    return Program(graph, layouts).finish(), inputs, list(results)


def check(function: Function, *args: fg.Tensor, rtol: float = 1e-5) -> Program:
    """Run natively and compare with eager; then by the printed kernels and compare with that."""
    program, inputs, expected = program_of(function, *args)
    arrays = program.run(inputs)
    results = [viewed(arrays[i], chain) for i, chain in map(program.locate, program.graph.outputs)]
    for ours, theirs in zip(results, expected, strict=True):
        assert ours.dtype == theirs.array.dtype and ours.shape == theirs.array.shape
        np.testing.assert_allclose(ours, theirs.array, rtol=rtol, atol=rtol)
    if all(step.kind in ("kernel", "loops") for step in program.steps):
        check_printed(program, inputs, arrays, rtol)
    return program


def check_printed(program: Program, inputs: list[np.ndarray], arrays: list[np.ndarray], rtol: float) -> None:
    """The kernels' text, run as Python, gives what the native code gave."""
    memory: dict[Value, np.ndarray] = dict(zip(program.graph.inputs, inputs, strict=True))

    def find(value: Value) -> np.ndarray:
        if value not in memory:
            memory[value] = np.zeros(value.shape, value.dtype)
        array = memory[value]
        if array.flags.c_contiguous:
            return array
        # Strided inputs: all of the memory that they reach into, from their first element.
        reach = sum(s // array.itemsize * (n - 1) for s, n in zip(array.strides, array.shape, strict=True))
        return np.lib.stride_tricks.as_strided(array, (reach + 1,), (array.itemsize,))

    for kernel in program.kernels:
        run_kernel(kernel, find)
    for value in program.graph.outputs:
        base, chain = program.sources.resolve(value)
        index, _ = program.locate(value)
        np.testing.assert_allclose(
            viewed(memory[base], chain), viewed(arrays[index], chain), rtol=rtol, atol=rtol
        )
