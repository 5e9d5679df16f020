"""Growing nests: two groups whose nests are known go in; the nest of both comes out, without planning anew.

Where the equations of a group are in its nest does not change when others join it. So only the axes that both
groups have in common are looked for, and only the equations of the one that reads the other are placed:

    group  v0 = x * 2           along (a, b)
    other  v1 = sum(v0, dim=1)  reads v0 along (c, d): c is a, d is b
    both   v0 = x * 2; v1 = sum(v0, dim=1)        along (a, b), the rows a

A group grows in about as many steps as it has equations, and each looks at those of the smaller group; to
plan it anew each time takes the square. Where a step cannot tell, the whole is planned (`schedule.py`).

Equations go by their numbers in the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from fusegrad.compiler.base.gather_op import FETCH
from fusegrad.compiler.fuse.iteration_domain import (
    Axis,
    Dims,
    Domain,
    Sources,
    Use,
    is_along_axes,
    mapped_dims,
)
from fusegrad.compiler.fuse.schedule import Placing, Schedule
from fusegrad.tracer.ir.graph import Equation, Value


class Answer(Enum):
    """Why there is no nest: none can be, or only planning the whole can tell."""

    NO = "no"
    UNKNOWN = "unknown"


class Access(NamedTuple):
    """How memory is read: whose, from where, and the lengths and steps along its dimensions."""

    base: Value
    offset: int
    steps: tuple[tuple[int, int], ...]

    @property
    def repeats(self) -> bool:
        """Whether an element is read several times, along a dimension without a step."""
        return any(step == 0 for _, step in self.steps)


class _Load(NamedTuple):
    """What a group reads from memory in one way.

    axes: those that it runs along. readers: numbers of equations, each with the number of its operand.
    """

    axes: tuple[Axis, ...]
    readers: list[tuple[int, int]]


Axes = dict[Axis, Axis]


class Nest:
    """A group's nest.

    members: the values that it makes, with the axis of each dimension. uses: by the number of an equation its
    operands. sizes: of the axes. placing: where each member is. loads: what it reads from memory. several:
    what of that it reads along several axes.
    """

    def __init__(self, members: dict[Value, Dims], sizes: dict[Axis, int], placing: Placing) -> None:
        self.members, self.sizes, self.placing = members, sizes, placing
        self.uses: dict[int, list[Use]] = {}
        self.loads: dict[Access, _Load] = {}
        self.read: dict[Value, list[Access]] = {}
        self.several: set[Access] = set()

    @classmethod
    def planned(cls, plan: Schedule, numbers: Sequence[int], sources: Sources) -> Nest:
        """The nest of a group that was planned as a whole. numbers: of its equations."""
        domain = plan.domain
        nest = cls(domain.members, domain.sizes, plan.placing)
        nest.uses = {number: [] for number in numbers}
        for (i, j), use in domain.uses.items():
            uses = nest.uses[numbers[i]]
            if not use.member and not (domain.equations[i].op is FETCH and j == 0):
                axes = tuple([a for a in use.dims if a is not None])
                nest.reads(access_of(use, sources), axes, [(numbers[i], len(uses))])
            uses.append(use)
        return nest

    def of_group_like_it(
        self,
        here: Mapping[Value, tuple[Value, Any]],
        numbers: Mapping[int, int],
        equations: Sequence[Equation],
    ) -> Nest:
        """The nest of a group that is the same but for names.

        here: for each value of this one's the other's, and how much further on it is read. numbers: the same
        for equations, which stand in `equations`.
        """
        names = {value: other for value, (other, _) in here.items()}
        p = self.placing
        placing = Placing(
            p.rows,
            p.columns,
            p.sizes,
            {names[v]: level for v, level in p.levels.items()},
            {names[v]: number for v, number in p.passes.items()},
            {names[v]: kind for v, kind in p.reductions.items()},
            p.count,
        )
        nest = Nest({names[v]: dims for v, dims in self.members.items()}, self.sizes, placing)
        for number, uses in self.uses.items():
            values = equations[numbers[number]].values()
            nest.uses[numbers[number]] = [
                Use(value, here[u.base][0], u.member, u.dims, u.strides, u.offset + here[u.base][1], u.places)
                for value, u in zip(values, uses, strict=True)
            ]
        for access, load in self.loads.items():
            base, distance = here[access.base]
            readers = [(numbers[number], operand) for number, operand in load.readers]
            now = Access(base, access.offset + distance, access.steps)
            nest.reads(now, load.axes, readers)
            if access in self.several:
                nest.several.add(now)
        return nest

    def reads(self, access: Access, axes: tuple[Axis, ...], readers: list[tuple[int, int]]) -> None:
        """Note what reads from memory."""
        load = self.loads.get(access)
        if load is None:
            self.loads[access] = _Load(axes, [*readers])
            self.read.setdefault(access.base, []).append(access)
        else:
            load.readers.extend(readers)
            if load.axes != axes:
                self.several.add(access)

    def rows_in(self, domain: Domain, numbers: Sequence[int]) -> frozenset[Axis]:
        """The rows, by the numbers that axes have in another analysis of the same equations."""
        found: Axes = {}

        def same(ours: Dims, theirs: Dims) -> None:
            pairs = zip(ours, theirs, strict=True)
            found.update({a: b for a, b in pairs if a is not None and b is not None})

        for i, (number, equation) in enumerate(zip(numbers, domain.equations, strict=True)):
            same(self.members[equation.output], domain.members[equation.output])
            uses = [domain.uses[i, j] for j, v in enumerate(equation.inputs) if isinstance(v, Value)]
            for mine, use in zip(self.uses[number], uses, strict=True):
                same(mine.dims, use.dims)
        return frozenset(found[a] for a in self.placing.rows)


def access_of(use: Use, sources: Sources) -> Access:
    """How an operand that lies in memory is read."""
    layout = sources.layout(use.value)
    assert layout is not None, "copies are put in before fusion"
    steps = tuple([(n, s) for n, s in zip(layout.shape, layout.strides, strict=True) if n != 1])
    return Access(use.base, layout.offset, steps)


# Whether the value of an equation, by number, is needed outside of a group with these equations.
IsResult = Callable[[int, set[int]], bool]


class Growth:
    """Puts groups of a graph's equations together."""

    def __init__(self, equations: Sequence[Equation], sources: Sources) -> None:
        self._equations, self._sources = equations, sources

    def joined(self, one: Nest, other: Nest, is_result: IsResult) -> Nest | Answer:
        """The nest of two groups: one of theirs, which has grown. If there is none, both are as they were.

        Its axes and rows are those of the group that has more axes, or else more equations.
        """
        sizes = [(len(nest.sizes), len(nest.members)) for nest in (one, other)]
        host, guest = (one, other) if sizes[0] >= sizes[1] else (other, one)
        read = [*_read_of(host, guest), *_read_of(guest, host)]
        axes = self._common_axes(host, guest, read)
        if isinstance(axes, Answer):
            return axes
        merging = _Merging(host, guest, axes, read, self._sources)
        if merging.changes_nothing():
            host.placing.take_in(guest.placing)
        elif not self._place(merging, is_result):
            return Answer.UNKNOWN
        return merging.merged()

    def _common_axes(self, host: Nest, guest: Nest, read: Sequence[tuple[Nest, Access]]) -> Axes | Answer:
        """The axis of the host for each of the guest's. read: how one of them reads what the other makes."""
        if any(len(nest.loads[access].readers) > 1 and access.repeats for nest, access in read):
            # What makes these readers run along the same axis will not be there.
            return Answer.UNKNOWN
        pairs = [*_pairs_by_access(host, guest), *_pairs_by_member(host, guest)]
        for reader, access in read:
            maker = guest if reader is host else host
            for number, operand in reader.loads[access].readers:
                use = reader.uses[number][operand]
                dims = _dims_of_member(use, maker.members, self._sources)
                if dims is None:
                    return Answer.NO
                for read_along, made_along in zip(use.dims, dims, strict=True):
                    if read_along is not None and made_along is not None:
                        pair = read_along, made_along
                        pairs.append(pair if reader is guest else pair[::-1])
        axes: Axes = {}
        if any(axes.setdefault(theirs, mine) != mine for theirs, mine in pairs):
            return Answer.UNKNOWN
        differ = any(host.sizes[mine] != guest.sizes[theirs] for theirs, mine in axes.items())
        if differ or (len(axes) < len(guest.sizes) and not axes):
            # What have no axis in common, and both have some, cannot be in one loop. Where both read the
            # same, it may also be along axes of their own.
            return Answer.UNKNOWN if _read_the_same(host, guest) else Answer.NO
        alike = len({*axes.values()}) == len(axes) == len(guest.sizes)
        return axes if alike else Answer.UNKNOWN

    def _place(self, merging: _Merging, is_result: IsResult) -> bool:
        """Give the equations their places in the host's rows; False where one has none."""
        host = merging.host
        if merging.host_reads:
            placing = Placing(host.placing.rows, host.placing.columns, host.sizes)
            numbers = sorted({*host.uses, *merging.guest.uses})
        else:
            # What reads nothing of the guest stays where it is.
            placing = host.placing
            numbers = sorted(n for n in merging.guest.uses if n not in host.uses)
        count = placing.count
        inside = {*host.uses, *merging.guest.uses}
        placed = (self._places(placing, merging, n, inside, is_result) for n in numbers)
        if all(placed) and placing.fits():
            host.placing = placing
            return True
        for number in numbers:
            placing.forget(self._equations[number].output)
        placing.count = count
        return False

    def _places(
        self, placing: Placing, merging: _Merging, number: int, inside: set[int], is_result: IsResult
    ) -> bool:
        equation = self._equations[number]
        axes = Domain.axes(merging.dims(equation.output))
        # A total that something varying is computed from is no total then: that takes a look at all.
        if not placing.place(equation, merging.uses(number), axes, lambda: False):
            return False
        return placing.stores_once(equation.output, axes) or not is_result(number, inside)


