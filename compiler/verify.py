"""`jit(verify=n)`: a replayed call done again by eager, and whether both agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.compiler.jitted import Jitted
from fusegrad.compiler.paths.replay import Answer
from fusegrad.eager.autograd import views
from fusegrad.eager.core.errors import user_spot
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.public import locate
from fusegrad.eager.core.pytree import flatten, is_its_attributes, within
from fusegrad.eager.core.tensor import Tensor
from fusegrad.eager.ranks.journal import journal
from fusegrad.tracer.observe.hosts import at
from fusegrad.tracer.observe.values import plain_key
from fusegrad.tracer.observe.world.ahead import Asks
from fusegrad.tracer.observe.world.unknown_calls import UNKNOWN


class JitError(RuntimeError):
    """A promise that `jit` was asked for (`require`, `verify`) does not hold; the message says why."""


locate("fusegrad", globals(), ["JitError"])


class Again:
    """What a call has changed or is about to, so that eager can do it from the same start.

    Made before the call's results are handed out.
    """

    def __init__(self, run: Answer, leaves: Sequence[Any]) -> None:
        path = run.leaf.path
        assert path is not None
        left = path.capture.left
        asks = any(isinstance(host, Asks) for host in path.hosts)  # which cannot be asked twice
        leaves_more = (
            left.after or left.attributes or left.items or left.counts or left.replaced or left.flags
        )
        calls = any(equation.op is UNKNOWN for equation in path.forward)
        self.possible = not (asks or calls or leaves_more)
        self.undo: list[Callable[[], None]] = run.undo
        self.written = run.written
        self.memory = run.memory
        self.owners = [owner for place, _ in left.gradients if (owner := at(place, leaves)) is not None]
        self.gradients = [owner.gradient for owner in self.owners]

    def compare(self, function: Jitted, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Go back to the start, run eagerly, and raise JitError where something is not the same.

        What is left in the end is what the replay has left.
        """
        if not self.possible:
            return
        ours, gradients = self._now(), [owner.gradient for owner in self.owners]
        self._put_back(self.memory, self.gradients)
        for restore in reversed(self.undo):
            restore()
        journal.again()
        expected = function.__wrapped__(*args, **kwargs)
        check_same(function, [result, ours], [expected, self._now()])
        self._put_back([tensor.array for tensor in ours[0]], gradients)

    def _put_back(self, memory: Sequence[np.ndarray], gradients: Sequence[Tensor | None]) -> None:
        for tensor, array in zip(self.written, memory, strict=True):
            views.tell_readers(tensor)
            views.count_write(tensor, user_spot())
            tensor.array[...] = array
        for owner, gradient in zip(self.owners, gradients, strict=True):
            owner.gradient = gradient

    def _now(self) -> list[Any]:
        """Copies of the memory and the gradients."""
        gradients = [owner.gradient for owner in self.owners]
        arrays = [t.array for t in self.written]
        return [
            [wrap(np.array(a)) for a in arrays],
            [None if g is None else wrap(np.array(g.array)) for g in gradients],
        ]


# Two runs that should agree to rounding: what relative difference is rounding.
_ROUNDING = {2: 1e-2, 4: 1e-3, 8: 1e-8}  # by the bytes of a real number
_OF_NUMBERS = _ROUNDING[4]  # which may come out of tensors of single precision


def check_same(function: Jitted, ours: Any, theirs: Any) -> None:
    """Raise JitError where a compiled call's result is not eager's."""
    mine: list[Any] = []
    others: list[Any] = []
    same = flatten(ours, mine).key == flatten(theirs, others).key
    for place, (a, b) in enumerate(zip(mine, others, strict=False)):
        a, b = (wrap(leaf) if type(leaf) is np.ndarray else leaf for leaf in (a, b))
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            x, y = a.array, b.array
            same = same and (x.shape, x.dtype, a.needs_grad) == (y.shape, y.dtype, b.needs_grad)
            if same and x.dtype.kind in "fc":
                rounding = _ROUNDING[x.real.itemsize]
                same = np.allclose(x, y, rounding, rounding * 1e-2, equal_nan=True)
            else:
                same = same and np.array_equal(x, y)
        elif type(a) is float and type(b) is float:
            same = bool(np.isclose(a, b, _OF_NUMBERS, _OF_NUMBERS * 1e-2, equal_nan=True))
        elif a is not b and type(a) is type(b) and is_its_attributes(a):
            check_same(function, within(a), within(b))
        else:
            same = same and (a is b or plain_key(a) == plain_key(b))
        if not same:
            raise JitError(f"{function!r}: compiled and eager differ in result {place}:\n{a!r}\n{b!r}")
    if not same:
        raise JitError(f"{function!r}: compiled and eager give other containers:\n{ours!r}\n{theirs!r}")
