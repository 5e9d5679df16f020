"""Which calls of a batched program go together, and in which order (`eager/batching/agenda.py`), natively.

With many calls this takes as long as to do what they ask for, one group after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fusegrad.compiler.llvm.function_writer import FunctionWriter
from fusegrad.compiler.native.core import Maker, Native
from fusegrad.compiler.native.object_writer import ObjectWriter
from fusegrad.eager.batching.agenda import Ready, in_order, ordered_plainly

NOBODY = -1  # at the end of a row of ready calls


def _written() -> list[FunctionWriter]:
    f = ObjectWriter("fusegrad_agenda", borrowed=False)
    arrays = [f.array_data(f.items.load("ptr", i)) for i in range(len(Ready._fields))]
    sizes, kinds, depths, missing, ends, taking, counts, totals, firsts, following, order, stops = arrays
    calls, many = sizes.load("i64", 0), sizes.load("i64", 1)
    with f.loop(calls) as call, f.if_(missing.load("i64", call) == 0):
        kind = kinds.load("i64", call)
        following.store(firsts.load("i64", kind), call)
        firsts.store(call, kind)
    done, groups = f.variable(0), f.variable(0)
    with f.repeat() as rounds:
        best = f.variable(NOBODY)
        with f.loop(many) as kind, f.if_(firsts.load("i64", kind) >= 0):
            known = f.select(best.value < 0, kind, best.value)
            own = totals.load("i64", kind) * counts.load("i64", known)
            others = totals.load("i64", known) * counts.load("i64", kind)
            best.set(f.select(own < others, kind, known))
        chosen, begin = best.value, done.value
        with f.if_(chosen < 0):
            rounds.leave()
        ready = f.variable(firsts.load("i64", chosen))
        firsts.store(NOBODY, chosen)
        with f.repeat() as through:
            with f.if_(ready.value < 0):
                through.leave()
            order.store(ready.value, done.value)
            done.set(done.value + 1)
            ready.set(following.load("i64", ready.value))
        with f.loop(done.value - begin) as i:
            call = order.load("i64", begin + i)
            counts.store(counts.load("i64", chosen) - 1, chosen)
            totals.store(totals.load("i64", chosen) - depths.load("i64", call), chosen)
            first = ends.load("i64", call)
            with f.loop(ends.load("i64", call + 1) - first) as j:
                taker = taking.load("i64", first + j)
                left = missing.load("i64", taker) - 1
                missing.store(left, taker)
                with f.if_(left == 0):
                    kind = kinds.load("i64", taker)
                    following.store(firsts.load("i64", kind), taker)
                    firsts.store(taker, kind)
        stops.store(done.value, groups.value)
        groups.set(groups.value + 1)
    f.return_(f.call("PyLong_FromLongLong", groups.value, gives="ptr"))
    return [f]


# The trials.


def _trials(made: Maker) -> Iterator[tuple[Any, Any]]:
    native = made(np.zeros(1, np.int64))
    draw = np.random.default_rng(0)
    for size in (0, 1, 2, 5, 40, 200):
        kinds, depths = draw.integers(5, 9, size), draw.integers(0, 6, size)
        takers = draw.integers(1, max(size, 2), 2 * size) if size > 1 else np.zeros(0, np.int64)
        givers = draw.integers(0, 1 << 30, len(takers)) % np.maximum(takers, 1)

        def found(order: Callable[..., int]) -> list[list[int]]:
            return [group.tolist() for group in in_order(order, kinds, depths, givers, takers)]  # noqa: B023

        yield found(native), found(ordered_plainly)


AGENDA = Native("fusegrad_agenda", _written, _trials)
