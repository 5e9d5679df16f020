"""In which order calls that wait are done, and which of them as one.

Those of a kind whose operands are there are done as one. Of several kinds that could be next it is the one
whose calls stand at the smallest depth on average, since then most of its calls have come together: Neubig,
Goldberg and Dyer, "On-the-fly operation batching in dynamic computation graphs".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from fusegrad.eager.batching.natively import natively


class Ready(NamedTuple):
    """What the order is found of: arrays of integers, some of which are changed on the way.

    sizes: how many calls and kinds there are. kinds, depths, missing: by the call, its kind, its depth, and
    how many of its operands are not there yet. taking: who takes what calls give, of the i-th call those from
    ends[i] to ends[i + 1]. counts, totals: by the kind, how many calls are not done, and the sum of their
    depths. firsts, following: the ready calls of a kind, as a row: the first of each, and behind each the
    next. order, stops: what is found, calls in their order, and where each group ends.
    """

    sizes: np.ndarray
    kinds: np.ndarray
    depths: np.ndarray
    missing: np.ndarray
    ends: np.ndarray
    taking: np.ndarray
    counts: np.ndarray
    totals: np.ndarray
    firsts: np.ndarray
    following: np.ndarray
    order: np.ndarray
    stops: np.ndarray


def in_groups(
    kinds: np.ndarray, depths: np.ndarray, givers: np.ndarray, takers: np.ndarray
) -> Iterator[np.ndarray]:
    """Groups of calls of one kind, whose operands were all given by groups before.

    kinds, depths: of each call. givers, takers: for each operand that one of the calls gives, which call that
    is, and which one takes it.
    """
    return in_order(natively.order or ordered_plainly, kinds, depths, givers, takers)


def in_order(
    order: Callable[..., int], kinds: np.ndarray, depths: np.ndarray, givers: np.ndarray, takers: np.ndarray
) -> Iterator[np.ndarray]:
    """The groups that `order` finds: it fills in `order` and `stops` of `Ready`, and gives their number."""
    size = len(kinds)
    names, own = np.unique(kinds, return_inverse=True)
    counts = np.bincount(own, minlength=len(names))
    totals = np.zeros(len(names), np.int64)
    np.add.at(totals, own, depths)
    missing = np.bincount(takers, minlength=size)
    ends = np.concatenate([[0], np.cumsum(np.bincount(givers, minlength=size))])
    taking = takers[np.argsort(givers, kind="stable")]
    firsts, following = np.full(len(names), -1), np.full(size, -1)
    found, stops = np.empty(size, np.int64), np.empty(size, np.int64)
    sizes = np.array([size, len(names)])
    whole = (sizes, own, depths, missing, ends, taking, counts, totals, firsts, following, found, stops)
    begin = 0
    for stop in stops[: order(*[np.ascontiguousarray(rows, np.int64) for rows in whole])].tolist():
        yield np.sort(found[begin:stop])
        begin = stop


def ordered_plainly(*arrays: np.ndarray) -> int:
    """The order, in Python."""
    given = Ready(*arrays)
    # Lists, since most groups are small: for these each step of NumPy's takes longer than all of it.
    kinds, depths, missing, ends, taking, count, total = (rows.tolist() for rows in given[1:8])
    ready: dict[int, list[int]] = {}
    for call, kind in enumerate(kinds):
        if not missing[call]:
            ready.setdefault(kind, []).append(call)
    order: list[int] = []
    stops = []
    while ready:
        kind = min(ready, key=lambda k: (total[k] / count[k], k))
        group = ready.pop(kind)
        count[kind] -= len(group)
        for call in group:
            total[kind] -= depths[call]
            for taker in taking[ends[call] : ends[call + 1]]:
                missing[taker] -= 1
                if not missing[taker]:
                    ready.setdefault(kinds[taker], []).append(taker)
        order += group
        stops.append(len(order))
    given.order[:] = order
    given.stops[: len(stops)] = stops
    return len(stops)
