"""Work and memory of a first call, from recording to LLVM IR, are in proportion to a program's length.

What is counted are calls of functions, Python's and C's, as the profiler of the standard library does: in
all, and of each function, so that a step that looks at everything for each equation is named. LLVM is left
out, and with it what its threads do; so nothing that is compiled here may be run.

    python tests/compiler/program/test_linear_work.py 8000    # lengths of a thousand and of so many
"""

from __future__ import annotations

import cProfile
import gc
import pstats
import random
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import fusegrad as fg
from fusegrad.compiler.base import patience
from fusegrad.compiler.codegen import kernel_cache
from fusegrad.compiler.fuse import fusion
from fusegrad.compiler.fuse.steps import Step, last_of
from fusegrad.compiler.llvm import llvm_jit
from fusegrad.compiler.paths import segments

Program = tuple[Callable[..., fg.Tensor], list[fg.Tensor]]
# Of the programs in the tests: about a thousand equations, and some times as many.
SHORT, TIMES = 256, 4
# How much more an equation may take in the long program (a search has a bound, which long ones reach more
# often), and how often a function is called for each before it is looked at.
MORE, MANY = 2.5, 4
# Memory comes in blocks.
MORE_MEMORY = 1.4


def leaves(*shapes: tuple[int, ...]) -> list[fg.Tensor]:
    return [fg.full(shape, 0.5, requires_grad=True) for shape in shapes]


