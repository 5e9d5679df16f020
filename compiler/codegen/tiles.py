"""Tiles: the long body of a loop over vectors goes in; parts that run one after the other on a tile come out.

A processor looks some hundred instructions ahead. In a chain of a thousand, of which each waits for the one
before, it finds nothing else to do; of a short loop it has the next rounds at hand meanwhile. LLVM's time
grows faster than a body, too. So a long body is divided, and each part goes over a tile, a few vectors,
before the next one does; the threads share tiles. What a part hands on lies in scratch of the thread's own,
in the nearest cache.

    for i0 in chunked(n0):              for tile in chunked(n0):
        t0 = x0[i0]                         for i0 in tile:
        t1 = t0 * k0                            t1 = x0[i0] * k0
        ...                                     ...
        t70 = t69 + t1          becomes         s0[i0], s1[i0] = t1, t69
        y0[i0] = t70 / t0                   for i0 in tile:
                                                t70 = s1[i0] + s0[i0]
                                                y0[i0] = t70 / x0[i0]

Where to divide is where little has to be handed on. What is cheap is not handed on but had again: read from
where it was read before, unless results have been written since, which may lie there; or computed, where all
that it takes is at hand. What is the same along the axis is computed before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fusegrad.compiler.codegen.accumulation import BLOCK
from fusegrad.compiler.codegen.lane_rows import is_of_pieces
from fusegrad.compiler.kernel.ir import (
    ELEMENTARY,
    Accumulate,
    Buffer,
    Compute,
    Load,
    Progression,
    Statement,
    Store,
)

# A body of more statements is divided, into parts of so many at least and at most. Elementary functions, each
# a chain of its own, count for several.
UNDIVIDED, SHORTEST, LONGEST = 96, 24, 56
FUNCTION = 8
# What is handed on should take no more than this of the nearest cache; a tile has so many vectors at most (as
# many as are summed one to the other), and fills so many registers at least.
SCRATCH_BYTES = 24 << 10
MOST_VECTORS, FEWEST_REGISTERS = BLOCK, 4
# What costs as much as to read a value that was handed on.
_REPEATED = frozenset(
    "add sub mul neg abs eq ne lt le gt ge and_ or_ xor not_ select maximum minimum cast".split()
)


class Part(NamedTuple):
    """Statements that go over a tile; what they take from scratch, which of that nobody takes later, and what
    they leave there.
    """

    body: tuple[Statement, ...]
    takes: tuple[str, ...]
    spent: tuple[str, ...]
    leaves: tuple[str, ...]


class Division(NamedTuple):
    """A body in parts. before: what does not vary along the axis. most: how many values lie in scratch at a
    time.
    """

    before: tuple[Statement, ...]
    parts: tuple[Part, ...]
    most: int

    def vectors(self, vector_bytes: int, register_bytes: int) -> int:
        """How many vectors of so many bytes, each some registers, a tile has: a power of two."""
        fitting = SCRATCH_BYTES // (max(1, self.most) * vector_bytes)
        fewest = max(1, FEWEST_REGISTERS * register_bytes // vector_bytes)
        return min(MOST_VECTORS, max(fewest, 1 << max(0, fitting.bit_length() - 1)))


def divided(axis: str, body: Sequence[Statement]) -> Division | None:
    """The parts of a loop's body along `axis`; None for one that is short, or has more than straight code."""
    if len(body) <= UNDIVIDED or not all(_is_straight(s) for s in body):
        return None
    before, varying = _apart(axis, body)
    if len(varying) <= UNDIVIDED:
        return None
    pieces = _pieces(varying)
    made = {s.target: s for s in varying if isinstance(s, (Load, Compute, Progression))}
    home = {s.target: n for n, piece in enumerate(pieces) for s in piece if hasattr(s, "target")}
    first_written = next(
        (n for n, p in enumerate(pieces) if any(isinstance(s, Store) for s in p)), len(pieces)
    )
    bodies, takes = [], []
    for number, piece in enumerate(pieces):
        again, taken = _had_again(number, piece, made, home, rereads=number <= first_written)
        bodies.append((*again, *piece))
        takes.append(taken)
    last = {name: number for number, names in enumerate(takes) for name in names}
    leaves = [tuple(t for t in last if home[t] == number) for number in range(len(pieces))]
    spent = [tuple(t for t in names if last[t] == number) for number, names in enumerate(takes)]
    parts = map(Part, bodies, map(tuple, takes), spent, leaves)
    return Division(before, tuple(parts), _most_alive(takes, leaves, last))


def _is_straight(statement: Statement) -> bool:
    if isinstance(statement, Store):
        return statement.combine is None
    return isinstance(statement, (Load, Compute, Progression)) or (
        isinstance(statement, Accumulate) and not statement.accumulator.axes
    )


