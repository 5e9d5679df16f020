"""Small linear algebra as native calls: an op of `solver_ops.py` goes in, a function and its block come out.

Small matrices are computed in lanes (`small_solvers.py`), others by LAPACK (`lapack_solvers.py`). The entries
of a batch are divided among tasks.

    v0, v1, v2 = lu_factor_turned(a)          a: f64[1000, 3, 3]

is 125 groups of 8 matrices; a block holds how many tasks and groups there are, the sizes, and where the
operands lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from fusegrad.compiler.base.solver_ops import (
    CHOLESKY,
    FACTOR,
    LU_INVERSE,
    LU_SOLVE,
    TRIANGULAR,
    Solver,
)
from fusegrad.compiler.base.window_ops import WindowProduct
from fusegrad.compiler.gemm import lapack_solvers, small_solvers
from fusegrad.compiler.gemm.blas import routines
from fusegrad.compiler.gemm.lanes import OPERAND, Lanes, Operand
from fusegrad.compiler.gemm.lapack_solvers import Fortran
from fusegrad.compiler.gemm.matmul import batch_steps, folded
from fusegrad.compiler.gemm.native_call import TASKS, NativeCall
from fusegrad.compiler.gemm.small_solvers import SMALL, Operands, Rooms, Sides
from fusegrad.compiler.kernel.dtypes import DTYPES
from fusegrad.compiler.kernel.scalar import short_name
from fusegrad.compiler.llvm import llvm_jit
from fusegrad.compiler.llvm.function_writer import FunctionWriter, Word, module_text
from fusegrad.compiler.llvm.target import host
from fusegrad.compiler.llvm.tasks import share_tasks, task_name
from fusegrad.compiler.runtime import threads
from fusegrad.eager.core.families import Layout, contiguous_layout
from fusegrad.eager.core.sizes import broadcast_shapes
from fusegrad.tracer.ir.graph import Equation

# A block, in 8-byte places: tasks, groups of each, entries, entries of the inner dimension of the batch, rows
# and columns, slot and offset of what says whether all is sound, then operands, then letters.
GROUPS, ENTRIES, INNER, ROWS, COLUMNS, SOUND, SOUND_OFFSET, OPERANDS = range(TASKS + 1, 9)
LETTERS = OPERANDS + 4 * OPERAND
# Of batches of fewer entries one is computed after the other. So many multiplications are worth a task.
FEW_ENTRIES, TASK_WORK = 3, 1 << 15
ROUTINES = ("getrf", "getrs", "potrf", "trsm", "trsv")

Place = tuple[int, int]


class Code(NamedTuple):
    """Which function it takes. variant: of the op. lanes: of one for small matrices; None: of LAPACK's."""

    op: str
    variant: bool
    dtype: str
    lanes: int | None

    @property
    def symbol(self) -> str:
        """Its name."""
        how = "lapack" if self.lanes is None else f"lanes{self.lanes}"
        return f"{self.op}{'_' if self.variant else ''}_{self.dtype}_{how}"


def _work_of_one(rows: int, columns: int) -> int:
    return rows * rows * max(columns, rows // 3 + 1)


# From an op to a block.


class _Matrix(NamedTuple):
    """An operand: the steps of its rows, columns and batch dimensions, in elements."""

    place: Place
    offset: int
    row: int
    column: int
    batch: tuple[int, ...]
    shape: tuple[int, ...]  # of the batch

    @classmethod
    def of(cls, layout: Layout, place: Place) -> _Matrix:
        *batch, row, column = layout.strides
        return cls(place, layout.offset, row, column, tuple(batch), layout.shape[:-2])

    @property
    def turned(self) -> _Matrix:
        """With rows and columns exchanged."""
        return self._replace(row=self.column, column=self.row)

    def from_behind(self, rows: int, both: bool) -> _Matrix:
        """Counted from the last row; both: and from the last of as many columns."""
        offset = self.offset + (rows - 1) * (self.row + (self.column if both else 0))
        return self._replace(offset=offset, row=-self.row, column=-self.column if both else self.column)


def reads(op: Solver, layouts: Sequence[Layout | None], number: int) -> bool:
    """Whether an operand is read as it lies."""
    layout = layouts[number]
    if layout is None:
        return True
    if isinstance(op, WindowProduct):
        return layout.strides == contiguous_layout(layout.shape).strides
    known = [(x, rank) for x, rank in zip(layouts, op.ranks, strict=True) if x is not None]
    if _folded([(x.shape[:-rank], x.strides[:-rank]) for x, rank in known]) is None:
        return False
    return op is not TRIANGULAR or number != 0 or _is_readable(layout)


def _folded(batches: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]) -> Any:
    batch = broadcast_shapes(*(shape for shape, _ in batches))
    return folded(batch, [batch_steps(batch, shape, steps) for shape, steps in batches])


