"""Metaclasses: a class goes in; whether calls and comparisons of it, and questions for its instances, are as
`type` has them, which is guarded, comes out.
"""

from __future__ import annotations

import abc
import enum
import types
from typing import Any

from fusegrad.eager.core.public import home
from fusegrad.tracer.observe import purity
from fusegrad.tracer.observe.lookup import type_lookup
from fusegrad.tracer.observe.observer import Observer
from fusegrad.tracer.twin.sites import NOWHERE, Site

# What a metaclass may have of its own that is asked when classes are called, compared or looked up; and when
# it is asked for their instances.
OF_METACLASSES = ("__call__", "__eq__", "__hash__", "__getattribute__", "__getattr__")
CHECKS = ("__instancecheck__", "__subclasscheck__")


def has_plain_metaclass(kind: type) -> bool:
    """Whether calling and comparing the class runs no code of a metaclass."""
    meta = type(kind)
    return (
        meta is type or meta is abc.ABCMeta or all(purity.takes_over(meta, type, n) for n in OF_METACLASSES)
    )


def has_plain_instance_check(kind: Any) -> bool:
    """Whether ``isinstance(x, kind)`` depends on the type of ``x``, and on what is registered, alone."""
    if type(kind) is type or isinstance(kind, enum.EnumMeta):
        return True
    if home(type(kind)) == "fusegrad.eager.nn.parameter":
        return True  # it looks besides at tensors of users' classes, and a run that meets those is no replay
    if isinstance(kind, type) and type(kind) is abc.ABCMeta:
        # Those of the standard library answer for their own class alone, and so not for what derives from it.
        owner = next(base for base in kind.__mro__ if "__subclasshook__" in vars(base))
        known = owner is object or owner.__module__ in ("collections.abc", "numbers")
        return known or home(kind) == "fusegrad.eager.nn.module"
    if isinstance(kind, type) and all(purity.takes_over(type(kind), type, name) for name in CHECKS):
        return True
    return type(kind) is types.UnionType and all(has_plain_instance_check(k) for k in kind.__args__)


def is_plain(observer: Observer, kind: type, site: Site = NOWHERE) -> bool:
    """Whether calling, comparing and hashing a class runs no code of a metaclass."""
    return _guarded(observer, kind, has_plain_metaclass(kind), OF_METACLASSES, site)


def checks_instances_plainly(observer: Observer, kind: type, site: Site) -> bool:
    """Whether `isinstance(x, kind)` depends on the type of `x`, and on what is registered, alone."""
    return _guarded(observer, kind, has_plain_instance_check(kind), CHECKS, site)


def _guarded(observer: Observer, kind: type, plain: bool, names: tuple[str, ...], site: Site) -> bool:
    meta = type(kind)
    if plain and issubclass(meta, type) and meta is not type and meta is not abc.ABCMeta:
        observer.read_type(kind, site)
        for name in names:
            observer.read_class(meta, name, type_lookup(meta, name), site)
    return plain
