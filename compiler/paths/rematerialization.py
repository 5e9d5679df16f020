"""Cutting a path's graph into stretches that run apart, and deciding what is kept between them.

A path runs in segments, one up to each guard on data, and its backward much later. What a later
stretch needs of an earlier one is either kept in memory or computed again: elementwise chains
and views are repeated (cheaper than a trip to memory), reductions, products and NumPy's ops are
kept, and whatever is in memory anyway is used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from fusegrad.tracer.ir.graph import Equation, Graph, Value

_REPEATABLE = frozenset({"elementwise", "view", "creation"})


def is_repeatable(equation: Equation) -> bool:
    """Whether a later stretch computes the equation again instead of reading its result."""
    return equation.op.family in _REPEATABLE


def producers(equations: Iterable[Equation]) -> dict[Value, Equation]:
    """The equation that makes each value."""
    return {v: e for e in equations for v in e.outputs}


def backward_slice(
    targets: Iterable[Any],
    available: Collection[Value],
    made_by: Mapping[Value, Equation],
    inputs: Sequence[Value],
    order: Mapping[int, int],
    guards: Sequence[Equation] = (),
) -> Graph:
    """The graph that computes `targets` from `available` values and from those of `inputs`.

    order: the position of each equation (by id) in the whole path. The slice's inputs are the
    values that it takes from outside, in a stable order.
    """
    wanted = [v for v in targets if isinstance(v, Value)]
    pending = [*wanted, *(v for e in guards for v in e.values())]
    equations: dict[int, Equation] = {id(e): e for e in guards}
    taken: dict[Value, None] = {}
    seen: set[Value] = set()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        equation = made_by.get(value)
        if value in available or equation is None:
            taken[value] = None
        else:
            equations[id(equation)] = equation
            pending += equation.values()
    ordered = tuple(sorted(equations.values(), key=lambda e: order[id(e)]))
    rank = {v: i for i, v in enumerate((*inputs, *available))}
    given = tuple(sorted(taken, key=lambda v: rank[v]))
    return Graph(given, ordered, tuple(dict.fromkeys(wanted)))


def kept(
    targets: Iterable[Any],
    stretch: Collection[int],
    available: Collection[Value],
    made_by: Mapping[Value, Equation],
) -> list[Value]:
    """The values made in `stretch` (ids of equations) that later `targets` cannot do without.

    The walk goes back through repeatable equations, and through later ones of any kind; it stops
    at what is available already and at dear results of the stretch, which are the answer.
    """
    pending = [v for v in targets if isinstance(v, Value)]
    found: dict[Value, None] = {}
    seen: set[Value] = set()
    while pending:
        value = pending.pop()
        if value in seen or value in available:
            continue
        seen.add(value)
        equation = made_by.get(value)
        if equation is None:
            continue
        if id(equation) in stretch and not is_repeatable(equation):
            found[value] = None
        else:
            pending += equation.values()
    return list(found)
