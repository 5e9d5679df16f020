"""Deferred runs: the Python body runs, its tensor ops wait, and stretches of them run as native code.

This is the way for functions whose body cannot be skipped, because it prints, appends, writes
tensors in place or does other things that a replay could not repeat, and for calls with sizes or numbers
that never came before. Nothing is assumed about the body: each op that it asks for is compared with what
earlier runs asked for at this place. One that is known gives a tensor without values; when somebody asks
for values, what waits is compiled (the first time) and computed as one. An op that is not known is
evaluated at once, and known from then on.

A tensor without values has a stand-in for its array, of the right shape, dtype and strides, and
its own place in `Plan`; every way to its values tells the interpreter before (`reach`, `effect`).
"""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fusegrad.compiler.deferred.op_trie import MOST_STEPS, Place, Plan
from fusegrad.compiler.deferred.region import Step
from fusegrad.compiler.deferred.shape_patterns import Made, layout_key, opened
from fusegrad.compiler.deferred.waiting import made_of, waiting_tensor
from fusegrad.compiler.paths.autograd_node import hand_on
from fusegrad.eager.autograd import views
from fusegrad.eager.autograd.graph import is_watched
from fusegrad.eager.core import shared
from fusegrad.eager.core.errors import failure, user_location
from fusegrad.eager.core.handlers import in_charge
from fusegrad.eager.core.op import Op, Params, TensorType, evaluate
from fusegrad.eager.core.stand_in import Waits, has_values, putting_off
from fusegrad.eager.core.state import Interpreter, no_grad, state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.tracer.record.scalars import dtype_of_numbers, is_scalar

LONGEST = 512  # ops that wait at a time
# Doors through which a copy leaves.
_COPIES = frozenset({"bool", "int", "float", "complex", "index", "item", "tolist", "repr", "format"})


class _Asked(NamedTuple):
    """An op that the body asks for.

    key: what identifies it at this place, without sizes. inputs: as `Step.inputs` has them. fresh: the
    tensors that are new to the stretch, by identity. opened: the sizes in the parameters. sizes: all
    that its results depend on beside the key. scalars: Python numbers that are inputs.
    """

    op: Op
    args: tuple[Any, ...]
    params: Params
    key: Any
    inputs: tuple[tuple[str, Any], ...]
    fresh: dict[int, Tensor]
    opened: tuple[int, ...]
    sizes: tuple[Any, ...]
    scalars: tuple[Any, ...] = ()


