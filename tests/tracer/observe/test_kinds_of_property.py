"""Properties of classes other than `property`: those that get as it does are followed, others run as is."""

from __future__ import annotations

import abc
from typing import Any

import pytest

import fusegrad as fg


class Plain(property):
    """As a library's, which says more of itself."""

    note = "known"


class Doubling(property):
    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        return self if owner is None else 2 * property.__get__(self, owner, kind)


class Asking(property):
    def __getattribute__(self, name: str) -> Any:
        return object.__getattribute__(self, name)


class Elsewhere(property):
    fget = staticmethod(lambda owner: 7)  # type: ignore[assignment]


FOLLOWED = [property, Plain, abc.abstractproperty]
KEPT = [Doubling, Asking, Elsewhere]


@pytest.mark.parametrize("kind", [*FOLLOWED, *KEPT], ids=lambda kind: kind.__name__)
def test_what_they_give_is_right(kind: type) -> None:
    class Scaled:
        def __init__(self) -> None:
            self.inner = 1.0

        @kind
        def scale(self) -> float:
            return self.inner + 1

    class Wider(Scaled):
        @kind
        def scale(self) -> float:
            return super().scale * 10

    held = Wider()
    scaled = fg.jit(lambda x: x * held.scale)
    x = fg.ones(3)
    for inner in (1.0, 1.0, 1.0, 5.0, 5.0, 5.0, 1.0):
        held.inner = inner
        assert fg.equal(scaled(x), x * held.scale)
    assert (scaled.stats.compiled_calls > 0) or kind in KEPT
    Wider.scale = kind(lambda self: 3.0)  # type: ignore[method-assign, misc]
    assert fg.equal(scaled(x), x * held.scale)


@pytest.mark.parametrize("kind", FOLLOWED, ids=lambda kind: kind.__name__)
def test_those_that_get_as_property_does_replay(kind: type) -> None:
    class Scaled:
        @kind
        def scale(self) -> float:
            return 2.0

    held = Scaled()
    scaled = fg.jit(lambda x: x * held.scale, require="replay")
    assert fg.equal(scaled(fg.ones(3)), scaled(fg.ones(3)))
