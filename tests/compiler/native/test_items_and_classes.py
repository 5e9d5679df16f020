"""What guards ask natively: versions of classes, and what dicts hold."""

from __future__ import annotations

import gc
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
from guards.checks import asked_once, compare, runs
from native_core import native_only

import fusegrad as fg
from fusegrad.compiler.guards.check_writer import TooDifficult, Writer
from fusegrad.compiler.guards.guards import Guards
from fusegrad.compiler.native.classes import Classes
from fusegrad.compiler.native.items import Items
from fusegrad.tracer.observe.lookup import MISSING, lookup
from fusegrad.tracer.observe.optimizer_steps import StateRead
from fusegrad.tracer.observe.reads import AttributeRead
from fusegrad.tracer.observe.values import Expected
from fusegrad.tracer.twin.sites import NOWHERE


class _Base:
    inherited = 1.0


class _Middle(_Base):
    pass


CLASS_CHANGES: tuple[Callable[[type, type], Any], ...] = (
    lambda kind, base: None,
    lambda kind, base: setattr(kind, "unrelated", 1),
    lambda kind, base: setattr(base, "unrelated", 1),
    lambda kind, base: setattr(kind, "inherited", 2.0),
    lambda kind, base: setattr(base, "inherited", 2.0),
    lambda kind, base: delattr(base, "inherited"),
    lambda kind, base: setattr(kind, "__getattribute__", runs),
    lambda kind, base: setattr(base, "x", property(runs, runs)),
    lambda kind, base: setattr(kind, "__bases__", (_Middle,)),
)


def _class_and_check() -> tuple[type, type, Any, Guards]:
    base = type("Base", (_Base,), {"inherited": 1.0})
    kind = type("Kind", (base,), {})
    owner = kind()
    owner.x = 1.0
    reads = [AttributeRead(owner, name, lookup(owner, name), NOWHERE) for name in ("x", "inherited")]
    return kind, base, owner, asked_once(reads)


@native_only
def test_classes_are_asked_again_only_after_a_change(monkeypatch: pytest.MonkeyPatch):
    asked: list[Any] = []
    known = Classes.versions
    monkeypatch.setattr(Classes, "versions", lambda self, *kinds: asked.append(kinds) or known(self, *kinds))
    kind, base, _, guards = _class_and_check()
    for change, times in (len, 1), (len, 1), (lambda _: setattr(base, "other", 1), 2), (len, 2):
        change(())
        assert guards.first_failure() is None
        assert guards.first_failure() is None and len(asked) == times
    assert asked[0] == (kind,)


@pytest.mark.parametrize("number", range(len(CLASS_CHANGES)))
def test_whatever_changes_in_a_class_is_noticed(number: int):
    kind, base, _, guards = _class_and_check()
    for _ in range(3):
        compare([guards])
    CLASS_CHANGES[number](kind, base)
    for _ in range(3):
        compare([guards])


def test_a_module_in_a_class_may_become_a_descriptor():
    """Without a change of the class."""

    class Getting(types.ModuleType):
        __get__ = __set__ = runs

    module = types.ModuleType("module")
    owner = type("Kind", (), {"x": module})()
    vars(owner)["x"] = 1.0
    guards = asked_once([AttributeRead(owner, "x", lookup(owner, "x"), NOWHERE)])
    compare([guards])
    module.__class__ = Getting
    compare([guards])


def test_names_of_a_dict_that_cannot_be_compared():
    """A key of the user's with the hash of a name: what its `__eq__` raises is no answer, and no crash."""

    class Key:
        def __hash__(self) -> int:
            return hash("name")

        def __eq__(self, other: object) -> bool:
            raise ValueError

    value = object.__new__(Key)
    items: dict[Any, Any] = {"name": value, "other": value}
    rows = [(name, Expected(value)) for name in items] + [("absent", Expected(MISSING))]
    holds = Items(rows).holds
    assert holds(items)
    assert not holds({**items, "absent": 1}) and not holds({**items, "other": 1}) and not holds({})
    with pytest.raises(ValueError):
        holds({Key(): 1, **{name: items[name] for name in ("other",)}})
    del value
    items.clear()
    gc.collect()
    assert rows[0][1].reference() is None and not holds({"name": None, "other": None})


def test_what_native_code_looks_at_is_kept_alive() -> None:
    weight = fg.ones(2, requires_grad=True)
    optimizer = fg.optim.Adam([weight])
    weight.sum().backward()
    optimizer.step()
    guards = asked_once([StateRead(optimizer)])
    check: Any = guards.check
    (items,) = {id(v): v for v in check.__globals__.values() if isinstance(v, Items)}.values()
    assert items.holds in check.__globals__.values()
    names = [name for name, _, _ in items._alive]
    assert names == ["step", "exp_avg", "exp_avg_sq"]
    assert all(known() is optimizer.state[weight][name] for name, _, known in items._alive)


def test_a_read_that_cannot_be_written_leaves_nothing_of_itself() -> None:
    owner = types.SimpleNamespace(x=1.0)
    read = AttributeRead(owner, "x", lookup(owner, "x"), NOWHERE)

    def asks(writer: Writer, condition: Any) -> list[str]:
        return writer.differs_under("items", "name", Expected(owner))

    def fails(writer: Writer, condition: Any) -> list[str]:
        asks(writer, condition)
        raise TooDifficult

    writer = Writer()
    for number, write in enumerate((asks, fails, fails)):
        writer.add(number, read, write)
    assert [len(together.rows) for together in writer.known.values() if together is not None] == [1]


def test_versions_do_not_come_again() -> None:
    class Kind:
        pass

    classes = Classes([Kind])
    seen = classes.versions(Kind)
    for _ in range(5):
        sys._clear_type_cache()
        Kind.attribute = 1  # type: ignore[attr-defined]
        (version,) = classes.versions(Kind)
        assert version not in seen or version == 0
        seen.append(version)
