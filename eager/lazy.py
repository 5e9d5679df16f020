"""Properties that are found once, when they are first asked for."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, TypeVar

T = TypeVar("T")

if TYPE_CHECKING or sys.version_info >= (3, 12):
    cached_property = functools.cached_property
else:

    class cached_property(functools.cached_property[T]):
        """The one of Python 3.12, without a lock: up to 3.11 all instances share one while a value is found,
        so that threads wait for each other, and a child that is forked meanwhile for ever.
        """

        def __get__(self, instance: object, owner: type | None = None) -> object:
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value
