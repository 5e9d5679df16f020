"""The programs by subject; those of a file are listed when it is imported, in this order."""

from corpus.programs import (
    control_flow,
    escapes,
    containers,
    mutation,
    late_guards,
    captured_state,
    outside_world,
    exceptions,
    contexts_and_generators,
    calls,
    cache_keys,
    shapes,
    numbers,
    autograd,
    lifetimes,
    threads,
    python,
    absence,
)
from corpus.registry import CASES

__all__ = ["CASES"]
