"""Exchanges as ops of recorded runs: one equation each, which replays make between kernels.

An equation may not move before or behind another exchange: other ranks, whose graphs may be other ones, make
them in the order of the program. So each has a *token* for its first operand, which the one before gave, and
gives another one. Nor may it be left out, although nobody reads what it gives: it counts as an op that may
refuse its input.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegrad.eager.core.op import Op, Params, TensorType, bind
from fusegrad.eager.core.state import no_grad, state
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ranks.channel import Channel, Exchange, Steps
from fusegrad.eager.ranks.checks import compare
from fusegrad.eager.ranks.journal import journal

# What makes the steps: of the channel, the arrays that are read, those that are written, and more arguments.
Maker = Callable[..., Steps]


@dataclass(frozen=True)
class Call:
    """What ranks do together, without the arrays.

    arguments: of `maker`, the last ones. alike: what has to be the same on all ranks besides the name.
    """

    name: str
    channel: Channel
    seconds: float
    maker: Maker
    arguments: tuple[Any, ...] = ()
    alike: str = ""

    def __repr__(self) -> str:
        """What tells it from others: equations with the same are the same to a compiler."""
        arguments = "".join(f", {argument!r}" for argument in self.arguments)
        return f"{self.name}(channel {self.channel.number}{arguments})"

    def begin(self, read: Sequence[np.ndarray], written: Sequence[np.ndarray], steps: Steps) -> Exchange:
        """Have it begin, and what is exchanged compared before, in debug mode."""
        what = f"{self.name}({', '.join(map(described, [*read, *written][:2]))})"
        compare(self.channel, f"{self.name} {self.alike}", what, self.seconds)
        return self.channel.exchange(what, steps, self.seconds)

    def steps(self, read: Sequence[np.ndarray], written: Sequence[np.ndarray]) -> Steps:
        """What MPI is to do."""
        return self.maker(self.channel, read, written, *self.arguments)


def described(array: np.ndarray) -> str:
    """`float32[2, 3]`."""
    return f"{array.dtype.name}{list(array.shape)}"


class ExchangeOp(Op):
    """Operands: a token, what is read, what is written. Results: a token, and what is then written.

    Params: `call`, and how many are `read`.
    """

    family = "opaque"
    refuses = "u"  # of the token: it is made whether its results are needed or not
    large = 1 << 62  # eager has no kernel for it

    def evaluate(self, args: Sequence[Any], params: Params) -> Any:
        given = [a.array for a in args[1:]]
        read = [np.ascontiguousarray(array) for array in given[: params["read"]]]
        written = [np.array(array, order="C") for array in given[params["read"] :]]
        return (_token(), *_located(lambda: _Going(params["call"], read, written).end()))

    def infer(self, types: Sequence[Any], params: Params) -> Any:
        return (_TOKEN, *map(_plain, types[1 + params["read"] :]))


class BeginOp(Op):
    """The first half of an exchange that goes on while the program does: of tensors of one dtype, as one.

    Operands: a token, and what is laid end to end, times a factor. Results: a token, and what the second half
    knows it by. Params: `call`, `factor`.
    """

    family, refuses, large = "opaque", "u", 1 << 62

    def evaluate(self, args: Sequence[Any], params: Params) -> Any:
        arrays = [a.array for a in args[1:]]
        flat = np.empty(sum(array.size for array in arrays), arrays[0].dtype)
        for array, part in zip(arrays, parts_of(flat, arrays), strict=True):
            scaled(array, params["factor"], part)
        number = next(_numbers)
        _going[number] = _located(lambda: _Going(params["call"], [], [flat]))
        return _token(), np.array([number])

    def infer(self, types: Sequence[Any], params: Params) -> Any:
        return _TOKEN, TensorType((1,), np.dtype(np.int64))


class EndOp(Op):
    """The second half. Operands: what the first has given, and what that got. Results: what came for each."""

    family, large = "opaque", 1 << 62

    def evaluate(self, args: Sequence[Any], params: Params) -> Any:
        (flat,) = _located(_going.pop(int(args[0].array[0])).end)
        return tuple(parts_of(flat, [a.array for a in args[1:]]))

    def infer(self, types: Sequence[Any], params: Params) -> Any:
        return tuple(map(_plain, types[1:]))


EXCHANGE = ExchangeOp("exchange", "*tensors", None)
BEGIN, END = BeginOp("exchange_begin", "*tensors", None), EndOp("exchange_end", "*tensors", None)
_TOKEN = TensorType((1,), np.dtype(np.uint8))
_numbers = itertools.count()
# By its number: what has begun. What a call leaves that is given up stays, as others will write into it.
_going: dict[int, _Going] = {}


class _Going:
    """An exchange of a recorded run, or of its replay; or what an earlier attempt at a call got by it."""

    def __init__(self, call: Call, read: Sequence[np.ndarray], written: list[np.ndarray]) -> None:
        self._written = written
        sent = journal.sample([*read, *written])
        self._exchange = begin(call, read, written)
        if self._exchange is not None:
            journal.note(told(call, read, written), sent, self._exchange, written)

    def end(self) -> list[np.ndarray]:
        """Wait for it; what came."""
        if self._exchange is None:
            return self._written
        self._exchange.wait()
        return journal.kept(self._written)


def parts_of(flat: np.ndarray, alike: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Memory of one dimension, in parts of the shapes of some arrays."""
    starts = itertools.accumulate((array.size for array in alike), initial=0)
    return [flat[i : i + a.size].reshape(a.shape) for i, a in zip(starts, alike, strict=False)]


