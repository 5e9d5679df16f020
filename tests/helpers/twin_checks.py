"""Functions and their twins: both do the same."""

import traceback
import types
from pathlib import Path

from fusegrad.tracer.capture.loop_hooks import FOLLOWING, LoopHooks
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.twin.instrument import instrument

TRACE: list = []


def note(value, label=None):
    TRACE.append(label if label is not None else value)
    return value


def outcome(function, args, kwargs):
    """What a call shows: result or exception, the user's lines of its traceback, what it noted."""
    TRACE.clear()
    try:
        result = ("returned", function(*args, **kwargs))
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [(f.name, f.lineno) for f in frames if Path(f.filename).name.startswith("test_")]
        result = ("raised", type(error), str(error), lines)
    return result, list(TRACE)


def through(observer, function):
    """A call through an observer, without a frame of this file in tracebacks."""
    namespace = {"run": observer.run, "function": function}
    exec("def call(*args, **kwargs): return run(function, args, kwargs)", namespace)
    return namespace["call"]


def same(function, *args, **kwargs):
    """Check that twin and original agree, observed and not; gives the observer."""
    expected = outcome(function, args, kwargs)
    observer = Observer((args, kwargs), FOLLOWING)
    found = outcome(through(observer, function), args, kwargs)
    assert found == expected
    if isinstance(function, types.FunctionType):
        assert outcome(instrument(function, LoopHooks), args, kwargs)[0][:3] == expected[0][:3]
    return observer