def _is_readable(layout: Layout) -> bool:
    """Whether BLAS can read a matrix that lies so, with rows or columns of neighbours."""
    (rows, columns), (row, column) = layout.shape[-2:], layout.strides[-2:]
    return bool((column == 1 and row >= columns) or (row == 1 and column >= rows))


def solver_use(
    equation: Equation, layouts: Sequence[Layout], made: Sequence[Layout], places: Sequence[Place]
) -> NativeCall:
    """The native call of an op. layouts: how its operands lie; made: how its results do; places: slots and
    byte offsets of all of them.
    """
    op, params, dtype = equation.op, equation.params, equation.outputs[0].dtype
    rows = layouts[0].shape[-1]
    columns = rows
    given, results = places[: len(layouts)], places[len(layouts) :]
    a, c = _Matrix.of(layouts[0], given[0]), _Matrix.of(made[0], results[0]).turned
    b = pivots = None
    sound: Place = (0, 0)
    variant = False
    letters = [0] * lapack_solvers.LETTERS
    lapack = rows > SMALL
    if op is FACTOR:
        pivots, sound = _pivots(made[1], results[1]), results[2]
    elif op is CHOLESKY:
        sound = results[1]
        if params["upper"]:
            a, c = a.turned, c.turned
    elif op in (LU_SOLVE, LU_INVERSE):
        a, pivots = a.turned, _pivots(layouts[1], given[1])
        if op is LU_SOLVE:
            b, columns, variant = _Matrix.of(layouts[2], given[2]), layouts[2].shape[-1], params["transposed"]
    else:
        assert op is TRIANGULAR
        upper, left, variant = params["upper"], params["left"], params["unitriangular"]
        b = _Matrix.of(layouts[1], given[1])
        columns = layouts[1].shape[-1 if left else -2]
        if lapack:
            variant = False
            by_columns = a.row == 1
            half = "U" if upper == by_columns else "L"
            words = ("L" if left else "R", half, "N" if by_columns else "T", "NU"[params["unitriangular"]])
            letters = [*map(ord, words), max(a.column if by_columns else a.row, rows)]
        else:
            if not left:
                a, b, c, upper = a.turned, b.turned, c.turned, not upper
            if upper:
                a, b, c = a.from_behind(rows, True), b.from_behind(rows, False), c.from_behind(rows, False)
    operands = [a, b or a, c, pivots or a]
    block = _block(operands, (rows, columns), dtype.itemsize, sound)
    entries, name = block[ENTRIES], short_name(dtype)
    lanes = None if lapack else host().lanes(dtype.itemsize) if entries >= FEW_ENTRIES else 0
    _divide(block, lanes or 1)
    code = Code(op.name, bool(variant), name, lanes)
    work = block[ENTRIES] * _work_of_one(block[ROWS], block[COLUMNS])
    return NativeCall(partial(_code, code), [*block, *letters], work)


def _pivots(layout: Layout, place: Place) -> _Matrix:
    return _Matrix(place, layout.offset, layout.strides[-1], 0, layout.strides[:-1], layout.shape[:-1])


