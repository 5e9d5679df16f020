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
    missing = np.bincount(takers, minlength=size)
    order = np.argsort(givers, kind="stable")
    takers = takers[order]
    ends = np.cumsum(np.bincount(givers, minlength=size))
    begins = ends - np.bincount(givers, minlength=size)
    _, kind_of = np.unique(np.asarray(kinds), return_inverse=True)
    depth_of = np.asarray(depths)
    count = np.bincount(kind_of)
    total = np.bincount(kind_of, weights=depth_of)
    ready: dict[int, list[np.ndarray]] = {}

    def come(calls: np.ndarray) -> None:
        of = kind_of[calls]
        for kind in dict.fromkeys(of.tolist()):
            ready.setdefault(kind, []).append(calls[of == kind])

    come(np.flatnonzero(missing == 0))
    while ready:
        kind = min(ready, key=lambda k: (total[k] / count[k], k))
        parts = ready.pop(kind)
        group = parts[0] if len(parts) == 1 else np.concatenate(parts)
        yield group
        count[kind] -= len(group)
        total[kind] -= depth_of[group].sum()
        lengths = ends[group] - begins[group]
        reached = int(lengths.sum())
        if reached:
            starts = np.repeat(begins[group] - np.cumsum(lengths) + lengths, lengths)
            given = takers[starts + np.arange(reached)]
            np.subtract.at(missing, given, 1)
            come(np.unique(given[missing[given] == 0]))
