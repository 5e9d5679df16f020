"""How many numbers `arange` gives, and which, of whole and broken ends and steps, against torch."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from oracle import torch
from planted import finds

import fusegrad as fg
from fusegrad.eager.ops.create import spaced

ENDS = (0, 1, 3, 10, 100, 0.5, 0.3, 2.5, -1, -0.3, 9, 0.89)
STEPS = (1, 2, 0.3, 0.1, -1, -0.3, 0.7, 3, 1.5)
DTYPES = (None, "float32", "float64", "int64", "int32", "uint8", "float16")


def _given(library: Any, start: Any, end: Any, step: Any, dtype: str | None) -> Any:
    named = {} if dtype is None else {"dtype": getattr(library, dtype)}
    try:
        made = library.arange(start, end, step, **named)
    except (RuntimeError, ValueError):
        return "refused"
    return str(made.dtype).partition(".")[2], made.double().tolist()


def differences() -> list[str]:
    """The calls that give others than torch's; half precision may round its last bit elsewhere."""
    found = []
    for start, end, step, dtype in itertools.product(ENDS, ENDS, STEPS, DTYPES):
        ours, theirs = (_given(library, start, end, step, dtype) for library in (fg, torch))
        if "refused" in (ours, theirs):
            same = ours == theirs
        else:
            close = 2e-3 if dtype == "float16" else 1e-6
            same = ours[0] == theirs[0] and ours[1] == pytest.approx(theirs[1], rel=close, abs=close)
        if not same:
            found.append(f"arange({start}, {end}, {step}, dtype={dtype}): {ours} and {theirs}")
    return found


def test_progressions_have_the_numbers_of_torch() -> None:
    assert not differences()


def test_the_table_finds_a_count_of_exact_quotients(monkeypatch: pytest.MonkeyPatch) -> None:
    class Exact:
        """`ceil` that rounds no quotient to the whole number it is next to."""

        def __getattr__(self, name: str) -> Any:
            return (lambda quotient: int(quotient) + 1) if name == "ceil" else getattr(_MATH, name)

    _MATH = spaced.math
    monkeypatch.setattr(spaced, "math", Exact())
    assert finds(test_progressions_have_the_numbers_of_torch)
