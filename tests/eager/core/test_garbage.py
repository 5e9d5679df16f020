"""Python's collector of reference cycles: full collections become rarer while they find nothing."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

import fusegrad as fg
from fusegrad.eager.garbage import RAREST, Rarer


class Cycle:
    """Something that only the collector can free."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def usual() -> Iterator[tuple[int, int, int]]:
    """Python's thresholds in force, and one listener of this test's."""
    before, listeners = gc.get_threshold(), list(gc.callbacks)
    gc.collect()
    gc.callbacks[:] = []
    gc.set_threshold(700, 10, 10)
    gc.callbacks.append(Rarer())
    yield 700, 10, 10
    gc.callbacks[:] = listeners
    gc.set_threshold(*before)


def test_full_collections_in_vain_become_rarer_up_to_a_bound(usual):
    for times in (2, 4, RAREST, RAREST):
        gc.collect()
        assert gc.get_threshold() == (700, 10, 10 * times)


def test_one_that_finds_something_makes_them_usual_again(usual):
    gc.collect()
    gc.collect()
    cycle = weakref.ref(Cycle())
    gc.collect()
    assert cycle() is None
    assert gc.get_threshold() == usual
    gc.collect()
    assert gc.get_threshold() == (700, 10, 20)


def test_collections_of_young_objects_say_nothing(usual):
    for generation in (0, 1):
        gc.collect(generation)
        assert gc.get_threshold() == usual


def test_what_a_user_sets_stays(usual):
    gc.collect()
    gc.set_threshold(500, 5, 5)
    gc.collect()
    gc.collect()
    assert gc.get_threshold() == (500, 5, 5)


def test_thresholds_of_the_young_may_be_a_users_own(usual):
    gc.collect()
    gc.set_threshold(5000, 7, gc.get_threshold()[2])
    gc.collect()
    assert gc.get_threshold() == (5000, 7, 40)


def test_the_package_has_it_so():
    assert sum(isinstance(listener, Rarer) for listener in gc.callbacks) == 1


def test_a_graph_that_comes_again_and_again_is_gone_over_seldom(usual):
    """By a number of collections that does not depend on how long it goes on."""
    fulls: list[int] = []

    def note(phase: str, told: dict[str, int]) -> None:
        if phase == "stop" and told["generation"] == 2:
            fulls.append(told["collected"])

    def step() -> None:
        x = fg.ones(3, requires_grad=True)
        y = x
        for _ in range(3000):
            y = y * 1.0001 + x
        y.sum().backward()

    step()
    gc.collect()
    gc.callbacks.append(note)
    for _ in range(12):
        step()
    assert len(fulls) <= 4
    assert not any(fulls)
