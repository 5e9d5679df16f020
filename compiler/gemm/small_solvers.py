"""Small linear algebra, as many matrices at a time as a vector has lanes: factors, and what they solve.

LAPACK takes longer to be called than for a matrix of ten rows, and takes one after the other. Here each lane
has a matrix of its own; lanes choose their pivots by comparing, and exchange rows by selecting. The pivots
are those that LAPACK takes, and what is written has the places that it has there.

Each function writes what is done with the matrices that `operands` have been turned to.
"""

from __future__ import annotations

from typing import NamedTuple

from fusegrad.compiler.base.solver_ops import INDEFINITE, SINGULAR
from fusegrad.compiler.gemm.lanes import Lanes, Operand
from fusegrad.compiler.llvm.function_writer import Variable, Word

# Matrices of so many rows at most are small.
SMALL = 16


class Operands(NamedTuple):
    """a: what is factored, or the factors; b: what is solved for; c: what is made; pivots: the rows that
    were exchanged. Which of them there are depends on the op.
    """

    a: Operand
    b: Operand
    c: Operand
    pivots: Operand


class Sides(NamedTuple):
    """rows of the square matrices, columns of what is solved for."""

    rows: Word
    columns: Word


class _Square:
    """Square matrices on the stack."""

    def __init__(self, v: Lanes, rows: Word, room: Word) -> None:
        self.v, self.rows, self._room = v, rows, room

    def get(self, row: Word, column: Word) -> Word:
        return self._room.load(self.v.real, row * SMALL + column)

    def put(self, row: Word, column: Word, value: Word) -> None:
        self._room.store(value, row * SMALL + column)

    def read(self, source: Operand) -> _Square:
        """All elements of an operand; idle lanes have the identity."""
        v = self.v
        one, zero = v.number(1), v.number(0)
        with v.f.loop(self.rows) as i, v.f.loop(self.rows) as j:
            diagonal = v.f.select(i == j, one, zero)
            self.put(i, j, source.load(i, j, diagonal))
        return self


class _Row:
    """One number for each row, on the stack."""

    def __init__(self, v: Lanes, room: Word, type_: str) -> None:
        self.v, self._room, self._type = v, room, type_

    def get(self, row: Word) -> Word:
        return self._room.load(self._type, row)

    def put(self, row: Word, value: Word) -> None:
        self._room.store(value, row)

    def exchange(self, row: Word, other: Word, where: Word) -> None:
        """Exchange two rows in the lanes that say so."""
        x, y = self.get(row), self.get(other)
        self.put(row, self.v.select(where, y, x))
        self.put(other, self.v.select(where, x, y))


class Rooms:
    """Room on the stack for one square matrix, and for one number and one index a row."""

    def __init__(self, v: Lanes) -> None:
        self.square = v.room(SMALL * SMALL)
        self.numbers, self.indices = v.room(SMALL), v.room(SMALL, v.whole)


def factor(v: Lanes, rooms: Rooms, sides: Sides, given: Operands) -> Word:
    """LU factors with partial pivoting; gives in which lanes the matrix is certainly not singular."""
    f, n = v.f, sides.rows
    m = _Square(v, n, rooms.square).read(given.a)
    with f.loop(n) as k:
        largest, where = f.variable(v.size_of(m.get(k, k))), f.variable(v.index(k))
        with v.between(k + 1, n) as i:
            size = v.size_of(m.get(i, k))
            better = v.above(size, largest.value)
            largest.set(v.select(better, size, largest.value))
            where.set(v.select(better, v.index(i), where.value))
        given.pivots.store(k, 0, v.index_after(where.value), whole=True)
        with v.between(k + 1, n) as i:
            chosen = v.same(where.value, v.index(i))
            with f.if_(v.any(chosen)), f.loop(n) as j:
                x, y = m.get(k, j), m.get(i, j)
                m.put(k, j, v.select(chosen, y, x))
                m.put(i, j, v.select(chosen, x, y))
        pivot = m.get(k, k)
        # Below a pivot of 0 there is nothing but zeros.
        zero = v.number(0)
        inverse = v.select(v.same(pivot, zero), zero, v.div(v.number(1), pivot))
        with v.between(k + 1, n) as i:
            multiple = v.mul(m.get(i, k), inverse)
            m.put(i, k, multiple)
            with v.between(k + 1, n) as j:
                m.put(i, j, v.less(m.get(i, j), multiple, m.get(k, j)))
    with f.loop(n) as i, f.loop(n) as j:
        given.c.store(i, j, m.get(i, j))
    return _are_sound(v, m)


def _are_sound(v: Lanes, m: _Square) -> Word:
    """In which lanes each pivot is certainly not 0, beside the column of U that it stands in."""
    f = v.f
    sound = f.variable(v.true())
    with f.loop(m.rows) as k:
        largest = f.variable(v.number(0))
        with f.loop(k + 1) as i:
            size = v.size_of(m.get(i, k))
            largest.set(v.select(v.above(size, largest.value), size, largest.value))
        least = v.mul(largest.value, v.doubtful(SINGULAR, m.rows))
        _demand(v, sound, v.above(v.size_of(m.get(k, k)), least))
    return sound.value


def _demand(v: Lanes, sound: Variable, truth: Word) -> None:
    sound.set(sound.value & truth)


