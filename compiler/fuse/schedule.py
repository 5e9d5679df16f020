"""Scheduling: a group of equations goes in; which axes are rows, and what runs when, come out.

The nest has rows (the outer axes, in parallel chunks) and, in each row, one or more passes over
the inner axes. A value lives on one of four levels:

    pre     before the loops: it varies along no axis and needs no reduction
    row     once a row: it varies along outer axes only, or was reduced over the inner ones
    inner   in the passes over the inner axes
    post    after the loops: it was reduced over everything, or over all rows

A pass must end before a value reduced in it can be used, so softmax takes three passes over a
row that stays in the cache, in one kernel.

Rows of softmax take three passes, since each needs what the one before has reduced:

    v0 = amax(x, dim=(1,))              pass 0: a0 = maximum(a0, x0[i0, i1])
    v2 = exp(x - v0)                    pass 1: t3 = exp_nonpositive(x0[i0, i1] - a0); y0[i0, i1] = t3
    v3 = sum(v2, dim=(1,))                      a1 = a1 + t3
    v5 = v2 * (1 / v3)                  pass 2: y0[i0, i1] = y0[i0, i1] * (k0 / a1)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fusegrad.compiler.base.assemble_op import ASSEMBLE
from fusegrad.compiler.base.gather_op import FETCH
from fusegrad.compiler.fuse.iteration_domain import Axis, Domain, Sources, Use, is_along_axes, is_creation
from fusegrad.compiler.kernel.dtypes import DEFAULT_FLOAT
from fusegrad.compiler.kernel.ir import Compute
from fusegrad.compiler.kernel.scalar import NotLowered, ScalarBuilder, short_name
from fusegrad.eager.core.families import Elementwise, Reduction
from fusegrad.eager.lazy import cached_property
from fusegrad.tracer.ir.graph import Equation, Value
from fusegrad.tracer.ir.symbolic_sizes import likely

# Scalar primitives that cost no more than a load; equations made of others are not repeated.
_CHEAP = frozenset(
    "add sub mul neg abs sign eq ne lt le gt ge and_ or_ xor not_ select maximum minimum floor ceil".split()
)
# A row that takes several passes should stay in the cache and leave other rows to other cores.
LONG_ROW = 1 << 16
FEW_ROWS = 8


def is_cheap(equation: Equation) -> bool:
    """Whether computing the equation again costs no more than loading its result."""
    if is_creation(equation) or equation.op in (FETCH, ASSEMBLE) or equation.op.name in ("cast", "clone"):
        return True
    op = equation.op
    if not isinstance(op, Elementwise):
        return False
    if isinstance(op.scalar, str):
        return op.scalar in _CHEAP
    try:
        kinds = tuple("" if not isinstance(v, Value) else short_name(v.dtype) for v in equation.inputs)
        return _primitives(op, kinds, tuple(sorted(equation.params.items()))) <= _CHEAP
    except NotLowered:
        return False


@functools.lru_cache(maxsize=1024)
def _primitives(
    op: Elementwise, kinds: tuple[str, ...], params: tuple[tuple[str, Any], ...]
) -> frozenset[str]:
    """The scalar primitives that an op comes down to, for operands of these dtypes ("": a number)."""
    builder = ScalarBuilder()
    widest = next((k for k in reversed(kinds) if k), DEFAULT_FLOAT)
    operands = [builder.fresh(kind or widest) for kind in kinds]
    assert not isinstance(op.scalar, str)
    op.scalar(builder, *operands, **dict(params))
    return frozenset(s.op for s in builder.statements if isinstance(s, Compute))


@dataclass
class Placing:
    """Where in a nest each member is, for one division of the axes into `rows` and `columns`, the inner ones.

    sizes: of the axes. levels, passes: of each member. reductions: for each that really reduces "row",
    "total" or "column". count: how many passes a row takes.
    """

    rows: frozenset[Axis]
    columns: frozenset[Axis]
    sizes: Mapping[Axis, int]
    levels: dict[Value, str] = field(default_factory=dict)
    passes: dict[Value, int] = field(default_factory=dict)
    reductions: dict[Value, str] = field(default_factory=dict)
    count: int = 0

    def place(
        self, equation: Equation, uses: Sequence[Use], axes: frozenset[Axis], reused: Callable[[], bool]
    ) -> bool:
        """Give the result of an equation its place, behind those of its operands; False where it has none.

        axes: that the result varies along. reused: tells whether something that varies in the group is
        computed from it.
        """
        if isinstance(equation.op, Reduction):
            place = self._reduction(equation, uses[0], axes, reused)
        else:
            place = self._elementwise(equation, uses, axes)
        if place is None:
            return False
        level, number = place
        self.levels[equation.output], self.passes[equation.output] = place
        kind = self.reductions.get(equation.output)
        here = number + 1 if level == "inner" else number if kind == "row" else 0
        loaded = kind is not None and bool(self.columns) and not uses[0].member
        self.count = max(self.count, here, int(loaded))
        return True

    def take_in(self, other: Placing) -> None:
        """Add the members of a nest with the same rows."""
        self.levels.update(other.levels)
        self.passes.update(other.passes)
        self.reductions.update(other.reductions)
        self.count = max(self.count, other.count)

    def forget(self, value: Value) -> None:
        """Take a member away, if it is one; how many passes there were is not known then."""
        for known in (self.levels, self.passes, self.reductions):
            known.pop(value, None)

    def _pass_of(self, use: Use) -> int:
        return self.passes[use.base] if use.member else 0

    def _elementwise(
        self, equation: Equation, uses: Sequence[Use], axes: frozenset[Axis]
    ) -> tuple[str, int] | None:
        columns = self.columns
        levels = {self.levels[u.base] for u in uses if u.member}
        when = max([self._pass_of(u) for u in uses], default=0)
        if "post" in levels:
            # After the loops, serially, only what was reduced over all rows is finished. A total that
            # is spread out again is work for a kernel of its own.
            members = [u for u in uses if u.member]
            along = any(self.levels[u.base] == "post" and Domain.axes(u.dims) == axes for u in members)
            fits = axes <= columns and along and all(self._is_at_hand(u) for u in members)
            return ("post", 0) if fits else None
        if axes & columns:
            if axes != self.rows | columns and not is_cheap(equation):
                return None
            return "inner", when
        if axes or when or "row" in levels:
            return "row", when
        return "pre", 0

    def _is_at_hand(self, use: Use) -> bool:
        """Whether a member can be had after the loops: from there, from before them, or computed again."""
        level = self.levels[use.base]
        again = level == "inner" and self.passes[use.base] == 0 and Domain.axes(use.dims) <= self.columns
        return level in ("post", "pre") or again

    def _reduction(
        self, equation: Equation, use: Use, kept: frozenset[Axis], reused: Callable[[], bool]
    ) -> tuple[str, int] | None:
        rows, columns, value = self.rows, self.columns, equation.output
        if any(n != 1 and a is None for n, a in zip(use.value.shape, use.dims, strict=True)):
            # A member that was expanded: no axis counts how often each element is there.
            return None
        axes = Domain.axes(use.dims)
        reduced = axes - kept
        level = self.levels[use.base] if use.member else self._level_along(axes)
        when = self._pass_of(use)
        if level == "post":
            return None
        if not reduced:
            # Dimensions of size 1 only: the element itself.
            return level, when
        if level == "inner":
            if axes != rows | columns:
                return None
            if reduced == columns and (rows or reused()):
                self.reductions[value] = "row"
                return "row", when + 1
            if reduced == axes:
                self.reductions[value] = "total"
                return "post", 0
            if reduced == rows:
                self.reductions[value] = "column"
                return "post", 0
            return None
        if reduced == rows and axes == rows:
            self.reductions[value] = "total"
            return "post", 0
        return None

    def _level_along(self, axes: frozenset[Axis]) -> str:
        return "inner" if axes & self.columns else "row" if axes else "pre"

    def stores_once(self, value: Value, axes: frozenset[Axis]) -> bool:
        """Whether the nest visits each element of a result once, and not for every row again."""
        level = self.levels[value]
        if level == "inner":
            return axes == self.rows | self.columns
        return level != "row" or axes == self.rows

    def fits(self) -> bool:
        """Several passes over few long rows leave cores idle and run out of cache: better cut up."""
        if self.count <= 1:
            return True
        rows, length = (likely(math.prod(self.sizes[a] for a in axes)) for axes in (self.rows, self.columns))
        return rows >= FEW_ROWS or length <= LONG_ROW


@dataclass
class Schedule:
    """A valid nest. outer, inner: its axes in order."""

    domain: Domain
    outer: list[Axis]
    inner: list[Axis]
    placing: Placing

    @property
    def levels(self) -> Mapping[Value, str]:
        return self.placing.levels

    @property
    def passes(self) -> Mapping[Value, int]:
        return self.placing.passes

    @property
    def count(self) -> int:
        """How many passes a row takes."""
        return self.placing.count

    @cached_property
    def reductions(self) -> dict[int, str]:
        """For each reduction by equation index, "row", "total" or "column"."""
        kinds = self.placing.reductions
        return {i: kinds[e.output] for i, e in enumerate(self.domain.equations) if e.output in kinds}


def schedules(
    domain: Domain,
    outputs: Sequence[Value],
    sources: Sources,
    rows: Callable[[], frozenset[Axis]] | None = None,
) -> Iterator[Schedule]:
    """The valid nests for a group, those along the memory first.

    outputs: the members that are needed outside, which lie in memory as `sources` says. rows: gives those of
    a nest that holds it, for want of a better one.
    """
    for outer, inner in _candidates(domain, outputs, sources, rows):
        placing = _placed(domain, frozenset(outer), frozenset(inner))
        if placing is None or not placing.fits():
            continue
        if all(placing.stores_once(v, domain.axes(domain.members[v])) for v in outputs):
            yield Schedule(domain, outer, inner, placing)


def _candidates(
    domain: Domain, outputs: Sequence[Value], sources: Sources, rows: Callable[[], frozenset[Axis]] | None
) -> Iterator[tuple[list[Axis], list[Axis]]]:
    """Ways to divide the axes into rows and inner ones, best first."""
    order = axis_order(domain, outputs, sources)
    if not order:
        yield [], []
        return
    splits: list[frozenset[Axis]] = []
    for i, equation in enumerate(domain.equations):
        if isinstance(equation.op, Reduction):
            operand = domain.uses[i, 0]
            reduced = domain.axes(operand.dims) - domain.axes(domain.members[equation.output])
            splits += [reduced, frozenset(order) - reduced]
    # The last axis in memory order belongs in the inner loop, so that vectors load in one piece.
    splits.append(frozenset(order[-1:]))
    splits.sort(key=lambda s: order[-1] not in s)
    for inner in dict.fromkeys(splits):
        if inner:
            yield [a for a in order if a not in inner], [a for a in order if a in inner]
    if rows is not None:
        outer = rows()
        yield [a for a in order if a in outer], [a for a in order if a not in outer]


def axis_order(domain: Domain, outputs: Sequence[Value], sources: Sources) -> list[Axis]:
    """All axes, outermost first: in the order of the largest array that is written, else read, in memory."""
    ranked: list[tuple[int, int, list[Axis]]] = []

    def rank(strides: Mapping[Axis, int], number: int) -> None:
        ranked.append((-len(strides), number, sorted(strides, key=lambda a: -abs(strides[a]))))

    for value in outputs:
        layout = sources.layout(value)
        assert layout is not None, "a member lies in memory of its own"
        steps = zip(domain.members[value], layout.strides, strict=True)
        rank({a: step for a, step in steps if a is not None}, 0)
    for use in domain.uses.values():
        if not use.member:
            rank(use.strides, 1)
    for dims in domain.members.values():
        axes = [a for a in dims if a is not None]
        ranked.append((-len(axes), 2, axes))
    ranked.sort(key=lambda r: r[:2])
    order: list[Axis] = []
    for _, _, axes in ranked:
        order = [a for a in axes if a not in order] + order
    return order


def _placed(domain: Domain, rows: frozenset[Axis], columns: frozenset[Axis]) -> Placing | None:
    """Where every member is, or None where the division does not work."""
    placing = Placing(rows, columns, domain.sizes)
    for i, equation in enumerate(domain.equations):
        uses = [domain.uses[i, j] for j, v in enumerate(equation.inputs) if isinstance(v, Value)]
        axes = domain.axes(domain.members[equation.output])
        if not placing.place(equation, uses, axes, functools.partial(_reused, domain, equation.output)):
            return None
    return placing


def _reused(domain: Domain, value: Value) -> bool:
    """Whether a value that was reduced to a number meets, in the group, something that varies."""
    reached = {value}
    for i, equation in enumerate(domain.equations):
        for j, operand in enumerate(equation.inputs):
            if isinstance(operand, Value) and domain.uses[i, j].member and domain.uses[i, j].base in reached:
                reached.add(equation.output)
                if domain.axes(domain.members[equation.output]):
                    return True
    return False


# What passes keep for each other.


@dataclass(frozen=True)
class Saved:
    """A costly value of one pass that later ones of the row read back instead of computing it again.

    first: the pass that computes it; again: those that read it. home: the result whose memory it lies in
    until the last of them, which then writes the result itself there; or the value, if it is a result.
    """

    value: Value
    first: int
    again: frozenset[int]
    home: Value


def saved_between_passes(plan: Schedule, outputs: Sequence[Value]) -> list[Saved]:
    """What is saved: the softmax of a row stores its exponentials where its results go."""
    found: list[Saved] = []
    if plan.count < 2:
        return found
    homes = [v for v in outputs if plan.levels[v] == "inner" and is_along_axes(v, plan.domain.members[v])]
    # Those that others are computed from come last: who reads those back has no need of these.
    for equation in reversed(plan.domain.equations):
        value = equation.output
        if plan.levels[value] != "inner" or is_cheap(equation):
            continue
        when = [
            number for number in range(plan.count) if value in needed_in_pass(plan, outputs, number, found)
        ]
        home = next((v for v in homes if len(when) > 1 and _can_hold(plan, v, value, when)), None)
        if home is not None:
            homes.remove(home)
            found.append(Saved(value, when[0], frozenset(when[1:]), home))
    return found


def _can_hold(plan: Schedule, home: Value, value: Value, when: Sequence[int]) -> bool:
    """Whether the memory of `home` is free for `value` until the last of the passes `when`."""
    if home == value:
        return True
    axes = plan.domain.axes
    alike = home.dtype == value.dtype and axes(plan.domain.members[home]) == axes(plan.domain.members[value])
    return alike and plan.passes[home] == when[-1]


def needed_in_pass(
    plan: Schedule, outputs: Iterable[Value], number: int, saved: Sequence[Saved]
) -> set[Value]:
    """The members that a pass computes, or reads back, along the inner axes."""
    domain = plan.domain
    known = {s.value for s in saved if number in s.again}
    index = {e.output: i for i, e in enumerate(domain.equations)}
    operands = [domain.uses[place, 0] for place in plan.reductions]
    roots = [*outputs, *(use.base for use in operands if use.member)]
    pending = [v for v in roots if plan.levels[v] == "inner" and plan.passes[v] == number]
    found: set[Value] = set()
    while pending:
        value = pending.pop()
        if value in found or plan.levels[value] != "inner":
            continue
        found.add(value)
        place = index[value]
        if value not in known:
            uses = [domain.uses.get((place, j)) for j in range(len(domain.equations[place].inputs))]
            pending += [use.base for use in uses if use is not None and use.member]
    return found
