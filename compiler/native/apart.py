"""Comparing places: whether of tensors, of which some are written, no two overlap."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np

from fusegrad.compiler.llvm.function_writer import FunctionWriter, Word
from fusegrad.compiler.native.core import Maker, Native
from fusegrad.compiler.native.layouts import WRITEABLE
from fusegrad.compiler.native.object_writer import ObjectWriter
from fusegrad.compiler.runtime.allocator import bounds_of, data_address
from fusegrad.eager.core.op import wrap
from fusegrad.eager.core.tensor import Tensor

_BEFORE_ROWS, _ROW = 2, 4  # words in the table


class Apart:
    """Whether of tensors, of which some are written, no two overlap.

    holds(*read, *staying, *others): tensors, or arrays, of the types of those given here. The staying ones
    have to lie where they did when they were last `seen`; the others may lie elsewhere by now. What is
    written must be writeable. What is only `read` may overlap each other.
    """

    __slots__ = ("_read", "_table", "holds")

    holds: Callable[..., bool]

    def __init__(
        self,
        staying: Sequence[Tensor],
        others: Sequence[Tensor],
        written: Collection[int],
        read: Sequence[np.ndarray] = (),
    ) -> None:
        """written: ids of those of the tensors that are. Whether they are apart now has been looked at."""
        tensors = [(tensor.array, id(tensor) in written) for tensor in (*staying, *others)]
        self._read = len(read)
        self._table = _table(len(staying), len(read), [*((array, False) for array in read), *tensors])
        self.holds = APART.of(self._table) or functools.partial(holds_plainly, self._table)

    def seen(self, staying: Sequence[Tensor]) -> None:
        """Note where the first tensors lie, of which somebody has found out that they are apart."""
        for number, tensor in enumerate(staying, self._read):
            self._table[_BEFORE_ROWS + _ROW * number] = data_address(tensor.array)


# The table: how many of the first are only held against others; up to which they have to lie where they did;
# then for each of all the address of its memory, where it begins and ends from there, and the flags that its
# array must have.


def _table(staying: int, read: int, arrays: Sequence[tuple[np.ndarray, bool]]) -> np.ndarray:
    words = [read, read + staying]
    for array, is_written in arrays:
        begin, end = bounds_of(array)
        at = data_address(array)
        words += [at, begin - at, end - at, WRITEABLE if is_written else 0]
    return np.array(words, np.int64)


def _array_of(f: ObjectWriter, x: Word) -> Word:
    """The array that a tensor has, or that it is."""
    array = f.variable(x)
    with f.if_(~f.is_a(x, "ndarray")):
        array.set(f.tensor_array(x))
    return array.value


def _bounds(f: ObjectWriter, array: Word, row: Word) -> tuple[Word, Word]:
    memory = f.array_data(array).to("i64")
    return memory + row.load("i64", 1), memory + row.load("i64", 2)


def _written() -> list[FunctionWriter]:
    f = ObjectWriter("fusegrad_apart", borrowed=True)
    read, staying = f.words("i64", "i64")
    rows = f.table.at(_BEFORE_ROWS)
    with f.loop(f.count) as i:
        array, row = _array_of(f, f.items.load("ptr", i)), rows.at(i * _ROW)
        flags = row.load("i64", 3)
        f.require(f.array_flags(array) & flags == flags)
        with f.if_(i >= staying):
            begin, end = _bounds(f, array, row)
            with f.loop(i) as j:
                other = _array_of(f, f.items.load("ptr", j))
                other_begin, other_end = _bounds(f, other, rows.at(j * _ROW))
                f.require((end <= other_begin) | (other_end <= begin))
        with f.if_((i >= read) & (i < staying)):
            f.require(f.array_data(array).to("i64") == row.load())
    f.return_(f.object("true"))
    return [f]


def holds_plainly(table: np.ndarray, *given: Any) -> bool:
    """The plain way."""
    read, staying, *words = table.tolist()
    seen: list[tuple[int, int]] = []
    for number, x in enumerate(given):
        array = x if type(x) is np.ndarray else x.array
        known, begin, end, flags = words[_ROW * number : _ROW * (number + 1)]
        if flags and not array.flags.writeable:
            return False
        at = data_address(array)
        if read <= number < staying and at != known:
            return False
        begin, end = at + begin, at + end
        if number >= staying and not all(end <= first or last <= begin for first, last in seen):
            return False
        seen.append((begin, end))
    return True


# The trials.


def _trials(made: Maker) -> Iterator[tuple[Any, Any]]:
    memory = np.zeros(64, np.float32)
    parts = [memory[start : start + 8] for start in (0, 8, 20, 30)]
    frozen = memory.copy()[:8]
    frozen.flags.writeable = False
    for staying, read in ((1, 0), (0, 1), (1, 1)):
        arrays = [(part, number > 0) for number, part in enumerate(parts[:3])]
        table = _table(staying, read, arrays)
        native = made(table)
        for last in (memory[20:28], memory[27:35], memory[3:11], memory[15:23], frozen):
            for first in parts:
                given = [first, wrap(parts[1]), wrap(last)]
                yield native(*given), holds_plainly(table, *given)


APART = Native("fusegrad_apart", _written, _trials)
