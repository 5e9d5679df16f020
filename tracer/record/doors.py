"""Values of tensors that leave for Python: what leaves is guarded, or given by a replay, or opens the run.

A number that decides something is guarded. One that is only moved about is given by a replay, and so is an
array that lies in the memory of a tensor: both are followed by their identity (`observe/numbers.py`) until
somebody looks at them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from fusegrad.eager.core.errors import user_location
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.sizes import watching_sizes
from fusegrad.eager.core.stand_in import stands_for_batch
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.sized import SIZED
from fusegrad.tracer.ir.chosen_axes import RowsOf
from fusegrad.tracer.ir.graph import GUARD, Equation, Source, Value
from fusegrad.tracer.observe.numbers import Taken
from fusegrad.tracer.observe.symbols import fresh

if TYPE_CHECKING:
    from fusegrad.tracer.record.recorder import Recorder

# Doors that give one number: what was seen can be guarded. Other doors end the captured part.
SCALAR_DOORS = {"bool", "int", "float", "index", "item", "complex"}
# Those that lend the memory of a tensor to NumPy.
ARRAY_DOORS = {"numpy", "__array__"}
# Of so many whole numbers (lengths, say) all are guarded.
FEW = 64


Answers = Callable[[Sequence[Equation], Sequence[Equation], Value], bool | None]


class Doors:
    """The doors of one run's tensors.

    asked: the guards of the truths that tensors were asked for so far. answers: what one answers, whatever it
    holds, by what was recorded and these guards; None where it answers what it holds.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.asked: list[Equation] = []
        self.answers: Answers = lambda recorded, asked, truth: None
        self._sizes: dict[Hashable, int] = {}
        # The sizes that are guarded, of which Python knows nothing yet.
        self._unasked: list[Tensor] = []
        self._counts: dict[Value, Tensor] = {}  # those of masks

    def answer(self, tensor: Tensor) -> bool:
        """A truth by which Python goes on."""
        if tensor.array.dtype.kind != "b":  # which of the numbers that are true it is does not matter
            tensor = self._recorder.later.at_once(lambda: ops.ne(tensor, 0))
        recorded = self._recorder.equations
        found = self.answers(recorded, self.asked, self._recorder.value_of(tensor))
        answer = bool(tensor.array.item()) if found is None else found
        self.guard(tensor, "branch", answer)
        self.asked.append(recorded[-1])
        return answer

    def leave(self, tensor: Tensor, door: str, value: Any) -> Any:
        """A value of a tensor leaves; what Python gets in its place, or None."""
        # What follows from Python data is guarded there.
        if door not in SCALAR_DOORS:
            self.asked_shape(tensor, flat=False, follows=False)
        if door == "bool" and self._recorder.value_of(tensor) not in self._recorder.constants:
            return self.answer(tensor)
        self._note(tensor, door, value)
        return None

    def _note(self, tensor: Tensor, door: str, value: Any) -> None:
        recorder = self._recorder
        taking = recorder.numbers.taking
        if taking and type(value) is float and door in ("item", "float"):
            self.follow(value, recorder.doubles.as_float(recorder.value_of(tensor)))
        elif taking and type(value) is int and door in ("item", "int") and tensor.array.dtype.kind in "iu":
            # Python has one object for a small whole number: the user gets another one.
            recorder.numbers.taken = fresh(value)
            self.follow(recorder.numbers.taken, recorder.value_of(tensor))
        elif taking and door in ARRAY_DOORS:
            opens = self._opening(tensor, door)
            # Off the graph, as the array is.
            owner = tensor.detach() if tensor.needs_grad else tensor
            recorder.numbers.follow(Taken(value, opens, tensor=owner))
        elif door in (*SCALAR_DOORS, "tolist") and recorder.value_of(tensor) in recorder.constants:
            pass  # it follows from Python data, which are guarded
        elif door in SCALAR_DOORS and tensor.array.size == 1:
            self.guard(tensor, "branch")
        elif door == "tolist" and tensor.array.dtype.kind in "iub" and tensor.array.size <= FEW:
            self.guard(self._same_values(tensor), "branch")
        else:
            self._opening(tensor, door)()

    def check(self, tensor: Tensor, passed: Callable[[], Tensor]) -> bool:
        """An op's own test of its input: a replay must find it true, or let eager raise its error."""
        later = self._recorder.later
        later.reach(tensor)
        outcome = later.at_once(passed)
        if bool(outcome.array.item()):
            self.guard(outcome, "check")
        else:
            later.settle()  # the op is about to raise, at its own line
        return True

    def size(self, tensor: Tensor, asked: Hashable, count: Callable[[], Tensor]) -> int:
        """The size of a result that the values of a tensor decide, which a replay must find again.

        asked: tells the sizes apart that one tensor decides. Each is asked for once.
        """
        recorder = self._recorder
        recorder.later.reach(tensor)
        value = recorder.value_of(tensor)
        if (value, asked) not in self._sizes:
            counted = recorder.later.at_once(count)
            if value not in recorder.constants:
                self.guard(counted, "branch", size=True)
                self._unasked.append(counted)
                if type(asked) is tuple and asked[0] == "nonzero":
                    self._counts[value] = counted
                if len(self._unasked) == 1:
                    watching_sizes.setdefault(threading.get_ident(), []).append(self.asked_shape)
            self._sizes[value, asked] = int(counted.array)
        return self._sizes[value, asked]

    def asked_shape(self, tensor: Tensor, flat: bool, follows: bool = True) -> tuple[int, ...]:
        """The shape of a tensor, for which Python asks, or what that would be in one dimension: what Python
        does may follow from the values that decide it. What the user's code gets for the number of chosen
        rows is followed. follows: whether it gets one.
        """
        shape, recorder = (tensor.array.size,) if flat else tensor.array.shape, self._recorder
        known = recorder.memory.find(tensor.array) if self._unasked else None
        if known is None:
            # Of what stands for a batch the recorder sees what lies behind it.
            if self._unasked and stands_for_batch(tensor.array):
                self._guard_sizes()
            return shape
        value = recorder.memory.current(known)
        # What is made of sizes, as zeros, follows from nothing that the graph has.
        if value not in recorder.constants and value not in _of_decided_size(recorder.equations):
            return shape
        found = RowsOf(recorder.equations).axis(value) if follows and recorder.numbers.taking else None
        if found is None or found.mask not in self._counts:
            self._guard_sizes()
            return shape
        counted, axis = self._counts[found.mask], 0 if flat else found.axis
        if shape[axis] != int(counted.array):
            times = tensor.array.size // tensor.array.shape[found.axis]
            counted = recorder.later.at_once(lambda: ops.mul(counted, times))
        number = self.follow(fresh(shape[axis]), recorder.value_of(counted))
        return (*shape[:axis], number, *shape[axis + 1 :])

    def _guard_sizes(self) -> None:
        self.forget_sizes()
        unasked, self._unasked = self._unasked, []
        for counted in unasked:
            self.guard(counted)

    def forget_sizes(self) -> None:
        """Have nobody say any more when sizes are asked for."""
        told = watching_sizes.get(threading.get_ident(), [])
        if self.asked_shape in told:
            told.remove(self.asked_shape)
        if not told:
            watching_sizes.pop(threading.get_ident(), None)

    def _opening(self, tensor: Tensor, door: str) -> Callable[[], Any]:
        """What notes that values have left here which no replay has."""
        recorder, place = self._recorder, user_location()
        reason = f"the values of a tensor of shape {list(tensor.array.shape)} leave through {door}()"

        def opens() -> None:
            recorder.later.settle()
            recorder.open_reasons.append((reason, *place, ""))

        return opens

    def _same_values(self, tensor: Tensor) -> Tensor:
        """Whether a tensor has the values that it has now."""
        now = wrap(tensor.array.copy())
        self._recorder.constant(now)
        same: Tensor = self._recorder.later.at_once(lambda: ops.all(ops.eq(tensor, now)))
        return same

    def follow(self, number: Any, held: Value) -> Any:
        """A number that a replay takes out of a value, until somebody looks at it."""
        source = self._source()
        return self._recorder.numbers.follow(Taken(number, lambda: self._fix(held, number, source), held))

    def guard(
        self,
        tensor: Tensor,
        kind: str = "branch",
        answer: bool | None = None,
        size: bool = False,
        cut: int | None = None,
    ) -> None:
        """Python goes on by what a tensor holds, or is told that it does; see `Guard` for kinds. size: not
        Python, but the next op, whose result is of that size. cut: the number of the call that it belongs to.
        """
        value = self._recorder.value_of(tensor)
        params: dict[str, Any] = {"expected": tensor.array.item() if answer is None else answer, "kind": kind}
        if size:
            params["size"] = True
        if cut is not None:
            params["cut"] = cut
        self._recorder.equations.append(Equation(GUARD, (value,), params, (), self._source()))

    def _fix(self, value: Value, number: Any, source: Source) -> None:
        """Guard a number that was taken out of a tensor: somebody looks at it."""
        params = {"expected": number, "kind": "branch"}
        self._recorder.equations.append(Equation(GUARD, (value,), params, (), source))

    @staticmethod
    def _source() -> Source:
        return Source(*user_location())


def _of_decided_size(equations: Sequence[Equation]) -> set[Value]:
    """What may have a size that values decide, and more."""
    found: set[Value] = set()
    for equation in equations:
        # A write gives what is written its own size.
        values = equation.values()
        values = values[:1] if equation.op.name in ("put", "assign") else values
        if not values or equation.op.name in SIZED or not found.isdisjoint(values):
            found.update(v for v in equation.outputs if v.shape)
    return found
