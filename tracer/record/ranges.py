"""Ranges of whole numbers: equations go in; between which numbers the elements of a value lie comes out.

    h = cell(table[tokens[t]], h)

A lookup may refuse its input, so that it is computed at once, for the error to come where it belongs. Where
all of `tokens` lies within the table, none of its rows is refused. That is looked at once in a run, and made
sure of by replays before they begin: one that finds other numbers leaves the call to eager. Numbers that ops
count, as `argmax` does, lie within what they count.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fusegrad.eager.autograd.node import record
from fusegrad.eager.core import shared
from fusegrad.eager.core.families import View
from fusegrad.eager.core.op import REGISTRY, Op, Params, wrap
from fusegrad.eager.core.stand_in import has_values
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.index.take_and_put import SELECT_AT
from fusegrad.eager.ops.shape.slicing import basic_index
from fusegrad.tracer.ir.graph import GUARD, Equation, Value
from fusegrad.tracer.record.memory import Chosen

if TYPE_CHECKING:
    from fusegrad.tracer.record.recorder import Recorder

# What counts along a dimension: which of the results.
_COUNTING = {
    "argmax": 0, "argmin": 0, "argsort": 0, "sort": 1, "topk": 1, "max_dim": 1, "min_dim": 1,
    "median_dim": 1, "nanmedian_dim": 1, "mode": 1, "kthvalue": 1, "cummax": 1, "cummin": 1,
}  # fmt: skip
# What gives elements of operands, in other places, by the first and the last of these and one more.
_MOVING = {
    "take": (0, 1), "select_at": (0, 1), "gather": (0, 1), "flip": (0, 1), "roll": (0, 1), "clone": (0, 1),
    "contiguous": (0, 1),
    "sort": (0, 1), "where": (1, 3), "cat": (0, None), "stack": (0, None), "assign": (0, 2),
    "minimum": (0, 2), "maximum": (0, 2), "put": (0, 2), "scatter": (0, 2), "masked_fill": (0, 2),
    "overwritten": (1, 2), "rewritten": (1, 2), "handed_on": (0, 1), "handed_on_kept": (0, 1),
}  # fmt: skip


class _Range(NamedTuple):
    """Whole numbers from `low` to `high`, and those that these values from outside hold."""

    low: int
    high: int
    outside: frozenset[Value] = frozenset()

    def with_all_of(self, other: _Range) -> _Range:
        return _Range(min(self.low, other.low), max(self.high, other.high), self.outside | other.outside)


# No number.
_NONE = _Range(1 << 63, -(1 << 63))


class Ranges:
    """The ranges of one run's values."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._known: dict[Value, _Range] = {}
        # Tensors from outside as they were at first; of those, what is taken for granted.
        self._arrays: dict[Value, weakref.ref[np.ndarray]] = {}
        self._granted: dict[tuple[Value, int | None], tuple[int, int]] = {}

    def note(self, equation: Equation) -> None:
        """Note what follows of what an equation gives."""
        for place, made in enumerate(equation.outputs):
            if made.dtype.kind in "iu":
                found = self._of_result(equation, place)
                if found is not None:
                    self._known[made] = found

    def note_alike(self, value: Value, other: Value) -> None:
        """Note that a value holds numbers as another one does."""
        if other in self._known:
            self._known[value] = self._known[other]

    def comes_from_outside(self, value: Value, array: np.ndarray) -> None:
        """Note what an input of the graph holds."""
        if value.dtype.kind in "iu":
            self._arrays[value] = weakref.ref(array)
            self._known[value] = _NONE._replace(outside=frozenset((value,)))

    def _of_result(self, equation: Equation, place: int) -> _Range | None:
        op, params = equation.op, equation.params
        if _COUNTING.get(op.name) == place:
            shape, dim = equation.inputs[0].shape, params["dim"]
            return _Range(0, max(0, (math.prod(shape) if dim is None or not shape else shape[dim]) - 1))
        if op.name == "full":
            number = params["value"]
            return _Range(number, number) if type(number) is int else None
        if op.name == "arange":
            ends = params["start"], params["start"] + params["step"] * max(0, params["shape"][0] - 1)
            return _Range(min(ends), max(ends)) if all(type(x) is int for x in ends) else None
        if op.name == "flat_index":
            return _Range(0, max(0, math.prod(params["sizes"]) - 1))
        if op.name == "remainder" and type(equation.inputs[1]) is int and equation.inputs[1] > 0:
            return _Range(0, equation.inputs[1] - 1)
        if op.name == "cast" and equation.inputs[0].dtype.kind == "b":
            return _Range(0, 1)
        places = (0, 1) if isinstance(op, View) else _MOVING.get(op.name)
        if places is None or (op.name in ("put", "scatter") and params["accumulate"]):
            return None
        found, dtype = _NONE, equation.outputs[place].dtype
        for operand in equation.inputs[slice(*places)]:
            known = self._of(operand)
            # What is of another dtype may be other numbers in this one.
            if known is None or getattr(operand, "dtype", dtype) != dtype:
                return None
            found = found.with_all_of(known)
        return found

    def _of(self, operand: Any) -> _Range | None:
        if not isinstance(operand, Value):
            return _Range(operand, operand) if type(operand) is int else None
        constants = self._recorder.constants
        if operand not in self._known and operand in constants and operand.dtype.kind in "iu":
            numbers = constants[operand]
            found = _Range(int(numbers.min()), int(numbers.max())) if numbers.size else _NONE
            self._known[operand] = found
        return self._known.get(operand)

    # What is asked.

    def is_fit(self, op: Op, operands: Sequence[Any], params: Mapping[str, Any]) -> bool:
        """Whether an op that may refuse its input takes these operands, whatever they hold."""
        if op.positions is None:
            return False
        positions = op.positions([x.type if isinstance(x, Value) else x for x in operands], dict(params))
        return positions is not None and all(
            self.are_within(operands[i], least, end) for i, least, end in positions
        )

    def takes(self, op: Op, args: Sequence[Any], params: Params) -> bool:
        """`is_fit` for tensors and Python numbers."""
        value_of = self._recorder.value_of
        return self.is_fit(op, [value_of(a) if isinstance(a, Tensor) else a for a in args], params)

    def are_within(self, value: Any, least: int, end: int, but: int | None = None) -> bool:
        """Whether all elements are at least one number and less than the other, or are `but`; replays make
        sure of it.
        """
        found = self._of(value)
        if found is None or (found.low <= found.high and not (least <= found.low and found.high < end)):
            return False
        if not all(self._holds(outside, least, end, but) for outside in found.outside):
            return False
        for outside in found.outside:
            low, high = self._granted.get((outside, but), (least, end))
            self._granted[outside, but] = max(low, least), min(high, end)
        return True

    def _holds(self, value: Value, least: int, end: int, but: int | None) -> bool:
        """Whether a tensor from outside holds only such numbers, as it was at first."""
        granted = self._granted.get((value, but))
        if granted is not None and granted[0] >= least and granted[1] <= end:
            return True
        array = self._arrays[value]()
        known = None if array is None else self._recorder.memory.find(array)
        if array is None or not has_values(array) or known is None or known.value is not value:
            return False
        inside = (array >= least) & (array < end)
        return bool((inside if but is None else inside | (array == but)).all())

    # Positions that tensors hold.

    def follows(self, x: Tensor, index: Tensor, dim: int) -> bool:
        """Whether replays can index `x` by what another tensor holds then."""
        recorder, later = self._recorder, self._recorder.later
        later.meets((x, index))
        value = recorder.value_of(index)
        if value in recorder.constants:
            return False
        size = x.array.shape[dim]
        # A view of what nobody knows the place of yet is on no graph, and nobody else writes its memory.
        is_alone = not x.needs_grad and not shared.is_exposed(x.array)
        return not later.has_waiting(index) or (is_alone and self.are_within(value, -size, size))

    def chosen(self, args: tuple[Any, ...], params: Params) -> Tensor:
        """What `SELECT_AT` gives: what eager gives for the number, if that is known."""
        (x, index), dim, later = args, params["dim"], self._recorder.later
        if not later.has_waiting(index):
            place = basic_index(((slice(None),) * dim + (index.array.item(),)), x.array.shape)
            found: Tensor = later.run(REGISTRY["getitem"], (x,), {"index": place})
            if found.needs_grad:
                # Its gradient goes to where that is then, too, whoever counts the number up by then.
                kept, value = wrap(index.array.copy()), self._recorder.value_of(index)
                self._recorder.memory.define(kept.array, value, is_chosen=True)
                record(SELECT_AT, (x, kept), params, (found,))
            return found
        found = later.run(SELECT_AT, args, params)
        found.version = x.version
        return found

    def window(self, x: Tensor, index: Tensor, dim: int, length: int) -> Tensor:
        """The slice of so many from where a number of at least 0 in a tensor says, as eager gives it: for
        replays one of the windows of that length.
        """
        recorder, place = self._recorder, index.array.item()
        entries = (slice(None),) * dim + (slice(place, place + length),)
        found: Tensor = recorder.later.run(
            REGISTRY["getitem"], (x,), {"index": basic_index(entries, x.array.shape)}
        )
        way = Chosen(recorder.value_of(index), dim, length)
        value = way.take(recorder.emit, recorder.value_of(x))
        recorder.memory.part(found.array, value, x.array, way)
        return found

    def finish(self) -> None:
        """Have replays begin with a look at what was taken for granted."""
        recorder = self._recorder
        number = len(recorder.equations)
        for (value, but), (least, end) in self._granted.items():
            self._look(value, least, end, but)
        looks = recorder.equations[number:]
        if looks:
            recorder.equations[:] = [*looks, *recorder.equations[:number]]
            recorder.hosts[:] = [(host, place + len(looks)) for host, place in recorder.hosts]

    def _look(self, value: Value, least: int, end: int, but: int | None) -> None:
        def emit(name: str, *operands: Any, **params: Any) -> Value:
            return self._recorder.emit(REGISTRY[name], operands, params)

        fit = emit("logical_and", emit("ge", value, least), emit("lt", value, end))
        if but is not None:
            fit = emit("logical_or", fit, emit("eq", value, but))
        if fit.shape:
            fit = emit("all", fit, dim=None, keepdim=False)
        params, source = {"expected": True, "kind": "check"}, self._recorder.equations[-1].source
        self._recorder.equations.append(Equation(GUARD, (fit,), params, (), source))
