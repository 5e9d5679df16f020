"""An optimizer's step in a recorded run: the optimizer goes in, the ops of its rule are recorded.

The optimizer's rule is written for NumPy arrays that it changes in place. Here it runs on stand-ins
for them: each ufunc becomes an op, each write another value. The numbers that the rule takes
(which may depend on the learning rate and on how many steps were taken) are asked for at every
replay; where the rule's Python looks at one, it must be what it was.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad.eager.autograd.views import count_write
from fusegrad.eager.core.errors import user_spot
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.state import no_grad
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.lazy import cached_property
from fusegrad.eager.optim.differentiable import Buffer
from fusegrad.eager.optim.elementwise import ElementwiseOptimizer
from fusegrad.eager.optim.optimizer import ParameterGroup
from fusegrad.tracer.ir.graph import Value
from fusegrad.tracer.observe.hosts import Host
from fusegrad.tracer.observe.optimizer_steps import StateRead, is_stepped_by
from fusegrad.tracer.observe.symbols import Symbol
from fusegrad.tracer.observe.values import plain_key

if TYPE_CHECKING:
    from fusegrad.tracer.record.recorder import Recorder


class Recorded(Buffer):
    """Stands for an array of a rule that is recorded, and whose numbers are asked for at each replay."""

    def operand(self, value: Any) -> Any:
        return value.tensor() if isinstance(value, Number) else super().operand(value)


class Number(float):
    """A number that a rule was given. As an operand of a ufunc it is whatever it is at the replay; when
    Python looks at it, it is noted: it must be the same then.
    """

    place: int
    numbers: Numbers

    def tensor(self) -> Tensor:
        """The number as an operand."""
        made: Tensor = self.numbers.tensor[self.place]
        return made

    def seen(self) -> float:
        """The plain number, which must be the same in a replay."""
        self.numbers.fixed.add(self.place)
        return float.__float__(self)

    __hash__ = None  # type: ignore[assignment]


def _looking(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(*operands: Any) -> Any:
        return function(*[x.seen() if isinstance(x, Number) else x for x in operands])

    return method


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    return _looking(lambda self, other: function(other, self))


for _name in ("eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs"):
    setattr(Number, f"__{_name}__", _looking(getattr(operator, _name)))
for _name in ("add", "sub", "mul", "truediv", "pow", "mod", "floordiv"):
    _direct, _swapped = _looking(getattr(operator, _name)), _reflected(getattr(operator, _name))

    def _unless_array(method: Callable[..., Any]) -> Callable[..., Any]:
        # Next to an array the number is an operand.
        return lambda self, other: NotImplemented if isinstance(other, Buffer) else method(self, other)

    setattr(Number, f"__{_name}__", _unless_array(_direct))
    setattr(Number, f"__r{_name}__", _unless_array(_swapped))
_conversions: dict[str, Callable[..., Any]] = {"bool": bool, "int": int, "float": float, "round": round}
for _name, _function in _conversions.items():
    setattr(Number, f"__{_name}__", _looking(_function))


class Numbers(Host):
    """The numbers of a rule, in one array, for parameters of one group, dtype and number of steps.

    ahead: the steps that the run takes before this one, which are counted when it ends. options: numbers that
    the run has set in the group, or symbols of such; a replay sets them when it ends. kept: the numbers
    that the rule keeps for the one parameter and changes itself; the array ends with what they become.
    """

    def __init__(
        self,
        optimizer: ElementwiseOptimizer,
        group: ParameterGroup,
        dtype: np.dtype,
        ahead: int,
        options: dict[str, Any],
    ) -> None:
        self.options = options
        self.takes = tuple(x for x in options.values() if isinstance(x, Symbol))
        self.optimizer, self.group, self.dtype = weakref.ref(optimizer), weakref.ref(group), dtype
        self.ahead = ahead
        self.counts: list[weakref.ref[Tensor]] = []
        self.kept: dict[str, weakref.ref[Tensor]] = {}
        self.fixed: set[int] = set()

    def start(self, step: float) -> None:
        """Ask for the numbers as they are now."""
        found = self._constants(step, 0, self.group())
        assert found is not None, "the parameter has all that is kept for it"
        self.first, advanced = found
        self.seen = [*_leaves(self.first), *advanced]
        self.tensor = wrap(self._array(self.seen))

    def _constants(
        self, step: float, ahead: int, group: ParameterGroup | None
    ) -> tuple[Any, list[float]] | None:
        """What the rule takes for its step number `step`, and what is kept becomes; None where that is gone.

        ahead: how many steps before that one are not in what is kept.
        """
        optimizer = self.optimizer()
        assert optimizer is not None and group is not None
        now = {name: reference() for name, reference in self.kept.items()}
        copies = {name: wrap(tensor.array.copy()) for name, tensor in now.items() if tensor is not None}
        if len(copies) < len(now):
            return None
        for missing in range(ahead if copies else 0, -1, -1):
            found = optimizer.constants(group, step - missing, copies, False)
        return found, [copy.array.item() for copy in copies.values()]

    def advanced(self, name: str) -> Tensor:
        """What a number that is kept becomes, as a tensor."""
        place = len(self.seen) - len(self.kept) + [*self.kept].index(name)
        made: Tensor = self.tensor[place]
        return made

    def _step(self) -> float | None:
        """Which step the next one is; None where the parameters do not agree any more."""
        if not self.counts:
            return 0.0
        taken = {count.array.item() for r in self.counts if (count := r()) is not None}
        return taken.pop() + self.ahead + 1 if len(taken) == 1 else None

    def _array(self, leaves: list[Any]) -> np.ndarray:
        return np.array([x if type(x) is float or type(x) is int else 0 for x in leaves], self.dtype)

    def constants(self) -> Any:
        """What the rule gets while it is recorded."""
        places = iter(range(len(self.seen)))

        def stand_in(x: Any) -> Any:
            if isinstance(x, tuple):
                return tuple(map(stand_in, x))
            place = next(places)
            if not _is_number(x):
                return x
            number = Number(x)
            number.place, number.numbers = place, self
            return number

        return stand_in(self.first)

    def array(self, leaves: Sequence[Any], *numbers: Any) -> np.ndarray | None:
        step, group = self._step(), self.group()
        if self.optimizer() is None or group is None or step is None:
            return None
        if self.options:
            taken = iter(numbers)
            options = {k: next(taken) if isinstance(x, Symbol) else x for k, x in self.options.items()}
            group = ParameterGroup({**group, **options})
        constants = self._constants(step, self.ahead, group)
        if constants is None:
            return None
        found = [*_leaves(constants[0]), *constants[1]]
        if len(found) != len(self.seen):
            return None
        for now, then, fixed in zip(found, self.seen, self._fixed, strict=True):
            if now is then:
                continue
            if type(now) is not type(then) or (fixed and plain_key(now) != plain_key(then)):
                return None
        return self._array(found)

    @cached_property
    def _fixed(self) -> list[bool]:
        """Which of the numbers must be what they were in the run that was recorded, which is over."""
        return [place in self.fixed or not _is_number(then) for place, then in enumerate(self.seen)]

    def key(self) -> Any:
        counts = tuple(id(r()) for r in self.counts)
        kept = tuple(id(r()) for r in self.kept.values())
        own = "numbers", id(self.optimizer()), id(self.group()), self.dtype, self.ahead, counts, kept
        options = [(k, id(x) if isinstance(x, Symbol) else plain_key(x)) for k, x in self.options.items()]
        return (*own, *options)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _leaves(value: Any) -> list[Any]:
    """What a rule's numbers, which are nested tuples, hold."""
    if type(value) is not tuple:
        return [value]
    for item in value:
        if type(item) is tuple:
            return [leaf for item in value for leaf in _leaves(item)]
    return list(value)