def _block(operands: Sequence[_Matrix], sides: tuple[int, int], size: int, sound: Place) -> list[int]:
    found = _folded([(m.shape, m.batch) for m in operands])
    assert found is not None, "what does not fold is copied"
    (outer, inner), steps = found
    block = [1, 1, outer * inner, inner, *sides, *sound]
    for number, (matrix, (step0, step1)) in enumerate(zip(operands, steps, strict=True)):
        slot, start = matrix.place
        unit = 4 if number == 3 else size
        along = (step1 * inner if outer == 1 else step0), step1
        block += [slot, start + matrix.offset * unit]
        block += [n * unit for n in (matrix.row, matrix.column, *along)]
    return block


def _divide(block: list[int], width: int) -> None:
    """Divide the groups of entries among tasks: by sizes and the machine's cores only."""
    groups = -(-block[ENTRIES] // width)
    work = block[ENTRIES] * _work_of_one(block[ROWS], block[COLUMNS])
    tasks = max(1, min(groups, 4 * threads.cores(), work // TASK_WORK))
    block[GROUPS] = -(-groups // tasks)
    block[TASKS] = -(-groups // block[GROUPS])


# Code.


@llvm_jit.remembered
def _code(code: Code) -> llvm_jit.Module:
    if code.lanes is None:
        known, letter = routines(), DTYPES[code.dtype].product[0]
        llvm_jit.add_symbols({f"fusegrad_{letter}{name}": known[f"{letter}{name}"] for name in ROUTINES})
    return llvm_jit.Module(
        lambda: module_text([_entry(code), _task(code)]), [code.symbol], said=("solver", *code)
    )


def _entry(code: Code) -> FunctionWriter:
    f = FunctionWriter(code.symbol, {"slots": "ptr", "block": "ptr"})
    slots, block = f.given
    if code.op in (FACTOR.name, CHOLESKY.name):
        _sound(slots, block).store(Word(f, "1", "i8"))
    share_tasks(f, code.symbol, block.load("i64", TASKS))
    return f


def _sound(slots: Word, block: Word) -> Word:
    """The address of what says whether all is sound."""
    return slots.load("ptr", block.load("i64", SOUND)).at(block.load("i64", SOUND_OFFSET), "i8")


def _task(code: Code) -> FunctionWriter:
    """What does the entries of one task, a group at a time."""
    takes = {"number": "i64", "slots": "ptr", "block": "ptr"}
    attributes = f"noinline {host().function_attributes}"
    f = FunctionWriter(task_name(code.symbol), takes, attributes=attributes)
    number, slots, block = f.given
    v = Lanes(f, code.dtype, code.lanes or 0)
    groups, entries, inner = (block.load("i64", place) for place in (GROUPS, ENTRIES, INNER))
    sides = Sides(block.load("i64", ROWS), block.load("i64", COLUMNS))
    given = Operands(*(Operand(v, slots, block, OPERANDS + OPERAND * i) for i in range(4)))
    helper = Rooms(v) if code.lanes is not None else Fortran(v, block.at(LETTERS))
    with f.loop(groups) as group:
        first = (number * groups + group) * v.width
        with f.if_(first < entries):
            active = v.first(entries - first)
            for operand in given:
                operand.begin(first, inner, active)
            sound = _written(code, v, helper, sides, given, block)
            if sound is not None:
                with f.if_(~v.all(sound)):
                    _sound(slots, block).store(Word(f, "0", "i8"))
    return f


def _written(code: Code, v: Lanes, helper: Any, sides: Sides, given: Operands, block: Word) -> Word | None:
    """What is done with a group; gives in which lanes the result is sound, if that is asked."""
    how: Any = small_solvers if code.lanes is not None else lapack_solvers
    if code.op == FACTOR.name:
        found: Word = how.factor(v, helper, sides, given)
        return found
    if code.op == CHOLESKY.name:
        found = how.cholesky(v, helper, sides, given)
        return found
    if code.op == LU_SOLVE.name:
        how.solve(v, helper, sides, given, code.variant)
    elif code.op == LU_INVERSE.name:
        how.inverse(v, helper, sides, given)
    elif code.lanes is not None:
        small_solvers.triangular(v, helper, sides, given, code.variant)
    else:
        leading = block.load("i64", LETTERS + lapack_solvers.LEADING)
        lapack_solvers.triangular(v, helper, sides, given, leading)
    return None
