"""Memory for results and temporaries.

Fresh pages cost more than the work on them (the kernel must clear each one), so large results
come from blocks whose earlier arrays are gone, and temporaries from arenas that calls re-use.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import math
import os
import sys
from collections import deque
from operator import indexOf
from sys import getrefcount

import numpy as np

from fusegrad.eager import forks

ALIGNMENT = 64
# Blocks have no red zones. Not asked of `settings`: this file is tried as it is, without what it stands on.
_RED_ZONES = os.environ.get("FUSEGRAD_RED_ZONES", "0") == "1"
SMALLEST_POOLED = 1 << (62 if _RED_ZONES else 16)
LARGEST_POOL = 1 << 30
PAGE = 1 << 12
# Without a divisor in common with the lines of a page, so that all of them get their turn.
LINES_APART = 9


def aligned(size: int) -> int:
    """`size` rounded up to whole cache lines."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def data_address(array: np.ndarray) -> int:
    """The address of an array's memory."""
    return array.__array_interface__["data"][0]


def bounds_of(array: np.ndarray) -> tuple[int, int]:
    """The first address of an array's memory, and the one behind its last."""
    start = data_address(array)
    if array.flags.c_contiguous:
        return start, start + array.nbytes
    low = sum(min(0, s * (n - 1)) for n, s in zip(array.shape, array.strides, strict=True))
    high = sum(max(0, s * (n - 1)) for n, s in zip(array.shape, array.strides, strict=True))
    return start + low, start + high + array.itemsize


def copied_as_it_lies(array: np.ndarray) -> np.ndarray:
    """A copy with the same strides, gaps and all: code that was made for an array may read it instead."""
    copy = np.array(array)
    if copy.strides == array.strides or not array.size:
        return copy
    ends = [stride * (n - 1) for stride, n in zip(array.strides, array.shape, strict=True)]
    before = -sum(end for end in ends if end < 0)
    size = before + sum(end for end in ends if end > 0) + array.itemsize
    room = np.empty(size, np.uint8)
    same: np.ndarray = np.ndarray(array.shape, array.dtype, room, before, array.strides)
    same[...] = array
    return same


def aligned_bytes(size: int, alignment: int = ALIGNMENT) -> np.ndarray:
    """`size` uninitialised bytes that start on a cache line, or at a multiple of something else."""
    if _RED_ZONES and alignment == ALIGNMENT:
        from fusegrad.compiler.runtime import red_zones

        return red_zones.empty((size,), np.uint8)  # which begin there, and end there
    raw = np.empty(size + alignment, np.uint8)
    start = -data_address(raw) % alignment
    return raw[start : start + size]


