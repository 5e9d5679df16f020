"""The gradients of a module's parameters, averaged over ranks while backward goes on.

Parameters are put into flat *buckets*, those that backward comes to first in the first. A bucket whose
gradients are all there is sent on its way, in the order of the buckets on all ranks, and what comes is put
into `.grad` when the backward is over: before, memory of a gradient may be on its way to another node.

In a run that is recorded all of that is ops: what is laid into buckets, exchanged and written into `.grad`. A
replay leaves this object as it was, so it has to have been idle before the run, and after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.eager.autograd.accumulation import gradient_of, set_gradient
from fusegrad.eager.autograd.engine import reachable
from fusegrad.eager.autograd.hooks import put_averaging
from fusegrad.eager.autograd.node import reach
from fusegrad.eager.autograd.views import count_write, tell_readers
from fusegrad.eager.core.errors import Spot, failure, user_spot
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.state import no_grad, state, tell
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ranks import exchanges
from fusegrad.eager.ranks.channel import Channel, Exchange, Steps
from fusegrad.eager.ranks.exchange_op import Call, begin, parts_of, recorded_begin, scaled


class Bucket:
    """Some parameters of one dtype, by their numbers, and memory for their gradients."""

    def __init__(self, numbers: Sequence[int], parameters: Sequence[Tensor]) -> None:
        self.numbers = [*numbers]
        sizes = [parameters[i].numel() for i in numbers]
        self.flat = np.zeros(sum(sizes), parameters[numbers[0]].dtype.numpy)
        self.parts = parts_of(self.flat, [parameters[i].array for i in numbers])


def bucketed(parameters: Sequence[Tensor], first: float, most: float) -> list[Bucket]:
    """The parameters in buckets of at most so many bytes, the last ones first: their gradients come first."""
    made: list[Bucket] = []
    filling: dict[np.dtype, tuple[list[int], int]] = {}
    for i in reversed(range(len(parameters))):
        dtype, bytes_ = parameters[i].dtype.numpy, parameters[i].numel() * parameters[i].dtype.itemsize
        numbers, filled = filling.pop(dtype, ([], 0))
        if numbers and filled + bytes_ > (most if made else first):
            made.append(Bucket(numbers, parameters))
            numbers, filled = [], 0
        filling[dtype] = ([*numbers, i], filled + bytes_)
    return made + [Bucket(numbers, parameters) for numbers, _ in filling.values()]


class Reducer:
    """Averages the gradients of parameters, in each backward that is expected."""

    def __init__(
        self,
        parameters: Sequence[Tensor],
        channel: Channel,
        seconds: float,
        sizes: tuple[float, float],
        finds_unused: bool,
    ) -> None:
        tell("makes what averages gradients over ranks")
        self.parameters, self.channel, self.seconds = [*parameters], channel, seconds
        self.finds_unused, self.divisor = finds_unused, channel.size
        self.buckets = bucketed(self.parameters, *sizes)
        self._expecting = False
        self._waiting: set[int] = set()  # parameters whose gradients are not there yet
        self._used = np.zeros(len(self.parameters), np.int8)
        # Of the buckets, in order, and of what is used; None stands for one that is over, or goes by ops.
        self._going: list[Exchange | None] = []
        # Whether a run is recorded; then, of the buckets that go by ops, what gives the means.
        self._by_ops, self._ends = False, dict[Bucket, Callable[[], list[Tensor]]]()
        self._walk: Any = None
        for i, parameter in enumerate(self.parameters):
            put_averaging(parameter, _Averaging(self, i))

    def awaits(self) -> bool:
        """Whether gradients have yet to come."""
        return self._expecting

    def rest(self) -> None:
        """Leave the next backward's gradients as they are."""
        if self._expecting:
            tell("leaves gradients to their rank")
            self._expecting = False

    def expect(self, made: Any, divisor: int) -> None:
        """Average the next backward's gradients, which comes from the tensors in what the module has made.

        Raises RuntimeError where gradients are still missing from the one before.
        """
        recorder: Any = None if state.interpreter is None else state.interpreter.with_ranks
        self._by_ops = recorder is not None and not self.finds_unused
        if self._by_ops:
            recorder.averaging(self.awaits)
        else:
            tell("awaits gradients")
        if self._expecting and self._going_on():
            missing = sorted(self._waiting)
            raise failure(
                RuntimeError,
                "Expected to have finished reduction in the prior iteration before starting a new "
                "one. This error "
                "indicates that your module has parameters that were not used in producing loss. Pass "
                "find_unused_parameters=True, and use all outputs of forward in the loss. "
                "Parameter indices which "
                f"did not receive grad for rank {self.channel.rank}: {' '.join(map(str, missing))}",
            )
        self._expecting, self.divisor = True, divisor
        self._waiting = set(range(len(self.parameters)))
        self._used[:] = 1
        self._going, self._ends, self._walk = [], {}, None
        if self.finds_unused:
            outputs = _tensors(made)
            reach(*outputs)
            edges = (target for node in reachable(outputs) for _, target, _ in node.edges)
            found = {id(target) for target in (*edges, *outputs) if isinstance(target, Tensor)}
            unused = [i for i, parameter in enumerate(self.parameters) if id(parameter) not in found]
            self._used[unused] = 0
            self._waiting.difference_update(unused)
            if not self._waiting:  # no backward will come by here
                self._send()
                self._finish()

    def _going_on(self) -> bool:
        return len(self._waiting) < len(self.parameters) or bool(self._going)

    def came(self, number: int) -> None:
        """The gradient of a parameter is there."""
        if not self._expecting:
            return
        if number not in self._waiting:
            raise failure(
                RuntimeError,
                f"Expected to mark a variable ready only once: the parameter at index {number} got "
                f"a gradient "
                "twice. It is used outside of forward, or backward runs twice for one forward.",
            )
        if state.walk is not self._walk:
            self._walk = state.walk
            state.walk.at_end = [*state.walk.at_end, self._finish]
        self._waiting.discard(number)
        self._send()

    def _send(self) -> None:
        """Send the buckets on their way that are next and full."""
        while len(self._going) < len(self.buckets):
            bucket = self.buckets[len(self._going)]
            if not self._waiting.isdisjoint(bucket.numbers):
                return
            if self._by_ops and self._record(bucket):
                continue
            tell("averages gradients over ranks")
            for number, part in zip(bucket.numbers, bucket.parts, strict=True):
                self._fill(part, gradient_of(self.parameters[number]))
            self._begin(len(self._going))
        if self.finds_unused and len(self._going) == len(self.buckets):
            self._begin_used()

    def _fill(self, part: np.ndarray, gradient: Tensor | None) -> None:
        if gradient is None:
            part[...] = 0
            return
        reach(gradient)
        array = gradient.array
        if type(array) is not np.ndarray:
            raise failure(NotImplementedError, "DistributedDataParallel: sparse gradients are not averaged")
        scaled(array, 1 / self.divisor, part)

    def _record(self, bucket: Bucket) -> bool:
        """Begin to average a bucket's gradients by ops, if the recorded run can say that."""
        gradients = []
        for number in bucket.numbers:
            gradient = gradient_of(self.parameters[number])
            assert gradient is not None, "that of each parameter of a full bucket has come"
            gradients.append(gradient)
        end = recorded_begin(self._call(len(self._going)), gradients, 1 / self.divisor)
        if end is None:
            return False
        self._going.append(None)
        self._ends[bucket] = end
        return True

    def _call(self, index: int) -> Call:
        flat = self.buckets[index].flat
        alike = f"{flat.dtype.name}[{flat.size}]"
        name = f"all_reduce of gradients, bucket {index}"
        return Call(name, self.channel, self.seconds, _sum, (), alike)

    def _begin(self, index: int) -> None:
        self._going.append(begin(self._call(index), [], [self.buckets[index].flat]))

    def _begin_used(self) -> None:
        call = Call("all_reduce of which parameters are used", self.channel, self.seconds, _most)
        self._going.append(begin(call, [], [self._used]))

    def _finish(self) -> None:
        """The backward is over: if all gradients have come, put their means into `.grad`."""
        if self._waiting:
            return
        self._expecting = False
        ends, self._ends = self._ends, {}
        if len(ends) < len(self.buckets):
            tell("averages gradients over ranks")
        spot = user_spot()
        self._wait()
        for bucket in self.buckets:
            if bucket in ends:
                self._write(bucket, ends[bucket]())
                continue
            for number, part in zip(bucket.numbers, bucket.parts, strict=True):
                if self._used[number]:
                    _put(self.parameters[number], part, spot)

    def shadow(self) -> None:
        """Take part in what the others average, with nothing to add."""
        for index, bucket in enumerate(self.buckets):
            bucket.flat[:] = 0
            self._begin(index)
        if self.finds_unused:
            self._used[:] = 0
            self._begin_used()
        self._wait()

    def _wait(self) -> None:
        for exchange in self._going:
            if exchange is not None:
                exchange.wait()
        self._going = []

    def _write(self, bucket: Bucket, means: Sequence[Tensor]) -> None:
        """Write a bucket's means into `.grad`, by ops."""
        with no_grad():
            for number, mean in zip(bucket.numbers, means, strict=True):
                parameter = self.parameters[number]
                known = gradient_of(parameter)
                if known is None or known.needs_grad:
                    set_gradient(parameter, mean.clone())
                else:
                    known.copy_(mean)


