"""Straight Python functions written for one program: their lines, and the constants that these name."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.compiler import placement
from fusegrad.compiler.memory import SMALLEST_POOLED, pool, rounded
from fusegrad.compiler.placement import RESHAPE
from fusegrad.compiler.program import Program, viewed
from fusegrad.eager.op import EXPLAINED, wrap
from fusegrad.eager.state import state

MISSED: Any = object()  # what a function gives that does not answer
Place = tuple[int, tuple[Any, ...]]


class TooDifficult(Exception):
    """Something for which no line is written."""


class Source:
    """A function that is being written. What it is not sure of it leaves with MISSED."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.variables: set[str] = set()  # what arrays of programs are called
        self.shaped: dict[str, Sequence[Any]] = {}  # of these, those made in the shape that views give them
        self.constants: dict[str, Any] = {
            "MISSED": MISSED,
            "EXPLAINED": EXPLAINED,
            "state": state,
            "wrap": wrap,
            "viewed": viewed,
            "copied": np.array,
            "placement": placement,
            "pooled": pool.array,
            "ndarray": np.ndarray,
            "block": pool.block,
            "nothing": placement.NOTHING,
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
        for index, shape, dtype in placed.small:
            name = names[index] = self._own_name(f"made{index}")
            views = [chain for place, chain in places if place == index]
            if len(views) == 1 and views[0] and all(view.op is RESHAPE for view in views[0]):
                # Native code asks for memory only.
                self.shaped[name], shape = views[0], views[0][-1].params["shape"]
            given = self.constant("shape", shape), self.constant("dtype", dtype)
            self.lines.append(f"{name} = placement.small_array({', '.join(given)})")
        for index, shape, dtype, strides in placed.large:
            name = names[index] = self._own_name(f"made{index}")
            layout = [self.constant(f"layout{index}_", x) for x in (shape, dtype, strides)]
            size = math.prod(shape) * dtype.itemsize
            made = f"pooled({', '.join(layout)})"
            if size >= SMALLEST_POOLED:  # what `Pool.array` does then
                made = f"ndarray({layout[0]}, {layout[1]}, block({rounded(size)}), 0, {layout[2]})"
            self.lines.append(f"{name} = {made}")
        arena = "nothing"
        if placed.arena_bytes:
            arena = "arena"
            self.lines.append(f"arena = {self.constant('taken', placed.take_arena)}()")
        self.lines += begin
        self.lines.append(f"{self.constant('run', placed.calls.run)}({', '.join(names)}, {arena})")
        if placed.arena_bytes:
            self.lines.append(f"{self.constant('arenas', placed.arenas)}.append(arena)")
        # Indices within bounds, as `Program.run` tests them.
        self.lines += [f"if not {names[program.arrays[check]]}: return MISSED" for check in program.checks]
        return names

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
