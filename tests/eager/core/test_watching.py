"""Who is told of a write that no counter tells of: those with memory there, whatever the others have."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np

from fusegrad.eager.core.shared import Watching


class Holder:
    """Has arrays, and counts how often it was asked for them."""

    def __init__(self, *arrays: Any) -> None:
        self.arrays, self.asked = arrays, 0

    def memory(self) -> list[Any]:
        self.asked += 1
        return list(self.arrays)


def watched(*holders: Holder) -> Watching:
    watching = Watching()
    for holder in holders:
        watching.add(holder)
    return watching


def test_only_those_with_memory_there_are_found():
    memory = np.zeros(10)
    holders = [Holder(memory[:4]), Holder(memory[3:6], np.zeros(2)), Holder(memory[6:]), Holder(memory[::-2])]
    watching = watched(*holders)
    for array, expected in ((memory[0:1], {0}), (memory[3:4], {0, 1, 3}), (memory[6:7], {2, 3})):
        assert {holders.index(h) for h in watching.near(array)} == expected
    assert not watching.near(np.zeros(3)) and not watching.near(memory[:0])
    assert [holder.asked for holder in holders] == [1] * 4


def test_who_has_other_memory_now_is_asked_again():
    old, new = np.zeros(3), np.zeros(3)
    holder = Holder(old)
    watching = watched(holder)
    assert watching.near(old) == [holder] and not watching.near(new)
    holder.arrays = (new,)
    watching.add(holder)
    assert watching.near(new) == [holder]
    holder.arrays = (old[:2],)
    watching.moved()
    assert watching.near(old) == [holder] and holder.asked == 3


def test_who_has_no_values_yet_is_found_at_each_write():
    holder = Holder(object())
    watching = watched(holder)
    assert watching.near(np.zeros(1)) == [holder] == watching.near(np.zeros(1))
    holder.arrays = (np.zeros(2),)
    assert not watching.near(np.zeros(1))


def test_who_has_no_memory_is_one_of_them_still():
    holder = Holder(np.zeros(0))
    watching = watched(holder)
    assert not watching.near(np.zeros(1)) and watching.all() == [holder]


def test_a_write_while_places_are_noted_finds_all():
    memory = np.zeros(2)
    found: list[Any] = []

    class Interrupted(Holder):
        def memory(self) -> list[Any]:
            found.append(watching.near(memory))
            return super().memory()

    holder = Interrupted(np.zeros(1))
    watching = watched(holder)
    watching.near(memory)
    assert found == [[holder]]


def test_what_is_gone_is_forgotten():
    memory = np.zeros(2)
    watching = Watching()
    for _ in range(1000):
        holder = Holder(memory)
        watching.add(holder)
        assert watching.near(memory) == [holder]
    last = weakref.ref(holder)
    del holder
    gc.collect()
    assert last() is None and not watching.all() and len(watching._places.whose) < 200
