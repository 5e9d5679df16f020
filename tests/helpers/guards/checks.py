"""What the tests of guards have in common: checks against what the reads themselves say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fusegrad.compiler.guards.guards import Guards
from fusegrad.tracer.observe.reads import Read


class Ran(BaseException):
    """Code of the user's ran, which no check may do."""


def runs(*_: Any, **__: Any) -> Any:
    raise Ran


def asked_once(reads: Iterable[Read]) -> Guards:
    """Guards that have been asked, so that the next time the generated check is."""
    guards = Guards(reads)
    guards.first_failure()
    return guards


def compare(guards: list[Guards]) -> None:
    """Checks and reads say the same; where only the generated code was asked, it may be too strict."""
    for check in guards:
        holds = [read.holds() for read in check.reads]
        failed = check.first_failure()
        assert (failed is None) == all(holds), (check.reads, holds, failed, check.text)
        assert failed is None or not failed.holds()
        if check._check is not None and not all(holds):
            try:
                answer = check._check()
            except Exception:
                answer = 0
            assert answer is not None, (check.reads, holds, check.text)