def solve(v: Lanes, rooms: Rooms, sides: Sides, given: Operands, transposed: bool) -> None:
    """The solutions of systems whose matrices have been factored; of the transposed matrices."""
    m, x, pivots = _factored(v, rooms, sides, given)
    with v.f.loop(sides.columns) as column:
        with v.f.loop(sides.rows) as i:
            x.put(i, given.b.load(i, column))
        if transposed:
            _substitute_down(v, m, x, across=True, unit=False)
            _substitute_up(v, m, x, across=True, unit=True)
            with v.down(sides.rows) as k:
                _exchange(v, x, pivots, k, sides.rows)
        else:
            _solve_one(v, m, x, pivots, sides.rows)
        with v.f.loop(sides.rows) as i:
            given.c.store(i, column, x.get(i))


def inverse(v: Lanes, rooms: Rooms, sides: Sides, given: Operands) -> None:
    """The inverses of matrices that have been factored."""
    m, x, pivots = _factored(v, rooms, sides, given)
    one, zero = v.number(1), v.number(0)
    with v.f.loop(sides.rows) as column:
        with v.f.loop(sides.rows) as i:
            x.put(i, v.f.select(i == column, one, zero))
        _solve_one(v, m, x, pivots, sides.rows)
        with v.f.loop(sides.rows) as i:
            given.c.store(i, column, x.get(i))


def _factored(v: Lanes, rooms: Rooms, sides: Sides, given: Operands) -> tuple[_Square, _Row, _Row]:
    """The factors, room for a column, and the pivots."""
    m = _Square(v, sides.rows, rooms.square).read(given.a)
    x, pivots = _Row(v, rooms.numbers, v.real), _Row(v, rooms.indices, v.whole)
    with v.f.loop(sides.rows) as k:
        pivots.put(k, given.pivots.load(k, whole=True))
    return m, x, pivots


def _solve_one(v: Lanes, m: _Square, x: _Row, pivots: _Row, rows: Word) -> None:
    with v.f.loop(rows) as k:
        _exchange(v, x, pivots, k, rows)
    _substitute_down(v, m, x, across=False, unit=True)
    _substitute_up(v, m, x, across=False, unit=False)


def _exchange(v: Lanes, x: _Row, pivots: _Row, k: Word, rows: Word) -> None:
    """Exchange row `k` with the one that it was exchanged with; pivots are counted from 1."""
    pivot = pivots.get(k)
    with v.between(k + 1, rows) as i:
        chosen = v.same(pivot, v.index(i + 1))
        with v.f.if_(v.any(chosen)):
            x.exchange(k, i, chosen)


def _substitute_down(v: Lanes, m: _Square, x: _Row, across: bool, unit: bool) -> None:
    """Solve with the lower triangle, or with the upper one taken across the diagonal."""
    with v.f.loop(m.rows) as i:
        total = v.f.variable(x.get(i))
        with v.f.loop(i) as j:
            element = m.get(j, i) if across else m.get(i, j)
            total.set(v.less(total.value, element, x.get(j)))
        x.put(i, total.value if unit else v.div(total.value, m.get(i, i)))


def _substitute_up(v: Lanes, m: _Square, x: _Row, across: bool, unit: bool) -> None:
    """Solve with the upper triangle, or with the lower one taken across the diagonal."""
    with v.down(m.rows) as i:
        total = v.f.variable(x.get(i))
        with v.between(i + 1, m.rows) as j:
            element = m.get(j, i) if across else m.get(i, j)
            total.set(v.less(total.value, element, x.get(j)))
        x.put(i, total.value if unit else v.div(total.value, m.get(i, i)))


def triangular(v: Lanes, rooms: Rooms, sides: Sides, given: Operands, unit: bool) -> None:
    """The solutions of lower triangular systems."""
    m = _Square(v, sides.rows, rooms.square)
    x = _Row(v, rooms.numbers, v.real)
    one, zero = v.number(1), v.number(0)
    with v.f.loop(sides.rows) as i, v.f.loop(i + 1) as j:
        m.put(i, j, given.a.load(i, j, v.f.select(i == j, one, zero)))
    with v.f.loop(sides.columns) as column:
        with v.f.loop(sides.rows) as i:
            x.put(i, given.b.load(i, column))
        _substitute_down(v, m, x, across=False, unit=unit)
        with v.f.loop(sides.rows) as i:
            given.c.store(i, column, x.get(i))


def cholesky(v: Lanes, rooms: Rooms, sides: Sides, given: Operands) -> Word:
    """Cholesky's lower factors; gives in which lanes the matrix is certainly positive-definite."""
    f, n = v.f, sides.rows
    m = _Square(v, n, rooms.square)
    one, zero = v.number(1), v.number(0)
    sound = f.variable(v.true())
    with f.loop(n) as j:
        given_here = given.a.load(j, j, one)
        square = f.variable(given_here)
        with f.loop(j) as k:
            element = m.get(j, k)
            square.set(v.less(square.value, element, element))
        _demand(v, sound, v.above(square.value, v.mul(given_here, v.doubtful(INDEFINITE, n))))
        _demand(v, sound, v.above(given_here, zero))
        root = v.root(square.value)
        m.put(j, j, root)
        with v.between(j + 1, n) as i:
            total = f.variable(given.a.load(i, j))
            with f.loop(j) as k:
                total.set(v.less(total.value, m.get(i, k), m.get(j, k)))
            m.put(i, j, v.div(total.value, root))
    with f.loop(n) as i, f.loop(n) as j:
        given.c.store(i, j, f.select(j > i, zero, m.get(i, j)))
    return sound.value
