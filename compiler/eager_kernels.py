"""Kernels for eager: an op on large arrays that comes again and again goes in, its result comes out.

Each op is a program of its own, for the shapes and dtypes that it came with, as a graph of one equation would
have it. It is compiled in a thread beside the user's, one after the other, and asked from then on. What
cannot be a kernel, and what a kernel refuses, stays with NumPy, which raises its own errors. To
write one array over another, which NumPy does on one core, is asked for in the same way.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fusegrad.compiler.base import debug
from fusegrad.compiler.base.background import Work, Worker
from fusegrad.compiler.base.lock import compiling
from fusegrad.compiler.fuse.scans import SCANS
from fusegrad.compiler.gemm import eager_products
from fusegrad.compiler.kernel.dtypes import has_kernels
from fusegrad.compiler.lower.lowering import LOWERED
from fusegrad.compiler.native import running
from fusegrad.compiler.native.making import Making
from fusegrad.compiler.native.ways import add_way
from fusegrad.compiler.program.donation import in_place
from fusegrad.compiler.program.program import Program, viewed
from fusegrad.eager import forks
from fusegrad.eager.core import large
from fusegrad.eager.core.abstract import interpreted
from fusegrad.eager.core.families import Layout, contiguous_layout, layout_of
from fusegrad.eager.core.op import REGISTRY, Op, Params, TensorType, wrap
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir import passes
from fusegrad.tracer.ir.differentiate import Builder
from fusegrad.tracer.ir.graph import Equation, Graph, Value

# How often an op on large arrays comes before it gets a kernel, and to how many elements an op on others.
FEW, ELEMENTS = 3, 1 << 20
# Of how many ops something is known; how long graphs may be.
MOST_KNOWN, MOST_EQUATIONS = 2048, 100
# The families whose ops compute a new array from arrays and numbers alone; and others that do so.
FAMILIES = frozenset({"elementwise", "reduction", "composite"})
OTHERS = frozenset({*SCANS, *LOWERED, "cat", "convolution", "convolution_bias"})
# Those whose gradient rules are a program, if that is native: what several ops compute in several passes.
DERIVED = FAMILIES | {"contraction"}


class _Operand(NamedTuple):
    """A tensor, without its values."""

    type: TensorType
    layout: Layout

    @classmethod
    def of(cls, array: np.ndarray) -> _Operand:
        return cls(TensorType(array.shape, array.dtype), layout_of(array))


class _Lying(NamedTuple):
    """How an array lies, as NumPy says it."""

    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, operand: _Operand) -> _Lying:
        (shape, dtype), layout = operand.type, operand.layout
        return cls(dtype, shape, tuple([s * dtype.itemsize for s in layout.strides]))


class _Question(NamedTuple):
    """An op with all that its program depends on: its operands, and how NumPy's results lie."""

    op: Op
    args: tuple[Any, ...]
    params: Params
    results: tuple[Layout, ...]

    def graph(self) -> Graph:
        """Of one equation."""
        made = self.op.infer([a.type if isinstance(a, _Operand) else a for a in self.args], self.params)
        types = (made,) if isinstance(made, TensorType) else made
        outputs = tuple(Value(f"y{i}", t) for i, t in enumerate(types))
        operands = tuple(_named(self.args, "x"))
        inputs = tuple(v for v in operands if isinstance(v, Value))
        return Graph(inputs, (Equation(self.op, operands, self.params, outputs),), outputs)

    def layouts(self) -> list[Layout]:
        """How the graph's inputs lie."""
        return [a.layout for a in self.args if isinstance(a, _Operand)]

    @property
    def name(self) -> str:
        """What is compiled, in words."""
        return str(self.op.name)

    def program(self) -> Program | None:
        """See `_program`."""
        return _program(self)


