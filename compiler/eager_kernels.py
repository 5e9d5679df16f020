"""Kernels for eager: an op on large arrays that comes again and again goes in, its result comes out.

Each op is a program of its own, for the shapes and dtypes that it came with, as a graph of one equation
would have it. It is compiled in a thread beside the user's, one after the other, and asked from then on. What
cannot be a kernel, and what a kernel refuses, stays with NumPy, which raises its own errors.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.compiler.base import debug
from fusegrad.compiler.base.lock import compiling
from fusegrad.compiler.base.uninterrupted import Running
from fusegrad.compiler.fuse.scans import SCANS
from fusegrad.compiler.lower.lowering import LOWERED
from fusegrad.compiler.program.program import Program, viewed
from fusegrad.eager.core import large
from fusegrad.eager.core.families import Layout, contiguous_layout, layout_of
from fusegrad.eager.core.op import Op, Params, TensorType
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir import passes
from fusegrad.tracer.ir.graph import Equation, Graph, Value

# How often an op comes before it gets a kernel; of how many something is known; how long graphs may be.
FEW, MOST_KNOWN, MOST_EQUATIONS = 3, 512, 100
# The families whose ops compute a new array from arrays and numbers alone; and others that do so.
FAMILIES = frozenset({"elementwise", "reduction", "composite"})
OTHERS = frozenset({*SCANS, *LOWERED, "cat", "convolution", "convolution_bias"})


class _Operand(NamedTuple):
    """A tensor, without its values."""

    type: TensorType
    layout: Layout

    @classmethod
    def of(cls, array: np.ndarray) -> _Operand:
        return cls(TensorType(array.shape, array.dtype), layout_of(array))


class _Question(NamedTuple):
    """An op with all that its program depends on: its operands, and how NumPy's results lie."""

    op: Op
    args: tuple[Any, ...]
    params: Params
    results: tuple[Layout, ...]


class _Known:
    """What is known of an op on certain arrays: how often it came; its program, and where results are."""

    __slots__ = ("places", "program", "times")

    def __init__(self) -> None:
        self.times = 0
        self.program: Program | None = None
        self.places: list[tuple[int, tuple[Any, ...]]] = []

    def run(self, args: Sequence[Any]) -> Any:
        """The op's result or results."""
        assert self.program is not None
        arrays = self.program.run([a.array for a in args if isinstance(a, Tensor)])
        results = [viewed(arrays[place], views) for place, views in self.places]
        return results[0] if len(results) == 1 else tuple(results)


class EagerKernels:
    """See `large.Kernels`."""

    def __init__(self) -> None:
        self._known: OrderedDict[Any, _Known] = OrderedDict()
        self._lock = threading.Lock()
        self._asked: deque[tuple[_Known, _Question]] = deque()
        self._work: Running[None] | None = None
        self._ended = False
        atexit.register(self._end)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_anew)

    def evaluate(self, op: Op, args: tuple[Any, ...], params: Params) -> Any:
        """What an op gives: a kernel's result, if there is one."""
        key = _key(op, args, params)
        if key is None:
            return op.evaluate(args, params)
        known = self._known.get(key)
        if known is None:
            known = self._note(key)
        if known.program is not None:
            try:
                return known.run(args)
            except Exception:
                if debug.faults_are_raised() and not _refuses(op, args, params):
                    raise
                return op.evaluate(args, params)
        value = op.evaluate(args, params)
        known.times += 1
        if known.times == FEW and not _shares(value, args):
            self._ask(known, _question(op, args, params, value))
        return value

    def _note(self, key: Any) -> _Known:
        with self._lock:
            while len(self._known) >= MOST_KNOWN:
                self._known.popitem(last=False)
            return self._known.setdefault(key, _Known())

    # Compiling, beside the program.

    def _ask(self, known: _Known, question: _Question) -> None:
        with self._lock:
            self._asked.append((known, question))
            if (self._work is None or self._work.finished) and not self._ended:
                self._work = Running(self._compile_all)

    def _compile_all(self) -> None:
        while True:
            with self._lock:
                if not self._asked or self._ended:
                    # Who asks from here on begins the work anew.
                    self._work = None
                    return
                known, question = self._asked.popleft()
            try:
                with compiling:
                    program = _program(question)
            except Exception:
                if debug.faults_are_raised():
                    raise
                continue
            if program is not None:
                known.places = [program.locate(v) for v in program.graph.outputs]
                known.program = program

    def wait(self) -> None:
        """Until all is compiled that was asked for. Raises what failed, where faults are raised."""
        work = self._work
        if work is not None:
            work.result()

    def _end(self) -> None:
        """The process ends: what is being compiled is waited for, nothing else is begun."""
        self._ended = True
        if self._work is not None:
            self._work.wait()

    def _begin_anew(self) -> None:
        """In a forked child, which has no thread that compiles."""
        self._lock, self._work = threading.Lock(), None
        self._asked.clear()


