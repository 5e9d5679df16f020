"""Tensors that nobody has but who watches the run do not stand in the way of a write."""

from __future__ import annotations

from typing import Any

import jit_checks

import fusegrad as fg


def _inner(weight: Any) -> Any:
    parts = tuple(fg.as_strided(w, (), ()) for w in (weight, weight))
    return parts[0] * 1


def gone(weight: Any, x: Any) -> Any:
    first = _inner(weight)
    weight.add_(x)
    return first + weight.sum()


def held(weight: Any, x: Any) -> Any:
    first = (fg.as_strided(weight[::2], (), ()),)
    weight.add_(x)
    return first[0] + weight.sum()


def test_what_is_gone_does_not_keep_a_write_from_being_followed() -> None:
    for function, replayed in ((gone, True), (held, False)):
        run, ours, theirs = fg.jit(function), fg.ones(3), fg.ones(3)
        for step in range(5):
            x = fg.full((3,), float(step))
            jit_checks.same(run(ours, x), function(theirs, x))
            jit_checks.same(ours, theirs)
        assert ("two tensors share" not in str(run.explain())) == replayed, run.explain()
        if replayed:
            jit_checks.sealed(run)(ours, fg.ones(3))
