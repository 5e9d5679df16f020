"""The kernel IR: loop nests over scalar statements. It prints as Python that runs.

A kernel computes over named axes. Its arguments are buffers (each indexed by some of the axes),
numbers and sizes, all given at run time, so that one kernel serves every size of its shape
class; the printed text, which holds none of them, is its identity and the key of the caches.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar, cast

from fusegrad.eager.lazy import cached_property

# Functions of floats that cost many instructions.
ELEMENTARY = frozenset(
    "exp exp_nonpositive exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh "
    "sigmoid erf erfc erfinv lgamma digamma pow hypot".split()
)
# How each scalar primitive reads in the printed kernel. The Python names that are no operators
# are found in `reference.py`, which runs printed kernels.
PRIMITIVES: dict[str, str] = {
    **dict.fromkeys(
        (*ELEMENTARY, *"abs sign signbit sqrt floor ceil trunc round not_".split()), "{name}({})"
    ),
    **dict.fromkeys(("pow", "atan2", "hypot", "maximum", "minimum"), "{name}({}, {})"),
    "select": "select({}, {}, {})",
    "cast": "{dtype}({})",
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "div": "{} / {}",
    "neg": "-{}",
    "eq": "{} == {}",
    "ne": "{} != {}",
    "lt": "{} < {}",
    "le": "{} <= {}",
    "gt": "{} > {}",
    "ge": "{} >= {}",
    "and_": "{} & {}",
    "or_": "{} | {}",
    "xor": "{} ^ {}",
}
TESTS = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "signbit"})
COMBINERS: dict[str, str] = {
    "add": "{} + {}",
    "mul": "{} * {}",
    "max": "maximum({}, {})",
    "min": "minimum({}, {})",
    "or": "{} | {}",
    "and": "{} & {}",
}

Operand = Any  # the name of a scalar, or a Python number

# Stands among the axes of a buffer for a dimension whose index is a scalar of the kernel.
PLACE = "_"


# Steps of a buffer along the axis of vectors that kernels are compiled for; others are arguments.
KNOWN_STEPS = (1, 2)


def known_step(step: Any) -> int | None:
    """A step, if kernels are compiled for it."""
    return next((known for known in KNOWN_STEPS if step == known), None)


@dataclass(frozen=True, slots=True)
class Buffer:
    """An array argument. axes: the axes it is indexed by; steps: along each of them, where it is known
    when the kernel is compiled.

    An axis may be `PLACE`: each load or store then says which scalar is the index there.
    """

    name: str
    dtype: str
    axes: tuple[str, ...]
    steps: tuple[int | None, ...]

    @property
    def unit(self) -> bool:
        """Whether neighbours along the last axis lie side by side."""
        return self.steps[-1:] == (1,)


@dataclass(frozen=True, slots=True)
class Compute:
    """`target = op(operands)` on scalars of one iteration."""

    target: str
    op: str
    operands: tuple[Operand, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Load:
    """`target = buffer[its axes]`.

    places: the scalars (i64), or numbers, that are the indices where the buffer's axes say `PLACE`. when: the
    scalar (bool) that says whether there is anything to read; where it is false, nothing is, and the
    target is 0.
    """

    target: str
    buffer: Buffer
    places: tuple[Operand, ...] = ()
    when: str | None = None


@dataclass(frozen=True, slots=True)
class Store:
    """`buffer[its axes] = value`, or with `combine` what the combiner makes of the old and the new value.

    places and when: as for `Load`; where `when` is false, nothing is written.
    """

    buffer: Buffer
    value: Operand
    places: tuple[Operand, ...] = ()
    when: str | None = None
    combine: str | None = None


@dataclass(frozen=True, slots=True)
class Progression:
    """`target = start + step * axis`, exactly as NumPy's arange rounds it."""

    target: str
    axis: str | None
    start: Operand
    step: Operand
    dtype: str


@dataclass(frozen=True, slots=True)
class Accumulator:
    """`target` starts at the combiner's identity; with `axes`, an array of accumulators.

    dtype: of what it takes. total: of what it holds, which may be wider: then it takes what is summed block
    by block.
    """

    target: str
    combine: str
    dtype: str
    total: str
    axes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Accumulate:
    """`accumulator = combine(accumulator, value)`."""

    accumulator: Accumulator
    value: Operand