def _tensors(made: Any) -> list[Tensor]:
    """The tensors in what a module gives."""
    if isinstance(made, Tensor):
        return [made]
    if isinstance(made, dict):
        made = made.values()
    elif hasattr(made, "__dataclass_fields__"):
        made = vars(made).values()
    elif not isinstance(made, (tuple, list)):
        return []
    return [tensor for part in made for tensor in _tensors(part)]


class _Averaging:
    """One parameter's gradient, as backward tells of it."""

    def __init__(self, reducer: Reducer, number: int) -> None:
        self._reducer, self._number = reducer, number

    def awaits(self) -> bool:
        """Whether the next backward's is to be averaged."""
        return self._reducer.awaits()

    def came(self) -> None:
        """It is there."""
        self._reducer.came(self._number)


def _sum(channel: Channel, read: Sequence[np.ndarray], written: Sequence[np.ndarray]) -> Steps:
    return exchanges.all_reduce(channel, written[0], "SUM")


def _most(channel: Channel, read: Sequence[np.ndarray], written: Sequence[np.ndarray]) -> Steps:
    return exchanges.all_reduce(channel, written[0], "MAX")


def _put(parameter: Tensor, part: np.ndarray, spot: Spot | None) -> None:
    """Make `part` the gradient of a parameter: in the memory of the one that it has, if it may."""
    known = gradient_of(parameter)
    if known is not None and known.array.flags.writeable and not known.needs_grad:
        tell_readers(known)
        known.array[...] = part
        count_write(known, spot)
        return
    array = np.empty_like(parameter.array)
    array[...] = part
    set_gradient(parameter, wrap(array))