class _Rules(NamedTuple):
    """The gradient rules of an op with all that their program depends on, and how their results lie.

    The inputs of the graph are the gradients that come back, then the op's inputs and outputs that were kept.
    """

    derived: large.Derived
    results: tuple[Layout, ...]

    def graph(self) -> Graph | None:
        """What the rules do; None where they look at values, or are no more than an op."""
        g, inputs, outputs = (
            _named(part, name) for part, name in zip(_given(self.derived), "gxy", strict=True)
        )
        builder = Builder({v.name for v in (*g, *inputs, *outputs) if isinstance(v, Value)})

        def walk() -> list[Any]:
            stand_ins = [[builder.tensor(v) for v in part] for part in (g, inputs, outputs)]
            gradients = stand_ins[0] if isinstance(self.derived.g, list) else stand_ins[0][0]
            derived = self.derived._replace(g=gradients, inputs=stand_ins[1], outputs=stand_ins[2])
            return [builder.value(made) for made in derived.by_rules()]

        try:
            made = interpreted(builder, walk)
        except (RuntimeError, NotImplementedError):
            return None
        given = tuple(v for v in (*g, *inputs, *outputs) if isinstance(v, Value))
        graph = passes.optimise(Graph(given, tuple(builder.equations), tuple(made)))
        computed = sum(not equation.op.view for equation in graph.equations)
        return graph if computed > 1 and not builder.constants else None

    def layouts(self) -> list[Layout]:
        """How the graph's inputs lie."""
        return [a.layout for part in _given(self.derived) for a in part if isinstance(a, _Operand)]

    @property
    def name(self) -> str:
        """What is compiled, in words."""
        return str(self.derived.op.name)

    def program(self) -> Program | None:
        """See `_program`."""
        return _program(self)


class _Overwritten(NamedTuple):
    """So many numbers, one behind the other, that are put in the place of others."""

    number: int
    dtype: np.dtype[Any]

    @property
    def name(self) -> str:
        """What is compiled, in words."""
        return "copy_"

    def program(self) -> Program:
        """It takes what is written over, and the values."""
        type_ = TensorType((self.number,), self.dtype)
        target, values = Value("target", type_), Value("values", type_)
        # The values are the result: it is a copy, since nobody may write into what they lie in.
        program = Program(Graph((target, values), (), (values,)), streams=False)
        program.into = in_place(program, [(program.graph.outputs[0], target)])
        assert program.into, "a copy that cannot be put somewhere"
        return program.finish()


def _given(derived: large.Derived) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
    """What the rules have: the gradients that come back, and what of the inputs and outputs was kept."""
    return derived.g if isinstance(derived.g, list) else (derived.g,), derived.inputs, derived.outputs


def _named(operands: Sequence[Any], name: str) -> list[Any]:
    """Values in place of operands."""
    return [Value(f"{name}{i}", o.type) if isinstance(o, _Operand) else o for i, o in enumerate(operands)]


class _Known:
    """What is known of an op on certain arrays: how often it came, and how often it has to; its program, and
    where results are, or the place of the only one, if that is one of the program's arrays.
    """

    __slots__ = ("enough", "place", "places", "program", "times")

    def __init__(self, size: int) -> None:
        """size: of the array that counts."""
        self.times, self.enough = 0, FEW if size >= large.LARGE else ELEMENTS // size
        self.program: Program | None = None
        self.places: list[tuple[int, tuple[Any, ...]]] = []
        self.place: int | None = None

    def gets(self, program: Program) -> None:
        """Have a program from now on."""
        self.places = [program.locate(v) for v in program.graph.outputs]
        if len(self.places) == 1 and not self.places[0][1]:
            self.place = self.places[0][0]
        self.program = program

    def way(self) -> tuple[Making, int, int] | None:
        """How native code runs it; None where it cannot, or where there is no program."""
        placed = None if self.program is None else self.program.placed()
        if placed is None or self.place is None or not placed.is_small or placed.large:
            return None
        made = [(place + 1, shape, dtype) for place, shape, dtype in placed.small]
        results = [number for number, (slot, _, _) in enumerate(made) if slot == self.place + 1]
        if not results:
            return None
        return Making(placed.calls, placed.arena_bytes, made), results[0], len(placed.arrays)

    def run(self, args: Iterable[Any]) -> Any:
        """The result, or a tuple of results."""
        assert self.program is not None
        arrays = self.program.run([a.array for a in args if isinstance(a, Tensor)])
        if self.place is not None:
            return arrays[self.place]
        results = tuple([viewed(arrays[place], views) for place, views in self.places])
        return results if len(results) > 1 else results[0]


