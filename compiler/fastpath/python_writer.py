"""Straight Python functions written for one program: their lines, and the constants that these name."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from fusegrad.compiler.native.making import Making
from fusegrad.compiler.paths.segments import MISSED
from fusegrad.compiler.placement import memory_plan
from fusegrad.compiler.placement.memory_plan import RESHAPE, Placed
from fusegrad.compiler.program.program import Program, viewed
from fusegrad.compiler.runtime.allocator import SMALLEST_POOLED, pool, rounded
from fusegrad.eager.core.op import EXPLAINED, wrap
from fusegrad.eager.core.state import state

Place = tuple[int, tuple[Any, ...]]


class TooDifficult(Exception):
    """Something for which no line is written."""


class _Array(NamedTuple):
    """An array that a program makes: what it is called in the source, and its slot in native calls."""

    name: str
    slot: int
    shape: tuple[int, ...]
    dtype: np.dtype


@dataclass
class _Making:
    """A line of the source that runs a small program, if there is any, by the function `run`.

    given: what that takes. tensors: the numbers of the arrays that are wrapped. like: what another object
    that is made is like, and what it is called.
    """

    placed: Placed | None
    run: str
    line: int
    given: Sequence[str]
    arrays: Sequence[_Array]
    tensors: list[int] = field(default_factory=list)
    like: tuple[Any, str] | None = None

    def text(self) -> str:
        names = [array.name for array in self.arrays]
        names += [f"{self.arrays[number].name}_tensor" for number in self.tensors]
        names += [self.like[1]] if self.like is not None else []
        assigned = f"{', '.join(names)}, = " if names else ""
        return f"{assigned}{self.run}({', '.join(self.given)})"

    def made(self) -> Making:
        like = self.like[0] if self.like is not None else None
        if self.placed is None:
            return Making(None, like=like)
        arrays = [(array.slot, array.shape, array.dtype) for array in self.arrays]
        return Making(self.placed.calls, self.placed.arena_bytes, arrays, self.tensors, like)


class Source:
    """A function that is being written. What it is not sure of it leaves with MISSED.

    missed: what that is to be.
    """

    def __init__(self, missed: Any = MISSED) -> None:
        self.lines: list[str] = []
        self.variables: set[str] = set()  # what arrays of programs are called
        self.making: list[_Making] = []  # small programs that run
        self.shaped: dict[str, Sequence[Any]] = {}  # of these, those made in the shape that views give them
        self.constants: dict[str, Any] = {
            "MISSED": missed,
            "EXPLAINED": EXPLAINED,
            "state": state,
            "wrap": wrap,
            "viewed": viewed,
            "copied": np.array,
            "placement": memory_plan,
            "pooled": pool.array,
            "ndarray": np.ndarray,
            "block": pool.block,
            "nothing": memory_plan.NOTHING,
        }

    def constant(self, name: str, value: Any) -> str:
        """A name in the source for a value that is known now."""
        name = f"{name}{len(self.constants)}"
        self.constants[name] = value
        return name

    def unless(self, right: str) -> None:
        """A line that leaves where `right` is not true."""
        self.lines.append(f"if not ({right}): return MISSED")

    def text(self, arguments: str) -> str:
        """The source of the function."""
        for making in self.making:
            self.lines[making.line] = making.text()
            made = self.constants[f"{making.run}_alive"] = making.made()
            self.constants[making.run] = made.run
        return "\n    ".join([f"def answer({arguments}):", *self.lines]) + "\n"

    def function(self, text: str, name: str) -> Any:
        """The function of this source; its globals are its constants, without itself.

        name: what it is. Its file counts as fusegrad's own, so that messages name the user's line behind it.
        """
        exec(compile(text, os.path.join(os.path.dirname(__file__), f"<{name}>"), "exec"), self.constants)
        return self.constants.pop("answer")

    # Programs.

    def run(
        self,
        program: Program,
        inputs: Sequence[str],
        begin: Sequence[str] = (),
        places: Sequence[Place] = (),
    ) -> list[str]:
        """Lines that run a program; the names of its arrays.

        begin: lines for when nothing can stop it any more. places: all that will be `seen` of it, where that
        is known; nobody else has its arrays then.
        """
        placed = program.placed()
        self.constant("placed", placed)  # which keeps alive what its native calls read
        if placed.calls is None:
            assert not begin, "what NumPy runs may stop"
            made = self._own_name("made")
            run = self.constant("run", program.run)
            self.lines += ["try:", f"    {made} = {run}([{', '.join(inputs)}])"]
            self.lines += ["except EXPLAINED: return MISSED"]
            return [f"{made}[{i}]" for i in range(len(placed.arrays))]
        names = [*inputs, *["nothing"] * (len(placed.arrays) - len(inputs))]
        small = self._small_arrays(placed, names, places)
        made_natively = placed.is_small and not begin
        if not made_natively:
            for array in small:
                layout = self.constant("shape", array.shape), self.constant("dtype", array.dtype)
                self.lines.append(f"{array.name} = placement.small_array({', '.join(layout)})")
        self._large_arrays(placed, names)
        if made_natively:
            given = ["nothing" if name in (array.name for array in small) else name for name in names]
            self._make(placed, given, small)
        else:
            self._run(placed, names, begin)
        # Indices within bounds, as `Program.run` tests them.
        self.lines += [f"if not {names[program.arrays[check]]}: return MISSED" for check in program.checks]
        return names

    def _small_arrays(self, placed: Placed, names: list[str], places: Sequence[Place]) -> list[_Array]:
        """The small arrays that a program needs for its results, put into `names`."""
        small = []
        for index, shape, dtype in placed.small:
            name = names[index] = self._own_name(f"made{index}")
            views = [chain for place, chain in places if place == index]
            if len(views) == 1 and views[0] and all(view.op is RESHAPE for view in views[0]):
                # Native code asks for memory only.
                self.shaped[name], shape = views[0], views[0][-1].params["shape"]
            small.append(_Array(name, index + 1, shape, dtype))
        return small

    def _large_arrays(self, placed: Placed, names: list[str]) -> None:
        """Lines that get the other arrays, whose names are put into `names`."""
        for index, shape, dtype, strides in placed.large:
            name = names[index] = self._own_name(f"made{index}")
            layout = [self.constant(f"layout{index}_", x) for x in (shape, dtype, strides)]
            size = math.prod(shape) * dtype.itemsize
            made = f"pooled({', '.join(layout)})"
            if size >= SMALLEST_POOLED:  # what `Pool.array` does then
                made = f"ndarray({layout[0]}, {layout[1]}, block({rounded(size)}), 0, {layout[2]})"
            self.lines.append(f"{name} = {made}")

    def _make(self, placed: Placed | None, given: Sequence[str], arrays: Sequence[_Array]) -> _Making:
        """A line that runs a small program, which is written when it is known what it makes."""
        making = _Making(placed, self.constant("make", None), len(self.lines), given, arrays)
        self.making.append(making)
        self.lines.append("")
        return making

    def _run(self, placed: Placed, names: Sequence[str], begin: Sequence[str]) -> None:
        """Lines that run a program with all of its arrays, for which other threads of Python do not wait."""
        arena = "nothing"
        if placed.arena_bytes:
            arena = "arena"
            self.lines.append(f"arena = {self.constant('taken', placed.take_arena)}()")
        self.lines += begin
        assert placed.calls is not None
        self.lines.append(f"{self.constant('run', placed.calls.run)}({', '.join(names)}, {arena})")
        if placed.arena_bytes:
            self.lines.append(f"{self.constant('arenas', placed.arenas)}.append(arena)")

    def object(self, name: str, like: Any) -> str:
        """The name of a new object with the same in its slots as another, which has nothing but slots."""
        latest = self.making[-1] if self.making else None
        making = latest if latest is not None and latest.like is None else self._make(None, [], [])
        making.like = like, name
        return name

    def tensor(self, array: str) -> str:
        """An expression for a new tensor around the array that has this expression."""
        for making in self.making:
            for number, made in enumerate(making.arrays):
                if made.name == array and number not in making.tensors:
                    making.tensors.append(number)
                    return f"{array}_tensor"
        return f"wrap({array})"

    def _own_name(self, name: str) -> str:
        """A variable of that name, or of a longer one where another program has an array of it."""
        while name in self.variables:
            name += "_"
        self.variables.add(name)
        return name

    def outside(self, captured: Any) -> str:
        """Lines that find the memory of a captured tensor; its name."""
        name = f"outside{len(self.lines)}"
        self.lines.append(f"{name} = {self.constant('captured', captured.array)}()")
        self.lines.append(f"if {name} is None: return MISSED")
        return name

    def seen(self, arrays: Sequence[str], place: Place) -> str:
        """The array at a place of those that a program has."""
        index, chain = place
        if not chain or self.shaped.get(arrays[index]) is chain:
            return arrays[index]
        return f"viewed({arrays[index]}, {self.constant('chain', chain)})"

    def apart(self, arrays: Sequence[str], places: Sequence[Place], taken: set[int]) -> list[str]:
        """The arrays at `places`, each in memory of its own, as `replay.gradients_at` has them.

        taken: the numbers of arrays that somebody else has.
        """
        found = []
        for place in places:
            array = self.seen(arrays, place)
            found.append(f"copied({array})" if place[0] in taken else array)
            taken.add(place[0])
        return found
