"""Observed runs, for tests of what they read and do."""

from fusegrad.tracer.capture.loop_hooks import FOLLOWING
from fusegrad.tracer.observe.observer import Observer


def observe(function, *args, **kwargs):
    observer = Observer((args, kwargs), FOLLOWING)
    observer.run(function, args, kwargs)
    return observer


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