def _refuses(op: Op, args: tuple[Any, ...], params: Params) -> bool:
    """Whether eager refuses it, too."""
    try:
        op.evaluate(args, params)
    except Exception:
        return True
    return False


def _key(op: Op, args: tuple[Any, ...], params: Params) -> Any:
    """All that the program of an op depends on; None for one that has none."""
    if op.view or (op.family not in FAMILIES and op.name not in OTHERS):
        return None
    given: list[Any] = [op.name]
    for arg in args:
        if isinstance(arg, Tensor):
            array = arg.array
            if type(array) is not np.ndarray or not array.flags.aligned:
                return None
            given += array.shape, array.strides, array.dtype.char
        else:
            # 0.0 and -0.0, 1 and True are equal, and not the same.
            given += type(arg), repr(arg)
    return (*given, repr(params)) if params else tuple(given)


def _shares(value: Any, args: tuple[Any, ...]) -> bool:
    """Whether a result may lie in an operand's memory, where no kernel's would."""
    results = value if type(value) is tuple else (value,)
    arrays = [a.array for a in args if isinstance(a, Tensor)]
    return any(np.may_share_memory(result, array) for result in results for array in arrays)


def _question(op: Op, args: tuple[Any, ...], params: Params, value: Any) -> _Question:
    """What is asked of the thread that compiles; it holds no arrays."""
    operands = tuple(_Operand.of(a.array) if isinstance(a, Tensor) else a for a in args)
    value = value if op.order is None else op.arranged(value, args, params)
    results = value if type(value) is tuple else (value,)
    return _Question(op, operands, dict(params), tuple(layout_of(np.asarray(r)) for r in results))


def _program(question: _Question) -> Program | None:
    """The program of an op, if native code does all of it."""
    op, given, params, results = question
    inputs: dict[Value, Layout] = {}
    operands: list[Any] = []
    for operand in given:
        if isinstance(operand, _Operand):
            value = Value(f"x{len(inputs)}", operand.type)
            inputs[value] = operand.layout
            operand = value
        operands.append(operand)
    made = op.infer([g.type if isinstance(g, _Operand) else g for g in given], params)
    types = (made,) if isinstance(made, TensorType) else made
    outputs = tuple(Value(f"y{i}", t) for i, t in enumerate(types))
    graph = Graph(tuple(inputs), (Equation(op, tuple(operands), params, outputs),), outputs)
    graph = passes.optimise(graph)
    if len(graph.equations) > MOST_EQUATIONS:
        return None
    lie = zip(graph.outputs, results, strict=True)
    program = Program(graph, inputs, {v: lies for v, lies in lie if lies != contiguous_layout(v.shape)})
    native = not program.checks and all(step.kind != "opaque" for step in program.steps)
    return program.finish() if native else None


def install() -> None:
    """Have eager ask for kernels."""
    large.answers.kernels = EagerKernels()
