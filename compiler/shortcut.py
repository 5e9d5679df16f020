"""The shortcut of a path: a replay written out as one straight Python function.

`jit` finds the code for a call by a key of all its arguments, and runs a tree that may branch. Where a
function has answered such a call before, and its path has no guards on data and writes nothing, all of
that is known beforehand:

    def answer(args):
        if state.interpreter is not None or ...: return MISSED
        if not (type(args) is tuple and len(args) == 2): return MISSED
        args_0, args_1, = args
        if not (match(args_0, args_1)): return MISSED
        if check() is not None: return MISSED
        made2 = placement.small_array(shape, dtype)
        arena = taken()
        run(args_0.array, args_1.array, made2, *arena)
        arenas.append(arena)
        stats.calls += 1
        return wrap(made2)

What it misses is answered as ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad.compiler import debug, placement
from fusegrad.compiler.calling import Match
from fusegrad.compiler.memory import pool
from fusegrad.compiler.node import finish
from fusegrad.compiler.program import viewed
from fusegrad.compiler.segments import Joint, Run, Segment
from fusegrad.eager import dtypes
from fusegrad.eager.op import EXPLAINED, wrap
from fusegrad.eager.state import state
from fusegrad.eager.tensor import Tensor, Untracked
from fusegrad.tracer.tree import contents, is_container
from fusegrad.tracer.values import MISSING, Expected

if TYPE_CHECKING:
    from fusegrad.compiler.jit import Stats, Variant
    from fusegrad.compiler.path import Path

MISSED: Any = object()
_SLOTS = ("array", "needs_grad", "version")
MOST_TENSORS = 64  # each is compared with all others


class _TooDifficult(Exception):
    """Something for which no line is written."""


class Shortcut:
    """The written function of a variant whose tree is a single leaf.

    check: what asks the variant's reads; joint: what computes its gradients at once, if anything does.
    """

    def __init__(self, variant: Variant, args: Sequence[Any], leaves: Sequence[Any], stats: Stats) -> None:
        """args, leaves: of a call that the variant has answered."""
        self.check, self.joint = variant.shared.check, variant.tree.root.joint
        self.text = ""
        self.answer: Any = None
        try:
            writer = _Writer(variant, self.joint, leaves, stats)
            text = writer.write(args)
            exec(compile(text, "<shortcut>", "exec"), writer.constants)
        except _TooDifficult:
            return
        except Exception:
            # The long way works; a fault of ours must not become one of the user's program.
            if debug.level():
                raise
            return
        self.text, self.answer = text, writer.constants.pop("answer")
        debug.show(2, "shortcut", lambda: self.text)

    def is_of(self, variant: Variant) -> bool:
        """Whether the variant is still what the shortcut was written for."""
        return self.check is variant.shared.check and self.joint is variant.tree.root.joint


class _Writer:
    def __init__(self, variant: Variant, joint: Joint | None, leaves: Sequence[Any], stats: Stats) -> None:
        self.variant, self.leaves = variant, leaves
        self.leaf = variant.tree.root
        # What is run: forward and backward at once, if backward most likely follows.
        self.code: Joint | Segment = joint or self.leaf
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {
            "state": state,
            "dtypes": dtypes,
            "stats": stats,
            "path": self.leaf.path,
            "leaf": self.leaf,
            "usage": self.leaf.usage,
            "finish": finish,
            "Run": Run,
            "copied": np.array,
            "wrap": wrap,
            "viewed": viewed,
            "placement": placement,
            "pooled": pool.array,
            "nothing": placement.NOTHING,
            "is_": is_,
            "EXPLAINED": EXPLAINED,
            "MISSED": MISSED,
        }
        self.names: list[str] = []  # of the leaves of the arguments

    def write(self, args: Sequence[Any]) -> str:
        """The source. Raises _TooDifficult."""
        path = self._path()
        self._modes()
        self._arguments(args)
        self._guards()
        if path.derives_alone:
            self.lines.append("if not usage.expected(): return MISSED")
        arrays = self._run()
        self._count(arrays)
        if path.plain:
            self._results(path, arrays)
        else:
            self._node(arrays)
        return "\n    ".join(["def answer(args):", *self.lines]) + "\n"

    def _path(self) -> Path:
        """The path, if nothing but its program has to be run."""
        leaf, path = self.leaf, self.leaf.path
        if path is None or leaf.hosts or leaf.commit is not None:
            raise _TooDifficult
        if path.capture.same or path.capture.bare or self.variant.has_own_reads(path):
            raise _TooDifficult
        if path.derives_alone and self.code is leaf:
            raise _TooDifficult  # until it is known whether backward follows
        return path

    # Whether the call is as expected.

    def constant(self, name: str, value: Any) -> str:
        name = f"{name}{len(self.constants)}"
        self.constants[name] = value
        return name

    def unless(self, right: str) -> None:
        """A line that leaves where `right` is not true."""
        self.lines.append(f"if not ({right}): return MISSED")

    def _modes(self) -> None:
        self.unless("state.interpreter is None and not state.inference")
        self.unless(f"state.grad_enabled is {state.grad_enabled}")
        self.unless(f"dtypes.default_float() is {self.constant('dtype', dtypes.default_float())}")

    def _arguments(self, args: Sequence[Any]) -> None:
        """Take the arguments apart, as `flatten` does, and compare the leaves."""
        self._take_apart("args", args)
        tensors: list[Tensor] = []
        for name, leaf in zip(self.names, self.leaves, strict=True):
            if isinstance(leaf, Tensor):
                tensors.append(leaf)
                continue
            expected = Expected(leaf)
            same = f"{self.constant('matches', expected.matches)}({name})"
            if expected.key is not MISSING:
                same = f"{name} is {self.constant('value', leaf)} or {same}"
            self.unless(same)
        if not tensors:
            return
        own = all(getattr(type(x), slot) is getattr(Tensor, slot) for x in tensors for slot in _SLOTS)
        inference = any(type(x.version) is Untracked for x in tensors)
        if (
            not own
            or inference
            or len({id(x) for x in tensors}) < len(tensors)
            or len(tensors) > MOST_TENSORS
        ):
            raise _TooDifficult
        given = [name for name, x in zip(self.names, self.leaves, strict=True) if isinstance(x, Tensor)]
        match = self.constants["types"] = Match(tensors)  # which keeps them alive
        self.unless(f"{self.constant('match', match.matches)}({', '.join(given)})")

    def _take_apart(self, name: str, value: Any) -> None:
        if not is_container(value):
            self.names.append(name)
            return
        kind = type(value)
        parts = contents(value)
        names = [f"{name}_{i}" for i in range(len(parts))]
        test = f"type({name}) is {kind.__name__} and len({name}) == {len(parts)}"
        if kind is dict:
            if not all(type(key) is str for key in value):
                raise _TooDifficult
            test += f" and all(map(is_, {name}, {self.constant('keys', list(value))}))"
        elif kind is not list and kind is not tuple:
            raise _TooDifficult
        self.unless(test)
        if names:
            self.lines.append(f"{', '.join(names)}, = {name}{'.values()' if kind is dict else ''}")
        for part_name, part in zip(names, parts, strict=True):
            self._take_apart(part_name, part)

    def _guards(self) -> None:
        shared = self.variant.shared
        if shared.reads:
            check = self.constant("check", shared.check)
            self.lines += ["try:", f"    if {check}() is not None: return MISSED"]
            self.lines += ["except Exception: return MISSED"]

    # What answers it.

    def _run(self) -> list[str]:
        """Lines that run the program; the names of its arrays."""
        program = self.code.program
        assert program is not None
        placed = program.placed()
        inputs = [self._input(kind, reference) for kind, reference in self.code.inputs]
        if placed.calls is None:
            run = self.constant("run", program.run)
            self.lines += ["try:", f"    made = {run}([{', '.join(inputs)}])"]
            self.lines += ["except EXPLAINED: return MISSED"]
            return [f"made[{i}]" for i in range(len(placed.arrays))]
        names = [*inputs, *["nothing"] * (len(placed.arrays) - len(inputs))]
        for index, shape, dtype in placed.small:
            names[index] = f"made{index}"
            given = self.constant("shape", shape), self.constant("dtype", dtype)
            self.lines.append(f"made{index} = placement.small_array({', '.join(given)})")
        for index, shape, dtype, strides in placed.large:
            names[index] = f"made{index}"
            layout = [self.constant(f"layout{index}_", x) for x in (shape, dtype, strides)]
            self.lines.append(f"made{index} = pooled({', '.join(layout)})")
        self.lines.append(f"arena = {self.constant('taken', placed.take_arena)}()")
        self.lines.append(f"{self.constant('run', placed.calls.run)}({', '.join(names)}, *arena)")
        self.lines.append(f"{self.constant('arenas', placed.arenas)}.append(arena)")
        # Indices within bounds, as `Program.run` tests them.
        self.lines += [f"if not {names[program.arrays[check]]}: return MISSED" for check in program.checks]
        return names

    def _input(self, kind: str, reference: Any) -> str:
        if kind == "argument":
            return f"{self.names[reference]}.array"
        if kind == "constant":
            return self.constant("array", reference)
        if kind != "captured":
            raise _TooDifficult
        name = f"outside{len(self.lines)}"
        self.lines.append(f"{name} = {self.constant('captured', reference.array)}()")
        self.lines.append(f"if {name} is None: return MISSED")
        return name

    def _count(self, arrays: Sequence[str]) -> None:
        """Lines that count the call, if no op of it refuses its input."""
        for place in self.code.checks:
            self.lines.append(f"if not {self._seen(arrays, place)}.item(): return MISSED")
        self.lines += ["stats.calls += 1", "stats.compiled_calls += 1", "path.calls += 1"]

    def _results(self, path: Path, arrays: Sequence[str]) -> None:
        """A line that gives the results as the function does."""
        found = [f"wrap({self._seen(arrays, place)})" for place in self.code.results]
        structure = path.capture.structure
        text = _put_together(structure.key, iter(found))
        if text is None:
            text = f"{self.constant('build', structure.build)}(iter(({', '.join(found)},)))"
        self.lines.append(f"return {text}")

    def _node(self, arrays: Sequence[str]) -> None:
        """Lines that give the results and put them on the graph."""
        results = [self._seen(arrays, place) for place in self.code.results]
        kept = ["None"] * self.variant.tree.environment
        gradients = "None"
        if isinstance(self.code, Joint):
            self.lines.append("usage.followed()")
            gradients = f"[{', '.join(self._gradients(arrays))}]"
        else:
            for place, index in self.leaf.gives:
                kept[place] = arrays[index]
        run = f"Run(leaf, [{', '.join(results)}], [], [{', '.join(kept)}], [], [], [], {gradients})"
        self.lines.append(f"return finish({run}, [{', '.join(self.names)}])")

    def _gradients(self, arrays: Sequence[str]) -> list[str]:
        """The gradients, each in memory of its own; see `replay.gradients_at`."""
        assert isinstance(self.code, Joint)
        taken = {*range(len(self.code.inputs)), *(index for index, _ in self.code.results)}
        found = []
        for place in self.code.gradients:
            array = self._seen(arrays, place)
            found.append(f"copied({array})" if place[0] in taken else array)
            taken.add(place[0])
        return found

    def _seen(self, arrays: Sequence[str], place: tuple[int, Any]) -> str:
        """The array at a place of those that the program has."""
        index, chain = place
        return f"viewed({arrays[index]}, {self.constant('chain', chain)})" if chain else arrays[index]


def _put_together(key: Any, parts: Iterator[str]) -> str | None:
    """The expression for a container of the structure `key`; None where that takes more than brackets."""
    if key is None:
        return next(parts)
    kind, _, inner = key
    items = [_put_together(part, parts) for part in inner]
    if kind not in (list, tuple) or None in items:
        return None
    text = "".join(f"{item}, " for item in items)
    return f"[{text}]" if kind is list else f"({text})"
