"""Whether results agree with the reference: torch's eager, or ours, computing in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from families.declare import TRAINING, Array, Program

COMPARED = 4  # the first calls of a jit go different ways: so many are compared
TOLERANCES = {"float32": 2e-4, "float64": 1e-9}  # of the largest element of a result
NEGLIGIBLE = 1e-5  # of the largest result of a call
STEPS = 5  # times the tolerance in training, where differences add up from step to step


def tolerance_of(program: Program) -> float:
    """How far results may lie apart, of the largest element."""
    return TOLERANCES[program.dtype] * program.loosely * (STEPS if program.kind == TRAINING else 1)


def difference(expected: list[Array], found: list[Array], training: bool = False) -> float:
    """The largest difference of any result, of its largest element; infinite where shapes or NaNs differ.

    A result that is next to nothing beside the others, as a gradient that cancels, is held against them.
    training: by lengths instead, since Adam's first steps make a number of what should have been nothing.
    """
    if len(expected) != len(found):
        return float("inf")
    least = NEGLIGIBLE * max((largest(array) for array in expected), default=0.0)
    return max(
        (apart(one, other, least, training) for one, other in zip(expected, found, strict=True)), default=0.0
    )


def largest(array: Array) -> float:
    """The largest finite element, without its sign."""
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size else 0.0


def apart(expected: Array, found: Array, least: float = 0.0, by_length: bool = False) -> float:
    """How far two arrays lie apart, of the first one's largest element, or of `least` if that is more.

    by_length: the Euclidean length of the difference, of the first one's.

    >>> apart(np.array([1.0, 4.0]), np.array([2.0, 4.0]))
    0.25
    """
    if expected.shape != found.shape:
        return float("inf")
    if expected.size == 0 or (expected.dtype.kind in "bi" and np.array_equal(expected, found)):
        return 0.0
    one, other = expected.astype(np.float64), found.astype(np.float64)
    finite = np.isfinite(one)
    if not np.array_equal(finite, np.isfinite(other)):
        return float("inf")
    if not np.array_equal(one[~finite], other[~finite], equal_nan=True):
        return float("inf")
    one, other = np.where(finite, one, 0.0), np.where(finite, other, 0.0)
    if by_length:
        return float(np.linalg.norm(one - other) / max(float(np.linalg.norm(one)), least, 1e-30))
    return float(np.abs(one - other).max() / max(np.abs(one).max(), least, 1e-30))


def verdict(program: Program, expected: list[list[Array]], found: list[list[Array]]) -> dict[str, Any]:
    """`status` ("ok" or "DIFFERS") and the largest `difference` over the first calls.

    expected: of as many calls in training, of one call otherwise.
    """
    rows = expected if len(expected) == len(found) else expected * len(found)
    training = program.kind == TRAINING
    each = [difference(one, other, training) for one, other in zip(rows, found, strict=True)]
    worst = max(each)
    status = "ok" if worst <= tolerance_of(program) else "DIFFERS"
    return {
        "status": status,
        "difference": worst,
        "differing_calls": [call for call, amount in enumerate(each) if amount > tolerance_of(program)],
    }
