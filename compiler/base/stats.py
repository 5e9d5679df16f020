"""Counters of a jitted function."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Stats:
    """Counters of a jitted function.

    calls: all calls; compiled_calls: answered by compiled code; eager_calls: by the function
    itself; compiles: paths and stretches compiled; guard_failures: compiled code was there, but a guard (on
    data or on Python state) did not hold.
    """

    calls: int = 0
    compiled_calls: int = 0
    eager_calls: int = 0
    compiles: int = 0
    guard_failures: int = 0
