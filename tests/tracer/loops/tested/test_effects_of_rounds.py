"""Effects times the ways to leave rounds and calls out: the world is as eager leaves it, call by call.

The suite takes every ninth statement, in one of the ways, and every fifth planted fault. All of them:
`PYTHONPATH=tests/helpers python tests/tracer/loops/tested/test_effects_of_rounds.py`.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest
from effects.programs import WAYS, difference, source_of
from effects.table import EFFECTS

import fusegrad as fg
from fusegrad.tracer.ir import rolled
from fusegrad.tracer.loops import alike, rolling
from fusegrad.tracer.observe import loops

NAMES = [*EFFECTS]


@pytest.fixture(autouse=True)
def few_rounds_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling, "FEWEST_SMALL", 16)
    monkeypatch.setattr(rolled, "MANY", 100)
    monkeypatch.setattr(loops, "LONG", 16)


def differs(name: str, way: str, derived: bool = False) -> tuple[str, Any]:
    """What is other for one statement in one way, or ""; and the jitted function."""
    return difference(source_of(EFFECTS[name], way), f"<{way}: {name}>", derived)


@pytest.mark.one_in(18)
@pytest.mark.parametrize("number", range(len(NAMES)))
def test_effects_are_left_as_eager_leaves_them(number: int) -> None:
    found, _ = differs(NAMES[number], [*WAYS][number % len(WAYS)])
    assert not found


@pytest.mark.parametrize("name", ["object 0", "object 1", "nonlocal", "append"])
def test_what_is_handed_on_is_left_out(name: str) -> None:
    """An attribute of an object, a variable of a function around, a list: as ever."""
    found, jitted = differs(name, "plain")
    assert not found
    assert name in ("nonlocal", "append") or "not rolled" not in str(jitted.explain())


# Each of these is a kind of its own of what ends the leaving-out.
PLANTED = [
    "class 0", "slots 1", "foreign __setattr__ 0", "property 0", "descriptor 0", "threading.local 0",
    "module 0", "function 0", "deque item 0", "ndarray item 0", "__setitem__ item 0", "object.__setattr__",
    "global", "nonlocal", "print", "file", "logging", "random", "next", "count", "generator",
    "context", "signal", "contextvar", "append",
    "counted in a branch", "value",
]  # fmt: skip


@pytest.mark.parametrize("name", PLANTED[::5])
def test_a_kind_that_is_taken_for_harmless_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is counted of what rounds do."""
    monkeypatch.setattr(alike.Done, "is_like", lambda self, other: True)
    assert differs(name, "tested")[0]


def test_explain_says_what_rounds_do() -> None:
    _, jitted = differs("slots 0", "tested")
    assert "more than ops on tensors: sets `n` of a Slots object" in str(jitted.explain())


if __name__ == "__main__":
    fg.set_compile_budget(None)
    rolling.FEWEST_SMALL, rolled.MANY = 16, 100
    for way in sys.argv[1:] or WAYS:
        differing = 0
        for name in NAMES:
            for derived in (False, True):
                if found := differs(name, way, derived)[0]:
                    differing += 1
                    print(f"{way}, {name}, derived {derived}: {found}", flush=True)
        print(f"{way}: {2 * len(NAMES)} programs, {differing} differ", flush=True)
    alike.Done.is_like = lambda self, other: True  # type: ignore[method-assign]
    print("planted, and not found:", [name for name in PLANTED if not differs(name, "tested")[0]])