def rounded(size: int) -> int:
    """`size` rounded up by an eighth at most, so that results of similar sizes share blocks."""
    step = 1 << (size.bit_length() - 4)
    return -(-size // step) * step


def _count_of_free() -> int:
    """What this interpreter counts for a block that only its row has; no count at all where arrays on a block
    do not add one each, or another thread could take one meanwhile: then no block is used twice.

    No bytecode has a part in the counting: how many references a function's code has to its variables is
    another number in each version of Python.
    """
    blocks = deque([np.frombuffer(np.empty(ALIGNMENT, np.uint8).data, np.uint8)])
    seen, arrays = [*map(getrefcount, blocks)], []
    for _ in range(2):
        arrays.append(np.ndarray((1,), np.uint8, blocks[0]))
        seen += map(getrefcount, blocks)
    arrays.clear()
    seen += map(getrefcount, blocks)
    free = seen[0]
    alone = getattr(sys, "_is_gil_enabled", lambda: True)()
    return free if alone and seen == [free, free + 1, free + 2, free] else -1


class Pool:
    """Blocks of memory for results, re-used when no array looks at them any more.

    Whether one does is read off the block's reference count: every array and view of it holds a
    reference, so a result is never overwritten while anybody can see it. `free` is the count of a block that
    nobody looks at.
    """

    free = _count_of_free()

    def __init__(self) -> None:
        self._blocks: dict[int, deque[np.ndarray]] = {}
        self._held = 0
        self._made = itertools.count()
        self._lock = forks.lock()

    def array(
        self, shape: tuple[int, ...], dtype: np.dtype, strides: tuple[int, ...] | None = None
    ) -> np.ndarray:
        """An uninitialised array; strides in bytes, all positive and without gaps."""
        size = math.prod(shape) * dtype.itemsize
        if size < SMALLEST_POOLED:
            if strides is None:
                return np.empty(shape, dtype)
            return np.ndarray(shape, dtype, np.empty(size, np.uint8), 0, strides)
        return np.ndarray(shape, dtype, self.block(rounded(size)), 0, strides)

    def block(self, size: int) -> np.ndarray:
        """A block of a size that `rounded` gave."""
        with self._lock:
            blocks = self._blocks.get(size)
            if blocks is None:
                blocks = self._blocks[size] = deque()
            try:
                return blocks[indexOf(map(getrefcount, blocks), self.free)]
            except ValueError:
                pass  # none is free
            # A load waits for a store whose address ends in the same bits, so blocks start at other lines of
            # their pages. An array on what is none: NumPy then takes it for the memory's owner.
            start = next(self._made) * LINES_APART * ALIGNMENT % PAGE
            block = np.frombuffer(aligned_bytes(start + size, PAGE)[start:].data, np.uint8)
            if self._held + size > LARGEST_POOL:
                self._make_room(size)
            if self._held + size <= LARGEST_POOL:
                self._held += size
                blocks.append(block)
            return block

    def _make_room(self, size: int) -> None:
        """Let blocks of other sizes go that nobody uses, those whose sizes came first before others."""
        for other, blocks in self._blocks.items():
            free = [i for i, n in enumerate(map(getrefcount, blocks)) if n == self.free and other != size]
            for number in reversed(free):
                del blocks[number]
            self._held -= other * len(free)
            if self._held + size <= LARGEST_POOL:
                return

    def clear(self) -> None:
        """Give back all blocks (those in use go with their arrays)."""
        with self._lock:
            self._blocks.clear()
            self._held = 0


pool = Pool()


class FirstFit:
    """Places in an arena, each as low as it can be without overlapping another that lives.

    A place lives until a step, by number. What it costs to find one is the number of gaps.
    """

    def __init__(self) -> None:
        self._gaps: list[tuple[int, float]] = [(0, math.inf)]  # in order, none next to another
        self._lives: dict[int, tuple[int, int]] = {}  # by its start, the end of a place, and its last step
        self._leaving: list[tuple[int, int]] = []  # a heap of last steps and starts; some are out of date

    def come_to(self, step: int) -> None:
        """What lived until a step before this one is free from now on."""
        while self._leaving and self._leaving[0][0] < step:
            last, start = heapq.heappop(self._leaving)
            if start in self._lives and self._lives[start][1] == last:
                self._free(start, self._lives.pop(start)[0])

    def place(self, size: int, until: int) -> int:
        """Where so many bytes are from now on until a step."""
        number, (start, end) = next((i, g) for i, g in enumerate(self._gaps) if g[1] - g[0] >= size)
        self._gaps[number : number + 1] = [(start + size, end)] if start + size < end else []
        self._live(start, start + size, until)
        return start

    def take_over(self, start: int, until: int) -> int:
        """`start`, where what lives there until now leaves its room to something else."""
        self._live(start, self._lives[start][0], until)
        return start

    def _live(self, start: int, end: int, until: int) -> None:
        self._lives[start] = end, until
        heapq.heappush(self._leaving, (until, start))

    def _free(self, start: int, end: float) -> None:
        number = bisect.bisect(self._gaps, (start,))
        after = number
        if after < len(self._gaps) and self._gaps[after][0] == end:
            end, after = self._gaps[after][1], after + 1
        if number and self._gaps[number - 1][1] == start:
            number -= 1
            start = self._gaps[number][0]
        self._gaps[number:after] = [(start, end)]
