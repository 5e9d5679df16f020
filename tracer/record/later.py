"""Ops that wait: an op goes in, tensors without values come out, which are computed when somebody looks.

Where tensors are large, eager's run takes longer than recording and compiling it. So ops are put off whose
results are known but for their values: type, strides, place on the autograd graph. As soon as somebody is
going to look at values, or to write what was there before, all that waits is evaluated in order, as eager
does it, and nothing is put off any more. Writes into what has no values yet wait with the rest. If nobody
comes before the end of the run, the compiled path computes its results.

A tensor without values has a stand-in for its array (`eager/core/stand_in.py`).
"""

from __future__ import annotations

import contextlib
import weakref
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from fusegrad.eager.autograd import anomaly
from fusegrad.eager.autograd.node import watchers
from fusegrad.eager.core import shared
from fusegrad.eager.core.errors import user_location
from fusegrad.eager.core.interpreter import holders
from fusegrad.eager.core.op import Op, Params, evaluate, wrap
from fusegrad.eager.core.stand_in import StandIn, Waits, putting_off, stand_in
from fusegrad.eager.core.state import no_grad, state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.foretelling import foretell
from fusegrad.eager.ops.index.take_and_put import SELECT_AT
from fusegrad.tracer.record.memory import Memory
from fusegrad.tracer.record.references import others

# An op on so many elements takes eager long enough for putting it off to pay.
LARGE = 2**18
# Whose rules tell types, and how results lie in memory. Not of those that draw: in which order counts.
_FAMILIES = frozenset(
    {"elementwise", "reduction", "contraction", "composite", "view", "opaque", "rolled", "creation"}
)


def never_fit(op: Op, args: Sequence[Any], params: Params) -> bool:
    """Nothing is known of what an op is given that may refuse it."""
    return False


class _Waiting(NamedTuple):
    """An op that waits.

    args: arrays and Python numbers. made: the stand-ins for its results.
    """

    op: Op
    args: tuple[Any, ...]
    params: Params
    made: tuple[StandIn, ...]

    def sources(self) -> list[np.ndarray]:
        """The arrays that it reads, stand-ins among them."""
        return [a for a in self.args if isinstance(a, np.ndarray)]


class _Write(NamedTuple):
    """A write that waits: `target[index] = value`, as arrays. made: whose memory it changes."""

    target: StandIn
    index: Any
    value: np.ndarray

    @property
    def made(self) -> tuple[StandIn]:
        return (self.target,)

    def sources(self) -> list[np.ndarray]:
        """The arrays that it reads, stand-ins among them."""
        return [self.value]


class _Repeat(NamedTuple):
    """Rounds of a loop that wait: the op gives other values for the first of its operands, which take them.

    made: these. others: the rest of its operands.
    """

    op: Op
    made: tuple[StandIn, ...]
    others: tuple[np.ndarray, ...]
    params: Params

    def sources(self) -> list[np.ndarray]:
        """The arrays that it reads, stand-ins among them."""
        return [*self.made, *self.others]


class _Put(NamedTuple):
    """Memory whose values count as yet to come. values: where they are. made: what stands for it."""

    values: np.ndarray
    made: tuple[StandIn]

    def sources(self) -> list[np.ndarray]:
        """The arrays that it reads, stand-ins among them."""
        return []


