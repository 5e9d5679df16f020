"""More cases of `cases.py`: attributes of namespaces, of a builtin class; texts; abstract classes."""

from __future__ import annotations

import abc
import gc
from types import SimpleNamespace
from typing import Any

from fusegrad.tracer.observe.conditions import Held, Item
from fusegrad.tracer.observe.python.abstract import AbstractRead
from fusegrad.tracer.observe.reads import IdentityRead, SubclassesRead
from fusegrad.tracer.observe.stores import CountRead
from fusegrad.tracer.observe.values import Strong
from fusegrad.tracer.twin.sites import NOWHERE
from guards.cases import attribute, case, number


@case
def attribute_of_a_namespace() -> Any:
    world = SimpleNamespace(owner=SimpleNamespace(x=number()))
    breaks = {
        "another": lambda: setattr(world.owner, "x", 2.5),
        "none": lambda: delattr(world.owner, "x"),
        "all of them": lambda: world.owner.__dict__.clear(),
    }
    return attribute(world.owner, "x"), {"equal": lambda: setattr(world.owner, "x", number())}, breaks


class Options(SimpleNamespace):
    """A namespace whose class can be changed."""


@case
def attribute_of_a_namespace_of_ones_own() -> Any:
    world = SimpleNamespace(owner=type("Own", (Options,), {})(x=number()))
    kind = type(world.owner)
    breaks = {
        "another": lambda: setattr(world.owner, "x", 2.5),
        "a property": lambda: setattr(kind, "x", property(lambda self: 1.5)),
        "a look-up": lambda: setattr(kind, "__getattribute__", lambda self, name: 1.5),
    }
    return attribute(world.owner, "x"), {"more": lambda: setattr(world.owner, "y", 1)}, breaks


@case
def count_of_a_namespace() -> Any:
    world = SimpleNamespace(owner=SimpleNamespace(calls=3))
    keeps = {
        "another number": lambda: setattr(world.owner, "calls", 4),
        "more": lambda: setattr(world.owner, "y", 1),
    }
    breaks = {
        "no whole number": lambda: setattr(world.owner, "calls", 3.0),
        "a flag": lambda: setattr(world.owner, "calls", True),
        "none": lambda: delattr(world.owner, "calls"),
    }
    return CountRead(world.owner, "calls", NOWHERE), keeps, breaks


@case
def identity_of_a_text() -> Any:
    items = [("linear", 1), "relu"]
    read = IdentityRead(Item(Item(Held(Strong(items)), 0), 0), items[0][0], NOWHERE)
    other = ("".join(list("linear")), 1)
    keeps = {"another tuple": lambda: items.__setitem__(0, ("linear", 2))}
    return read, keeps, {"equal": lambda: items.__setitem__(0, other), "less": items.clear}


@case
def subclasses() -> Any:
    base = type("Base", (), {})
    derived = [type("Derived", (base,), {}), type("Other", (base,), {})]
    breaks = {"more": lambda: derived.append(type("More", (base,), {})), "less": lambda: gone(derived)}
    return (
        SubclassesRead(base, NOWHERE),
        {"deeper": lambda: derived.append(type("D", (derived[0],), {}))},
        breaks,
    )


@case
def an_abstract_class_that_is_registered_with() -> Any:
    asked = abc.ABCMeta("Asked", (), {})
    kind, other = type("Kind", (), {}), type("Other", (), {})
    breaks = {"registered": lambda: asked.register(kind)}
    return AbstractRead(kind, asked, NOWHERE), {"another class": lambda: asked.register(other)}, breaks


def gone(objects: list[Any]) -> None:
    """Let the last of the objects go, and what only a collection lets go with it."""
    objects.pop()
    gc.collect()
