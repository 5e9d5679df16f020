"""Objects whose class finds attributes in its own way: replays see what eager sees, or there are none."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import pytest
from helpers.guards.lookups import CASES

import fusegrad as fg
from fusegrad.tracer.observe import lookup


def seen(name: str, wrap: Callable[[Any], Any]) -> list[Any]:
    """What three calls give in the world as it is, and after each change."""
    read, changes = CASES[name]()
    function = wrap(lambda x: x * read())
    found: list[Any] = []
    for change in (lambda: None, *changes):
        change()
        for _ in range(3):
            try:
                found.append(float(function(fg.ones(1))))
            except Exception as error:
                found.append(type(error))
    return found


@pytest.mark.parametrize("name", CASES)
def test_replays_see_what_eager_sees(name: str) -> None:
    assert seen(name, fg.jit) == seen(name, lambda function: function)


@pytest.mark.parametrize("name", ["thread local absent", "proxy: attribute", "alias of a class"])
def test_a_way_that_is_taken_for_the_usual_one_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "has_own_lookup", lambda kind: False)
    assert seen(name, fg.jit) != seen(name, lambda function: function)


def _lookup_in_c(kind: type) -> int:
    """The address of the function that finds attributes of instances: `tp_getattro` of CPython's types."""
    words = 3 + 1 + 2 + 12  # of the object itself, the name, the two sizes, and the slots before it
    return ctypes.c_size_t.from_address(id(kind) + words * ctypes.sizeof(ctypes.c_size_t)).value


def test_classes_that_are_told_are_looked_into_as_objects_are() -> None:
    usual = _lookup_in_c(object)
    assert _lookup_in_c(type) != usual != _lookup_in_c(threading.local)
    assert [kind for kind in lookup.ORDINARY if _lookup_in_c(kind) != usual] == []


@pytest.mark.parametrize("case_", ["namespace", "method: scaled", "method: shared, absent", "partial"])
def test_what_is_found_in_the_usual_way_replays(case_: str) -> None:
    read, _ = CASES[case_]()
    scaled = fg.jit(lambda x: x * read(), require="replay")
    assert fg.equal(scaled(fg.ones(3)), scaled(fg.ones(3)))
