"""What a graph is divided into: what runs as one."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from fusegrad.compiler.base.window_ops import WindowProduct
from fusegrad.compiler.fuse.nest_growth import Nest
from fusegrad.compiler.kernel.bound_kernel import BoundKernel
from fusegrad.tracer.ir.graph import Equation, Value
from fusegrad.tracer.observe.arrays.foreign import ForeignOp


@dataclass(eq=False)
class Step:
    """What runs as one. kind: "kernel" (a fused group), "loops" (a nest written for one op), "product" (of
    matrices), "solver" (an op of `solver_ops.py` or `window_ops.py`) or "opaque" (by NumPy, or rounds of a
    loop, see `loop_bodies.py`).

    numbers: of the equations in the graph. needs: the steps that must run before; users: those that need it.
    apart: whether it stays as it is. fetched: the equations that make what is fetched from, which has to be
    in memory by then. nest: of a fused group, once it was asked for. into: the step that has taken it in.
    """

    kind: str
    equations: list[Equation]
    numbers: list[int] = field(default_factory=list)
    position: int = 0
    needs: dict[Step, None] = field(default_factory=dict)
    users: dict[Step, None] = field(default_factory=dict)
    fetched: set[int] = field(default_factory=set)
    kernel: BoundKernel | None = None
    apart: bool = False
    nest: Nest | None = None
    into: Step | None = None

    def let_go(self) -> None:
        """Forget what only dividing asks for. Steps that know each other would be the collector's to find."""
        self.users, self.nest = {}, None

    @property
    def made(self) -> list[Value]:
        return [v for e in self.equations for v in e.outputs]

    @property
    def title(self) -> str:
        """What it is, in words."""
        if self.equations[0].op.name in _LOOPS:
            return _LOOPS[self.equations[0].op.name]
        if isinstance(self.equations[0].op, WindowProduct):
            return "product of windows"
        return _TITLES[self.kind]

    def __str__(self) -> str:
        return f"{self.title}: {', '.join(self.ops)}"

    @property
    def ops(self) -> list[str]:
        """What they are called; of calls of other libraries' functions, what these are called."""
        return [str(e.params["call"]) if isinstance(e.op, ForeignOp) else e.op.name for e in self.equations]


# Whether one step needs another through a third is looked for among so many; if that is not enough, it may.
MOST_SEARCHED = 256

_LOOPS = {
    "rolled": "rounds of a loop",
    "tested": "rounds of a loop, until a test fails",
    "at_count": "rounds of a loop, as many as there were",
}
_TITLES = {
    "kernel": "fused kernel",
    "loops": "loop nest",
    "product": "matrix product",
    "solver": "linear algebra",
    "opaque": "NumPy",
}


def last_of(step: Step) -> Step:
    """The step that a step has become a part of: itself, if there is none."""
    last = step
    while last.into is not None:
        last = last.into
    while step.into is not None and step.into is not last:
        step.into, step = last, step.into
    return last


def in_order(steps: Iterable[Step]) -> list[Step]:
    """Steps, each after those that it needs; ties in program order."""
    pending = sorted(steps, key=lambda s: s.position)
    missing = [len(step.needs) for step in pending]
    waiting: dict[Step, list[int]] = {}
    for number, step in enumerate(pending):
        for need in step.needs:
            waiting.setdefault(need, []).append(number)
    ready = [number for number, count in enumerate(missing) if not count]
    order: list[Step] = []
    while ready:
        step = pending[heapq.heappop(ready)]
        order.append(step)
        for number in waiting.get(step, ()):
            missing[number] -= 1
            if not missing[number]:
                heapq.heappush(ready, number)
    assert len(order) == len(pending), "steps that need each other: a bug in fusion"
    return order


def come_between(first: Step, second: Step) -> bool:
    """Whether one of the steps needs the other through a third one, which then has to run in between, or
    might.
    """
    searches = [_search(first, second), _search(second, first)]
    for _ in range(MOST_SEARCHED):
        if not searches:
            return False
        # In turn: where one way there is a path, the other way there is none to be found.
        for search in (*searches,):
            found = next(search)
            if found:
                return True
            if found is False:
                searches.remove(search)
    return True


def _search(start: Step, target: Step) -> Iterator[bool | None]:
    """Whether `start` needs `target` through some other step; None as long as that is not known.

    Asked from both ends: in a long program one of them mostly has little behind it. The numbers of
    equations tell nothing here: a step runs as one, so what reads an early equation of a group waits
    for all that the late ones need.
    """
    behind = [s for s in start.needs if s is not target]
    ahead = [s for s in target.users if s is not start]
    needed: set[Step] = set()
    using: set[Step] = set()
    while behind and ahead:
        yield None
        step = behind.pop()
        if step is target:
            yield True
        if step not in needed:
            needed.add(step)
            behind += step.needs
        step = ahead.pop()
        if step is start:
            yield True
        if step not in using:
            using.add(step)
            ahead += step.users
    yield False
