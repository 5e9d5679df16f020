"""Exchanges of tensors: straight out of their memory and into it, where it lies in one piece.

In a run that is recorded, an exchange is an op and a write (`exchange_op.py`). To others who interpret ops it
is an effect: what waits is computed before it, and no call is answered without it. Either way ranks may take
other ways through compiled code, and do the same together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fusegrad.eager.autograd.node import reach
from fusegrad.eager.autograd.views import count_write
from fusegrad.eager.core.errors import failure, user_spot
from fusegrad.eager.core.state import no_grad, tell
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ops.inplace import begin_write
from fusegrad.eager.ranks.channel import Exchange, Steps
from fusegrad.eager.ranks.exchange_op import Call, begin, described, recorded


class Transfer:
    """An exchange of tensors, and those that it writes; without an exchange, one that is over."""

    def __init__(self, exchange: Exchange | None, written: Sequence[Tensor] = ()) -> None:
        self.exchange, self.written = exchange, written
        self._counted = False

    def is_done(self) -> bool:
        """Whether it is done; moves it on."""
        return self.exchange is None or self.exchange.is_done()

    def error(self) -> BaseException | None:
        """What went wrong."""
        return None if self.exchange is None else self.exchange.error

    def wait(self, seconds: float | None = None) -> None:
        """Have the tensors hold what came. Raises RuntimeError when it does not come in time."""
        if self.exchange is None:
            return
        tell("waits for other ranks")
        self.exchange.wait(seconds)
        if not self._counted:
            self._counted = True
            spot = user_spot()
            for tensor in self.written:
                count_write(tensor, spot)


def start(call: Call, read: Sequence[Tensor], written: Sequence[Tensor]) -> Transfer:
    """Begin what all ranks of a channel do together."""
    made = recorded(call, read, written)
    if made is not None:
        with no_grad():
            for tensor, value in zip(written, made, strict=True):
                tensor.copy_(value)
        return Transfer(None)
    sources, targets = _arrays(call.name, read, written)
    steps = _stored(call.steps(sources, targets), written, targets)
    exchange = begin(call, sources, targets, steps)
    if exchange is None:
        spot = user_spot()
        for tensor, target in zip(written, targets, strict=True):
            tensor.array[...] = target
            count_write(tensor, spot)
    return Transfer(exchange, written)


def start_message(call: Call, read: Sequence[Tensor], written: Sequence[Tensor]) -> Transfer:
    """Begin what this rank does with one other."""
    tell(f"exchanges tensors with other ranks ({call.name})")
    sources, targets = _arrays(call.name, read, written)
    steps = _stored(call.steps(sources, targets), written, targets)
    what = f"{call.name}({described((*sources, *targets)[0])})"
    return Transfer(call.channel.message(what, steps, call.seconds), written)


def _arrays(
    name: str, read: Sequence[Tensor], written: Sequence[Tensor]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The memory of tensors, or copies in one piece."""
    reach(*read, *written)
    with no_grad():
        for tensor in written:
            begin_write(tensor, name)
    for tensor in (*read, *written):
        if type(tensor.array) is not np.ndarray:
            raise failure(RuntimeError, f"{name}: a tensor without values cannot go to other ranks")
    return [in_one_piece(t.array) for t in read], [in_one_piece(t.array) for t in written]


def _stored(steps: Steps, written: Sequence[Tensor], targets: Sequence[np.ndarray]) -> Steps:
    yield from steps
    for tensor, target in zip(written, targets, strict=True):
        if target is not tensor.array:
            tensor.array[...] = target


def in_one_piece(array: np.ndarray) -> np.ndarray:
    """The array, or a copy whose elements lie one after the other."""
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)
