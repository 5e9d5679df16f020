"""Linear algebra on matrices that are not small: LAPACK's routines, matrix by matrix, each on one thread.

They work in place on columns, so what is given is copied to where the result lies, and is the result then.
"""

from __future__ import annotations

from fusegrad.compiler.base.solver_ops import INDEFINITE, SINGULAR
from fusegrad.compiler.gemm.lanes import Lanes, Operand
from fusegrad.compiler.gemm.small_solvers import Operands, Sides
from fusegrad.compiler.kernel.dtypes import DTYPES
from fusegrad.compiler.llvm.function_writer import Variable, Word


class Fortran:
    """Calls of BLAS and LAPACK, which take the addresses of all they are given. letters: the address of words
    that are their letters.
    """

    def __init__(self, v: Lanes, letters: Word) -> None:
        self.v, self.f, self._letters = v, v.f, letters
        self.info = self.f.stack("i32", 1)
        self._rooms = iter([self.f.stack("i64", 1) for _ in range(8)])

    def number(self, value: Word | int) -> Word:
        """The address of an integer."""
        word = value if isinstance(value, Word) else self.f.number(value)
        room = next(self._rooms)
        room.store(word.to("i32"))
        return room

    def letter(self, place: int) -> Word:
        """The address of a letter that stands in the block."""
        return self._letters.at(place)

    def literal(self, letter: str) -> Word:
        """The address of a letter."""
        return self.number(ord(letter))

    def call(self, routine: str, *args: Word) -> None:
        """Call `routine` of the dtype, `getrf` say."""
        letter = DTYPES[self.v.dtype].product[0]
        self.f.call(f"fusegrad_{letter}{routine}", *args)


def _copied(source: Operand, target: Operand, rows: Word, columns: Word) -> None:
    f = source.f
    with f.loop(columns) as j, f.loop(rows) as i:
        target.store(i, j, source.load(i, j))


def _first(operand: Operand) -> Word:
    return operand.address(operand.f.number(0))


def factor(v: Lanes, fortran: Fortran, sides: Sides, given: Operands) -> Word:
    """LU factors; gives whether the matrix is certainly not singular."""
    f, n = v.f, sides.rows
    _copied(given.a, given.c, n, n)
    rows = fortran.number(n)
    fortran.call("getrf", rows, rows, _first(given.c), rows, _first(given.pivots), fortran.info)
    sound = f.variable(v.true())
    with f.loop(n) as k:
        largest = f.variable(v.number(0))
        with f.loop(k + 1) as i:
            size = v.size_of(given.c.load(i, k))
            largest.set(v.select(v.above(size, largest.value), size, largest.value))
        least = v.mul(largest.value, v.doubtful(SINGULAR, n))
        _demand(sound, v.above(v.size_of(given.c.load(k, k)), least))
    return sound.value


def _demand(sound: Variable, truth: Word) -> None:
    sound.set(sound.value & truth)


def solve(v: Lanes, fortran: Fortran, sides: Sides, given: Operands, transposed: bool) -> None:
    """The solutions of systems whose matrices have been factored."""
    _copied(given.b, given.c, sides.rows, sides.columns)
    _solve_in_place(fortran, sides.rows, sides.columns, given, transposed)


def inverse(v: Lanes, fortran: Fortran, sides: Sides, given: Operands) -> None:
    """The inverses of matrices that have been factored."""
    f, n = v.f, sides.rows
    one, zero = v.number(1), v.number(0)
    with f.loop(n) as j, f.loop(n) as i:
        given.c.store(i, j, f.select(i == j, one, zero))
    _solve_in_place(fortran, n, n, given, False)


def _solve_in_place(fortran: Fortran, rows: Word, columns: Word, given: Operands, transposed: bool) -> None:
    n, m = fortran.number(rows), fortran.number(columns)
    factors, pivots, x = map(_first, (given.a, given.pivots, given.c))
    fortran.call(
        "getrs", fortran.literal("T" if transposed else "N"), n, m, factors, n, pivots, x, n, fortran.info
    )


# Letters of a triangular system in the block, and the leading dimension of its matrix.
SIDE, HALF, ACROSS, UNIT, LEADING = range(5)
LETTERS = 5


def triangular(v: Lanes, fortran: Fortran, sides: Sides, given: Operands, leading: Word) -> None:
    """The solutions of triangular systems, whose letters and leading dimension are in the block."""
    f = v.f
    half, across, unit = map(fortran.letter, (HALF, ACROSS, UNIT))
    left = fortran.letter(SIDE).load("i8") == Word(f, str(ord("L")), "i8")
    # A column for each right-hand side, or a row.
    rows, columns = f.select(left, sides.rows, sides.columns), f.select(left, sides.columns, sides.rows)
    _copied(given.b, given.c, rows, columns)
    n, m, leading = fortran.number(rows), fortran.number(columns), fortran.number(leading)
    a, x = _first(given.a), _first(given.c)
    one, step = f.stack(v.real, 1), fortran.number(1)
    one.store(v.number(1))
    alone = left & (columns == 1)
    with f.if_(alone):
        fortran.call("trsv", half, across, unit, n, a, leading, x, step)
    with f.if_(~alone):
        fortran.call("trsm", fortran.letter(SIDE), half, across, unit, n, m, one, a, leading, x, n)


def cholesky(v: Lanes, fortran: Fortran, sides: Sides, given: Operands) -> Word:
    """Cholesky's lower factors; gives whether the matrix is certainly positive-definite."""
    f, n = v.f, sides.rows
    zero = v.number(0)
    with f.loop(n) as j, f.loop(n) as i:
        with f.if_(i >= j):
            given.c.store(i, j, given.a.load(i, j))
        with f.if_(i < j):
            given.c.store(i, j, zero)
    # What is lower by rows is upper by columns.
    by_columns = given.c.row == v.size
    half = fortran.number(f.select(by_columns, f.number(ord("L")), f.number(ord("U"))))
    rows = fortran.number(n)
    fortran.call("potrf", half, rows, _first(given.c), rows, fortran.info)
    sound = f.variable(fortran.info.load("i32") == Word(f, "0", "i32"))
    with f.loop(n) as j:
        root, diagonal = given.c.load(j, j), given.a.load(j, j)
        _demand(sound, v.above(v.mul(root, root), v.mul(diagonal, v.doubtful(INDEFINITE, n))))
    return sound.value