def record_step(recorder: Recorder, optimizer: Any) -> bool:
    """Take the step of an optimizer, as ops; False, with nothing done, where that cannot be."""
    if any(is_stepped_by(optimizer, method()) for method in recorder.after):
        recorder.effect("steps a learning rate schedule before the parameters; step it last", "schedule")
    if not isinstance(optimizer, ElementwiseOptimizer) or not optimizer.traced:
        recorder.effect(f"{type(optimizer).__name__}.step() cannot be recorded")
        return False
    if any(isinstance(v, Tensor) for group in optimizer.param_groups for v in group.values()):
        recorder.effect(f"{type(optimizer).__name__} has tensors among its options")
        return False
    if any(group.get("differentiable") for group in optimizer.param_groups):
        recorder.effect(f"{type(optimizer).__name__} takes its steps on the autograd graph")
        return False
    members = list(_members(recorder, optimizer))
    for parameter, group in members:
        kept = dict.get(optimizer.state, parameter, {})
        names = (*optimizer.slots(group), *optimizer.advanced, *(("step",) if optimizer.counted else ()))
        if any(kept.get(name) is None for name in names):
            recorder.effect(f"the first step of {type(optimizer).__name__} makes its state", "once")
            return False
        gradient: Any = parameter.gradient
        if parameter.array.dtype.kind != "f" or gradient.array.shape != parameter.array.shape:
            recorder.effect(f"{type(optimizer).__name__} steps a tensor of {parameter.dtype}")
            return False
        arrays = [gradient.array, *(kept[name].array for name in optimizer.slots(group))]
        wide = any(kept[name].array.itemsize > parameter.array.itemsize for name in optimizer.advanced)
        # The rule's ufuncs round what they put into arrays of other dtypes: ops do not.
        own = parameter.array.dtype, parameter.array.shape
        if wide or any((array.dtype, array.shape) != own for array in arrays):
            recorder.effect(
                f"{type(optimizer).__name__} keeps numbers of another type for a tensor of {parameter.dtype}"
            )
            return False
    recorder.reads.append(StateRead(optimizer))
    spot = user_spot()
    shared: dict[Any, Numbers] = {}
    with no_grad():
        for parameter, group in members:
            _step(recorder, _numbers(recorder, shared, optimizer, group, parameter), parameter, spot)
    return True


