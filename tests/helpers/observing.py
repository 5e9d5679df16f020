"""Observed runs, for tests of what they read and do."""

from collections.abc import Callable
from typing import Any

import pytest

import fusegrad as fg
from fusegrad.tracer.capture.loop_hooks import FOLLOWING
from fusegrad.tracer.observe.observer import Observer


def observe(function, *args, **kwargs):
    observer = Observer((args, kwargs), FOLLOWING)
    observer.run(function, args, kwargs)
    return observer


def leave_out_reads(monkeypatch: pytest.MonkeyPatch, *kinds: str) -> None:
    """Have runs take no note of reads of these kinds, as their keys begin: a guard that is missing."""
    read = Observer.read

    def blind(observer, key, make, value=None):
        return value if key[0] in kinds else read(observer, key, make, value)

    monkeypatch.setattr(Observer, "read", blind)


def closed(function, *args, **kwargs):
    """Reads of a run that must be closed, and hold."""
    observer = observe(function, *args, **kwargs)
    assert not observer.effects, observer.effects
    assert all(read.holds() for read in observer.reads), [r for r in observer.reads if not r.holds()]
    return observer


def holds(observer):
    return all(read.holds() for read in observer.reads)


def broken(observer):
    return [read.describe() for read in observer.reads if not read.holds()]


def found_with_changes(
    make: Callable[[], Any], wrap: Callable[[Any], Any] = lambda function: function
) -> tuple[list[Any], Any]:
    """What calls give in the world as it is, and after each change; the function. make: gives a function of a
    tensor, and the changes.
    """
    fg.manual_seed(0)
    body, changes = make()
    function = wrap(body)
    found: list[Any] = []
    for change in (lambda: None, *changes):
        change()
        for _ in range(4):
            found += function(fg.full((2,), 1.5)).tolist()
    return found, function


def replays_and_sees_what_changes(make: Callable[[], Any]) -> None:
    """Check that a function answers as eager, and is replayed."""
    found, function = found_with_changes(make, fg.jit)
    assert found_with_changes(make)[0] == pytest.approx(found)
    entries = function.explain().as_dict()["entries"]
    assert sum(path["calls"] for entry in entries for path in entry["paths"]) >= 2, function.explain()
