"""Donation: a program goes in; which results may be computed in the memory of which inputs comes out.

                                         for i0 in chunked(n0):
                                             t0 = x0[i0]
    v0: f32[1000] = mul(g, 0.1)              t1 = t0 * k0            {'v1': 'w'}
    v1: f32[1000] = sub(w, v0)               t2 = x1[i0]
                                             t3 = t2 - t1
                                             y0[i0] = t3

The kernel, in which w is x1 and v1 is y0, reads of w what it is about to write, and nobody reads w after it:
a parameter of an optimizer is stepped where it lies. What is made of an input by writing parts of it
(`base/write_op.py`) lies there, too, and so does what it was in between.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence
from typing import Any

from fusegrad.compiler.base.write_op import WRITE
from fusegrad.compiler.fuse.steps import Step
from fusegrad.compiler.kernel.bound_kernel import reads_where_it_writes
from fusegrad.tracer.ir.graph import Graph, Value


def in_place(program: Any, pairs: Sequence[tuple[Value, Value]]) -> dict[Value, Value]:
    """Which of `pairs` (output, input) the program may compute in the memory of the input, and what else lies
    there meanwhile. It brings the steps in an order in which what is written over has been read.

    Only if nothing can fail once it has begun, but for its checks, which must be asked before; if no later
    step reads the input; and if the kernel that makes the output reads the input nowhere else than where it
    writes.

    program: a `Program`, whose module is made of this one, too.
    """
    if not pairs or any(step.kind == "opaque" for step in program.steps):
        return {}
    found: dict[Value, Value] = {}
    order = _Order(program)
    for output, target in pairs:
        states = _states(program, output, target)
        if len(states) > 1 and order.has_read(states):
            found |= dict.fromkeys(states[1:], target)
    order.apply()
    steps, parts = program.steps, writes_parts(program)
    bases = [_read(program, step) for step in steps]
    for output, target in pairs:
        at = next((i for i, step in enumerate(steps) if output in step.made), None)
        if output in parts or at is None or target not in program.graph.inputs:
            continue
        if any(target in read for read in bases[at + 1 :]):
            continue
        kernel = steps[at].kernel
        if kernel is not None and reads_where_it_writes(kernel, output, target):
            found[output] = target
    return found


def writes_parts(program: Any) -> list[Value]:
    """What the program makes by writing parts, which has to lie where that lay of which it is made."""
    return [e.output for step in program.steps for e in step.equations if e.op is WRITE]


def _read(program: Any, step: Step) -> set[Value]:
    """The values whose memory a step reads."""
    return {program.sources.base(v) for e in step.equations for v in e.values()}


def _states(program: Any, output: Value, target: Value) -> list[Value]:
    """What lies in the memory of an input one after the other, by writing parts, until that is `output`."""
    states = [output]
    while states[0] != target:
        maker = program.sources.producer.get(states[0])
        if maker is None or maker.op is not WRITE:
            return []
        states.insert(0, program.sources.base(maker.inputs[0]))
    return states


class _Order:
    """The order of a program's steps, in which what is written over must have been read."""

    def __init__(self, program: Any) -> None:
        self.steps: list[Step] = program.steps
        self.base = program.sources.base
        self.returned = {self.base(v) for v in program.graph.outputs if isinstance(v, Value)}
        self.places = {value: i for i, step in enumerate(self.steps) for value in step.made}
        self.reads = [_read(program, step) for step in self.steps]
        # For each step those that must come before.
        needed = ({self.places[v] for v in read if v in self.places} for read in self.reads)
        self.before = [numbers - {i} for i, numbers in enumerate(needed)]
        self.order = [*range(len(self.steps))]

    def has_read(self, states: Sequence[Value]) -> bool:
        """Have what reads a state of a memory come before the next one is written; whether that can be."""
        before = [*self.before]
        for state, following in itertools.pairwise(states):
            writer = self.places[following]
            (equation,) = self.steps[writer].equations
            written = {self.base(v) for v in equation.values()[1:]}
            if (state in self.returned and state is not states[0]) or written & {*states}:
                return False
            readers = {i for i, read in enumerate(self.reads) if state in read and i != writer}
            before[writer] = before[writer] | readers
        order = _ordered(before)
        if order is None:
            return False
        self.before, self.order = before, order
        return True

    def apply(self) -> None:
        """Bring the steps in that order."""
        self.steps[:] = [self.steps[i] for i in self.order]


def _ordered(before: Sequence[set[int]]) -> list[int] | None:
    """Numbers so that each comes behind those `before` it, else as they are; None if no order is so."""
    missing = [len(numbers) for numbers in before]
    behind: list[list[int]] = [[] for _ in before]
    for number, others in enumerate(before):
        for other in others:
            behind[other].append(number)
    ready, order = [number for number, count in enumerate(missing) if not count], list[int]()
    while ready:
        order.append(number := heapq.heappop(ready))
        for other in behind[number]:
            missing[other] -= 1
            if not missing[other]:
                heapq.heappush(ready, other)
    return order if len(order) == len(before) else None


# What a check is made of that is computed apart from the rest.
_CHEAP = frozenset({"elementwise", "reduction", "fetch", "view", "creation", "assemble"})


def checks_apart(program: Any, guards: Sequence[Value]) -> Graph | None:
    """The graph of the program's checks, which it has no more, and of these outputs, which nobody needs of it
    any more; None, and nothing changes, where that is more work than to write what it writes elsewhere.
    """
    # Not of the steps, in which some equations compute anew what others have.
    made_by = {v: equation for equation in program.graph.equations for v in equation.outputs}
    pending = [*program.checks, *guards]
    targets, worth = tuple(pending), sum(math.prod(target.shape) for target in {*program.into.values()})
    needed: set[int] = set()
    inputs: set[Value] = set()
    while pending:
        value = pending.pop()
        equation = made_by.get(value)
        if equation is None:
            inputs.add(value)
        elif equation.op.family not in _CHEAP:
            return None
        elif id(equation) not in needed:
            needed.add(id(equation))
            worth -= sum(math.prod(v.shape) for v in equation.values())
            pending += equation.values()
    if worth < 0:
        return None
    graph = program.graph
    equations = tuple(e for e in graph.equations if id(e) in needed)
    found = Graph(tuple(v for v in graph.inputs if v in inputs), equations, targets)
    program.checks = []
    _drop_unread(program, guards)
    return found


def _drop_unread(program: Any, unread: Sequence[Value]) -> None:
    """Drop the steps that nothing needs but outputs that nobody reads."""
    outputs = {v for v in program.graph.outputs if isinstance(v, Value)} - {*unread}
    needed = {program.sources.base(v) for v in outputs}
    kept: list[Step] = []
    for step in reversed(program.steps):
        if not needed.isdisjoint(step.made):
            kept.append(step)
            needed |= _read(program, step)
    program.steps[:] = reversed(kept)