def read_by(statement: Statement) -> Iterable[str]:
    """The names of the scalars that a statement needs."""
    match statement:
        case Compute(_, _, operands, _):
            named: Iterable[object] = operands
        case Load(_, _, places, when):
            named = (*places, when)
        case Store(_, value, places, when, _):
            named = (value, *places, when)
        case Progression(_, _, start, step, _):
            named = (start, step)
        case Accumulate(_, value):
            named = (value,)
        case _:
            named = ()
    return [name for name in named if isinstance(name, str)]


def _apart(axis: str, body: Sequence[Statement]) -> tuple[tuple[Statement, ...], list[Statement]]:
    """What is the same all along the axis, and what varies or has an effect."""
    before: list[Statement] = []
    varying: list[Statement] = []
    varies: set[str] = set()
    for s in body:
        along = (isinstance(s, Load) and axis in s.buffer.axes) or (
            isinstance(s, Progression) and s.axis == axis
        )
        if along or isinstance(s, (Store, Accumulate)) or not varies.isdisjoint(read_by(s)):
            varying.append(s)
            varies.update([s.target] if isinstance(s, (Load, Compute, Progression)) else [])
        else:
            before.append(s)
    return tuple(before), varying


def _pieces(body: Sequence[Statement]) -> list[list[Statement]]:
    """The body cut where few values are alive, that are no mere reads."""
    made = {s.target: n for n, s in enumerate(body) if isinstance(s, (Compute, Load))}
    ends: dict[str, int] = {}
    for number, s in enumerate(body):
        ends.update((name, number) for name in read_by(s) if name in made)
    change = [0] * (len(body) + 1)
    for name, end in ends.items():
        if isinstance(body[made[name]], Compute):
            change[made[name] + 1] += 1
            change[end + 1] -= 1
    alive, now = [], 0
    for amount in change:
        now += amount
        alive.append(now)
    weights = [FUNCTION if isinstance(s, Compute) and s.op in ELEMENTARY else 1 for s in body]
    pieces, start = [], 0
    while start < len(body):
        weight, cut, stop = 0, len(body), start
        while stop < len(body) and weight <= LONGEST:
            weight += weights[stop]
            stop += 1
            # The pieces of a row are read and written together.
            together = stop < len(body) and _buffer(body[stop - 1]) == _buffer(body[stop]) is not None
            if weight >= SHORTEST and not together and (cut == len(body) or alive[stop] <= alive[cut]):
                cut = stop
        rest = sum(weights[stop : stop + SHORTEST])
        if stop == len(body) and weight <= LONGEST:
            cut = stop
        elif rest < SHORTEST and weight + rest <= LONGEST + SHORTEST:
            cut = len(body)
        pieces.append([*body[start:cut]])
        start = cut
    return pieces


def _buffer(statement: Statement) -> Buffer | None:
    """The rows that a statement reads or writes a piece of."""
    found = statement.buffer if isinstance(statement, (Load, Store)) else None
    return found if found is not None and is_of_pieces(found) else None


def _had_again(
    number: int,
    piece: Sequence[Statement],
    made: dict[str, Load | Compute | Progression],
    home: dict[str, int],
    rereads: bool,
) -> tuple[list[Statement], list[str]]:
    """What a part computes or reads again before all else, in order, and what it takes from scratch.

    rereads: whether nothing was written before.
    """
    wanted = dict.fromkeys(n for s in piece for n in read_by(s) if home.get(n, number) != number)

    def is_read_again(name: str) -> bool:
        s = made[name]
        if isinstance(s, Progression):
            return True
        return rereads and isinstance(s, Load) and not s.places and s.when is None

    again: dict[str, None] = {}
    for name in wanted:
        s = made[name]
        if is_read_again(name):
            again[name] = None
        elif isinstance(s, Compute) and s.op in _REPEATED:
            needs = [n for n in read_by(s) if n in made]
            if all(n in wanted or is_read_again(n) for n in needs):
                again.update(dict.fromkeys((*(n for n in needs if is_read_again(n)), name)))
    taken = [n for n in wanted if n not in again]
    order = {name: place for place, name in enumerate(made)}
    return [made[n] for n in sorted(again, key=order.__getitem__)], taken


def _most_alive(takes: Sequence[Sequence[str]], leaves: Sequence[Sequence[str]], last: dict[str, int]) -> int:
    """How many values are in scratch at most."""
    alive = most = 0
    for number, names in enumerate(leaves):
        alive += len(names) - sum(last[name] == number for name in takes[number])
        most = max(most, alive)
    return most
