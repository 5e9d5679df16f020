"""Places in an arena: they are what a plain search through all that lives gives, and never overlap."""

from __future__ import annotations

import random

import pytest

from fusegrad.compiler.runtime.allocator import FirstFit


def lowest(live: list[tuple[int, int, int]], size: int) -> int:
    """The lowest start of so many bytes beside all of `live` (start, end, last step)."""
    start = 0
    for begin, end, _ in sorted(live):
        if start + size <= begin:
            break
        start = max(start, end)
    return start


@pytest.mark.parametrize("seed", range(20))
def test_places_are_those_of_a_plain_search(seed: int) -> None:
    draw = random.Random(seed)
    arena = FirstFit()
    live: list[tuple[int, int, int]] = []
    for step in range(300):
        arena.come_to(step)
        live = [place for place in live if place[2] >= step]
        ending = [place for place in live if place[2] == step]
        for _ in range(draw.randrange(4)):
            size, until = 64 * draw.randrange(1, 8), step + draw.choice([0, 1, 2, 5, 40])
            if ending and draw.random() < 0.3:
                begin, end, _ = ending.pop()
                assert arena.take_over(begin, until) == begin
                live.remove((begin, end, step))
                live.append((begin, end, until))
            else:
                start = arena.place(size, until)
                assert start == lowest(live, size)
                live.append((start, start + size, until))


def test_what_has_left_makes_room_for_something_larger() -> None:
    arena = FirstFit()
    assert [arena.place(64, until) for until in (0, 1, 0, 9)] == [0, 64, 128, 192]
    arena.come_to(2)
    assert arena.place(192, 9) == 0
