"""Alike rounds: the equations of two go in; which value of the other stands for each of the one comes out.

Or why they did not do the same.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.ir.graph import GUARD, Equation, Value
from fusegrad.tracer.loops import Refused
from fusegrad.tracer.loops.affine import RowRead
from fusegrad.tracer.loops.induction import Computed
from fusegrad.tracer.observe.lookup import MISSING
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.observe.values import plain_key
from fusegrad.tracer.record.memory import Known, Memory
from fusegrad.tracer.record.ranges import Ranges
from fusegrad.tracer.record.recorder import Recorder

# What no round has that is rolled: draws, and what has equations of its own.
NESTED = frozenset({"random", "rolled"})
SOME_DERIVED = "gradients are taken of only some of what its rounds compute"


class Seen(NamedTuple):
    """A tensor that a variable held, without keeping it: what its array is a view of, in the end, and its
    value, unless that is old; how the array lies, if the tensor is a plain one, and if its memory is its own
    (that of a row that values choose is not), in row-major order.

    A tensor has one reference as long as somebody has that, so these tell tensors apart.
    """

    reference: weakref.ref[Tensor]
    root: Known | None
    value: Value | None
    strides: tuple[int, ...]
    plain: bool
    tracked: bool
    is_whole: bool

    @classmethod
    def of(cls, tensor: Tensor, memory: Memory) -> Seen:
        array, tracked = tensor.array, tensor.needs_grad
        plain = type(tensor) is Tensor and tracked == (tensor.grad_fn is not None)
        known = memory.find(array)
        value = known.value if known is not None and known.is_current() else None
        root = None if known is None else known.root()
        is_own = known is not None and known is root and not known.is_chosen
        whole = is_own and array.flags.c_contiguous
        return cls(weakref.ref(tensor), root, value, array.strides, plain, tracked, whole)


def share_memory(seen: Iterable[Seen]) -> bool:
    """Whether several tensors lie in the same memory."""
    roots = {id(x.reference): x.root for x in seen}
    return len({*roots.values()}) < len(roots)


class Done(NamedTuple):
    """How much there is of what no round may add to: deeds, openings of the run, reads, and what the recorder
    has noted. last: the last deed, or opening.
    """

    deeds: int
    opens: int
    reads: int
    noted: tuple[int, ...]
    last: str

    def is_like(self, other: Done) -> bool:
        """Whether nothing was added."""
        return self[:-1] == other[:-1]

    def added(self, begin: Done) -> str:
        """What was done since."""
        what = self.last if self[:2] != begin[:2] else "they look at something new, or leave it, each time"
        return f"its rounds do more than ops on tensors: {what}"


def done(recorder: Recorder, observer: Observer, deeds: int = 0) -> Done:
    """How much there is of what no round may add to, but for so many deeds."""
    return Done(observer.deeds + deeds, observer.opens, len(observer.reads), recorder.noted(), observer.did)


def operand(recorder: Recorder, value: Any) -> Tensor:
    """The tensor that holds a value, which ops read lately."""
    reference = (recorder.operands or {}).get(value)
    tensor = None if reference is None else reference()
    if value in recorder.constants:
        tensor = wrap(recorder.constants[value].copy())
        recorder.memory.define(tensor.array, value)
    known = None if tensor is None else recorder.memory.find(tensor.array)
    if tensor is None or known is None or not known.is_current() or known.value != value:
        raise Refused("nobody has a tensor any more that its rounds read")
    return tensor


def needing(recorder: Recorder) -> set[Value]:
    """The values of tensors that need gradients: what a run is given may do so from some time on."""
    operands = [(v, reference()) for v, reference in (recorder.operands or {}).items()]
    return recorder.tracked | {v for v, tensor in operands if tensor is not None and tensor.needs_grad}


def line_of(equation: Equation) -> str:
    """The user's line that an equation comes from, in brackets."""
    return f"(line {equation.source.line})" if equation.source is not None else ""


