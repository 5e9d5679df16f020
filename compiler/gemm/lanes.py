"""Functions that do the same for several matrices at a time, one in each lane of a vector.

What a loop over the rows and columns of one matrix says, it says for as many matrices as a vector has lanes;
with no lanes, numbers are scalars, and it is one matrix after the other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from fusegrad.compiler.base.solver_ops import doubtful
from fusegrad.compiler.kernel.dtypes import DTYPES
from fusegrad.compiler.llvm.function_writer import FunctionWriter, Variable, Word
from fusegrad.compiler.llvm.ir_writer import literal, vector_type
from fusegrad.eager.core.dtypes import FROM_SHORT

# An operand in a block, in 8-byte places: slot, byte offset, and byte steps from one row, column and entry of
# the two dimensions of the batch to the next.
SLOT, OFFSET, ROW, COLUMN, ENTRY0, ENTRY1 = range(6)
OPERAND = 6


class Lanes:
    """What functions are written with that compute with numbers of a dtype (as kernels name it) in lanes."""

    def __init__(self, f: FunctionWriter, dtype: str, lanes: int) -> None:
        self.f, self.dtype, self.lanes = f, dtype, lanes
        self.real, self.truth = self._type(DTYPES[dtype].register), self._type("i1")
        self.whole, self.size = self._type("i32"), DTYPES[dtype].size
        self.width = max(lanes, 1)
        self._suffix = f"v{lanes}{dtype}" if lanes else dtype

    def _type(self, element: str) -> str:
        return vector_type(element, self.lanes)

    # Values.

    def _spelled(self, element: str, text: str, type_: str) -> Word:
        if self.lanes:
            text = "<" + ", ".join([f"{element} {text}"] * self.lanes) + ">"
        return Word(self.f, text, type_)

    def number(self, value: float) -> Word:
        """A number in all lanes."""
        return self._spelled(DTYPES[self.dtype].register, literal(value, self.dtype), self.real)

    def doubtful(self, roundings: tuple[int, int], rows: Word) -> Word:
        """`solver_ops.doubtful` of matrices of so many rows."""
        real, dtype = DTYPES[self.dtype].register, FROM_SHORT[self.dtype].numpy
        none, one = (doubtful(dtype, roundings, n) for n in (0, 1))
        count = self.spread(self.f.emit(f"uitofp {rows} to {real}", real))
        return self._binary("fadd", self.mul(count, self.number(one - none)), self.number(none))

    def true(self) -> Word:
        """True in all lanes."""
        return self._spelled("i1", "true", self.truth)

    def first(self, count: Word) -> Word:
        """True in the first `count` lanes, of which there may be more."""
        if not self.lanes:
            return self.true()
        numbers = ", ".join(f"i64 {i}" for i in range(self.lanes))
        return self.f.emit(f"icmp sgt {self.spread(count)}, <{numbers}>", self.truth)

    def spread(self, word: Word) -> Word:
        """A scalar in all lanes."""
        if not self.lanes:
            return word
        type_ = self._type(word.type)
        first = self.f.emit(f"insertelement {type_} poison, {word}, i32 0", type_)
        zeros = f"<{self.lanes} x i32> zeroinitializer"
        return self.f.emit(f"shufflevector {first}, {type_} poison, {zeros}", type_)

    def index(self, word: Word) -> Word:
        """An index as the numbers of rows are noted."""
        return self.spread(word.to("i32"))

    def index_after(self, index: Word) -> Word:
        """The next index."""
        return self.f.emit(f"add {index}, {self._spelled('i32', '1', self.whole).text}", self.whole)

    def _binary(self, code: str, a: Word, b: Word) -> Word:
        return self.f.emit(f"{code} {a}, {b.text}", a.type)

    def mul(self, a: Word, b: Word) -> Word:
        return self._binary("fmul", a, b)

    def div(self, a: Word, b: Word) -> Word:
        return self._binary("fdiv", a, b)

    def less(self, total: Word, a: Word, b: Word) -> Word:
        """total - a * b, rounded once."""
        minus = self.f.emit(f"fneg {a}", a.type)
        return self.f.call(f"llvm.fma.{self._suffix}", minus, b, total, gives=self.real)

    def size_of(self, a: Word) -> Word:
        return self.f.call(f"llvm.fabs.{self._suffix}", a, gives=self.real)

    def root(self, a: Word) -> Word:
        return self.f.call(f"llvm.sqrt.{self._suffix}", a, gives=self.real)

    def above(self, a: Word, b: Word) -> Word:
        """Whether a > b; not if one of them is NaN."""
        return self.f.emit(f"fcmp ogt {a}, {b.text}", self.truth)

    def same(self, a: Word, b: Word) -> Word:
        """Whether two numbers are equal, or two indices."""
        return self.f.emit(f"{'icmp eq' if a.type == self.whole else 'fcmp oeq'} {a}, {b.text}", self.truth)

    def select(self, condition: Word, a: Word, b: Word) -> Word:
        return self.f.select(condition, a, b)

    def any(self, truth: Word) -> Word:
        """Whether it is true in a lane."""
        if not self.lanes:
            return truth
        return self.f.emit(f"bitcast {truth} to i{self.lanes}", f"i{self.lanes}") != 0

    def all(self, truth: Word) -> Word:
        """Whether it is true in all lanes."""
        return ~self.any(self._binary("xor", truth, self.true()))

    # Numbers on the stack.

    def room(self, count: int, type_: str = "") -> Word:
        """The address of so many numbers (of each lane)."""
        return self.f.stack(type_ or self.real, count)

    @contextlib.contextmanager
    def between(self, first: Word | int, last: Word) -> Iterator[Word]:
        """`for i in range(first, last):`"""
        with self.f.loop(last - first) as i:
            yield i + first

    @contextlib.contextmanager
    def down(self, count: Word) -> Iterator[Word]:
        """`for i in reversed(range(count)):`"""
        with self.f.loop(count) as i:
            yield count - 1 - i


class Operand:
    """An operand: its matrices, one in each lane. place: where it stands in the block."""

    def __init__(self, v: Lanes, slots: Word, block: Word, place: int) -> None:
        self.v, self.f = v, v.f
        slot, offset, self.row, self.column, *self._entries = (block.load("i64", place + i) for i in range(6))
        self.base = slots.load("ptr", slot).at(offset, "i8")
        self._starts: Variable = self.f.variable(self._lane_numbers())
        self._active = v.true()

    def _lane_numbers(self) -> Word:
        if not self.v.lanes:
            return self.f.number(0)
        text = "<" + ", ".join(f"i64 {i}" for i in range(self.v.lanes)) + ">"
        return Word(self.f, text, f"<{self.v.lanes} x i64>")

    def begin(self, first: Word, inner: Word, active: Word) -> None:
        """Turn to the matrices from the entry `first` on. inner: entries of the inner dimension of the batch;
        active: which lanes have a matrix.
        """
        f, v = self.f, self.v
        self._active = active
        numbers = self._lane_numbers()
        entry = f.emit(f"add {v.spread(first)}, {numbers.text}", numbers.type)
        outer_step, inner_step = map(v.spread, self._entries)
        self._starts.set(f.emit(f"mul {entry}, {inner_step.text}", entry.type))
        # Divisions take long; mostly the batch has one dimension.
        with f.if_(self._entries[0] != self._entries[1] * inner):
            count = v.spread(inner)
            outer = f.emit(f"udiv {entry}, {count.text}", entry.type)
            rest = f.emit(f"urem {entry}, {count.text}", entry.type)
            start = f.emit(f"mul {outer}, {outer_step.text}", entry.type)
            more = f.emit(f"mul {rest}, {inner_step.text}", entry.type)
            self._starts.set(f.emit(f"add {start}, {more.text}", entry.type))

    def address(self, row: Word, column: Word | int = 0) -> Word:
        """Where the element at a row and column lies, in each lane."""
        base = self.base.at(row * self.row + self.column * column, "i8")
        starts = self._starts.value
        kind = f"<{self.v.lanes} x ptr>" if self.v.lanes else "ptr"
        return self.f.emit(f"getelementptr i8, {base}, {starts}", kind)

    def load(self, row: Word, column: Word | int = 0, idle: Word | None = None, whole: bool = False) -> Word:
        """The element; `idle` in lanes that have none. whole: whether it is an index."""
        type_, size, name = self._kind(whole)
        address = self.address(row, column)
        if not self.v.lanes:
            return address.load(type_)
        other = Word(self.f, "zeroinitializer", type_) if idle is None else idle
        align = Word(self.f, str(size), "i32")
        return self.f.call(
            f"llvm.masked.gather.{name}.v{self.v.lanes}p0", address, align, self._active, other, gives=type_
        )

    def store(self, row: Word, column: Word | int, value: Word, whole: bool = False) -> None:
        """Put an element."""
        _, size, name = self._kind(whole)
        address = self.address(row, column)
        if not self.v.lanes:
            address.store(value)
            return
        align = Word(self.f, str(size), "i32")
        self.f.call(f"llvm.masked.scatter.{name}.v{self.v.lanes}p0", value, address, align, self._active)

    def _kind(self, whole: bool) -> tuple[str, int, str]:
        v = self.v
        return (v.whole, 4, f"v{v.lanes}i32") if whole else (v.real, v.size, f"v{v.lanes}{v.dtype}")