def _read_the_same(host: Nest, guest: Nest) -> bool:
    """Whether both read something in the same way."""
    return not host.loads.keys().isdisjoint(guest.loads)


def _pairs_by_access(host: Nest, guest: Nest) -> Iterator[tuple[Axis, Axis]]:
    """Axes of both along which they read the same."""
    few, many = (guest, host) if len(guest.loads) <= len(host.loads) else (host, guest)
    for access in few.loads:
        if access in many.loads and access not in few.several and access not in many.several:
            yield from zip(guest.loads[access].axes, host.loads[access].axes, strict=True)


def _pairs_by_member(host: Nest, guest: Nest) -> Iterator[tuple[Axis, Axis]]:
    """Axes of what both make."""
    few, many = (guest, host) if len(guest.members) <= len(host.members) else (host, guest)
    for value in few.members:
        if value in many.members:
            for theirs, mine in zip(guest.members[value], host.members[value], strict=True):
                if theirs is not None and mine is not None:
                    yield theirs, mine


def _read_of(maker: Nest, reader: Nest) -> Iterator[tuple[Nest, Access]]:
    """How one reads what the other makes."""
    few: Iterable[Value] = maker.members if len(maker.members) <= len(reader.read) else reader.read
    for value in few:
        if value in reader.read and value in maker.members:
            yield from ((reader, access) for access in reader.read[value])


