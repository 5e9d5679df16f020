"""Values of tensors that leave for Python: what leaves is guarded, or given by a replay, or opens the run.

A number that decides something is guarded. One that is only moved about is given by a replay, and so is an
array that lies in the memory of a tensor: both are followed by their identity (`observe/numbers.py`) until
somebody looks at them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from fusegrad.eager.core.errors import user_location
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.ops import ops
from fusegrad.eager.core.tensor import Tensor
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
                self.guard(counted, "branch")
            self._sizes[value, asked] = int(counted.array)
        return self._sizes[value, asked]

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

    def guard(self, tensor: Tensor, kind: str = "branch", answer: bool | None = None) -> None:
        """Python goes on by what a tensor holds, or is told that it does; see `Guard` for kinds."""
        value = self._recorder.value_of(tensor)
        params = {"expected": tensor.array.item() if answer is None else answer, "kind": kind}
        self._recorder.equations.append(Equation(GUARD, (value,), params, (), self._source()))

    def _fix(self, value: Value, number: Any, source: Source) -> None:
        """Guard a number that was taken out of a tensor: somebody looks at it."""
        params = {"expected": number, "kind": "branch"}
        self._recorder.equations.append(Equation(GUARD, (value,), params, (), source))

    @staticmethod
    def _source() -> Source:
        return Source(*user_location())