class Deferred(Interpreter, Waits):
    """The interpreter of one deferred run. It is in charge of one thread while the body runs.

    seconds: how long stretches may be compiled in this run; those that come after it wait for later runs.
    told: called when it is over, with the line that the run has come to. at_its_line: whether an op that may
    refuse values is computed there.
    """

    at_its_line = True

    def __init__(
        self, plan: Plan, seconds: float | None = None, told: Callable[[str], None] = lambda line: None
    ) -> None:
        super().__init__()
        self.plan, self._told = plan, told
        self._left = math.inf if seconds is None else seconds
        self.compiled = 0  # stretches that ran natively
        self.learned = False
        self.tracked = False
        self.met: list[int] = []  # the sizes of all stretches
        self.refusing = False  # whether a test failed: an op of eager's is about to raise, at its own line
        self._begin()

    def run(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What `function` gives. Whatever it leaves behind has its values, also if it raises."""
        state.interpreter = in_charge(self)
        try:
            putting_off.add(self)
            return function(*args, **kwargs)
        finally:
            state.interpreter = None  # a signal handler would find it in the middle of this
            try:
                self.settle()
            finally:
                putting_off.discard(self)
                self.plan.calls += 1
                self.plan.answered += bool(self.compiled)

    def _begin(self) -> None:
        self.place = self.plan.root()
        self.mode = state.grad_enabled
        self.waiting = True  # whether the tensors of this stretch have no values yet
        self.steps: list[Step] = []
        self.outside: list[Tensor] = []
        self.scalars: list[Any] = []
        self.sizes: list[int] = []  # of the tensors from outside, and in the parameters
        self.versions: list[int] = []
        self._outside_numbers: dict[int, int] = {}
        self._made: dict[int, int] = {}
        self._alive: list[weakref.ref[Tensor]] = []

    # What the engine asks and reports.

    def bind(self, op: Op, args: tuple[Any, ...], params: Params) -> Any:
        with self.lock:
            return self._bind(op, args, params)

    def _bind(self, op: Op, args: tuple[Any, ...], params: Params) -> Any:
        if self.mode is not state.grad_enabled or len(self.steps) >= LONGEST:
            self.settle()
            self.mode = state.grad_enabled
        if op.family == "random" or state.inference or self.refusing or is_watched():
            self._reach_all(args)
            return evaluate(op, args, params)
        asked = self._asked(op, args, params)
        if asked is None:
            self._reach_all(args)
            return evaluate(op, args, params)
        place, gives, asked = self._found(asked)
        if place is None:
            return self._learn(asked)
        outputs = self._follow(place, gives, asked)
        return outputs if len(gives) > 1 else outputs[0]

    def _follow(self, place: Place, gives: tuple[Made, ...], asked: _Asked) -> tuple[Tensor, ...]:
        """Go on to a known place."""
        op, args, params = asked.op, asked.args, asked.params
        self._take(asked)
        assert place.step is not None
        step = Step(op, asked.inputs, params, place.step.first, gives)
        self.place = place
        self.steps.append(step)
        if self.waiting:
            outputs = tuple([waiting_tensor(known) for known in gives])
            if gives[0].shares and op.rules is not None:
                views.taken(outputs[0], args[0], op, params, self.mode)
        else:
            result = evaluate(op, args, params)
            outputs = result if type(result) is tuple else (result,)
        self._note(step, outputs)
        if self._may_refuse(step, args):
            self.settle()
        return outputs

    def leave(self, tensor: Tensor, door: str, value: Any) -> None:
        """The value has been read already; but memory that is lent may be written from now on."""
        if door not in _COPIES:
            self.settle()

    def reach(self, tensor: Tensor) -> None:
        """Somebody is going to read the values of `tensor`."""
        if self.has_waiting(tensor):
            self.settle()

    def has_waiting(self, tensor: Tensor) -> bool:
        return self.waiting and self._number_of(tensor) is not None

    def reads(self, array: np.ndarray) -> bool:
        return self.waiting and any(np.may_share_memory(array, tensor.array) for tensor in self.outside)

    def backward(self, roots: Any, accumulates: bool) -> None:
        """A backward runs at once: it writes gradients and calls hooks."""
        self.settle()

    def effect(self, reason: str, kind: str = "") -> None:
        """Memory, gradients or modes are going to change: what waits comes first."""
        self.settle()

    def interrupted(self, busy: bool) -> None:
        """A signal handler may write what waiting ops read; half way through an op nothing is computed."""
        if not busy:
            self.settle()

    def constant(self, tensor: Tensor) -> None:
        """A tensor made of Python data is one from outside."""

    def check(self, tensor: Tensor, passed: Callable[[], Tensor], within: tuple[int, ...] = ()) -> bool:
        """An op tests its input now, or refuses it when it is computed; compiled code would not."""
        self.reach(tensor)
        if not self.refusing:
            interpreter, state.interpreter = state.interpreter, None
            try:
                with no_grad():
                    self.refusing = not passed().array.all()
            finally:
                state.interpreter = interpreter
            if self.refusing:
                self.settle()
        return True

    def enter_transform(self) -> None:
        """What waits has to do with gradients outside, the transform's own ops with those inside."""
        self.settle()

    beneath_batch = enter_transform  # and nobody interprets those ops
    # Finding the way.

    def _number_of(self, tensor: Tensor) -> int | None:
        number = self._made.get(id(tensor))
        return number if number is not None and self._alive[number]() is tensor else None

    def _asked(self, op: Op, args: tuple[Any, ...], params: Params) -> _Asked | None:
        """The op as the trie knows ops.

        None for an op that does not wait: a view of a tensor with values, one whose input somebody
        else could write without telling, and one on another thread's waiting tensor, which refuses.
        """
        keys: list[Any] = [op]
        inputs: list[tuple[str, Any]] = []
        sizes: list[Any] = []
        fresh: dict[int, Tensor] = {}
        made = False
        for a in args:
            if not isinstance(a, Tensor):
                keys.append((type(a), repr(a)))
                inputs.append(("number", a))
                continue
            array = a.array
            number = self._number_of(a)
            if number is not None:
                made = True
                sizes.append(array.shape)
                keys.append(number)
                inputs.append(("made", number))
                continue
            place = self._outside_numbers.get(id(a))
            if place is None:
                if shared.is_exposed(array) or not has_values(array) or a.is_inference():
                    return None
                if _gradient_is_exposed(a):
                    # Backward may write there what an op reads that did not wait: in eager's order.
                    self.settle()
                    return None
                place = len(self.outside) + len(fresh)
                if id(a) in fresh:
                    place = len(self.outside) + list(fresh).index(id(a))
                fresh[id(a)] = a
            layout, own = layout_key(array)
            keys.append((place, array.dtype, layout, a.needs_grad))
            sizes.append(own)
            inputs.append(("outside", place))
        if op.view and not made:
            return None
        found: tuple[int, ...] = ()
        if params:
            key, found = opened(params)
            keys.append(key)
            sizes.append(found)
        return _Asked(op, args, params, tuple(keys), tuple(inputs), fresh, found, tuple(sizes))

    def _found(self, asked: _Asked) -> tuple[Place | None, tuple[Made, ...], _Asked]:
        """The place that an op leads to and what it makes there; without one, how to learn the op."""
        following = self.place.following
        place = following.get(asked.key)
        if place is None:
            general = self._generalised(asked)
            if general.scalars:
                place = following.get(general.key)
                if place is not None or self.plan.numbers_change or general.key in self.place.patterns:
                    self.plan.numbers_change = True
                    asked = general
                else:
                    self.place.patterns.add(general.key)
        if place is None:
            return None, (), asked
        gives = place.made(asked.op, asked.args, asked.params, asked.sizes)
        if gives is None:
            # Sizes decide more than sizes here: these are known, or learned, by themselves.
            asked = asked._replace(key=(asked.key, asked.sizes))
            place = following.get(asked.key)
            gives = None if place is None else place.gives.get(asked.sizes)
        return (None, (), asked) if place is None or gives is None else (place, gives, asked)

    def _generalised(self, asked: _Asked) -> _Asked:
        """The op with its Python numbers taken out of the key.

        Only where a number does not tell the result's type: next to floats, in elementwise ops.
        """
        dtype = dtype_of_numbers(asked.op, asked.args)
        if dtype is None:
            return asked
        key, inputs = list(asked.key), list(asked.inputs)
        values: list[Any] = []
        for i, (kind, value) in enumerate(asked.inputs):
            if kind == "number" and is_scalar(value, dtype):
                key[i + 1] = type(value)
                inputs[i] = ("scalar", (len(self.scalars) + len(values), dtype))
                values.append(value)
        return asked._replace(key=tuple(key), inputs=tuple(inputs), scalars=tuple(values))

    def _take(self, asked: _Asked) -> None:
        """What a step brings into the stretch from outside."""
        self.scalars += asked.scalars
        for identity, tensor in asked.fresh.items():
            self._outside_numbers[identity] = len(self.outside)
            self.outside.append(tensor)
            self.versions.append(tensor.version[0])
            self.sizes += layout_key(tensor.array)[1]
        self.sizes += asked.opened

    def _note(self, step: Step, outputs: tuple[Tensor, ...]) -> None:
        for k, tensor in enumerate(outputs):
            self._made[id(tensor)] = step.first + k
            self._alive.append(weakref.ref(tensor))

    def _learn(self, asked: _Asked) -> Any:
        """Evaluate an op that was not met here before, and know it from now on."""
        op, args, params = asked.op, asked.args, asked.params
        self._compute()
        self.waiting, self.learned = False, True
        result = evaluate(op, args, params)
        outputs = result if type(result) is tuple else (result,)
        if self.plan.steps >= MOST_STEPS or _aliases(op, args, outputs):
            return result
        self._take(asked)
        gives = tuple([made_of(op, args, tensor) for tensor in outputs])
        step = Step(op, asked.inputs, dict(params), self.place.number, gives)
        place = Place(step, self.place.number + len(gives))
        place.gives[asked.sizes] = gives
        self.plan.steps += 1
        self.place = self.place.following.setdefault(asked.key, place)
        self.steps.append(step)
        self._note(step, outputs)
        if self._may_refuse(step, args):
            self.settle()
        return result

    def _may_refuse(self, step: Step, args: tuple[Any, ...]) -> bool:
        """Whether an op that was noted may refuse its input because of values, and so has to be computed at
        its line. Positions that lie in tensors from outside are looked at now.
        """
        op = step.op
        if not self.at_its_line or step.gives[0].type.dtype.kind not in op.refuses:
            return False
        if op.positions is None:
            return True
        types = [TensorType(a.array.shape, a.array.dtype) if isinstance(a, Tensor) else a for a in args]
        looked_at = op.positions(types, step.params)
        return looked_at is None or not all(
            step.inputs[i][0] != "made" and _lie_within(args[i], least, end) for i, least, end in looked_at
        )

    # Computing what waits.

    def _reach_all(self, args: tuple[Any, ...]) -> None:
        for a in args:
            if isinstance(a, Tensor):
                self.reach(a)

    def settle(self) -> None:
        """Compute what waits, and begin a new stretch."""
        with self.lock:
            if self.steps:
                self.met += self.sizes
                if self.waiting:
                    alive = tuple([i for i, reference in enumerate(self._alive) if reference() is not None])
                    if alive:
                        self._end(alive)
                elif self.place.seen is None:
                    self.place.seen = tuple(self.sizes)
            self._begin()

    def _end(self, alive: tuple[int, ...]) -> None:
        """Compute the stretch natively."""
        known, began = self.plan.made, time.perf_counter()
        sizes = tuple(self.sizes)
        stretch = self.plan.stretch(self.place, self.steps, self.outside, alive, sizes, self._left >= 0)
        if self.plan.made > known and self._left >= 0:
            self._left -= time.perf_counter() - began
            if self._left < 0:
                self._told("{}:{}".format(*user_location()))
        if stretch is None:
            self._compute()
        else:
            self._check_versions()
            self._fill(stretch.run)

    def _compute(self) -> None:
        """Evaluate what waits op by op, as eager does."""
        if self.waiting and self.steps:
            self._check_versions()
            self._fill(lambda *_: None)

    def _fill(self, run: Callable[[list[Tensor], list[Any]], dict[int, Tensor] | None]) -> None:
        """Give the tensors that stand for values their values.

        If that fails, they lose their stand-ins: nobody must take those for values.
        """
        waiting = {
            i: tensor for i, reference in enumerate(self._alive) if (tensor := reference()) is not None
        }
        filled: set[int] = set()
        self.waiting = False
        interpreter, state.interpreter = state.interpreter, None
        mode, state.grad_enabled = state.grad_enabled, self.mode
        try:
            found = run(self.outside, self.scalars)
            if found is None:
                self._evaluate(waiting, filled)
            else:
                self.compiled += 1
                self._hand_out(found, waiting, filled)
        finally:
            state.interpreter, state.grad_enabled = interpreter, mode
            for number, tensor in waiting.items():
                if number not in filled:
                    del tensor.array

    def _hand_out(self, found: dict[int, Tensor], waiting: dict[int, Tensor], filled: set[int]) -> None:
        """Give the computed values to their tensors, and make the views of them."""
        hand_on([(tensor, waiting[number]) for number, tensor in found.items() if number in waiting])
        for number, tensor in found.items():
            if number in waiting:
                self._become(waiting[number], tensor)
                filled.add(number)
                found[number] = waiting[number]
        for number in waiting:
            self._viewed(number, found, waiting, filled)

    def _viewed(
        self, number: int, found: dict[int, Tensor], waiting: dict[int, Tensor], filled: set[int]
    ) -> Tensor:
        """The value, which is a view of another if it was not found yet."""
        if number not in found:
            step = next(s for s in self.steps if s.first == number)
            base = {where: self._viewed(where, found, waiting, filled) for where in step.sources()}
            args = step.operands(base, (), ())
            found[number] = self._settled(evaluate(step.op, args, step.params), waiting, number)
            filled.add(number)
        return found[number]

    def _evaluate(self, waiting: dict[int, Tensor], filled: set[int]) -> None:
        """Compute everything op by op; values that nobody has are dropped after their last use."""
        last: dict[int, int] = {}
        for place, step in enumerate(self.steps):
            last.update(dict.fromkeys(step.sources(), place))
        values: dict[int, Any] = {}
        for place, step in enumerate(self.steps):
            args = step.operands(values, self.outside, self.scalars)
            result = evaluate(step.op, args, step.params)
            for k, tensor in enumerate(result if type(result) is tuple else (result,)):
                number = step.first + k
                values[number] = self._settled(tensor, waiting, number)
                filled.add(number)
            for number in [n for n in step.sources() if last[n] == place and n not in waiting]:
                values.pop(number, None)

    def _settled(self, result: Tensor, waiting: dict[int, Tensor], number: int) -> Tensor:
        """The tensor that has waited for `result`, or else `result`."""
        tensor = waiting.get(number)
        if tensor is None:
            return result
        self._become(tensor, result)
        return tensor

    def _become(self, tensor: Tensor, result: Tensor) -> None:
        """Give a waiting tensor its values and its place on the graph."""
        self.tracked = self.tracked or result.needs_grad
        views.become(tensor, result)

    def _check_versions(self) -> None:
        """No other thread may have written what waiting ops are about to read."""
        for tensor, version in zip(self.outside, self.versions, strict=True):
            if tensor.version[0] != version:
                raise failure(
                    RuntimeError,
                    f"a tensor of shape {list(tensor.array.shape)} was written by another thread while ops "
                    "of a jitted function that read it were waiting to be computed; take a lock around both",
                )


def _lie_within(numbers: Any, least: int, end: int) -> bool:
    """Whether a number, or all that a tensor holds, is at least the one and less than the other."""
    if not isinstance(numbers, Tensor):
        return bool(least <= numbers < end)
    array = numbers.array
    return not array.size or bool(array.min() >= least and array.max() < end)


def _aliases(op: Op, args: tuple[Any, ...], outputs: tuple[Tensor, ...]) -> bool:
    """Whether an op that is no view gave memory of its input."""
    arrays = [a.array for a in args if isinstance(a, Tensor)]
    return not op.view and any(np.may_share_memory(o.array, a) for o in outputs for a in arrays)


def _gradient_is_exposed(tensor: Tensor) -> bool:
    return tensor.gradient is not None and shared.is_exposed(tensor.gradient.array)
