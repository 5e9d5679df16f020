"""In which order calls that wait are done, and which of them as one.

Those of a kind whose operands are there are done as one. Of several kinds that could be next it is the one
whose calls stand at the smallest depth on average, since then most of its calls have come together: Neubig,
Goldberg and Dyer, "On-the-fly operation batching in dynamic computation graphs".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np


def in_groups(
    kinds: Sequence[int], depths: Sequence[int], givers: np.ndarray, takers: np.ndarray
) -> Iterator[np.ndarray]:
    """Groups of calls of one kind, whose operands were all given by groups before.

    kinds, depths: of each call. givers, takers: for each operand that one of the calls gives, which call that
    is, and which one takes it.
    """
    size = len(kinds)
    missing = np.bincount(takers, minlength=size).tolist()
    taking = takers[np.argsort(givers, kind="stable")].tolist()
    ends = [0, *np.cumsum(np.bincount(givers, minlength=size)).tolist()]
    count: dict[int, int] = {}
    total: dict[int, int] = {}
    # Lists, since most groups are small: for these each step of NumPy's takes longer than all of it.
    ready: dict[int, list[int]] = {}
    for call, kind in enumerate(kinds):
        count[kind] = count.get(kind, 0) + 1
        total[kind] = total.get(kind, 0) + depths[call]
        if not missing[call]:
            ready.setdefault(kind, []).append(call)
    while ready:
        kind = min(ready, key=lambda k: (total[k] / count[k], k))
        group = ready.pop(kind)
        group.sort()
        yield np.array(group)
        count[kind] -= len(group)
        for call in group:
            total[kind] -= depths[call]
            for taker in taking[ends[call] : ends[call + 1]]:
                missing[taker] -= 1
                if not missing[taker]:
                    ready.setdefault(kinds[taker], []).append(taker)
