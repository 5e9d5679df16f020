"""Axes that run as one: a schedule and how arrays are crossed go in; fewer axes come out."""

from __future__ import annotations

from collections.abc import Mapping

from fusegrad.compiler.base.gather_op import FETCH, tested_dims
from fusegrad.compiler.fuse.iteration_domain import Axis, Domain
from fusegrad.compiler.fuse.schedule import Schedule
from fusegrad.eager.ops.create.creation import Creation
from fusegrad.tracer.ir.graph import Equation, Value


class CollapsedAxes:
    """Neighbouring axes that every array crosses without a gap, run as one."""

    def __init__(self, plan: Schedule, stores: Mapping[Value, dict[Axis, int]]) -> None:
        self.sizes = dict(plan.domain.sizes)
        domain = plan.domain
        accesses = [u.strides for u in domain.uses.values() if not u.member] + list(stores.values())
        extents = [domain.axes(d) for d in domain.members.values()]
        extents += [domain.axes(u.dims) for u in domain.uses.values()]
        fixed = {a for e in domain.equations for a in _seen_axes(domain, e)}
        self.outer = self._run(plan.outer, accesses, extents, fixed)
        self.inner = self._run(plan.inner, accesses, extents, fixed)

    def _run(
        self,
        axes: list[Axis],
        accesses: list[dict[Axis, int]],
        extents: list[frozenset[Axis]],
        fixed: set[Axis],
    ) -> list[Axis]:
        result: list[Axis] = []
        for axis in axes:
            previous = result[-1] if result else None
            if (
                previous is not None
                and not {previous, axis} & fixed
                and all((previous in e) == (axis in e) for e in extents)
                and all(s.get(previous, 0) == s.get(axis, 0) * self.sizes[axis] for s in accesses)
            ):
                # The inner one of the two keeps its step; it now runs through both.
                result[-1] = axis
                self.sizes[axis] *= self.sizes[previous]
            else:
                result.append(axis)
        return result


def _seen_axes(domain: Domain, equation: Equation) -> frozenset[Axis]:
    """The axes whose indices the equation computes with, so that they cannot run as one with others."""
    dims = domain.members[equation.output]
    if isinstance(equation.op, Creation):
        return domain.axes(dims)
    return domain.axes(tuple(dims[d] for d in tested_dims(equation))) if equation.op is FETCH else frozenset()