def _dims_of_member(use: Use, members: Mapping[Value, Dims], sources: Sources) -> Dims | None:
    """The axes along which a member is read; None where a view of it has others than it has itself."""
    dims = mapped_dims(sources.resolve(use.value)[1], use.base.shape)
    if not is_along_axes(use.base, members[use.base]):
        return None
    return None if dims is None else tuple([None if d is None else members[use.base][d] for d in dims])


class _Merging:
    """A guest on its way into a nest.

    axes: of the host, for each of the guest's. read: how one of them reads what the other makes.
    """

    def __init__(
        self, host: Nest, guest: Nest, axes: Axes, read: Sequence[tuple[Nest, Access]], sources: Sources
    ) -> None:
        self.host, self.guest, self._axes, self._sources = host, guest, axes, sources
        self._same_names = all(theirs == mine for theirs, mine in axes.items())
        self._members = {v: self._moved(d) for v, d in guest.members.items()}
        self._read = read
        self.host_reads = any(reader is host for reader, _ in self._read)

    def changes_nothing(self) -> bool:
        """Whether all equations stay where they are: both have the same rows, and what one reads of the
        other is there when it was to be loaded.
        """
        host, guest = self.host.placing, self.guest.placing
        if len(self._axes) != len(self.host.sizes) or frozenset(map(self._axes.get, guest.rows)) != host.rows:
            return False
        for reader, access in self._read:
            maker = guest if reader is self.host else host
            level, number = maker.levels[access.base], maker.passes[access.base]
            if access.repeats or number or level not in ("inner", "pre"):
                return False
        for value in self.guest.members.keys() & self.host.members.keys():
            if (guest.levels[value], guest.passes[value]) != (host.levels[value], host.passes[value]):
                return False
        return True

    def dims(self, value: Value) -> Dims:
        """The axes of a member of either."""
        return self._members[value] if value in self._members else self.host.members[value]

    def uses(self, number: int) -> list[Use]:
        """The operands of an equation of either."""
        if number in self.host.uses:
            return [self._joined(use, self._members) for use in self.host.uses[number]]
        return [self._joined(self._moved_use(use), self.host.members) for use in self.guest.uses[number]]

    def merged(self) -> Nest:
        """The host's nest with all of the guest's in it."""
        host, guest = self.host, self.guest
        for value in [v for v in host.read if v in self._members]:
            for access in host.read.pop(value):
                for number, operand in host.loads.pop(access).readers:
                    uses = host.uses[number]
                    uses[operand] = self._joined(uses[operand], self._members)
        held = host.uses.keys() & guest.uses.keys()
        host.uses.update({number: self.uses(number) for number in guest.uses if number not in held})
        for access, load in guest.loads.items():
            if access.base not in host.members:
                readers = [r for r in load.readers if r[0] not in held] if held else load.readers
                host.reads(access, tuple([self._axes[a] for a in load.axes]), readers)
                host.several.update({access} & guest.several)
        host.members.update(self._members)
        return host

    def _moved(self, dims: Dims) -> Dims:
        return dims if self._same_names else tuple([None if a is None else self._axes[a] for a in dims])

    def _moved_use(self, use: Use) -> Use:
        if self._same_names:
            return use
        strides = {self._axes[a]: s for a, s in use.strides.items()}
        return Use(use.value, use.base, use.member, self._moved(use.dims), strides, use.offset, use.places)

    def _joined(self, use: Use, members: Mapping[Value, Dims]) -> Use:
        """An operand, which may be read of a member of the other group."""
        if use.member or use.base not in members:
            return use
        dims = _dims_of_member(use, members, self._sources)
        assert dims is not None, "the axes that are read have been compared"
        return Use(use.value, use.base, True, dims, {}, 0)