def check_op(equation: Equation, ranges: Ranges) -> None:
    """Raise Refused for an op that no round may have that is left out. ranges: what is known of numbers, by
    which an op that may refuse its input takes this one in all rounds.
    """
    op = equation.op
    is_fit = not op.refuses or ranges.is_fit(op, equation.inputs, equation.params)
    if op.family in NESTED or not is_fit:
        raise Refused(f"its rounds have an op that is not rolled, {op.name} {line_of(equation)}")


def check_derived(equations: Iterable[Equation], tracked: Collection[Value]) -> None:
    """Raise Refused where not just those results need gradients that eager gives any."""
    if not all(is_derived(e, tracked) for e in equations):
        raise Refused(SOME_DERIVED)


def is_derived(equation: Equation, tracked: Collection[Value]) -> bool:
    """Whether what needs gradients are the results of just those ops that such a tensor goes into.

    It is not so of what is computed under no_grad.
    """
    pairs = enumerate(equation.inputs)
    leads = any(v in tracked and equation.op.rule(i) is not None for i, v in pairs if isinstance(v, Value))
    made = [v in tracked for v in equation.outputs if v.dtype.kind in "fcV"]
    return all(made) if leads else not any(made)


def in_place_of(
    first: Sequence[Equation],
    second: Sequence[Equation],
    reads: Mapping[int, RowRead],
    reads_after: Mapping[int, RowRead],
    numbers: Mapping[int, Computed],
    numbers_after: Mapping[int, Computed],
    ranges: Ranges,
) -> dict[Value, Value]:
    """For each value of the first equations that of the second ones in its place."""
    marked = reads.keys() == reads_after.keys() and numbers.keys() == numbers_after.keys()
    if len(first) != len(second) or not marked:
        raise Refused("its rounds do not all have the same ops")
    after: dict[Value, Value] = {}
    for i, (one, other) in enumerate(zip(first, second, strict=True)):
        line = line_of(one)
        if one.op is GUARD:
            raise Refused(f"its rounds look at values {line}")
        check_op(one, ranges)
        if one.op is not other.op:
            raise Refused(f"its rounds do not all have the same ops {line}")
        if i in reads:
            same_params = reads[i].leads_to(reads_after[i])
        else:
            same_params = repr(one.params) == repr(other.params)
        mine, theirs = (*one.inputs, *one.outputs), (*other.inputs, *other.outputs)
        operands = [*zip(mine, theirs, strict=True)]
        if i in numbers and numbers[i].leads_to(numbers_after[i]):
            del operands[numbers[i].place]
        if not same_params or not all(pairs(*pair, after) for pair in operands):
            raise Refused(
                f"its rounds compute with other numbers, sizes or tensors from round to round {line}"
            )
    return after


def pairs(mine: Any, theirs: Any, after: dict[Value, Value]) -> bool:
    """Whether the one may stand in the place of the other."""
    if not isinstance(mine, Value) or not isinstance(theirs, Value):
        return type(mine) is type(theirs) and repr(mine) == repr(theirs)
    return mine.type == theirs.type and after.setdefault(mine, theirs) == theirs


def pattern(carried: Sequence[Any]) -> list[int]:
    """For what each variable holds, the first of them that holds it."""
    objects = [id(x.reference) if isinstance(x, Seen) else id(x) for x in carried]
    return [*map(objects.index, objects)]


def follow(values: Sequence[Value], after: dict[Value, Value]) -> bool:
    """Whether three values of one place follow one another."""
    first, second, third = values
    if first == second:
        return after.setdefault(first, second) == second == third
    return pairs(first, second, after) and after.get(second) == third


def is_one(items: Sequence[Any]) -> bool:
    """Whether objects that are no tensors are one, or one number."""
    keys = [*map(plain_key, items)]
    return all(x is items[0] for x in items) or (MISSING not in keys and all(key == keys[0] for key in keys))