@dataclass(frozen=True, slots=True)
class Read:
    """`target = accumulator[its axes]` after the loop that filled an array of accumulators."""

    target: str
    accumulator: Accumulator


@dataclass(frozen=True, slots=True)
class Variable:
    """`target = value`: a scalar that later iterations of a serial loop change."""

    target: str
    value: Operand
    dtype: str


@dataclass(frozen=True, slots=True)
class Recall:
    """`target = variable`: what the variable holds now."""

    target: str
    variable: Variable


@dataclass(frozen=True, slots=True)
class Assign:
    """`variable = value`."""

    variable: Variable
    value: Operand


@dataclass(frozen=True, slots=True)
class Loop:
    """`body` for every index of `axes`.

    kind: "parallel" (any order, shared by threads), "chunked" (vectors, shared by threads), "vector",
    "serial", or "unrolled", of one axis with `count` indices. A loop that is serial or unrolled may lie in a
    loop over vectors: then each lane goes through it, and an `Accumulator` in there holds one number a lane.
    """

    axes: tuple[str, ...]
    kind: str
    body: tuple[Statement, ...]
    count: int | None = None


Statement = (
    Compute | Load | Store | Progression | Accumulator | Accumulate | Read | Variable | Recall | Assign | Loop
)


@dataclass(frozen=True)
class Kernel:
    """Axes by name, buffers (inputs, then outputs), numbers (name and dtype), and the statements.

    streamed: the names of the outputs that are stored past the caches; see `nontemporal_stores.py`. beside:
    how many of the machine's vectors it takes side by side at most; 0 leaves that to its body
    (`codegen/kernel_parts.py`). contracted: whether a product and the sum that it goes into are rounded once.
    """

    axes: tuple[str, ...]
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    numbers: tuple[tuple[str, str], ...]
    body: tuple[Statement, ...]
    streamed: tuple[str, ...] = ()
    beside: int = 0
    contracted: bool = False

    @cached_property
    def text(self) -> str:
        return print_kernel(self)

    @cached_property
    def digest(self) -> str:
        """A name made of the content."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @cached_property
    def notes(self) -> dict[Any, Any]:
        """What was found out about it; see `noted`."""
        return {}

    def __str__(self) -> str:
        return self.text

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """All statements, loops before their bodies."""
        return tuple(walk(self.body))

    def loops(self) -> list[Loop]:
        """All loops, outer before inner."""
        return [s for s in self.statements if isinstance(s, Loop)]


Look = TypeVar("Look", bound=Callable[..., Any])


def noted(look: Look) -> Look:
    """`look`, which finds something out about a kernel, done once for all of its uses."""

    @functools.wraps(look)
    def found(kernel: Kernel, *others: Any) -> Any:
        key = look, others
        if key not in kernel.notes:
            kernel.notes[key] = look(kernel, *others)
        return kernel.notes[key]

    return cast(Look, found)


def walk(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """The statements of `body` and of the loops in it."""
    for statement in body:
        yield statement
        if isinstance(statement, Loop):
            yield from walk(statement.body)


def with_axes(
    body: Iterable[Statement], around: frozenset[str] = frozenset()
) -> Iterator[tuple[Statement, frozenset[str]]]:
    """As `walk`; with each statement the axes of the loops around it."""
    for statement in body:
        yield statement, around
        if isinstance(statement, Loop):
            yield from with_axes(statement.body, around.union(statement.axes))


def is_nested(body: Iterable[Statement]) -> bool:
    """Whether there is a loop in the body of a loop."""
    return any(isinstance(statement, Loop) for statement in body)


@noted
def unrolled_counts(kernel: Kernel) -> dict[str, int]:
    """The axes that loops are unrolled along, and how many indices each has."""
    return {loop.axes[0]: loop.count for loop in kernel.loops() if loop.count is not None}


def written_out(
    body: Iterable[Statement], around: Mapping[str, int] = MappingProxyType({})
) -> Iterator[tuple[Statement, Mapping[str, int]]]:
    """Each statement of `body` that is no loop, and the unrolled axes around it with their counts."""
    for statement in body:
        if not isinstance(statement, Loop):
            yield statement, around
        else:
            own = {} if statement.count is None else {statement.axes[0]: statement.count}
            yield from written_out(statement.body, {**around, **own})


def times_written(body: Iterable[Statement]) -> int:
    """How many statements `body` has when its loops are unrolled."""
    return sum(math.prod(around.values()) for _, around in written_out(body))


def _index(axes: tuple[str, ...], places: tuple[Operand, ...] = ()) -> str:
    given = map(str, places)
    return ", ".join(next(given) if a == PLACE else a for a in axes) or "()"


def _number(value: Operand) -> str:
    return value if isinstance(value, str) else repr(value)


def statement_text(statement: Statement) -> str:
    """One statement that is no loop, as Python."""
    match statement:
        case Compute(target, op, operands, dtype):
            text = PRIMITIVES[op].format(*map(_number, operands), name=op, dtype=dtype)
            return f"{target} = {text}"
        case Load(target, buffer, places, when):
            read = f"{buffer.name}[{_index(buffer.axes, places)}]"
            return f"{target} = {read}" + (f" if {when} else {buffer.dtype}(0)" if when else "")
        case Store(buffer, value, places, when, combine):
            place = f"{buffer.name}[{_index(buffer.axes, places)}]"
            written = COMBINERS[combine].format(place, _number(value)) if combine else _number(value)
            return (f"if {when}: " if when else "") + f"{place} = {written}"
        case Progression(target, axis, start, step, dtype):
            return f"{target} = {dtype}({_number(start)} + {_number(step)} * {axis or 0})"
        case Accumulator(target, combine, _, total, axes):
            sizes = f", {', '.join('n' + a[1:] for a in axes)}" if axes else ""
            return f'{target} = identity("{combine}", {total}{sizes})'
        case Accumulate(accumulator, value):
            place = accumulator.target + (f"[{_index(accumulator.axes)}]" if accumulator.axes else "")
            return f"{place} = {COMBINERS[accumulator.combine].format(place, _number(value))}"
        case Read(target, accumulator):
            return f"{target} = {accumulator.target}[{_index(accumulator.axes)}]"
        case Variable(target, value, dtype):
            return f"{target} = {dtype}({_number(value)})"
        case Recall(target, variable):
            return f"{target} = {variable.target}"
        case Assign(variable, value):
            return f"{variable.target} = {_number(value)}"
    raise TypeError(statement)


def _body_text(body: tuple[Statement, ...], indent: int) -> list[str]:
    lines = []
    for statement in body:
        if isinstance(statement, Loop):
            sizes = str(statement.count or ", ".join("n" + a[1:] for a in statement.axes))
            axes = ", ".join(statement.axes)
            lines.append(" " * indent + f"for {axes} in {statement.kind}({sizes}):")
            lines += _body_text(statement.body, indent + 4)
        else:
            lines.append(" " * indent + statement_text(statement))
    return lines


def _buffer_text(buffer: Buffer) -> str:
    steps = [a if step is None else f"{a}:{step}" for a, step in zip(buffer.axes, buffer.steps, strict=True)]
    return f'{buffer.name}: "{buffer.dtype}[{", ".join(steps)}]"'


def print_kernel(kernel: Kernel) -> str:
    """The kernel as a Python function. An axis marked `:1` is contiguous in that buffer, of one marked `:2`
    it takes every other element.
    """
    arguments = ["n" + a[1:] for a in kernel.axes]
    arguments += [f"{name}: {dtype}" for name, dtype in kernel.numbers]
    arguments += [_buffer_text(b) for b in (*kernel.inputs, *kernel.outputs)]
    notes = [f"{', '.join(kernel.streamed)}: past the caches"] if kernel.streamed else []
    notes += [f"vectors side by side: {kernel.beside}"] if kernel.beside else []
    notes += ["products and sums contracted"] if kernel.contracted else []
    comment = f"  # {'; '.join(notes)}" if notes else ""
    return "\n".join([f"def kernel({', '.join(arguments)}):{comment}", *_body_text(kernel.body, 4)])