class EagerKernels:
    """See `large.Kernels`."""

    def __init__(self) -> None:
        self._known: OrderedDict[Any, _Known] = OrderedDict()
        self._lock = forks.lock()
        self._worker = Worker(aside=False)

    def evaluate(self, op: Op, args: tuple[Any, ...], params: Params) -> Any:
        """What an op gives: a kernel's result, if there is one."""
        key = _key(op, args, params)
        if key is None:
            return op.evaluate(args, params)
        known = self._known.get(key) or self._note(key, _first(args).size)
        if known.program is not None:
            try:
                return known.run(args)
            except Exception:
                if debug.faults_are_raised() and not _refuses(op, args, params):
                    raise
                return op.evaluate(args, params)
        value = op.evaluate(args, params)
        known.times += 1
        if known.times == known.enough and not _shares(value, args):
            self._ask(known, _question(op, args, params, value))
        return value

    def gradients(self, derived: large.Derived) -> list[Any]:
        """What an op's gradient rules give: by one program, if there is one, or op by op."""
        key = _key_of_rules(derived)
        if key is None:
            return derived.by_rules()
        known = self._known.get(key) or self._note(key, derived.size())
        if known.program is not None:
            try:
                made = known.run(itertools.chain(*_given(derived)))
                return [*map(wrap, made)] if type(made) is tuple else [wrap(made)]
            except Exception:
                gradients = derived.by_rules()
                if debug.faults_are_raised():
                    raise
                return gradients
        gradients = derived.by_rules()
        known.times += 1
        # Before its ops are asked for one by one.
        if known.times == known.enough - 1:
            self._ask(known, _rules_question(derived, gradients))
        return gradients

    def overwrite(self, target: np.ndarray, values: np.ndarray) -> bool:
        """Put values in the place of others, if there is a kernel for it; whether it was done."""
        if not (target.flags.carray and values.flags.c_contiguous and values.flags.aligned):
            return False
        if target.dtype != values.dtype or not has_kernels(target.dtype):
            return False
        if target.shape != values.shape or np.may_share_memory(target, values):
            return False
        key = "overwrite", target.size, target.dtype.char
        known = self._known.get(key) or self._note(key, target.size)
        if known.program is None:
            known.times += 1
            if known.times == known.enough:
                self._ask(known, _Overwritten(target.size, target.dtype))
            return False
        known.program.run([target.reshape(-1), values.reshape(-1)])
        return True

    def _note(self, key: Any, size: int) -> _Known:
        with self._lock:
            while len(self._known) >= MOST_KNOWN:
                self._known.popitem(last=False)
            return self._known.setdefault(key, _Known(size))

    # Compiling, beside the program.

    def _ask(self, known: _Known, question: _Question | _Rules | _Overwritten) -> None:
        self._worker.ask(Work(lambda work: _compile(known, question), question.name))

    def wait(self) -> None:
        """Until all is compiled that was asked for. Raises what failed, where faults are raised."""
        self._worker.wait()
        eager_products.wait()


def _compile(known: _Known, question: _Question | _Rules | _Overwritten) -> None:
    """Give what is known of an op its program, if it can have one."""
    with compiling:
        program = question.program()
    if program is not None:
        known.gets(program)
    if isinstance(question, _Question):
        operands = [_Lying.of(a) if isinstance(a, _Operand) else a for a in question.args]
        add_way(question.op, operands, question.params, known.way())


def _refuses(op: Op, args: tuple[Any, ...], params: Params) -> bool:
    """Whether eager refuses it, too."""
    try:
        op.evaluate(args, params)
    except Exception:
        return True
    return False


def _key(op: Op, args: tuple[Any, ...], params: Params) -> Any:
    """All that the program of an op depends on; None where there is none."""
    if op.family == "contraction" or op.by_values:  # products are native anyway
        return None
    given: list[Any] = [op]
    if not _add_lies(given, args):
        return None
    if params:
        given.append(repr(params))
    return tuple(given)


