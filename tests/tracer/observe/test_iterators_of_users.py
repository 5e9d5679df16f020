"""Iterators whose `__next__` is Python: what it reads is guarded, what it leaves is left, however they go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fusegrad as fg
from fusegrad.tracer.observe import operations


class Counts:
    """Its own iterator, which keeps its place on itself."""

    def __init__(self) -> None:
        self.n, self.k, self.gone = 0, 3.0, 0

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> float:
        if self.n >= 3:
            self.n = 0
            raise StopIteration
        self.n += 1
        self.gone += 1
        return self.k


class Begins(Counts):
    """Begins anew at each loop."""

    def __iter__(self) -> Any:
        self.n = 0
        return self


class Rows:
    """An iterator that is made for each loop."""

    def __init__(self, owner: Any) -> None:
        self.owner, self.n = owner, 0

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        self.n += 1
        if self.n > 3:
            raise StopIteration
        return self.owner.k


class Makes(Counts):
    def __iter__(self) -> Any:
        return Rows(self)


class Others(Counts):
    """What it gives is another object's."""

    def __init__(self) -> None:
        super().__init__()
        self.other = Counts()

    def __iter__(self) -> Any:
        self.other.k = self.k
        return self.other


class Kept(Counts):
    """What it gives is an iterator that has been there, of which each loop takes some."""

    def __init__(self) -> None:
        super().__init__()
        self.items = iter([float(i) for i in range(1, 200)])

    def __iter__(self) -> Any:
        return self.items


class Yields(Counts):
    def __iter__(self) -> Iterator[float]:
        for _ in range(3):
            yield self.k


def _loop(x: Any, it: Any) -> Any:
    for k in it:
        x = x * k
        if x.shape[0] > 2 and it.k > 100:
            break
    return x


def _some(x: Any, it: Any) -> Any:
    for i, k in enumerate(it):
        x = x + k
        if i == 2:
            break
    return x


def _unpacks(x: Any, it: Any) -> Any:
    for a, b in zip(it, (1.0, 2.0, 3.0), strict=False):
        x = x * a + b
    return x


def _first(x: Any, it: Any) -> Any:
    try:
        return x * next(iter(it))
    except StopIteration:
        return x


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "loop": _loop,
    "some": _some,
    "zip": _unpacks,
    "comprehension": lambda x, it: x * sum([k * 2 for _, k in zip(range(3), it, strict=False)]),
    "stacked": lambda x, it: fg.stack([x, *[x * k for _, k in zip("abc", it, strict=False)]]),
    "next": _first,
    "twice": lambda x, it: _some(_some(x, it), it),
}
KINDS = (Counts, Begins, Makes, Others, Kept, Yields)
ENDLESS = {"loop"}  # of which the whole is gone over


def difference(kind: type, way: str) -> str:
    """What calls give and leave that eager does not."""

    def outcomes(jitted: bool) -> list[Any]:
        it = kind()

        def step(x: Any) -> Any:
            return WAYS[way](x, it)

        run, found = fg.jit(step) if jitted else step, list[Any]()
        for i in range(8):
            it.k = 3.0 if i < 4 else 3.0 + i
            found.append((run(fg.ones(3) * i).tolist(), it.n, it.gone))
            if i == 5:
                it.n = 2
        return found

    expected, found = outcomes(False), outcomes(True)
    return "" if found == expected else f"{kind.__name__}, {way}:\n{found}\nbut in eager\n{expected}"


@pytest.mark.parametrize("way", WAYS)
def test_what_iterators_do_is_part_of_the_run(way: str) -> None:
    for kind in KINDS:
        if kind is Kept and way in ENDLESS:
            continue
        assert not difference(kind, way)


def test_most_replay() -> None:
    it = Begins()

    @fg.jit
    def step(x: fg.Tensor) -> fg.Tensor:
        for k in it:
            x = x * k
        return x

    for _ in range(6):
        step(fg.ones(2))
    assert step.stats.compiled_calls >= 3, step.explain()


def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Iterators advance by themselves, unseen."""
    monkeypatch.setattr(operations, "_advanced", lambda observer, iterator, site: iterator)
    assert difference(Counts, "loop")