def chain(length: int) -> Program:
    """A line in which nothing comes again in the same order."""
    draw = random.Random(length)
    ops = [lambda x, y: fg.sin(x), lambda x, y: x * y, lambda x, y: fg.tanh(x - y), lambda x, y: x * 0.5 + y]
    line = [(draw.choice(ops), draw.randrange(1, 4)) for _ in range(length)]

    def program(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
        values = [x, y, x * y]
        for op, back in line:
            values.append(op(values[-1], values[-back]))
        return values[-1].sum()

    return program, leaves((16,), (16,))


def tree(length: int) -> Program:
    """Sums of two, of two sums, and so on."""

    def program(x: fg.Tensor) -> fg.Tensor:
        row = [x[i] for i in range(length)]
        while len(row) > 1:
            pairs = zip(row[::2], row[1::2], strict=False)
            row = [fg.tanh(a + 0.5 * b) for a, b in pairs] + (row[-1:] if len(row) % 2 else [])
        return row[0].sum()

    return program, leaves((length, 8))


def writes(length: int) -> Program:
    """Each element from the one before, in a loop over a list, of which every round is recorded."""
    places = [*range(1, length // 2)]

    def program(x: fg.Tensor) -> fg.Tensor:
        y = fg.zeros(length // 2)
        for i in places:
            y[i] = y[i - 1] * 0.5 + x[i]
        return y.sum()

    return program, leaves((length // 2,))


def recurrence(length: int) -> Program:
    """A small network with a state."""

    def program(x: fg.Tensor, weight: fg.Tensor, state: fg.Tensor) -> fg.Tensor:
        for i in range(length // 8):
            gate, new = (fg.cat([x[i], state]) @ weight).chunk(2)
            state = state + fg.sigmoid(gate) * fg.tanh(new)
        return state.sum()

    return program, leaves((length, 6), (12, 12), (6,))


PROGRAMS = {maker.__name__: maker for maker in (chain, tree, writes, recurrence)}


OURS = {Path(fusion.__file__).parents[2] / name for name in ("compiler", "tracer", "eager")}


class NoModule:
    """Stands for a module that LLVM would compile; all that it has is a function that does nothing."""

    failed, begun = False, True

    def __init__(self, text: str, symbols: list[str], *_: Any) -> None:
        self._symbols = symbols

    def addresses(self) -> dict[str, int]:
        return dict.fromkeys(self._symbols, _nothing())


def _nothing() -> int:
    (address,) = llvm_jit.compile_module(
        "define void @nothing(ptr %slots, ptr %block) { ret void }", ["nothing"]
    )
    return address


@contextmanager
def without_llvm() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, kernel_cache.cold():
        nothing = _nothing()
        patch.setattr(sys.modules[__name__], "_nothing", lambda: nothing)
        patch.setattr(kernel_cache, "Module", NoModule)
        patch.setattr(kernel_cache, "_modules", {})
        patch.setattr(segments, "LONG_PATH", 1 << 30)  # the same is planned for all lengths
        yield


def compiled(maker: Callable[[int], Program], length: int) -> Any:
    """A jitted program of this length after its first call."""
    function, arguments = maker(length)
    jitted = fg.jit(function)
    jitted(*arguments)
    assert jitted.stats.compiles == 1, str(jitted.explain())
    return jitted


def first_call(maker: Callable[[int], Program], length: int) -> int:
    """Compile a program of this length; gives how many equations it has."""
    jitted = compiled(maker, length)
    ((path,),) = (variant.tree.paths for entry in jitted.entries.values() for variant in entry.variants)
    return len(path.forward)


def calls(maker: Callable[[int], Program], length: int) -> tuple[int, dict[str, int]]:
    """How many equations a program of this length has, and how often its first call calls each function."""
    with without_llvm(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(patience, "PATIENCE", 1e9)  # on a slow machine it tells where what takes so long stands
        profile = cProfile.Profile()
        equations = profile.runcall(first_call, maker, length)
    found: dict[str, int] = {}
    for (file, line, name), (_, count, *_) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        if not OURS.isdisjoint(
            Path(file).parents
        ):  # from 3.12 on, what other threads call is counted as well
            place = f"{Path(file).name}:{line} {name}"
            found[place] = found.get(place, 0) + count
    return equations, found


def grown(maker: Callable[[int], Program], short: int, times: int) -> list[str]:
    """The functions, and "all", that are called more for each equation where a program is `times` as long."""
    first_call(maker, 16)  # what is loaded and cached for any program
    (few, before), (many, after) = calls(maker, short), calls(maker, short * times)
    before["all"], after["all"] = sum(before.values()), sum(after.values())
    return [
        f"{name}: {before.get(name, 0)} calls for {few} equations, {count} for {many}"
        for name, count in sorted(after.items(), key=lambda pair: -pair[1])
        if count > MANY * many and count / many > MORE * max(before.get(name, 0) / few, 1)
    ]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_calls_grow_with_the_length(name: str) -> None:
    assert grown(PROGRAMS[name], SHORT, TIMES) == []


def test_a_step_that_looks_at_everything_each_time_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    add = fusion.Fusion._add

    def adding(self: fusion.Fusion, step: Any) -> None:
        for number in range(0, len(self._steps_before), 8):
            last_of(self._steps_before[number])
        self._steps_before.append(step)
        add(self, step)

    monkeypatch.setattr(fusion.Fusion, "_add", adding)
    monkeypatch.setattr(fusion.Fusion, "_steps_before", [], raising=False)
    assert any("last_of" in line for line in grown(chain, SHORT, TIMES))


# Memory.


def memory(maker: Callable[[int], Program], length: int) -> float:
    """Bytes for each equation at the most, while a program of this length is compiled."""
    with without_llvm():
        gc.collect()
        tracemalloc.start()
        try:
            equations = first_call(maker, length)
            return tracemalloc.get_traced_memory()[1] / equations
        finally:
            tracemalloc.stop()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_memory_grows_with_the_length(name: str) -> None:
    first_call(PROGRAMS[name], 16)
    few, many = memory(PROGRAMS[name], SHORT // 2), memory(PROGRAMS[name], SHORT)
    assert many < MORE_MEMORY * few, f"{few:,.0f} bytes for an equation, {many:,.0f} in a long program"


def test_memory_that_grows_faster_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    add, kept = fusion.Fusion._add, []

    def adding(self: fusion.Fusion, step: Any) -> None:
        kept.append([None] * (64 * len(kept)))
        add(self, step)

    monkeypatch.setattr(fusion.Fusion, "_add", adding)
    first_call(chain, 16)
    kept.clear()
    few = memory(chain, SHORT // 2)
    kept.clear()
    assert memory(chain, SHORT) > MORE_MEMORY * few


# What is left to Python's garbage collector.


MOST_LEFT = 2  # objects for an equation: recording keeps a reference to each tensor


def left_to_the_collector(maker: Callable[[int], Program], length: int) -> int:
    """How many objects only the collector finds once a program of this length is compiled."""
    gc.collect()
    gc.disable()
    try:
        with without_llvm():
            jitted = compiled(maker, length)
        found = gc.collect()
        del jitted
        return found
    finally:
        gc.enable()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_planning_has_made_goes_as_soon_as_it_is_done(name: str) -> None:
    left_to_the_collector(PROGRAMS[name], 16)
    few, many = (left_to_the_collector(PROGRAMS[name], n) for n in (SHORT // 2, SHORT))
    assert many - few < MOST_LEFT * SHORT // 2, f"{few:,} objects in cycles, {many:,} of a long program"


def test_steps_that_know_each_other_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = fusion.Fusion._joined

    def knowing(self: fusion.Fusion, first: Step, second: Step) -> Step | None:
        merged = joined(self, first, second)
        if merged is not None:
            first.users[first] = None
        return merged

    monkeypatch.setattr(fusion.Fusion, "_joined", knowing)
    few, many = (left_to_the_collector(tree, n) for n in (SHORT // 2, SHORT))
    assert many - few > MOST_LEFT * SHORT // 2


def main() -> None:
    for name, maker in PROGRAMS.items():
        found = grown(maker, 1000, int(sys.argv[1]) // 1000)
        few, many = memory(maker, 1000), memory(maker, int(sys.argv[1]))
        print(f"{name}: {few:,.0f} and {many:,.0f} bytes for an equation", *found, sep="\n  ", flush=True)


if __name__ == "__main__":
    main()