def _members(recorder: Recorder, optimizer: Any) -> Iterator[tuple[Tensor, ParameterGroup]]:
    """The parameters that have a gradient, with their groups."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            recorder.reached(parameter)
            recorder.sees_gradient(parameter)
            if parameter.gradient is not None:
                yield parameter, group


def _numbers(
    recorder: Recorder, shared: dict[Any, Numbers], optimizer: Any, group: ParameterGroup, parameter: Tensor
) -> Numbers:
    """The numbers that the rule takes for a parameter, shared with those that have come as far."""
    dtype, step, ahead = parameter.array.dtype, 0.0, 0
    if optimizer.counted:
        count = optimizer.state[parameter]["step"]
        step = count.array.item() + 1
        ahead = _steps_ahead(recorder, count)
    own = id(parameter) if optimizer.advanced else 0
    numbers = shared.get((id(group), dtype, step, ahead, own))
    if numbers is None:
        numbers = shared[id(group), dtype, step, ahead, own] = Numbers(
            optimizer, group, dtype, ahead, _options(recorder, group)
        )
        numbers.kept = {name: weakref.ref(optimizer.state[parameter][name]) for name in optimizer.advanced}
        numbers.start(step)

        def given(value: Value) -> Numbers:
            numbers.value = value
            return numbers

        recorder.host(numbers.tensor, "numbers", given)
    if optimizer.counted:
        numbers.counts.append(weakref.ref(count))
    return numbers


def _options(recorder: Recorder, group: ParameterGroup) -> dict[str, Any]:
    """What the run has set in a group so far: numbers, or symbols of them."""
    options = recorder.numbers.options.get(id(group), {})
    return {name: recorder.numbers.symbol_of(x) or x for name, x in options.items()}


def _steps_ahead(recorder: Recorder, count: Tensor) -> int:
    """How many steps the run has counted in a tensor so far."""
    value = recorder.value_of(count)
    known = recorder.memory.find(count.array)
    assert known is not None
    taken, expected = recorder.steps_taken.get(id(count), (0, known.original))
    if value is not expected:
        recorder.effect("writes into the count of an optimizer's steps")
    return taken


def _step(recorder: Recorder, numbers: Numbers, parameter: Tensor, spot: Any) -> None:
    """Step one parameter."""
    optimizer: Any = numbers.optimizer()  # whose rule is annotated for arrays
    group = numbers.group()
    assert group is not None
    kept = dict.get(optimizer.state, parameter, {})
    name = recorder.value_of(parameter).name
    tensors = {"": parameter, **{slot: kept[slot] for slot in optimizer.slots(group)}}
    buffers = {slot: Recorded(tensor) for slot, tensor in tensors.items()}
    own, *slots = buffers.values()
    gradient, a, b = Recorded(parameter.gradient), Recorded(None), Recorded(None)
    optimizer.update(own, gradient, slots, numbers.constants(), a, b)
    results: dict[str, Any] = {slot: buffer.tensor for slot, buffer in buffers.items()}
    if optimizer.counted:
        tensors["step"] = kept["step"]
        results["step"] = kept["step"] + 1
    for slot in optimizer.advanced:
        tensors[slot] = kept[slot]
        results[slot] = numbers.advanced(slot).to(kept[slot].dtype)
    for slot, tensor in tensors.items():
        recorder.reached(tensor)
        recorder.value_of(tensor, f"{name}_{slot}")
        result = results[slot]
        if result is not tensor:
            recorder.about_to_write(tensor)
            tensor.array[...] = result.array
            recorder.wrote(tensor, result)
            count_write(tensor, spot)
        if slot == "step":
            recorder.steps_taken[id(tensor)] = numbers.ahead + 1, recorder.value_of(tensor)