def scaled(array: np.ndarray, factor: float, out: np.ndarray) -> None:
    """Put an array, times a factor that is rounded to its dtype, into `out`."""
    np.multiply(array, array.dtype.type(factor), out=out)


def _token() -> np.ndarray:
    return np.zeros(1, np.uint8)


def _plain(type_: Any) -> TensorType:
    return TensorType(tuple(type_.shape), type_.dtype)


def _located(call: Callable[[], Any]) -> Any:
    """What a call gives; what it raises says itself where that is."""
    try:
        return call()
    except Exception as error:
        error.fusegrad_located = True  # type: ignore[attr-defined]
        raise


def begin(
    call: Call, read: Sequence[np.ndarray], written: Sequence[np.ndarray], steps: Steps | None = None
) -> Exchange | None:
    """Begin an exchange; None where an earlier attempt at a jitted call has made it: that came is written.

    steps: what MPI is to do, if more than `call` says.
    """
    known = journal.taken(told(call, read, written), [*read, *written])
    if known is None:
        return call.begin(read, written, call.steps(read, written) if steps is None else steps)
    for array, came in zip(written, known, strict=True):
        array[...] = came
    return None


def told(call: Call, read: Sequence[np.ndarray], written: Sequence[np.ndarray]) -> str:
    """An exchange by its name, arguments and types."""
    return f"{call!r} of {', '.join(map(described, (*read, *written)))}"


def recorded(call: Call, read: Sequence[Tensor], written: Sequence[Tensor]) -> list[Tensor] | None:
    """What comes into the place of `written`, if who interprets this thread's ops takes exchanges for ops.

    None where it is an effect, which has been told.
    """
    return _as_op(EXCHANGE, call, [*read, *written], {"call": call, "read": len(read)})


def recorded_begin(call: Call, tensors: Sequence[Tensor], factor: float) -> Callable[[], list[Tensor]] | None:
    """The same of an exchange that only begins (see `BeginOp`): what ends it, and gives what comes."""
    made = _as_op(BEGIN, call, tensors, {"call": call, "factor": factor})
    if made is None:
        return None

    def end() -> list[Tensor]:
        with no_grad():
            return list(bind(END, (made[0], *tensors)))

    return end


def _as_op(op: Op, call: Call, tensors: Sequence[Tensor], params: Params) -> list[Tensor] | None:
    interpreter = state.interpreter
    if interpreter is None:
        return None
    if interpreter.with_ranks is None:
        interpreter.effect(f"exchanges tensors with other ranks ({call.name})")
        return None
    token = interpreter.with_ranks.begin(call.name, tensors)
    if token is None:
        return None
    with no_grad():
        token, *made = bind(op, (token, *tensors), params)
    interpreter.with_ranks.token = token
    return made
