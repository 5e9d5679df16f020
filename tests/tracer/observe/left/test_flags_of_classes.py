"""Attributes of classes that a run sets, as settings for a `with`: what is read of them, and what is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from observing import leave_out_reads

import fusegrad as fg


def make() -> tuple[Any, Any]:
    class Setting:
        on: Any = None
        size = 3
        other = "text"

        def __init__(self, state: Any) -> None:
            self.state = state

        def __enter__(self) -> None:
            kind = type(self)
            self.before, kind.on = kind.on, self.state

        def __exit__(self, *error: Any) -> None:
            type(self).on = self.before

        @classmethod
        def factor(cls) -> float:
            return 2.0 if cls.on else 3.0

    class Derived(Setting):
        pass

    return Setting, Derived


def within(base: Any, derived: Any, x: Any) -> Any:
    before = base.factor()
    with base(True):
        return x * base.factor() + before


def within_derived(base: Any, derived: Any, x: Any) -> Any:
    with derived(True):
        return x * derived.factor() + base.factor()


def read_below(base: Any, derived: Any, x: Any) -> Any:
    with base(True):
        return x * derived.factor() + (5 if derived(1).on else 6)


def left(base: Any, derived: Any, x: Any) -> Any:
    before = base.factor()
    base.on = not base.on
    return x * before


def numbers(base: Any, derived: Any, x: Any) -> Any:
    before, base.size = base.size, 7
    found = x * base.size
    base.size = before
    return found


def counted(base: Any, derived: Any, x: Any) -> Any:
    base.size += 1
    return x * base.size


def by_a_test(base: Any, derived: Any, x: Any) -> Any:
    base.other = "large" if x.sum() > 3 else "small"
    return x * len(base.other)


BODIES = [within, within_derived, read_below, left, numbers, counted, by_a_test]


def answers(body: Any, wrap: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    """What calls give and leave, as the classes are and after changes; the function."""
    base, derived = make()
    function = wrap(lambda x: body(base, derived, x))
    changes: list[Callable[[], Any]] = [
        lambda: None,
        lambda: "on" in vars(derived) and delattr(derived, "on"),
        lambda: setattr(base, "on", True),
        lambda: setattr(derived, "on", False),
        lambda: setattr(base, "size", 11),
        lambda: delattr(derived, "on"),
        lambda: setattr(base, "factor", classmethod(lambda cls: 7.0 if cls.on else 8.0)),
        lambda: setattr(base, "on", property(lambda self: True)),
    ]
    found: list[Any] = []
    for change in changes:
        change()
        for number in range(4):
            try:
                result = function(fg.full((2,), number + 0.5)).tolist()
            except AttributeError as error:
                result = str(error)
            seen = [
                vars(kind).get(name, "absent") for kind in (base, derived) for name in ("on", "size", "other")
            ]
            found.append((result, [x if x is None or type(x) in (int, bool, str) else "set" for x in seen]))
    return found, function


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_they_are_as_in_eager(body: Any) -> None:
    found, function = answers(body, fg.jit)
    assert found == answers(body, lambda f: f)[0]
    assert body is counted or function.stats.compiled_calls >= 3


def test_a_guard_that_is_missing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out_reads(monkeypatch, "attribute", "class")
    assert any(answers(body, fg.jit)[0] != answers(body, lambda f: f)[0] for body in BODIES)
