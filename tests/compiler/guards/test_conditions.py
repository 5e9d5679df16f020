"""What reads say must be true, asked as it stands and as a generated check: both say the same.

`test_guards.py` has many more changes, of a larger world; there a check may be stricter than its reads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import guards.namespaces  # noqa: F401 - which adds cases
import pytest
from guards.cases import CASES
from guards.checks import asked_once

from fusegrad.compiler.guards import guard_source
from fusegrad.compiler.guards.guards import Guards
from fusegrad.tracer.observe.conditions import Condition, Exact, Place
from fusegrad.tracer.observe.lookup import lookup
from fusegrad.tracer.observe.reads import AttributeRead, Read
from fusegrad.tracer.twin.sites import NOWHERE


def says(check: Callable[[], int | None]) -> bool:
    """Whether a check finds nothing that differs; it may raise where something is gone."""
    try:
        return check() is None
    except Exception:
        return False


def check_case(name: str) -> None:
    """The generated check of a read says what the read says, before and after each change."""
    case = CASES[name]()
    for kept, changes in ((True, case.keeps), (False, case.breaks)):
        for change in changes:
            read, *both = CASES[name]()
            guards = asked_once([read])
            check = guards.check
            assert guards.text and "holds_" not in guards.text, (name, guards.text)
            assert read.holds() and says(check), (name, guards.text)
            both[0 if kept else 1][change]()
            assert (read.holds(), says(check)) == (kept, kept), (name, change, guards.text)


@pytest.mark.parametrize("name", CASES)
def test_a_check_says_what_its_read_says(name: str) -> None:
    check_case(name)


def all_below(kind: type) -> set[type]:
    return {kind, *(deeper for below in kind.__subclasses__() for deeper in all_below(below))}


def parts_of(record: Any) -> Iterable[type]:
    """The classes of a record and of those in it."""
    if isinstance(record, (Condition, Place)):
        yield type(record)
        for field in dataclasses.fields(record):  # type: ignore[arg-type]
            yield from parts_of(getattr(record, field.name))


def test_the_table_has_every_kind_of_read_condition_and_place() -> None:
    reads = [make().read for make in CASES.values()]
    assert all_below(Read) - {type(read) for read in reads} == {Read}
    said = {part for make in CASES.values() for c in list(make().read.conditions()) for part in parts_of(c)}
    assert (all_below(Condition) | all_below(Place)) - said == {Condition, Place}


def differs() -> bool:
    """Whether some row of the table finds a difference that was planted."""
    for name in CASES:
        try:
            check_case(name)
        except AssertionError:
            return True
    return False


LENIENT = [*guard_source.CONDITIONS, *guard_source.COMPARED]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("kind", LENIENT)
def test_lines_that_are_missing_are_found(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    table: Any = guard_source.CONDITIONS if kind in guard_source.CONDITIONS else guard_source.COMPARED
    monkeypatch.setitem(table, kind, lambda *given: [])
    assert differs()


@pytest.mark.one_in(5)
@pytest.mark.parametrize("kind", LENIENT)
def test_lines_that_are_too_strict_are_found(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    table: Any = guard_source.CONDITIONS if kind in guard_source.CONDITIONS else guard_source.COMPARED
    monkeypatch.setitem(table, kind, lambda *given: ["1"])
    assert differs()


@pytest.mark.one_in(5)
@pytest.mark.parametrize("kind", guard_source.PLACES)
def test_a_place_that_is_another_one_is_found(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(guard_source.PLACES, kind, lambda writer, place: writer.constant("other", None))
    assert differs()


def test_a_class_that_is_not_asked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        guard_source.PLACES, Exact, lambda writer, place: guard_source.text(writer, place.place)
    )
    assert differs()


@pytest.mark.one_in(5)
@pytest.mark.parametrize("kind", guard_source.CONDITIONS)
def test_an_interpreter_that_does_not_look_is_found(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind, "holds", lambda self: True)
    assert differs()


def test_first_replays_write_nothing() -> None:
    owner = SimpleNamespace(x=1.0)
    guards = Guards([AttributeRead(owner, "x", lookup(owner, "x"), NOWHERE)])
    assert guards.first_failure() is None and not guards.text
    assert guards.first_failure() is None and guards.text