def _key_of_rules(derived: large.Derived) -> Any:
    """All that the program of gradient rules depends on; None where there is none."""
    given: list[Any] = ["gradients", derived.op, *derived.indices]
    for part in _given(derived):
        if not _add_lies(given, part):
            return None
        given.append("")
    for type_ in derived.types:
        given += (None,) if type_ is None else (type_[0], type_[1].char)
    return (*given, repr(derived.params))


def _add_lies(key: list[Any], args: Sequence[Any]) -> bool:
    """Add how arrays lie, and numbers, to a key; whether kernels can read them."""
    for arg in args:
        if isinstance(arg, Tensor):
            array = arg.array
            if type(array) is not np.ndarray or not array.flags.aligned:
                return False
            key += array.shape, array.strides, array.dtype.char
        else:
            # 0.0 and -0.0, 1 and True are equal, and not the same.
            key += type(arg), repr(arg)
    return True


def _shares(value: Any, args: tuple[Any, ...]) -> bool:
    """Whether a result may lie in an operand's memory, where no kernel's would."""
    results = value if type(value) is tuple else (value,)
    arrays = [a.array for a in args if isinstance(a, Tensor)]
    return any(np.may_share_memory(result, array) for result in results for array in arrays)


def _operands(args: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments without arrays."""
    return tuple([_Operand.of(a.array) if isinstance(a, Tensor) else a for a in args])


def _question(op: Op, args: tuple[Any, ...], params: Params, value: Any) -> _Question:
    """What is asked of the thread that compiles; it holds no arrays."""
    value = value if op.order is None else op.arranged(value, args, params)
    results = value if type(value) is tuple else (value,)
    return _Question(op, _operands(args), dict(params), tuple(layout_of(np.asarray(r)) for r in results))


def _rules_question(derived: large.Derived, gradients: Sequence[Tensor]) -> _Rules:
    """The same of gradient rules, which gave `gradients`."""
    g, inputs, outputs = map(_operands, _given(derived))
    held = derived._replace(
        g=[*g] if isinstance(derived.g, list) else g[0],
        inputs=inputs,
        outputs=outputs,
        types=tuple(derived.types),
        params=dict(derived.params),
    )
    return _Rules(held, tuple(layout_of(gradient.array) for gradient in gradients))


def _program(question: _Question | _Rules) -> Program | None:
    """The program of an op, or of its gradient rules, if native code does all of it."""
    graph = question.graph()
    if graph is None:
        return None
    graph = passes.optimise(graph)
    if len(graph.equations) > MOST_EQUATIONS:
        return None
    lie = zip(graph.outputs, question.results, strict=True)
    results = {v: lies for v, lies in lie if lies != contiguous_layout(v.shape)}
    program = Program(graph, dict(zip(graph.inputs, question.layouts(), strict=True)), results)
    native = not program.checks and all(step.kind != "opaque" for step in program.steps)
    return program.finish() if native and _results_lie_apart(program) else None


def _results_lie_apart(program: Program) -> bool:
    """Whether each result has memory that no operand and no other result has: who gets it may write there."""
    bases = [program.sources.base(value) for value in program.graph.outputs]
    return len({*bases}) == len(bases) and {*bases}.isdisjoint(program.graph.inputs)


def _first(args: Sequence[Any]) -> np.ndarray:
    """The array by whose size it is told whether to ask: see `op.evaluate`."""
    return next(a.array for a in (args[0], args[-1]) if isinstance(a, Tensor))


def has_none(op: Op) -> bool:
    """Whether there are no kernels for an op, nor for its gradients, whatever it is given."""
    return op.view or (op.family not in DERIVED and op.name not in OTHERS)


def install() -> None:
    """Have eager ask for kernels, of ops that may have some."""
    for op in [*REGISTRY.values()]:  # another thread may declare some
        if has_none(op):
            op.large = large.NEVER
    large.answers.kernels = EagerKernels()
    running.take_small()