class Later(Waits):
    """The ops of one run that wait.

    memory: told which array has taken the place of a stand-in. on: whether any op may wait. whatever_size:
    whether those on small arrays do, too, from now on. writes_rows: whether what is being written is a part
    of which the autograd graph keeps nothing. short_loops: whether those on small tensors are rolled that are
    too short for it to pay.
    """

    def __init__(self, memory: Memory, on: bool) -> None:
        super().__init__()
        self._memory, self._on = memory, on
        self._paused = False
        self.whatever_size = self.writes_rows = self.short_loops = False
        self.settled = ("", 0)  # what had all computed, and the line of that
        # Whether an op that may refuse its input takes this one for sure.
        self.is_fit: Callable[[Op, Sequence[Any], Params], bool] = never_fit
        self._waiting: deque[_Waiting | _Write | _Repeat | _Put] = deque()
        # By the id of a stand-in: the tensors that have it for an array.
        self._holders: dict[int, list[weakref.ref[Tensor]]] = {}

    @property
    def waits(self) -> bool:
        """Whether anything is put off."""
        return bool(self._waiting)

    def run(self, op: Op, args: tuple[Any, ...], params: Params) -> Any:
        """What the op gives: evaluated, or without values."""
        with self.lock:
            made = self.foretold(op, args, params) if self._on and not self._paused else None
            if made is not None:
                return self._put_off(op, args, params, made)
        if self._waiting:
            if any(isinstance(a, Tensor) and self._stands(a.array) for a in args):
                self.settle(_why_at_once(op))
            self.meets(args)
        return evaluate(op, args, params)

    def reach(self, tensor: Tensor) -> None:
        """Somebody is going to read the values of `tensor`."""
        if self.has_waiting(tensor):
            self.settle()
        self.meets((tensor,))

    def meets(self, args: Sequence[Any]) -> None:
        """Give the tensors among `args` their arrays, where these are there already.

        A tensor that shares the array of another may not have been known of when that got its values.
        """
        for tensor in args:
            if (
                isinstance(tensor, Tensor)
                and type(tensor.array) is StandIn
                and tensor.array.values is not None
            ):
                tensor.array = tensor.array.values

    def has_waiting(self, tensor: Tensor) -> bool:
        """Whether the tensor is one of those that wait."""
        return self._stands(tensor.array)

    def reads(self, array: np.ndarray) -> bool:
        return any(np.may_share_memory(array, a) for w in self._waiting for a in w.sources())

    def _wait(self, waiting: _Waiting | _Write | _Repeat | _Put) -> None:
        self._waiting.append(waiting)
        putting_off.add(self)

    def sharing(self, array: StandIn) -> list[Tensor]:
        """The tensors that have the memory of a stand-in."""
        memory = _memory(array)
        return [t for t in self.tensors() if type(t.array) is StandIn and _memory(t.array) == memory]

    def references(self, array: np.ndarray) -> int:
        """How many references to an array the ops have that wait, also by views that nobody else has."""
        operands = [a for w in self._waiting if isinstance(w, _Waiting) for a in w.args]
        times = Counter(map(id, operands))
        views = {id(a): a for a in operands if isinstance(a, np.ndarray) and a.base is array}
        # Each is once more in the list for each time that an op has it.
        alone = sum(n == 2 * times[key] for key, n in zip(views, holders(views.values()), strict=True))
        return times[id(array)] + alone

    def tensors(self) -> list[Tensor]:
        """The tensors that have no values yet."""
        return [tensor for holders in self._holders.values() for tensor in alive(holders)]

    def is_held(self, array: np.ndarray, by_graph: Counter[int]) -> bool:
        """Whether a tensor has the array that somebody but the graph holds (see `references.py`).

        Arrays that wait are kept for later in any case.
        """
        return not self._stands(array) or any(others(r, by_graph) for r in self._holders[id(array)])

    def versions(self) -> dict[int, list[Any]]:
        """The version counters, by id, of the tensors that have no values yet."""
        return {id(t.version): t.version for t in self.tensors()}

    def write(self, target: Tensor, index: Any, value: Tensor) -> bool:
        """Have a write into a tensor wait; False where it does not."""
        with self.lock:
            self.meets((target, value))
            array = target.array
            if not self._stands(array):
                return False
            self._wait(_Write(array, index, _for_later(value.array)))
            return True

    def goes_on(self, target: Tensor, keeps_nothing: bool, outside: bool) -> bool:
        """Whether ops may go on waiting where a tensor is about to be written: the write waits as well, or
        nothing does so far and it is the run's own.

        keeps_nothing: the write does not go on the autograd graph. outside: the tensor was there before.
        """
        waits = (keeps_nothing or self.writes_rows) and self.has_waiting(target)
        return waits or not (self.waits or outside)

    def put_off(self, tensor: Tensor) -> bool:
        """Have the values of a tensor count as yet to come, so that writes into it wait; whether they do.

        Only where nobody else has its memory: neither views nor NumPy code.
        """
        (others,) = holders((tensor.array,))
        array = tensor.array
        if self._stands(array):
            return True
        alone = array.base is None and others == 1 and array.flags.writeable
        seen = state.inference or anomaly.setting.enabled or watchers
        if not self.on or not alone or type(tensor) is not Tensor or seen:
            return False
        made = stand_in(array.shape, array.dtype, array.strides)
        with self.lock:
            self._holders[id(made)] = [weakref.ref(tensor)]
            self._wait(_Put(array, (made,)))
            tensor.array = made
            self._memory.replace(array, made)
        return True

    @property
    def on(self) -> bool:
        """Whether ops may wait, still."""
        return self._on and not self._paused

    def repeat(
        self, op: Op, carried: Sequence[np.ndarray], others: Sequence[np.ndarray], params: Params
    ) -> bool:
        """Have rounds of a loop wait that change what is `carried`; False where that has values already."""
        with self.lock:
            made = [a for a in carried if self._stands(a)]
            if len(made) < len(carried):
                return False
            self._wait(_Repeat(op, tuple(made), tuple(map(_for_later, others)), params))
            return True

    def at_once(self, function: Callable[[], Any]) -> Any:
        """What `function` gives, nothing of it put off."""
        self._paused = True
        try:
            return function()
        finally:
            self._paused = False

    def _stands(self, array: np.ndarray) -> TypeGuard[StandIn]:
        """Whether the array is a stand-in of this run's."""
        return type(array) is StandIn and id(array) in self._holders

    # What an op gives, but for values.

    def foretold(self, op: Op, args: Sequence[Any], params: Params) -> Any:
        """A stand-in for the result, or a tuple of them; None for an op that does not wait."""
        if (
            op.family not in _FAMILIES
            or "order" in params
            or state.inference
            or anomaly.setting.enabled
            or watchers
        ):
            return None
        arrays = [a.array for a in args if isinstance(a, Tensor)]
        waits = any(self._stands(a) for a in arrays)
        small = not self.whatever_size and all(a.size < LARGE for a in arrays)
        if not waits and (op.view or small):
            return None
        if any(shared.is_exposed(a) and a.size >= LARGE for a in arrays):
            return None  # NumPy code may write it without a word, and a copy takes long
        if op is SELECT_AT:
            if not arrays[0].size:
                return None
            # Which part it is of that memory, nobody knows yet.
            first = arrays[0].view(np.ndarray)[(slice(None),) * params["dim"] + (0, ...)]
            made: Any = first.view(StandIn)
        else:
            made = foretell(op, args, params)
        results = made if type(made) is tuple else () if made is None else (made,)
        if any(m.dtype.kind in op.refuses for m in results) and not self.is_fit(op, args, params):
            return None
        return made

    def _put_off(self, op: Op, args: tuple[Any, ...], params: Params, made: Any) -> Any:
        result = evaluate(op, args, params, made)
        outputs = result if type(result) is tuple else (result,)
        arrays = tuple([tensor.array for tensor in outputs])
        self._holders.update((id(array), []) for array in arrays)
        # A node keeps outputs in tensors of their own.
        kept = [t for o in outputs if o.grad_fn is not None for t in o.grad_fn.outputs or () if t is not None]
        for tensor in (*outputs, *kept, *(a for a in args if isinstance(a, Tensor))):
            if self._stands(tensor.array):
                self._holders[id(tensor.array)].append(weakref.ref(tensor))
        operands = tuple([_for_later(a.array) if isinstance(a, Tensor) else a for a in args])
        self._wait(_Waiting(op, operands, dict(params), arrays))
        return result

    # Computing what waits.

    def settle(self, why: str = "values are looked at") -> None:
        """Evaluate what waits and somebody holds; nothing waits any more from now on. why: a clause."""
        if self._on:
            self._on, self.settled = False, (why, user_location()[1])
        self.catch_up()

    def catch_up(self) -> None:
        """Evaluate what waits and somebody holds; other ops may wait again.

        If that fails, tensors lose their stand-ins: nobody must take those for values.
        """
        with self.lock:
            if self._waiting:
                self._compute_needed(self._needed())

    def _compute_needed(self, needed: list[bool]) -> None:
        """Evaluate those of what waits that are needed; from the last one on."""
        interpreter, state.interpreter = state.interpreter, None
        try:
            while self._waiting:
                waiting = self._waiting.popleft()
                if needed.pop():
                    self._compute(waiting)
        finally:
            state.interpreter = interpreter
            putting_off.discard(self)
            self._waiting.clear()
            for holders in self._holders.values():
                for tensor in alive(holders):
                    with contextlib.suppress(AttributeError):  # one that was interrupted here has taken it
                        del tensor.array
            self._holders.clear()

    def _needed(self) -> list[bool]:
        """For each op that waits, from the last one on, whether it changes memory that somebody holds, or of
        which such memory is computed later.
        """
        made = (array for waiting in self._waiting for array in waiting.made)
        memory = {_memory(array) for array in made if alive(self._holders[id(array)])}
        needed = []
        for waiting in reversed(self._waiting):
            needed.append(not memory.isdisjoint(map(_memory, waiting.made)))
            if needed[-1]:
                memory.update(map(_memory, waiting.sources()))
        return needed

    def _compute(self, waiting: _Waiting | _Write | _Repeat | _Put) -> None:
        if isinstance(waiting, _Write):
            target, value = map(_with_values, (waiting.target, waiting.value))
            target[waiting.index] = value
            return
        if isinstance(waiting, _Repeat):
            results = _evaluated(waiting.op, (*waiting.made, *waiting.others), waiting.params)
            # One may lie in the memory of another's operand.
            for array, values in zip(waiting.made, [r.array.copy() for r in results], strict=True):
                _with_values(array)[...] = values
            return
        if isinstance(waiting, _Put):
            arrays = (waiting.values,)
        else:
            result = _evaluated(waiting.op, waiting.args, waiting.params)
            arrays = tuple([t.array for t in (result if type(result) is tuple else (result,))])
        for array, computed in zip(waiting.made, arrays, strict=True):
            array.values = computed
            for tensor in alive(self._holders.pop(id(array))):
                if tensor.array is array:
                    tensor.array = array.values
            self._memory.replace(array, array.values)


def _why_at_once(op: Op) -> str:
    """Why an op did not wait."""
    if op.refuses:
        return f"{op.name} is computed at once, since it may refuse its input"
    return f"{op.name} is computed at once"


def _with_values(operand: Any) -> Any:
    """What is computed in place of a stand-in."""
    return operand.values if type(operand) is StandIn else operand


def _for_later(array: np.ndarray) -> np.ndarray:
    """What is read later in place of an array: NumPy code may write some without a word."""
    return array.copy() if not isinstance(array, StandIn) and shared.is_exposed(array) else array


def _evaluated(op: Op, args: Sequence[Any], params: Params) -> Any:
    """What an op gives for arrays and Python numbers."""
    operands = map(_with_values, args)
    with no_grad():
        return evaluate(op, tuple([wrap(a) if isinstance(a, np.ndarray) else a for a in operands]), params)


def alive(holders: Sequence[weakref.ref[Tensor]]) -> list[Tensor]:
    """The tensors that are there, still."""
    return [tensor for reference in holders if (tensor := reference()) is not None]


def _memory(array: np.ndarray) -> int:
    """A number for the memory of an array, which its views share."""
    return id(shared.owner(array))
